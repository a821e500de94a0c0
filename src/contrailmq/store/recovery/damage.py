"""Damage in the middle of a log: keep it aside, close the gap, go on behind it.

After a power cut the first thing that is not a whole record is the end of the log: pages behind it
reached the disk by chance. After a kill alone the kernel has kept every page, so something broken
with whole records behind it was broken by a disk, or by hand. Cutting there would cost everything
that follows. Two facts tell the cases apart: the abort file names the boot of the machine in which
its broker ran, and the checkpoint names the store time up to which the log had been synced.

The damaged range, from the first broken record to the next whole one, becomes a file of the folder
``quarantine``. In the log it is replaced by records that no queue and no index gets (their flag
says "rolled back", their topic is ``RMQ_SYS_DAMAGED``), or by a blank record where it reaches to
the end of a segment. So every later walk passes over it, here and in the original.
"""

from __future__ import annotations

import logging
import posixpath
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from contrailmq._native.store import scan
from contrailmq.errors import StoreError
from contrailmq.protocol.message import encode_record
from contrailmq.store.consume_queue import ConsumeQueue
from contrailmq.store.files import Files, Segment
from contrailmq.store.segments import Segments

log = logging.getLogger(__name__)

TOPIC: Final = b"RMQ_SYS_DAMAGED"
_MAGICS: Final = (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab")
_BLANK: Final = struct.Struct(">II")
_BLANK_MAGIC: Final = 0xCBD43194
_ROLLED_BACK: Final = 0xC
_FRAME: Final = 91  # of a record, without body, topic and properties
_PIECE: Final = 4 * 1024 * 1024  # the largest body another broker has to read at once
_WINDOW: Final = 4 * 1024 * 1024  # so many zeros, and a segment is taken to be empty behind them
_NAMED_MAX: Final = 50  # queues named in one line of the log
_FILE_MAX: Final = 64 * 1024 * 1024


class Damage(NamedTuple):
    """One damaged range of the log, and why its first record is broken."""

    offset: int
    end: int
    reason: int


class Mending:
    """Finds whole records behind damage, and closes the gap between."""

    def __init__(
        self, files: Files, folder: str, segments: Segments, *, same_boot: bool, synced_ms: int
    ) -> None:
        self._files = files
        self._folder = folder
        self._segments = segments
        self.same_boot = same_boot
        self._synced_ms = synced_ms
        self.found: list[Damage] = []

    def mend(self, offset: int, *, reason: int, last_ms: int) -> bool:
        """Close the gap that begins at ``offset``. Returns False if the log ends here instead.

        ``last_ms`` is the store time of the last whole record before it.
        """
        end = self._next_whole(offset, last_ms)
        if end is None:
            return False
        damage = Damage(offset, end, reason)
        for start, data in self._pieces(damage):
            self._files.replace(posixpath.join(self._folder, f"{start:020d}"), data)
        for base, segment in self._covered(damage):
            start, stop = max(offset - base, 0), min(end - base, segment.size)
            self._fill(segment, start, stop, base=base, store_ms=last_ms)
        self.found.append(damage)
        log.error(
            "the log is damaged, the range is kept aside: from=%s to=%s reason=%s folder=%s",
            offset,
            end,
            scan.DAMAGE.get(reason, "zeros instead of a record"),
            self._folder,
        )
        return True

    def _next_whole(self, offset: int, last_ms: int) -> int | None:
        """Return the offset of the first whole record behind a broken one, or None."""
        segments = self._segments
        for base in segments.offsets:
            segment = segments.find(base) if base + segments.size > offset else None
            if segment is None:
                continue
            start = max(offset - base + 1, 0)
            for position in _candidates(segment.buffer, start):
                if base + position < offset + _FRAME + 1:
                    continue  # less than one record: it cannot be closed
                if self._is_sound(segment, position, base, last_ms):
                    return base + position
        return None

    def _is_sound(self, segment: Segment, position: int, base: int, last_ms: int) -> bool:
        if scan.check(segment.buffer, position, segment.size, base, True) <= 0:
            return False
        # Another boot: only what was synced may be believed, and nothing of an older log.
        return self.same_boot or (
            last_ms <= scan.store_time(segment.buffer, position) <= self._synced_ms
        )

    def _covered(self, damage: Damage) -> Iterator[tuple[int, Segment]]:
        first = self._segments.base_of(damage.offset)
        for base in range(first, damage.end, self._segments.size):
            segment = self._segments.find(base)
            if segment is None:
                raise StoreError(f"{self._segments.path(base)} has gone")
            yield base, segment

    def _pieces(self, damage: Damage) -> Iterator[tuple[int, bytes]]:
        for base, segment in self._covered(damage):
            start, stop = max(damage.offset - base, 0), min(damage.end - base, segment.size)
            for position in range(start, stop, _FILE_MAX):
                piece = bytes(segment.buffer[position : min(position + _FILE_MAX, stop)])
                yield base + position, piece

    def _fill(self, segment: Segment, start: int, stop: int, *, base: int, store_ms: int) -> None:
        if stop == segment.size:
            blank = _BLANK.pack(stop - start, _BLANK_MAGIC)[: stop - start]
            _write(segment, start, blank.ljust(stop - start, b"\0"))
            return
        while start < stop:
            size = stop - start
            if size > 2 * _PIECE:
                size = _PIECE
            topic = TOPIC[: size - _FRAME]
            record = encode_record(
                topic=topic,
                body=bytes(size - _FRAME - len(topic)),
                properties=b"",
                born_ms=store_ms,
                born_host=bytes(8),
                store_host=bytes(8),
                commit_log_offset=base + start,
                store_ms=store_ms,
                sys_flag=_ROLLED_BACK,
            )
            assert len(record) == size
            _write(segment, start, record)
            start += size


def report_lost(ends: dict[ConsumeQueue, tuple[int, int]]) -> None:
    """Let no queue give an offset twice, and log how many messages each has lost.

    ``ends`` is where the queues began and ended before. A gap that damage explains is
    no reason to make a queue again.
    """
    lost: dict[str, int] = {}
    for queue, (first, end) in ends.items():
        is_empty = not queue.segments.offsets
        if queue.max_offset < end:
            queue.skip_to(queue.writer, end)
        if count := end - first if is_empty else queue.skipped:
            lost[f"{queue.topic}:{queue.queue_id}"] = count
        queue.has_gap = False
    if lost:
        named = [f"{queue}={count}" for queue, count in list(lost.items())[:_NAMED_MAX]]
        more = f" and {len(lost) - len(named)} more" if len(lost) > len(named) else ""
        log.error(
            "messages are lost to damage of the log: messages=%s queues=%s: %s%s",
            sum(lost.values()),
            len(lost),
            ", ".join(named),
            more,
        )


def _candidates(buffer: memoryview, start: int) -> Iterator[int]:
    """Yield the positions where a record may begin, by its magic number."""
    limit = len(buffer)
    while start < limit:
        stop = min(start + _WINDOW, limit)
        if scan.find_nonzero(buffer, start, stop) == stop:
            return
        data = bytes(buffer[start : min(stop + 8, limit)])
        places: set[int] = set()
        for magic in _MAGICS:
            at = data.find(magic, 4)
            while at >= 0:
                places.add(at - 4)
                at = data.find(magic, at + 1)
        for place in sorted(places):
            if start + place < stop:
                yield start + place
        start = stop


def _write(segment: Segment, position: int, data: bytes | bytearray) -> None:
    if segment.write(position, data) != len(data):
        raise StoreError(f"{segment.path}: {len(data)} bytes cannot be written at {position}")
