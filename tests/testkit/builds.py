"""Both builds of a native module: the compiled one, and its Python source.

A test of ``contrailmq._native`` runs on both, since they are one source::

    @pytest.fixture(params=BUILDS)
    def scan(request):
        return native_module("scan", pure=request.param == "pure")
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

BUILDS = ("compiled", "pure")
# Their .pxd is inline C for the others, their .py the plain build of it: never compiled.
INLINE = {"raw", "system"}
NATIVE = Path(__file__).resolve().parents[2] / "src" / "contrailmq" / "_native"


def native_module(name: str, *, pure: bool) -> ModuleType:
    """One build of ``contrailmq._native.NAME``; a missing compiled build is a failure."""
    if pure:
        return _from_source(name)
    module = importlib.import_module(f"contrailmq._native.{name}")
    if Path(str(module.__file__)).suffix == ".py":
        raise AssertionError(f"_native/{name} is not compiled: make .venv/.stamps/native")
    return module


def native_names() -> list[str]:
    """Every compiled module: each ``.py`` with a ``.pxd`` beside it, but for the inline ones."""
    return sorted(path.stem for path in NATIVE.glob("*.pxd") if path.stem not in INLINE)


def _from_source(name: str) -> ModuleType:
    path = NATIVE / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"contrailmq_pure_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
