"""Data versions: how a broker says that a table has changed."""

from __future__ import annotations

from contrailmq.clock import Clock
from contrailmq.protocol.bodies.version import DataVersion


class VersionCounter:
    """The data version of one table; equal versions mean equal tables (DataVersion)."""

    __slots__ = ("_clock", "value")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.value = DataVersion(timestamp=clock.now_ms())

    def bump(self) -> None:
        """The table has changed."""
        self.value = self.value.next(self._clock.now_ms(), state_version=self.value.state_version)
