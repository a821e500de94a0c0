"""The commit log of a store directory, for reading only.

Segments are found by listing, mapped when first touched and forgotten again when many others were
touched since; a segment that is deleted meanwhile stays readable for whoever holds a view of it.
"""

from __future__ import annotations

import bisect
import posixpath
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from contrailmq._native.store import scan
from contrailmq.store.files import Files
from contrailmq.store.layout import find_segment_offset

MAPPED_MAX: Final = 256  # beyond it the segment touched longest ago is unmapped


class LogSegment(NamedTuple):
    """One file of the log: the offset of its first byte, its size and path."""

    offset: int
    size: int
    path: str

    @property
    def end_offset(self) -> int:
        """The offset of the byte after its last."""
        return self.offset + self.size


class Stop(NamedTuple):
    """Where the whole records of a log end, and why (a reason of ``_native.scan``)."""

    offset: int
    reason: int
    path: str
    position: int
    records: int

    @property
    def is_damage(self) -> bool:
        """Whether something stands there that is neither a record nor untouched."""
        return self.reason in scan.DAMAGE


class LogView:
    """Segments by offset, records by place."""

    def __init__(self, files: Files, folders: Sequence[str]) -> None:
        self._files = files
        self.folders = tuple(folders)
        self._mapped: OrderedDict[int, memoryview] = OrderedDict()
        self._starts: list[int] = []
        self.segments: list[LogSegment] = []
        self.refresh()

    def refresh(self) -> None:
        """List the files again: new segments appear, deleted ones go."""
        found: dict[int, LogSegment] = {}
        for folder in self.folders:
            for name, size in self._files.entries(folder):
                offset = find_segment_offset(name)
                if offset is not None and size > 0:  # a file just being created has no size yet
                    found[offset] = LogSegment(offset, size, posixpath.join(folder, name))
        self.segments = [found[offset] for offset in sorted(found)]
        self._starts = [segment.offset for segment in self.segments]
        for offset in [start for start in self._mapped if start not in found]:
            del self._mapped[offset]

    @property
    def min_offset(self) -> int:
        """The first offset that has a segment; 0 in an empty log."""
        return self._starts[0] if self._starts else 0

    @property
    def file_end(self) -> int:
        """The end of the last segment; records end before it."""
        return self.segments[-1].end_offset if self.segments else 0

    @property
    def segment_size(self) -> int:
        """Size of the files; 0 in an empty log."""
        return max((segment.size for segment in self.segments), default=0)

    def find_segment(self, offset: int) -> LogSegment | None:
        """The segment an offset lies in."""
        place = bisect.bisect_right(self._starts, offset) - 1
        if place < 0 or offset >= self.segments[place].end_offset:
            return None
        return self.segments[place]

    def buffer(self, segment: LogSegment) -> memoryview | None:
        """All bytes of a segment; None when it was deleted since the listing."""
        data = self._mapped.get(segment.offset)
        if data is not None:
            self._mapped.move_to_end(segment.offset)
            return data
        try:
            opened = self._files.open(segment.path, writable=False, hold=False)
        except FileNotFoundError:
            return None
        data = opened.buffer
        opened.close()
        self._mapped[segment.offset] = data
        if len(self._mapped) > MAPPED_MAX:
            self._mapped.popitem(last=False)
        return data

    def buffers(self) -> Iterator[tuple[int, memoryview]]:
        """Offset and bytes of every segment, in order."""
        for segment in self.segments:
            data = self.buffer(segment)
            if data is not None:
                yield segment.offset, data

    def find_record(self, offset: int, *, check_crc: bool = False) -> memoryview | None:
        """The whole record at an offset, or None when none begins there."""
        segment = self.find_segment(offset)
        data = self.buffer(segment) if segment else None
        if segment is None or data is None:
            return None
        position = offset - segment.offset
        size = scan.check(data, position, len(data), segment.offset, check_crc)
        return data[position : position + size] if size > 0 else None

    def store_ms(self, offset: int) -> int:
        """When the record at an offset was stored; -1 when none is there."""
        record = self.find_record(offset)
        return -1 if record is None else scan.store_time(record, 0)

    def records(
        self, start: int, end: int | None = None, *, check_crc: bool = False
    ) -> Iterator[tuple[int, memoryview]]:
        """Every whole record from ``start`` on, in order, with its offset.

        Ends quietly where the whole records end; ``stop`` tells why that is.
        """
        positions = memoryview(bytearray(8 * 4096)).cast("q")
        offset = start
        while end is None or offset < end:
            segment = self.find_segment(offset)
            data = self.buffer(segment) if segment else None
            if segment is None or data is None:
                return
            base = segment.offset
            position, count, reason = scan.collect(
                data, offset - base, len(data), base, check_crc, positions
            )
            for number in range(count):
                at = positions[number]
                if end is not None and base + at >= end:
                    return
                until = positions[number + 1] if number + 1 < count else position
                yield base + at, data[at:until]
            if reason in (scan.BLANK, scan.END):
                offset = segment.end_offset
            elif reason == scan.FULL:
                offset = base + position
            else:
                return

    def stop(self, start: int, *, check_crc: bool = True) -> Stop:
        """Walk from ``start`` and say where the whole records end."""
        offset, total = start, 0
        while True:
            segment = self.find_segment(offset)
            data = self.buffer(segment) if segment else None
            if segment is None or data is None:
                return Stop(offset, scan.END, "", 0, total)
            position, count, reason, _ = scan.walk(
                data, offset - segment.offset, len(data), segment.offset, check_crc, scan.NO_DOUBT
            )
            total += count
            if reason not in (scan.BLANK, scan.END):
                return Stop(segment.offset + position, reason, segment.path, position, total)
            offset = segment.end_offset
