"""The Helm chart without Helm: its values fit its schema, and templates ask for what is there."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from contrailmq.version import VERSION
from testkit.chart import CHART, misfits, values

TEMPLATES = sorted((CHART / "templates").iterdir())


def _wrong(**changes: Any) -> list[str]:
    schema = json.loads((CHART / "values.schema.json").read_text())
    given = values({name.replace("__", "."): value for name, value in changes.items()})
    return misfits(given, schema, schema, "values")


def test_the_values_fit_their_schema() -> None:
    assert _wrong() == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"broker__replicas": 0}, "values.broker.replicas = 0"),
        ({"broker__replicas": "2"}, "values.broker.replicas: '2' is no integer"),
        ({"broker__replica": 2}, "values.broker.replica is unknown"),
        ({"broker__config": {"a": True}}, "values.broker.config.a: True is no string"),
        ({"broker__storage": {"size": "50"}}, "values.broker.storage.size = '50'"),
        ({"broker__storage": {}}, "values.broker.storage.size is missing"),
        ({"controller__ledger": "/a/file"}, "values.controller.ledger = '/a/file'"),
        ({"tls__mode": "disabled"}, "values.tls.mode = 'disabled'"),
        ({"metrics__port": 70000}, "values.metrics.port = 70000"),
    ],
)
def test_values_that_make_no_sense_are_refused(changes: dict[str, Any], told: str) -> None:
    assert _wrong(**changes) == [told]


def test_templates_ask_for_values_that_are_there() -> None:
    asked = set()
    for path in TEMPLATES:
        asked |= set(re.findall(r"\.Values\.([\w.]+)", path.read_text()))
    assert len(asked) > 20
    for name in asked:
        place: Any = values()
        for part in name.split("."):
            assert part in place, f".Values.{name}"
            place = place[part]
    top = {name.partition(".")[0] for name in asked}
    assert top == set(values()), "a value that no template asks for"


def test_templates_name_helpers_that_are_there() -> None:
    texts = [path.read_text() for path in TEMPLATES]
    defined = {name for text in texts for name in re.findall(r'define "([\w.]+)"', text)}
    included = {name for text in texts for name in re.findall(r'include "([\w.]+)"', text)}
    assert included == defined
    for text in texts:
        opened = len(re.findall(r"\{\{-? (?:if|range|with|define) ", text))
        assert opened == len(re.findall(r"\{\{-? end -?\}\}", text))


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == VERSION.partition(".dev")[0]
    assert chart["apiVersion"] == "v2"
