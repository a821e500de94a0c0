"""Time as a dependency: nothing else in the package asks the operating system for it."""

from __future__ import annotations

import time
from typing import Protocol

from contrailmq._native import clock


class Clock(Protocol):
    """Where every timestamp in the system comes from."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since 1970; may jump. For stored timestamps."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back. For elapsed time."""
        ...


class SystemClock:
    """The machine's own clocks."""

    now_ms = staticmethod(clock.now_ms)

    def monotonic_ms(self) -> int:
        """Milliseconds of the monotonic clock."""
        return time.monotonic_ns() // 1_000_000

    def precise_s(self) -> float:
        """Seconds of the monotonic clock, as fine as the machine has them. For measuring."""
        return time.monotonic_ns() / 1e9
