"""``--version`` and a broker's log say when nothing is compiled."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec

import pytest

from contrailmq import main, version


@pytest.mark.parametrize(("origin", "is_told"), [("x/records.py", True), ("x/records.so", False)])
def test_a_plain_build_says_so(
    origin: str,
    is_told: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = ModuleSpec("contrailmq._native.records", None, origin=origin)
    monkeypatch.setattr(version, "find_spec", lambda name: found)
    assert main.main(["--version"]) == 0
    assert ("nothing is compiled" in capsys.readouterr().out) is is_told


def test_the_module_that_is_looked_for_is_there() -> None:
    assert importlib.util.find_spec("contrailmq._native.records") is not None
