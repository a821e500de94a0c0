"""How far back a log must be walked again after its writer died.

The checkpoint says up to which store time log, queues (and, by choice, index) had certainly
reached the disk; three seconds are taken off, for clocks and flushes are not one event.  Of all
segments the newest whose first record is at most that old is a safe place to begin: everything
before it was flushed, and so was everything derived from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from contrailmq._native.store import scan

MARGIN_MS: Final = 3000  # StoreCheckpoint.getMinTimestamp
_FIRST_FIELDS: Final = 40


class Marks(NamedTuple):
    """The five numbers of a checkpoint file."""

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    replicated_offset: int = 0
    confirmed_offset: int = 0

    @classmethod
    def decode(cls, data: bytes | None) -> Marks:
        """Read a checkpoint file; a missing or short one knows nothing."""
        if data is None or len(data) < _FIRST_FIELDS:
            return cls()
        numbers = (
            int.from_bytes(data[place : place + 8], "big", signed=True)
            for place in range(0, _FIRST_FIELDS, 8)
        )
        return cls(*numbers)

    def trusted_ms(self, *, with_index: bool = False) -> int:
        """The store time up to which everything is on disk."""
        least = min(self.log_ms, self.queues_ms)
        if with_index:
            least = min(least, self.index_ms)
        return max(least - MARGIN_MS, 0)


def find_start(segments: Sequence[tuple[int, memoryview]], trusted_ms: int) -> int:
    """The place in ``segments`` (offset and bytes, in order) to begin walking at.

    A segment qualifies when a record begins it, stored at or before ``trusted_ms``; without one
    the walk begins at the first.
    """
    for number in range(len(segments) - 1, 0, -1):
        base, data = segments[number]
        if scan.check(data, 0, len(data), base, False) <= 0:
            continue
        if 0 < scan.store_time(data, 0) <= trusted_ms:
            return number
    return 0
