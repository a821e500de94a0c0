"""The store's compiled loops as one set: all compiled, or all from their source.

They use each other's classes, so one build cannot be mixed with the other.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace

from testkit.builds import NATIVE, native_module

NAMES = (
    "raw",
    "hashing",
    "store.scan",
    "store.index",
    "store.queues",
    "store.log",
    "sql",
    "store.gather",
)


def store_loops(*, pure: bool) -> SimpleNamespace:
    """``.index``, ``.queues``, ``.log``, ``.gather`` of one build."""
    if not pure:
        return _by_last_name(
            {name: native_module(name, pure=False) for name in NAMES if name != "raw"}
        )
    kept = {name: sys.modules.get(f"contrailmq._native.{name}") for name in NAMES}
    loaded: dict[str, ModuleType] = {}
    try:
        for name in NAMES:
            spec = importlib.util.spec_from_file_location(
                f"contrailmq._native.{name}",
                NATIVE.joinpath(*name.split(".")).with_suffix(".py"),
            )
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[f"contrailmq._native.{name}"] = module
            _set_in_package(name, module)
            spec.loader.exec_module(module)
            loaded[name] = module
    finally:
        for name, module in kept.items():
            sys.modules.pop(f"contrailmq._native.{name}", None)
            if module is not None:
                sys.modules[f"contrailmq._native.{name}"] = module
                _set_in_package(name, module)
    return _by_last_name(loaded)


def _set_in_package(name: str, module: ModuleType) -> None:
    package, _, last = f"contrailmq._native.{name}".rpartition(".")
    setattr(importlib.import_module(package), last, module)


def _by_last_name(modules: dict[str, ModuleType]) -> SimpleNamespace:
    return SimpleNamespace(**{name.rpartition(".")[2]: module for name, module in modules.items()})
