"""The fuzz targets as tests: kept findings and a short run always, a long run where it is slow."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fuzz.fuzz import Finding, Target, fuzz, mutate, replay, targets

TARGETS = targets()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_seeds_and_kept_findings(target: Target) -> None:
    assert replay(target) > 0


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_short_run(target: Target) -> None:
    assert fuzz(target, seconds=5.0, seed=1, rounds_max=60) > 0


@pytest.mark.fuzz
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_long_run(target: Target, fuzz_seconds: float, fuzz_seed: int) -> None:
    assert fuzz(target, seconds=fuzz_seconds, seed=fuzz_seed) > 0


def test_a_broken_invariant_is_found_and_kept(tmp_path: Path) -> None:
    def check(data: bytes) -> None:
        assert len(data) < 20

    target = Target("short", "inputs are short", check, lambda: [bytes(10), bytes(15)])
    with pytest.raises(Finding, match=r"inputs are short.*seed 3"):
        fuzz(target, seconds=10.0, seed=3, keep=tmp_path)
    (kept,) = (tmp_path / "short").iterdir()
    assert len(kept.read_bytes()) >= 20


def test_a_seed_repeats_a_run() -> None:
    seeds = [b"abcdefgh", b"12345678"]
    first, second = random.Random(5), random.Random(5)
    assert [mutate(first, seeds, [b"w"]) for _ in range(50)] == [
        mutate(second, seeds, [b"w"]) for _ in range(50)
    ]
