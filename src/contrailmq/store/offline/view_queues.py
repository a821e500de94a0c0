"""Consume queues of a store directory, for reading only.

``QueueView`` is the plain kind: 20-byte units, so the unit of queue offset *n* is at byte 20·*n*
of the files taken together.  ``BatchQueueView`` is 5.x's kind for batches kept whole: 46-byte
units, each of which says which queue offset it begins with and how many messages it has.
``ExtView`` reads the extension, whose units a plain queue points at through its tags code.

Files are zero before they are written and are written in order, so the end of a queue is found by
bisection.  Nothing is remembered of a file's content: a queue may grow at any time.
"""

from __future__ import annotations

import bisect
import posixpath
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from contrailmq.store.files import Files
from contrailmq.store.gaps import find_written
from contrailmq.store.layout import BATCH_QUEUE_UNIT, QUEUE_EXT_UNIT, QUEUE_UNIT
from contrailmq.store.layout import find_segment_offset as find_offset

UNIT: Final = struct.Struct(">qiq")
BATCH_UNIT: Final = struct.Struct(">qiqqqhii")
EXT_HEAD: Final = struct.Struct(">hqqh")
_RUN: Final = 4096  # units read at once
FILLER_SIZE: Final = (
    0x7FFFFFFF  # the size in a unit that fills a gap, or the place before the first
)
EXT_BORDER: Final = -2147483649  # ConsumeQueueExt.MAX_ADDR: a tags code up to it is an address
EXT_ADDRESS: Final = -(1 << 63)


class Unit(NamedTuple):
    """An entry of a plain consume queue."""

    offset: int
    size: int
    tags_code: int

    @property
    def is_ext(self) -> bool:
        """Whether the tags code is the address of a unit in the extension."""
        return self.tags_code <= EXT_BORDER


class BatchUnit(NamedTuple):
    """An entry of a batch consume queue: the queue offsets of ``messages`` from ``base`` on."""

    offset: int
    size: int
    tags_code: int
    store_ms: int
    base: int
    messages: int
    compacted: int
    reserved: int


class ExtUnit(NamedTuple):
    """An entry of the extension."""

    tags_code: int
    store_ms: int
    bitmap: bytes


