"""Where the bytes of a connection are read to.

A connection between frames has no buffer of its own: reads go into the one its endpoint shares
out, and are handled before the next read.  What is left of a frame then moves into a stash, which
the next reads fill up behind it.  The stash grows with what has come, not with what a length
promises: a peer that announces 16 MiB and sends nothing costs a few KiB.
"""

from __future__ import annotations

from typing import Final

from contrailmq.protocol.frame import LENGTH_SIZE

STASH_SIZE_MIN: Final = 4 * 1024


class Intake:
    """The unfinished bytes of one connection."""

    __slots__ = ("_end", "_shared", "_shared_view", "_stash")

    def __init__(self, shared: bytearray, shared_view: memoryview) -> None:
        self._shared = shared
        self._shared_view = shared_view
        self._stash: bytearray | None = None
        self._end = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept: the next read begins with a frame, in the shared buffer."""
        return self._stash is None

    @property
    def size(self) -> int:
        """Bytes of memory it has: those that are kept, and the room behind them."""
        return 0 if self._stash is None else len(self._stash)

    def room(self) -> memoryview:
        """Where the next read goes; never empty, never more than a read into the shared buffer."""
        if self._stash is None:
            return self._shared_view
        return memoryview(self._stash)[self._end : self._end + len(self._shared)]

    def filled(self, size: int) -> tuple[bytearray, int]:
        """``size`` bytes were read: the buffer that holds all unhandled bytes, and their end."""
        if self._stash is None:
            return self._shared, size
        self._end += size
        return self._stash, self._end

    def keep(self, buffer: bytearray, position: int, end: int) -> None:
        """Only the bytes before ``position`` are handled: keep the rest."""
        rest = end - position
        if rest == 0:
            self._stash = None
            return
        if buffer is self._stash and position == 0 and end < len(buffer):
            return
        room = STASH_SIZE_MIN
        if rest >= LENGTH_SIZE:
            size = int.from_bytes(buffer[position : position + LENGTH_SIZE], "big")
            missing = LENGTH_SIZE + size - rest  # below 0 when whole frames have to wait
            room = min(missing, max(STASH_SIZE_MIN, rest)) if missing > 0 else STASH_SIZE_MIN
        stash = bytearray(rest + room)
        memoryview(stash)[:rest] = memoryview(buffer)[position:end]
        self._stash, self._end = stash, rest

    def kept(self) -> tuple[bytearray, int] | None:
        """The unhandled bytes there are without another read."""
        return None if self._stash is None else (self._stash, self._end)

    def clear(self) -> None:
        """The connection has ended."""
        self._stash = None
