"""A consumer with slow, failing and retrying handlers for a long time: its memory stays flat."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
NOISE = 300_000  # bytes that come and go: what is under way when a sample is taken
PER_MESSAGE = 1.5  # bytes; less than anything that could be kept of a message
ANONYMOUS = 24_000_000  # what the operating system sees is coarser


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_ten_minutes_with_slow_and_failing_handlers() -> None:
    check_flat(soak(600.0))


@pytest.mark.slow
def test_half_a_minute_with_slow_and_failing_handlers() -> None:
    check_flat(soak(30.0))


@pytest.mark.slow
def test_a_leak_of_some_bytes_a_message_would_be_seen() -> None:
    found = soak(20.0, leak=200)
    assert growth(found) > limit(found), found


def soak(seconds: float, *, leak: int = 0) -> dict[str, Any]:
    """Run ``testkit/soak.py``."""
    command = [sys.executable, str(ROOT / "tests" / "testkit" / "soak.py"), str(seconds), str(leak)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=seconds + 60,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    # The same error again and again is not told again and again.
    assert done.stderr.count("ValueError: on purpose") <= 2 + (seconds + 10) / 10, done.stderr
    return found


def check_flat(found: dict[str, Any]) -> None:
    assert found["queues"] > 0
    assert found["outcomes"]["failed"] > 0
    assert found["outcomes"]["later"] > 0
    assert found["outcomes"]["done"] > 1000
    assert growth(found) < limit(found), found
    assert found["anonymous"] < ANONYMOUS, found


def growth(found: dict[str, Any]) -> int:
    """How far the second half's smallest sample is above the first half's."""
    samples = found["samples"]
    half = len(samples) // 2
    return int(min(samples[half:]) - min(samples[:half]))


def limit(found: dict[str, Any]) -> float:
    return NOISE + PER_MESSAGE * float(found["sent"])
