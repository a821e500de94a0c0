"""The Helm chart: its files, its values, and a check of values against its schema."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "contrailmq"
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "integer": int, "boolean": bool,
}  # fmt: skip


def values(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The chart's values, with changes by path (``broker.replicas``)."""
    found: dict[str, Any] = copy.deepcopy(yaml.safe_load((CHART / "values.yaml").read_text()))
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        place = found
        for name in parents:
            place = place[name]
        place[last] = value
    return found


def misfits(value: Any, shape: Mapping[str, Any], whole: Mapping[str, Any], at: str) -> list[str]:
    """Where a value breaks a JSON schema, for those words of JSON Schema that the chart uses."""
    if "$ref" in shape:
        shape = whole["definitions"][shape["$ref"].rpartition("/")[2]]
    unknown = set(shape) - {
        "$schema", "definitions", "type", "properties", "additionalProperties", "required",
        "items", "enum", "pattern", "minLength", "minimum", "maximum",
    }  # fmt: skip
    assert not unknown, f"{at}: the check does not know {unknown}"
    wanted = TYPES[shape["type"]]
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        return [f"{at}: {value!r} is no {shape['type']}"]
    wrong = [f"{at}.{name} is missing" for name in shape.get("required", ()) if name not in value]
    if isinstance(value, dict):
        known, others = shape.get("properties", {}), shape.get("additionalProperties", True)
        for name, inner in value.items():
            inside = known.get(name, others)
            if inside is False:
                wrong.append(f"{at}.{name} is unknown")
            elif inside is not True:
                wrong += misfits(inner, inside, whole, f"{at}.{name}")
    if isinstance(value, list) and "items" in shape:
        wrong += [bad for item in value for bad in misfits(item, shape["items"], whole, f"{at}[]")]
    is_bad = (
        value not in shape.get("enum", [value])
        or (isinstance(value, str) and re.search(shape.get("pattern", ""), value) is None)
        or (isinstance(value, str) and len(value) < shape.get("minLength", 0))
        or (isinstance(value, int) and value < shape.get("minimum", value))
        or (isinstance(value, int) and value > shape.get("maximum", value))
    )
    return [*wrong, f"{at} = {value!r}"] if is_bad else wrong
