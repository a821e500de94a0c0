"""The consume-queue extension: what does not fit into a unit of 20 bytes.

A unit is its size (2 bytes), the tag code (8), the store time (8), the length of the bit map (2)
and the bit map.  The queue's own unit then holds, in place of the tag code, the unit's address:
its offset in the extension plus the smallest 64-bit number.  A unit never spans two files: where
too little is left, a size of -1 marks the end and the next file goes on.
"""

from __future__ import annotations

import struct
from typing import Final

from contrailmq.store.files import Files, Segment
from contrailmq.store.layout import Layout, segment_name
from contrailmq.store.mapped_files import MappedFiles
from contrailmq.store.segments import Segments
from contrailmq.store.types import QueueExt

_HEAD: Final = struct.Struct(">hqqh")
_END_MARK: Final = struct.pack(">h", -1)
_END_ROOM: Final = 4
_ADDRESS_BASE: Final = -(1 << 63)
_ADDRESS_MAX: Final = -(1 << 31) - 1
UNIT_MAX: Final = 0x7FFF
_RESERVE: Final = 1 << 16


def is_address(code: int) -> bool:
    """Whether a queue unit's tag code is the address of an extension unit."""
    return code <= _ADDRESS_MAX


class ConsumeQueueExt:
    """The extension of one queue. Owned by the loop."""

    def __init__(
        self, files: Files, layout: Layout, topic: str, queue_id: int, *, maps: MappedFiles
    ) -> None:
        folder = layout.consume_queue_ext(topic, queue_id)
        self.folder = folder
        self.segments = Segments(
            files,
            size=layout.queue_ext_file_size,
            path_of=lambda base: f"{folder}/{segment_name(base)}",
            maps=maps,
        )
        self.end = 0
        self.dirty_from = 0
        self._reserved = 0

    def load(self) -> None:
        """Find the files; the end is where the units stop being sensible."""
        self.segments.load([self.folder], has_copy=True)
        self.end = self._reserved = self.segments.first_offset
        for base in self.segments.offsets[-3:]:
            segment = self.segments.find(base)
            assert segment is not None
            self.end = base + self._walk(segment)
        self.dirty_from = self.end

    def put(self, code: int, store_ms: int, bitmap: bytes) -> int:
        """Add a unit; the code that stands for it in the queue. A bit map too long is left out."""
        if _HEAD.size + len(bitmap) > min(UNIT_MAX, self.segments.size - _END_ROOM):
            bitmap = b""
        size = _HEAD.size + len(bitmap)
        segment = self._room(size)
        position = self.end % self.segments.size
        _HEAD.pack_into(segment.buffer, position, size, code, store_ms, len(bitmap))
        segment.buffer[position + _HEAD.size : position + size] = bitmap
        address = self.end + _ADDRESS_BASE
        self.end += size
        return address

    def find(self, code: int) -> QueueExt | None:
        """The unit at an address; None when there is no whole unit."""
        offset = code - _ADDRESS_BASE
        if not self.segments.first_offset <= offset < self.end:
            return None
        segment = self.segments.find(offset)
        position = offset % self.segments.size
        if segment is None or position + _HEAD.size > segment.size:
            return None
        size, tags_code, store_ms, length = _HEAD.unpack_from(segment.buffer, position)
        if length < 0 or size != _HEAD.size + length or position + size > segment.size:
            return None
        start = position + _HEAD.size
        return QueueExt(tags_code, store_ms, bytes(segment.buffer[start : start + length]))

    def truncate(self, end: int) -> None:
        """Forget everything from an offset on."""
        self.segments.remove_from(end + 1)
        self.end = end
        self.dirty_from = min(self.dirty_from, end)
        segment = self.segments.find(end)
        if segment is not None and end < self.segments.limit_offset:
            position = end % self.segments.size
            segment.buffer[position:] = bytes(segment.size - position)

    def dirty(self) -> list[str]:
        """Paths of the files written since the last call."""
        start, self.dirty_from = self.dirty_from, self.end
        return self.segments.paths(start, self.end) if start < self.end else []

    def _room(self, size: int) -> Segment:
        left = self.segments.limit_offset - self.end
        if self.segments.offsets and left >= size + _END_ROOM:
            segment = self.segments.find(self.end)
            assert segment is not None
        else:
            if self.segments.offsets and left:
                last = self.segments.find(self.end)
                assert last is not None
                position = self.end % self.segments.size
                last.buffer[position : position + len(_END_MARK)] = _END_MARK[:left]
            self.end = self.segments.limit_offset
            segment = self.segments.create(self.end, reserve=False)
            self._reserved = self.end
        if self.end + size > self._reserved:
            position = self.end % self.segments.size
            until = min(position + size + _RESERVE, segment.size)
            segment.reserve(position, until)
            self._reserved = self.end - position + until
        return segment

    def _walk(self, segment: Segment) -> int:
        position = 0
        while position + _HEAD.size <= segment.size:
            size, _, _, length = _HEAD.unpack_from(segment.buffer, position)
            if size == -1:
                return segment.size
            if length < 0 or size != _HEAD.size + length or position + size > segment.size:
                break
            position += size
        return position
