"""What the broker's unit tests share."""

from __future__ import annotations

import pytest


class ManualClock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
