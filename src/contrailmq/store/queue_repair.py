"""Where a consume queue on disk ends, and how it is made to end somewhere else."""

from __future__ import annotations

from typing import Final

from contrailmq.store.consume_queue import FILL_SIZE, UNIT, ConsumeQueue
from contrailmq.store.files import Segment
from contrailmq.store.layout import QUEUE_UNIT
from contrailmq.store.queue_ext import is_address

_ADDRESS_BASE: Final = -(1 << 63)
_EXT_HEAD: Final = 20


def written_end(queue: ConsumeQueue) -> int:
    """The queue offset behind the last unit, given that units were written in order."""
    for base in reversed(queue.segments.offsets):
        first = base // QUEUE_UNIT
        if _is_written(queue, first):
            low, high = first + 1, (base + queue.segments.size) // QUEUE_UNIT
            while low < high:
                middle = (low + high) // 2
                if _is_written(queue, middle):
                    low = middle + 1
                else:
                    high = middle
            return low
    return queue.segments.first_offset // QUEUE_UNIT


def first_behind(queue: ConsumeQueue, log_offset: int, limit: int) -> int:
    """The first queue offset before ``limit`` whose record is at ``log_offset`` or behind.

    A unit that was never written counts as behind.
    """
    low, high = queue.segments.first_offset // QUEUE_UNIT, limit
    while low < high:
        middle = (low + high) // 2
        offset, size, _ = _unit(queue, middle)
        if size == FILL_SIZE or (size > 0 and offset < log_offset):
            low = middle + 1
        else:
            high = middle
    return low


def set_end(queue: ConsumeQueue, end: int, *, clear: bool) -> list[Segment]:
    """Let the queue, and its extension, end before a queue offset; files that were changed.

    ``clear`` makes everything behind it zero, whatever it is: after a crash there may be holes.
    """
    changed: list[Segment] = []
    least = queue.segments.first_offset // QUEUE_UNIT
    offset, size, code = _unit(queue, end - 1) if end > least else (0, FILL_SIZE, 0)
    if clear and end * QUEUE_UNIT < queue.segments.limit_offset:
        segment = queue.segments.find(end * QUEUE_UNIT)
        assert segment is not None
        if segment.clear(end * QUEUE_UNIT % queue.segments.size):
            changed.append(segment)
    queue.set_end(end, 0 if size == FILL_SIZE else offset + size)
    ext = queue.ext
    if ext is None:
        return changed
    found = ext.find(code) if end > least and is_address(code) else None
    if found is not None:
        ext_end = code - _ADDRESS_BASE + _EXT_HEAD + len(found.bitmap)
    else:
        ext_end = ext.segments.first_offset
    if ext_end < ext.end:
        ext.truncate(ext_end)
        changed += [segment for _, segment in ext.segments.opened()]
    return changed


def _is_written(queue: ConsumeQueue, queue_offset: int) -> bool:
    return _unit(queue, queue_offset)[1] > 0


def _unit(queue: ConsumeQueue, queue_offset: int) -> tuple[int, int, int]:
    at = queue_offset * QUEUE_UNIT
    segment = queue.segments.find(at)
    if segment is None:
        return 0, 0, 0
    offset, size, code = UNIT.unpack_from(segment.buffer, at % queue.segments.size)
    return offset, size, code
