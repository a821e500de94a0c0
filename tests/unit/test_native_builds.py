"""Every native module exists twice from one source: compiled, and as plain Python."""

from __future__ import annotations

import pytest

from testkit.builds import BUILDS, IS_PLAIN, native_module, native_names


def test_there_are_native_modules() -> None:
    assert native_names()


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", native_names())
def test_both_builds_load(name: str, build: str) -> None:
    module = native_module(name, pure=build == "pure")
    assert module.__doc__


@pytest.mark.skipif(IS_PLAIN, reason="nothing is compiled here")
@pytest.mark.parametrize("name", native_names())
def test_what_the_compiled_build_offers_the_source_has(name: str) -> None:
    # Not the other way round: what the .pxd declares as C is hidden from Python.
    compiled = _public(native_module(name, pure=False))
    assert compiled
    assert compiled <= _public(native_module(name, pure=True))


def _public(module: object) -> set[str]:
    return {name for name in vars(module) if not name.startswith("_")}
