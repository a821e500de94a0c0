"""Arrows point down: who may import whom, and that no module needs itself in a circle."""

from __future__ import annotations

import ast

from testkit.sources import Module, imports, listing, modules

BASE = {"errors", "clock", "settings", "lifecycle", "logs", "metrics", "usage", "version"}
SERVERS = {"namesrv", "broker", "controller"}

# The unit is a package or a base module; what is not listed may not be imported.
MAY_IMPORT: dict[str, set[str]] = {
    "version": set(),
    "errors": set(),
    "clock": {"errors", "_native"},
    "settings": {"errors"},
    "lifecycle": {"errors"},
    "logs": {"errors"},
    "usage": set(),
    "metrics": {"errors", "clock", "settings", "version"},
    "_native": {"errors"},
    "protocol": {"errors", "_native"},
    "net": {"protocol", "_native", *BASE},
    "store": {"protocol", "_native", *BASE},
    "security": {"protocol", "_native", *BASE},
    "grpc": {"net", "protocol", "_native", *BASE},
    "ha": {"store", "net", "protocol", *BASE},
    "client": {"grpc", "net", "protocol", "_native", *BASE},
    "blocking": {"client", "protocol", *BASE},
    "namesrv": {"security", "net", "protocol", *BASE},
    "controller": {"net", "protocol", *BASE},
    "broker": {"security", "ha", "grpc", "store", "net", "protocol", "_native", *BASE},
    "proxy": {"grpc", "net", "protocol", *BASE},
    "admin": {"client", "security", "net", "protocol", "store", *BASE},
    "console": {"admin", "client", "broker", "net", "protocol", *BASE},
    "up_console": {"console", "client", "net", *BASE},
    "bulk": {"client", "store", "protocol", "_native", *BASE},
    "arrow": {"bulk", "admin", "client", "protocol", *BASE},
    "spark": {"bulk", "client", "store", "protocol", "_native", *BASE},
    "pipelines": {"spark", "arrow", "bulk", "client", "admin", "store", "protocol", *BASE},
    "up_replicas": {*BASE},
    "up_metrics": {*BASE},
    "otel": {"client", "protocol", *BASE},
    "up": {
        "up_console",
        "up_metrics",
        "up_replicas",
        *SERVERS,
        "security",
        "store",
        "net",
        "protocol",
        *BASE,
    },
    "demo": {"up", "client", "admin", "spark", "pipelines", "protocol", *BASE},
    "main": {"errors", "version"},
}
# contrailmq/__init__.py re-exports the public names of these.
PUBLIC = {"admin", "client", "protocol", "errors", "version"}
# Composition roots are at the top: nobody but these may import one of another package.
MAY_IMPORT_ROOTS = {"main", "up", "testing"}
# Modules that everybody loads and that load the rest when it is used: names for type checkers.
LAZY = {"__init__.py", "client/access.py", "testing/pytest_plugin.py"}


def test_every_import_follows_the_layers() -> None:
    wrong = []
    for module in modules():
        if module.part == "testing":
            continue
        allowed = PUBLIC if module.part == "__init__" else MAY_IMPORT.get(module.part)
        if allowed is None:
            wrong.append(f"{module.place}: {module.part} is not in the table of layers")
            continue
        for line, target in _own_imports(module):
            part = target.split(".")[1]
            if part != module.part and part not in allowed:
                wrong.append(f"{module.place}:{line}: {module.part} -> {part}")
    assert not wrong, listing(wrong)


def test_nobody_imports_a_composition_root() -> None:
    names = {module.name for module in modules()}
    wrong = []
    for module in modules():
        for line, target in _own_imports(module):
            root = _module_of(target, names)
            if root is None or root.rpartition(".")[2] not in ("app", "main"):
                continue
            same_package = root.rpartition(".")[0] == module.name.rpartition(".")[0]
            if module.part not in MAY_IMPORT_ROOTS and not same_package:
                wrong.append(f"{module.place}:{line}: {root}")
    assert not wrong, listing(wrong)


def test_nobody_but_tests_imports_testing() -> None:
    wrong = [
        f"{module.place}:{line}"
        for module in modules()
        if module.part != "testing"
        for line, target in _own_imports(module)
        if target.split(".")[1] == "testing"
    ]
    assert not wrong, listing(wrong)


def test_no_import_hides_from_the_interpreter() -> None:
    """``if TYPE_CHECKING`` hides a circle: find the third object that both need."""
    wrong = [
        f"{module.place}:{node.lineno}"
        for module in modules()
        if module.place not in LAZY
        for node in ast.walk(module.tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    assert not wrong, listing(wrong)


def test_no_circle() -> None:
    names = {module.name for module in modules()}
    graph = {
        module.name: sorted(
            {
                found
                for _, target in _own_imports(module)
                if (found := _module_of(target, names)) and found != module.name
            }
        )
        for module in modules()
    }
    assert _circle(graph) is None


def _own_imports(module: Module) -> list[tuple[int, str]]:
    return [(line, name) for line, name in imports(module) if name.startswith("contrailmq.")]


def _module_of(target: str, names: set[str]) -> str | None:
    """The module a dotted name belongs to: itself, or the one that defines it."""
    while target not in names:
        target = target.rpartition(".")[0]
        if not target:
            return None
    return target


def _circle(graph: dict[str, list[str]]) -> list[str] | None:
    done: set[str] = set()

    def visit(name: str, way: list[str]) -> list[str] | None:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return None
        for target in graph.get(name, []):
            if circle := visit(target, [*way, name]):
                return circle
        done.add(name)
        return None

    for name in graph:
        if circle := visit(name, []):
            return circle
    return None


def test_the_search_for_circles_finds_one() -> None:
    assert _circle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c", "b"]
    assert _circle({"a": ["b", "c"], "b": ["c"], "c": []}) is None
