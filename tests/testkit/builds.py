"""Both builds of a native module: the compiled one, and its Python source.

A test of ``contrailmq._native`` runs on both, since they are one source::

    @pytest.fixture(params=BUILDS)
    def scan(request):
        return native_module("store.scan", pure=request.param == "pure")

Where nothing is compiled (``scripts/plain``) there is one build, and ``IS_PLAIN`` is true.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from types import ModuleType

import contrailmq

IS_PLAIN = os.environ.get("CONTRAIL_NATIVE") == "none"
BUILDS = ("pure",) if IS_PLAIN else ("compiled", "pure")
NATIVE = Path(contrailmq.__file__).parent / "_native"


def native_module(name: str, *, pure: bool) -> ModuleType:
    """One build of ``contrailmq._native.NAME``; a missing compiled build is a failure."""
    if pure:
        return _from_source(name)
    module = importlib.import_module(f"contrailmq._native.{name}")
    if Path(str(module.__file__)).suffix == ".py" and not IS_PLAIN:
        raise AssertionError(f"_native.{name} is not compiled: make .venv/.stamps/native")
    return module


def native_names() -> list[str]:
    """Every compiled module, as ``store.scan``: those with a ``.pxd`` that is not inline C."""
    return sorted(
        ".".join(path.relative_to(NATIVE).with_suffix("").parts)
        for path in NATIVE.rglob("*.pxd")
        if not path.read_text().startswith("# inline")
    )


def _from_source(name: str) -> ModuleType:
    path = NATIVE.joinpath(*name.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(f"contrailmq_pure_{name.replace('.', '_')}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
