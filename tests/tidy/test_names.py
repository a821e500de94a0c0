"""A name says what a thing is; these words say that no name was found."""

from __future__ import annotations

import ast
import re

from testkit.sources import ROOT, listing, modules, tree_files

EMPTY_WORDS = {
    "Manager", "Controller", "Processor", "Impl", "Helper", "Util", "Utils", "Abstract", "Common",
}  # fmt: skip
# On the wire these are RocketMQ's own words (TopicRouteData, ClusterInfo); elsewhere: empty.
EMPTY_BUT_ON_THE_WIRE = {"Default", "Base", "Context", "Info", "Data"}
EMPTY_MODULES = {"util", "utils", "helper", "helpers", "common", "misc", "base", "manager"}

# What belongs to one machine or to a day that has passed.
MACHINE_PATHS = re.compile(r"(?<![\w.$}/])/(?:root|work|Users|mnt)/\w")
LEFT_OVER = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


def test_no_class_has_an_empty_name() -> None:
    wrong = []
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                words = set(re.findall(r"[A-Z][a-z]+|[A-Z]+(?![a-z])", node.name))
                empty = EMPTY_WORDS | (
                    set() if module.part in ("protocol", "errors") else EMPTY_BUT_ON_THE_WIRE
                )
                if words & empty:
                    wrong.append(f"{module.place}:{node.lineno}: {node.name}")
    assert not wrong, listing(wrong)


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
