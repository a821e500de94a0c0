"""The writing side of a connection: as few system calls as the turns of the loop allow.

The first frames of a turn are written at once, so that a lone request waits for nobody; what
follows in the same turn (the next requests of many tasks, answers that became ready together) is
collected and written with one call at the end of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from contrailmq.net.budget import SMALL_SIZE
from contrailmq.net.endpoint import Buffer
from contrailmq.net.settings import Limits

JOIN_SIZE_MAX: Final = 64 * 1024  # up to here joining costs less than a gathered write


class Outlet:
    """Writes buffers to a transport, in order; ``on_overflow`` is told of a hopeless reader.

    ``on_held`` is called when answers wait for their reader.

    ``later`` has what was collected in this turn; None when nothing was written in it.
    """

    __slots__ = (
        "_later_size",
        "_limits",
        "_loop",
        "_on_held",
        "_on_overflow",
        "_transport",
        "is_paused",
        "later",
        "written_at",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        limits: Limits,
        *,
        on_overflow: Callable[[str], None],
        on_held: Callable[[], None] = lambda: None,
    ) -> None:
        transport.set_write_buffer_limits(high=limits.write_high_size)
        self._loop = loop
        self._transport = transport
        self._limits = limits
        self._on_overflow = on_overflow
        self._on_held = on_held
        self.later: list[Buffer] | None = None
        self._later_size = 0
        self.is_paused = False
        self.written_at = loop.time()

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Write now, or at the end of this turn behind what was written in it."""
        later = self.later
        if later is None:
            self.later = []
            self._loop.call_soon(self._end_turn)
            self.write(buffers)
            return
        later.extend(buffers)
        for buffer in buffers:
            self._later_size += len(buffer)
        if self._later_size >= self._limits.write_high_size:
            self.flush()

    def flush(self) -> None:
        """Write what was collected."""
        later = self.later
        if later:
            self.later, self._later_size = [], 0
            self.write(later)

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Write with one call; the buffers must not change any more."""
        transport = self._transport
        if transport.is_closing():
            return
        if len(buffers) == 1:
            transport.write(buffers[0])
        elif sum(map(len, buffers)) <= JOIN_SIZE_MAX:
            transport.write(b"".join(buffers))
        else:
            transport.writelines(buffers)
        self.written_at = self._loop.time()
        self.check()

    def check(self) -> None:
        """Something was written: is its reader hopeless?"""
        if self._transport.get_write_buffer_size() > SMALL_SIZE:
            self._on_held()
        if self.is_paused and self.is_overfull:
            size, size_max = self.waiting_size, self._limits.write_size_max
            self._on_overflow(f"slow reader: {size} bytes wait for it, at most {size_max}")

    @property
    def waiting_size(self) -> int:
        """Bytes that wait for the peer to read."""
        return self._transport.get_write_buffer_size() + self._later_size

    @property
    def is_overfull(self) -> bool:
        """Whether more waits than a peer may let wait."""
        return self.waiting_size > self._limits.write_size_max

    def _end_turn(self) -> None:
        later, self.later = self.later, None
        self._later_size = 0
        if later:
            self.write(later)
