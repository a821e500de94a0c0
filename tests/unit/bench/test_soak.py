"""A broker under everything at once: flat memory, no error, nothing lost; and a loss is seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_ten_minutes_of_everything() -> None:
    check(soak(600))


@pytest.mark.slow
def test_twenty_seconds_of_everything() -> None:
    check(soak(20))


def soak(seconds: float) -> dict[str, Any]:
    """Run ``python -m bench broker.soak``."""
    done = subprocess.run(
        [sys.executable, "-m", "bench", "broker.soak", "--seconds", str(seconds)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=seconds + 90,
    )
    assert done.stdout, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 0) == (found["wrong"] == []), found
    return found


def check(found: dict[str, Any]) -> None:
    assert found["wrong"] == []
    kinds = ("single", "in batches", "submitted", "delayed", "transactions", "sent back")
    assert all(found[kind] > 0 for kind in kinds), found
    assert found["received"] > 3 * found["sent"]


def test_a_lost_and_an_unwanted_message_are_seen() -> None:
    from bench.broker.soak import Ledger

    sent = bytearray([1, 1, 0, 1, 1])  # 2 failed to be sent
    odd = Ledger(lambda number: number % 2 == 1)
    odd.see(1)
    assert odd.missing(sent) == 1
    odd.see(3)
    odd.see(3)
    assert (odd.missing(sent), odd.count, odd.again, odd.unwanted) == (0, 2, 1, 0)
    odd.see(4)
    assert odd.unwanted == 1