class QueueFiles:
    """The files of one queue, in order, and their bytes."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self.folder = folder
        self.starts: list[int] = []
        self.file_size = 0
        self._mapped: dict[int, memoryview] = {}
        self.refresh()

    def refresh(self) -> None:
        """List the files again."""
        found = {}
        for name, size in self._files.entries(self.folder):
            start = find_offset(name)
            if start is not None and size > 0:
                found[start] = size
        self.starts = sorted(found)
        self.file_size = max(found.values(), default=0)
        self._mapped = {start: data for start, data in self._mapped.items() if start in found}

    def path(self, start: int) -> str:
        """The file that begins at a byte of the queue."""
        return posixpath.join(self.folder, f"{start:020d}")

    def data(self, start: int) -> memoryview | None:
        """All bytes of the file that begins at ``start``."""
        data = self._mapped.get(start)
        if data is None:
            try:
                opened = self._files.open(self.path(start), writable=False, hold=False)
            except FileNotFoundError:
                return None
            opened.expect_scattered()
            data = opened.buffer
            opened.close()
            if len(self._mapped) >= 4:  # two ends of the queue, and the one being read
                self._mapped.clear()
            self._mapped[start] = data
        return data

    def read(self, start: int, end: int) -> bytes:
        """Bytes of the queue; what has no file reads as zeros."""
        parts: list[bytes | memoryview] = []
        while start < end:
            place = bisect.bisect_right(self.starts, start) - 1
            file_start = self.starts[place] if place >= 0 else -1
            data = self.data(file_start) if place >= 0 else None
            if data is None or start >= file_start + len(data):
                following = self.starts[place + 1] if place + 1 < len(self.starts) else end
                until = min(end, following)
                parts.append(bytes(until - start))
            else:
                until = min(end, file_start + len(data))
                parts.append(data[start - file_start : until - file_start])
            start = until
        return b"".join(parts)


class QueueView:
    """A plain consume queue."""

    def __init__(self, files: Files, folder: str, *, topic: str, queue_id: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = QueueFiles(files, folder)

    def refresh(self) -> None:
        """Notice new and deleted files."""
        self.files.refresh()

    @property
    def first(self) -> int:
        """The queue offset the first file begins with."""
        return self.files.starts[0] // QUEUE_UNIT if self.files.starts else 0

    def written(self) -> int:
        """The queue offset after the last unit that was written."""
        for start in reversed(self.files.starts):
            data = self.files.data(start)
            if data is not None and _size(data, 0) > 0:
                return start // QUEUE_UNIT + _written(data)
        return self.first

    def unit(self, queue_offset: int) -> Unit:
        """One unit; all zero when it was not written."""
        at = queue_offset * QUEUE_UNIT
        return Unit(*UNIT.unpack(self.files.read(at, at + QUEUE_UNIT)))

    def units(self, start: int, end: int) -> bytes:
        """The raw units of a range of queue offsets."""
        return self.files.read(start * QUEUE_UNIT, end * QUEUE_UNIT)

    def first_at_or_after(self, log_offset: int, end: int) -> int:
        """The first queue offset before ``end`` whose record is at ``log_offset`` or later."""
        low, high = self.first, end
        while low < high:
            middle = (low + high) // 2
            units = self.units(max(low, middle - _RUN), middle + 1)
            written = find_written(units, 0, len(units) // QUEUE_UNIT - 1)
            # Gaps, and nothing else in reach: they fill the place before the first message.
            is_before = written is None
            if written is not None:
                is_before = UNIT.unpack_from(units, written * QUEUE_UNIT)[0] < log_offset
            if is_before:
                low = middle + 1
            else:
                high = middle
        return low

    def place(self, queue_offset: int) -> tuple[str, int]:
        """File and position of a unit."""
        return _place(self.files, queue_offset * QUEUE_UNIT)


class BatchQueueView:
    """A batch consume queue."""

    def __init__(self, files: Files, folder: str, *, topic: str, queue_id: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = QueueFiles(files, folder)

    def refresh(self) -> None:
        """Notice new and deleted files."""
        self.files.refresh()

    def units(self) -> Iterator[BatchUnit]:
        """Every unit that was written, in order."""
        for start in list(self.files.starts):
            data = self.files.data(start)
            if data is None:
                continue
            for at in range(0, len(data) - BATCH_QUEUE_UNIT + 1, BATCH_QUEUE_UNIT):
                unit = BatchUnit(*BATCH_UNIT.unpack_from(data, at))
                if unit.size <= 0 or unit.messages <= 0:
                    return
                yield unit

    def place(self, number: int) -> tuple[str, int]:
        """File and position of the unit with this number."""
        first = self.files.starts[0] if self.files.starts else 0
        return _place(self.files, first + number * BATCH_QUEUE_UNIT)


class ExtView:
    """The extension of one queue."""

    def __init__(self, files: Files, folder: str) -> None:
        self.files = QueueFiles(files, folder)

    def unit(self, address: int) -> ExtUnit | None:
        """The unit a tags code points at; None when there is none."""
        offset = address - EXT_ADDRESS
        head = self.files.read(offset, offset + QUEUE_EXT_UNIT)
        size, tags_code, store_ms, bitmap_size = EXT_HEAD.unpack(head)
        if size < QUEUE_EXT_UNIT or size != QUEUE_EXT_UNIT + bitmap_size:
            return None
        bitmap = self.files.read(offset + QUEUE_EXT_UNIT, offset + size)
        return ExtUnit(tags_code, store_ms, bitmap)


def _place(files: QueueFiles, at: int) -> tuple[str, int]:
    place = bisect.bisect_right(files.starts, at) - 1
    start = files.starts[place] if place >= 0 else 0
    return files.path(start), at - start


def _size(data: memoryview, number: int) -> int:
    at = number * QUEUE_UNIT + 8
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def _written(data: memoryview) -> int:
    """How many units of a file were written, given that they were written in order.

    In growing steps from the beginning: looking into the holes behind would fill memory with them.
    """
    low, high, step = 1, len(data) // QUEUE_UNIT, 1
    while low < high:
        middle = min(low + step, high)
        if _size(data, middle - 1) > 0:
            low, step = middle, 2 * step
        else:
            high = middle - 1
            break
    while low < high:
        middle = (low + high + 1) // 2
        if _size(data, middle - 1) > 0:
            low = middle
        else:
            high = middle - 1
    return low
