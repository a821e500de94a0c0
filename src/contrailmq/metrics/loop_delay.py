"""How late the event loop is: what every request of the process waits beside its own work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from contrailmq.metrics.model import Family, Group, Histogram, Kind

INTERVAL_S: Final = 0.1
BOUNDS_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
FAMILY: Final = Family(
    "contrail_event_loop_delay",
    Kind.HISTOGRAM,
    "How much later than asked for a timer of the event loop ran.",
    "seconds",
)


class LoopDelay:
    """Sleeps ``INTERVAL_S`` again and again, and notes by how much it was woken late."""

    def __init__(self) -> None:
        self.delays = Histogram(BOUNDS_S)
        self.worst_s = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + INTERVAL_S
            await asyncio.sleep(INTERVAL_S)
            late_s = max(loop.time() - due, 0.0)
            self.worst_s = max(self.worst_s, late_s)
            self.delays.add(late_s)

    def source(self) -> Iterator[Group]:
        """What was measured."""
        yield FAMILY, [self.delays.spread()]
