"""A name says what a thing is; these words say that no name was found."""

from __future__ import annotations

import ast
import re

from testkit.sources import ROOT, listing, modules, tree_files

EMPTY_WORDS = {
    "Manager", "Controller", "Processor", "Impl", "Helper", "Util", "Utils", "Abstract", "Common",
}  # fmt: skip
# On the wire these are RocketMQ's own words (TopicRouteData, ClusterInfo); elsewhere: empty.
EMPTY_FIRST = {"Default", "Base"}
EMPTY_LAST = {"Base", "Context", "Info", "Data"}
EMPTY_MODULES = {"util", "utils", "helper", "helpers", "common", "misc", "base", "manager"}

# What belongs to one machine or to a day that has passed.
MACHINE_PATHS = re.compile(r"(?<![\w.$}/])/(?:root|work|Users|mnt)/\w")
LEFT_OVER = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


# RocketMQ's controller is a server of its own, not a class for which no name was found.
CONTROLLERS = {
    "Controller",
    "ControllerHandlers",
    "ControllerMetadata",
    "ControllerMode",
    "ControllerSettings",
    "RegisterToControllerRequest",
}


def test_no_class_has_an_empty_name() -> None:
    wrong = [
        f"{module.place}:{node.lineno}: {node.name}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
        and _is_empty(node.name, on_the_wire=module.part in ("protocol", "errors"))
    ]
    assert not wrong, listing(wrong)


def _is_empty(name: str, *, on_the_wire: bool) -> bool:
    if name in CONTROLLERS:
        return False
    words = re.findall(r"[A-Z][a-z0-9]+|[A-Z]+(?![a-z])", name) or [name]
    if EMPTY_WORDS & set(words):
        return True
    return not on_the_wire and (words[0] in EMPTY_FIRST or words[-1] in EMPTY_LAST)


def test_the_rule_knows_an_empty_name() -> None:
    assert _is_empty("TopicManager", on_the_wire=True)
    assert _is_empty("RouteData", on_the_wire=False)
    assert not _is_empty("RouteData", on_the_wire=True)
    assert not _is_empty("DataLoss", on_the_wire=False)


def test_no_module_has_an_empty_name() -> None:
    wrong = [m.place for m in modules() if set(m.path.stem.split("_")) & EMPTY_MODULES]
    assert not wrong, listing(wrong)


def test_the_tree_speaks_of_no_machine_and_of_no_later() -> None:
    wrong = []
    for path in tree_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            if MACHINE_PATHS.search(line) or LEFT_OVER.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert not wrong, listing(wrong)
