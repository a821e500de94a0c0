"""The store's compiled loops as one set: all compiled, or all from their source.

They use each other's classes, so one build cannot be mixed with the other.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace

from testkit.builds import NATIVE, native_module

NAMES = ("raw", "scan", "index", "queues", "log", "sql", "gather")


def store_loops(*, pure: bool) -> SimpleNamespace:
    """``.index``, ``.queues``, ``.log``, ``.gather`` of one build."""
    if not pure:
        return SimpleNamespace(
            **{name: native_module(name, pure=False) for name in NAMES if name != "raw"}
        )
    package = importlib.import_module("contrailmq._native")
    kept = {name: sys.modules.get(f"contrailmq._native.{name}") for name in NAMES}
    loaded: dict[str, ModuleType] = {}
    try:
        for name in NAMES:
            spec = importlib.util.spec_from_file_location(
                f"contrailmq._native.{name}", NATIVE / f"{name}.py"
            )
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[f"contrailmq._native.{name}"] = module
            setattr(package, name, module)
            spec.loader.exec_module(module)
            loaded[name] = module
    finally:
        for name, module in kept.items():
            sys.modules.pop(f"contrailmq._native.{name}", None)
            if module is not None:
                sys.modules[f"contrailmq._native.{name}"] = module
                setattr(package, name, module)
    return SimpleNamespace(**loaded)
