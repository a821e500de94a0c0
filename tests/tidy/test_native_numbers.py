"""Compiled loops name what they read: no bare offset, magic number or character code is left.

A number above 4 inside a function of ``_native`` is suspect where it is compared, added to a place,
or given to a function of ``raw``: layouts have maps (``record``, ``unit``, ``inner``, ``frame``,
``index_file``, ``text``), characters are written ``ord("x")``, limits are named constants.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from testkit.builds import NATIVE

SMALL = 4
DECIMAL = (9, 10)
# Modules, or functions of them, whose numbers are no layout.
EXCEPTIONS = {
    "store/scan.py": {"crc32_at": "tables of 256 entries each", "_le32": "shifts by bytes"},
    "store/wheel.py": {"*": "the only layout of its own: its head is the map"},
    "store/timers.py": {"*": "reads units of wheel.py"},
    "store/slots.py": {"*": "reads units of wheel.py"},
}


def _is_inline(path: Path) -> bool:
    side = path.with_suffix(".pxd")
    return not side.exists() or side.read_text().startswith("# inline")


def _suspects(node: ast.AST) -> list[ast.expr]:
    """Return the expressions of one node in which a bare number says where or what."""
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return [node.left, node.right]
    if isinstance(node, ast.Subscript):
        return [node.slice]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "raw"
    ):
        return list(node.args)
    return []


def bare_numbers(source: str, allowed: dict[str, str]) -> list[tuple[int, int]]:
    """Return line and value of every bare number in the functions of a module."""
    found = set()
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef) or function.name in allowed:
            continue
        for node in ast.walk(function):
            for part in _suspects(node):
                value = part.value if isinstance(part, ast.Constant) else None
                if type(value) is int and value > SMALL and value not in DECIMAL:
                    found.add((part.lineno, value))
    return sorted(found)


def test_no_bare_number_is_left() -> None:
    found = []
    for path in sorted(NATIVE.rglob("*.py")):
        place = path.relative_to(NATIVE).as_posix()
        allowed = EXCEPTIONS.get(place, {})
        if not _is_inline(path) and "*" not in allowed:
            found += [
                f"{place}:{line}: {value}"
                for line, value in bare_numbers(path.read_text(), allowed)
            ]
    assert not found, "name these numbers:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "raw.get_u32(data, at + 36)",  # an offset
        "raw.put_i64(data, 28, value)",
        "data[at + 39]",
        "data[at] == 48",  # a character
        "magic == 0xDAA320A7",
        "raw.find_byte(data, at, end, 34)",
        "size < 91",
    ],
)
def test_a_planted_number_is_found(line: str) -> None:
    planted = f"def read(data, at, end, size, magic, value):\n    return {line}\n"
    assert bare_numbers(planted, {})
    assert not bare_numbers(planted, {"read": "a reason"})


def test_every_exception_is_needed() -> None:
    for place, allowed in EXCEPTIONS.items():
        source = (NATIVE / place).read_text()
        assert bare_numbers(source, {}), place
        names = {n.name for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)}
        assert set(allowed) <= names | {"*"}, place
