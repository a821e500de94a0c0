"""The package as syntax trees: what the tidy suite looks at."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "contrailmq"

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """One module of the package."""

    name: str  # contrailmq.net.server
    path: Path
    text: str
    tree: ast.Module

    @property
    def place(self) -> str:
        """The path within the package, as messages and tables spell it."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def part(self) -> str:
        """The package or base module this belongs to: the unit of the layer table."""
        return self.path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@functools.cache
def modules() -> tuple[Module, ...]:
    """Every module of the package, sorted by path, parsed once."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        text = path.read_text(encoding="utf-8")
        found.append(Module(".".join(parts), path, text, ast.parse(text, str(path))))
    assert len(found) > 20
    return tuple(found)


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything this module imports, wherever in it that stands."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def functions(module: Module) -> Iterator[tuple[str, Function, ast.ClassDef | None]]:
    """Every function with its qualified name and, for a method, its class."""
    yield from _functions(module.tree, "", None)


def _functions(
    node: ast.AST, prefix: str, owner: ast.ClassDef | None
) -> Iterator[tuple[str, Function, ast.ClassDef | None]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield f"{prefix}{child.name}", child, owner
            yield from _functions(child, f"{prefix}{child.name}.", None)
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.", child)
        else:
            yield from _functions(child, prefix, owner)


def decorators(node: Function) -> set[str]:
    """The last names of a function's decorators: overload, setter, staticmethod, ..."""
    found = set()
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        found.add(target.attr if isinstance(target, ast.Attribute) else ast.unparse(target))
    return found


def listing(wrong: list[str]) -> str:
    """What a failed rule shows: every place, one a line."""
    return "\n".join([f"{len(wrong)} found:", *wrong])


def tree_files() -> list[Path]:
    """Every file of the repository but the golden data."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0:
        paths = [ROOT / line for line in listed.stdout.splitlines()]
    else:  # an unpacked source distribution
        skipped = {".git", ".venv", ".cache", "build", "dist", "site", "__pycache__"}
        paths = [path for path in ROOT.rglob("*") if not skipped & set(path.parts)]
    golden = ROOT / "tests" / "golden" / "data"
    return [path for path in paths if path.is_file() and golden not in path.parents]
