"""The file ``timercheck``: how far the timers of a store are.

4096 bytes.  The first 56 are the original's seven numbers (TimerCheckpoint): the slot time to read
next, how far the timer log is flushed, the next offset of the timer topic's queue, the same as the
master has it, and a version of three numbers.  They are written after everything they vouch for is
on disk.

Behind them are two copies of a *progress* of ours, written after every step without any flush, in
turn.  It says how far the timers are at this moment, inside the slot too.  After a kill it is
exact, so nothing is delivered twice.  After a power cut it counts only if the log and the timer log
still have everything it knew of.  The original keeps these bytes; it carries a checksum of the
seven numbers, so it is void once another broker has written those.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from contrailmq.store.files import Files, Segment

SIZE: Final = 4096
_FIELDS: Final = struct.Struct(">7q")
_PROGRESS: Final = struct.Struct(">9q")
_SUM: Final = struct.Struct(">I")
_PLACES: Final = (1024, 2048)


class Progress(NamedTuple):
    """How far the timers are; ``mark``, ``mark_unit`` and ``skip_before`` as in SlotLoad."""

    queue_offset: int = 0
    read_ms: int = 0
    mark: int = -1
    mark_unit: int = -1
    skip_before: int = 0
    units_end: int = 0
    log_end: int = 0


class TimerCheck:
    """The open file."""

    def __init__(self, files: Files, path: str) -> None:
        self._segment: Segment = files.create(path, SIZE)
        fields = _FIELDS.unpack_from(self._segment.buffer, 0)
        self.read_ms: int = fields[0]
        self.flushed: int = fields[1]
        self.queue_offset: int = fields[2]
        self.master_queue_offset: int = fields[3]
        self.state_version: int = fields[4]
        self.changed_ms: int = fields[5]
        self.counter: int = fields[6]
        self._turn = 0

    @property
    def is_new(self) -> bool:
        """Whether no broker has written it yet."""
        return self.read_ms == 0

    def write(self, now_ms: int) -> None:
        """Put the seven numbers into the file, not yet on disk."""
        self.counter += 1
        self.changed_ms = now_ms
        _FIELDS.pack_into(self._segment.buffer, 0, *self.numbers())

    def numbers(self) -> tuple[int, ...]:
        """The seven numbers."""
        return (
            self.read_ms,
            self.flushed,
            self.queue_offset,
            self.master_queue_offset,
            self.state_version,
            self.changed_ms,
            self.counter,
        )

    def encode(self) -> bytes:
        """What code 60 answers."""
        return _FIELDS.pack(*self.numbers())

    def note(self, progress: Progress) -> None:
        """Write the progress."""
        self._turn += 1
        place = _PLACES[self._turn % 2]
        buffer = self._segment.buffer
        data = _PROGRESS.pack(self._turn, self._sum(), *progress)
        buffer[place : place + len(data) + _SUM.size] = data + _SUM.pack(zlib.crc32(data))

    def find_progress(self) -> Progress | None:
        """The newest progress that belongs to the seven numbers in the file."""
        best: tuple[int, Progress] | None = None
        for place in _PLACES:
            data = bytes(self._segment.buffer[place : place + _PROGRESS.size])
            (total,) = _SUM.unpack_from(self._segment.buffer, place + _PROGRESS.size)
            turn, numbers, *fields = _PROGRESS.unpack(data)
            is_ours = total == zlib.crc32(data) and numbers == self._sum() and turn > 0
            if is_ours and (best is None or turn > best[0]):
                best = turn, Progress(*fields)
        if best is None:
            return None
        self._turn = best[0]
        return best[1]

    def sync(self) -> None:
        """Make what was written durable. Blocks."""
        self._segment.sync()

    def close(self) -> None:
        """Give up the file."""
        self._segment.close()

    def _sum(self) -> int:
        return zlib.crc32(bytes(self._segment.buffer[: _FIELDS.size]))
