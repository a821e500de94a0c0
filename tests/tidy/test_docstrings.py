"""Every module, public class and public function says what it promises."""

from __future__ import annotations

import ast

from testkit.sources import ROOT, decorators, functions, listing, modules

SILENT = {"overload", "setter", "deleter", "override"}


def test_every_module_says_what_is_in_it() -> None:
    assert [m.place for m in modules() if not ast.get_docstring(m.tree)] == []


def test_every_test_module_says_what_it_shows() -> None:
    paths = sorted((ROOT / "tests").rglob("*.py")) + sorted((ROOT / "bench").rglob("*.py"))
    silent = [
        str(path.relative_to(ROOT))
        for path in paths
        if path.stat().st_size and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent, listing(silent)


def test_every_public_class_has_a_contract() -> None:
    silent = [
        f"{module.place}:{node.lineno}: {node.name}"
        for module in modules()
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
        if not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    assert not silent, listing(silent)


def test_every_public_function_has_a_contract() -> None:
    silent = []
    for module in modules():
        nested = ""
        for name, function, _ in functions(module):
            if nested and name.startswith(nested):
                continue
            nested = f"{name}."
            private = any(part.startswith("_") for part in name.split("."))
            if private or SILENT & decorators(function) or ast.get_docstring(function):
                continue
            silent.append(f"{module.place}:{function.lineno}: {name}")
    assert not silent, listing(silent)


def test_a_package_only_re_exports() -> None:
    """``__init__.py`` defines nothing; the top one may load its public names when asked."""
    wrong = []
    for module in modules():
        if module.path.name != "__init__.py":
            continue
        for node in module.tree.body[1:]:
            if isinstance(node, ast.Import | ast.ImportFrom) or _is_list_of_names(node):
                continue
            if module.place == "__init__.py" and _is_lazy_loading(node):
                continue
            wrong.append(f"{module.place}:{node.lineno}: {type(node).__name__}")
    assert not wrong, listing(wrong)


def _is_list_of_names(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [ast.unparse(target) for target in targets] == ["__all__"]


def _is_lazy_loading(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name in ("__getattr__", "__dir__")
    return (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING") or (
        isinstance(node, ast.Assign | ast.AnnAssign)
    )
