"""The version stamp of a table: who has the newer one."""

from __future__ import annotations

from typing import ClassVar

from contrailmq.protocol.bodies.body import Body, Long


class DataVersion(Body):
    """Grows with every change of a table; two sides with equal versions hold equal tables."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"state_version"})

    counter: Long = 0
    state_version: Long = 0
    timestamp: Long = 0

    def next(self, now_ms: int, *, state_version: int = 0) -> DataVersion:
        """The version after one more change."""
        return DataVersion(counter=self.counter + 1, state_version=state_version, timestamp=now_ms)
