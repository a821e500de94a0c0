"""One budget of memory for all connections of a process: the worst offender is closed first.

What one connection may hold is bounded (a frame, answers, requests in flight), but the sum over
thousands of connections is not what a machine has.  So what all of them hold is added up:
unfinished frames, answers that were not read, pulls that wait.  Above the limit connections are
closed, the one that holds most first, until a quarter of the limit is free; the log names each.

A connection that holds more than ``SMALL_SIZE`` stirs the budget whenever it holds more.  The
budget looks at these connections at once when they hold too much, and after ``LOOK_S`` otherwise.
Each look that finds nothing changed doubles the time to the next, up to ``REST_S``: pulls that wait
cost next to no turn of the loop.  What others hold below ``SMALL_SIZE`` is not counted.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

log = logging.getLogger(__name__)

SMALL_SIZE: Final = 16 * 1024
HELD_REQUEST_SIZE: Final = 2_560  # a pull that waits, measured
LOOK_S: Final = 0.05
REST_S: Final = 10.0
FREED_SHARE: Final = 4


class Holder(Protocol):
    """A connection, as far as its memory goes."""

    peer: str

    @property
    def held_size(self) -> int:
        """Bytes it holds."""
        ...

    def overrun(self, reason: str, /) -> None:
        """Close it at once, and say why."""
        ...


class MemoryBudget:
    """What all connections of some servers hold. Owned by the loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held_size = 0  # at the last look
        self.closed_count = 0
        self._holders: dict[Holder, int] = {}
        self.is_over = False  # too much is held, and those who hold most are about to be closed
        self._timer: asyncio.TimerHandle | None = None
        self._wait_s = LOOK_S

    def stir(self, holder: Holder) -> None:
        """A connection holds more than ``SMALL_SIZE``, or is about to."""
        size, known = holder.held_size, self._holders.get(holder, 0)
        self.held_size += size - known
        self._holders[holder] = size
        if self.held_size > self.limit and not self.is_over:
            self.is_over = True
            asyncio.get_running_loop().call_soon(self.look)  # nobody is closed in mid-work
        if self._wait_s > LOOK_S and size != known and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._wait_s = LOOK_S
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self.look)

    def look(self) -> None:
        """Add up, and close the worst offenders if it is too much."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.is_over = False
        before = self._holders
        sizes = ((holder, holder.held_size) for holder in before)
        self._holders = {holder: size for holder, size in sizes if size > SMALL_SIZE}
        self._wait_s = min(2 * self._wait_s, REST_S) if self._holders == before else LOOK_S
        self.held_size = sum(self._holders.values())
        if self.held_size > self.limit:
            self._relieve()
        if self._holders:
            self._timer = asyncio.get_running_loop().call_later(self._wait_s, self.look)

    def close(self) -> None:
        """Look no more, until it is stirred again."""
        self._holders.clear()
        self.held_size = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _relieve(self) -> None:
        found = sorted(self._holders.items(), key=lambda pair: pair[1], reverse=True)
        before, count = self.held_size, 0
        for holder, size in found:
            if self.held_size <= self.limit - self.limit // FREED_SHARE:
                break
            holder.overrun(
                f"it holds {size} bytes, more than others; all connections hold "
                f"{self.held_size}, at most {self.limit} (netMemorySizeMax)"
            )
            self.held_size -= size
            del self._holders[holder]
            count += 1
        self.closed_count += count
        log.warning(
            "connections closed for their memory: count=%s largest=%s peer=%s held=%s limit=%s",
            count,
            found[0][1],
            found[0][0].peer,
            before,
            self.limit,
        )
