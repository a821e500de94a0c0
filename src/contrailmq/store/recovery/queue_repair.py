"""Where a consume queue on disk ends, and how it is made to end somewhere else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from contrailmq.store.consume_queue import ConsumeQueue
from contrailmq.store.gaps import FILL_SIZE, FILL_UNIT, UNIT, is_gap_before
from contrailmq.store.layout import QUEUE_UNIT
from contrailmq.store.queue_ext import is_address

_ADDRESS_BASE: Final = -(1 << 63)
_EXT_HEAD: Final = 20

log = logging.getLogger(__name__)


def written_end(queue: ConsumeQueue) -> int:
    """The queue offset behind the last unit, given that units were written in order."""
    return _end(queue, lambda place: _unit(queue, place)[1] > 0)


def drop_behind_hole(queue: ConsumeQueue) -> None:
    """Remove the files behind one that was not written to its end: they follow a gap."""
    segments = queue.segments
    for base in segments.offsets[:-1]:
        is_full = _unit(queue, (base + segments.size) // QUEUE_UNIT - 1)[1] > 0
        segments.release(base)
        if not is_full:
            log.warning("queue file has a hole, what follows is removed: folder=%s", queue.folder)
            segments.remove_from(base + segments.size)
            return


def ends_on_disk(queue: ConsumeQueue) -> tuple[int, int]:
    """Return the first queue offset of the files, and the end of what was written."""
    drop_behind_hole(queue)
    return queue.segments.first_offset // QUEUE_UNIT, written_end(queue)


def first_behind(queue: ConsumeQueue, log_offset: int, limit: int) -> int:
    """The first queue offset before ``limit`` whose record is at ``log_offset`` or behind.

    A unit that was never written counts as behind.
    """

    units = queue.segments.size // QUEUE_UNIT

    def is_before(place: int) -> bool:
        segment = queue.segments.find(place * QUEUE_UNIT)
        return segment is not None and is_gap_before(
            segment.buffer,
            0,
            place % units,
            lambda offset, size: size > 0 and offset < log_offset,
        )

    return min(_end(queue, is_before), limit)


def _end(queue: ConsumeQueue, is_before: Callable[[int], bool]) -> int:
    """The first queue offset that is not before, given that all in front of it are.

    From a file's beginning in growing steps, and only then by bisection: what was never written
    is a hole, and to look into holes all over a file is to fill memory with them.
    """
    units = queue.segments.size // QUEUE_UNIT
    for base in reversed(queue.segments.offsets):
        low = base // QUEUE_UNIT
        if not is_before(_first_written(queue, base)):
            continue
        high, step = low + units, 1
        while low < high:
            place = min(low + step, high) - 1
            if is_before(place):
                low, step = place + 1, 2 * step
            else:
                high = place
                break
        while low < high:
            middle = (low + high) // 2
            if is_before(middle):
                low = middle + 1
            else:
                high = middle
        return low
    return queue.segments.first_offset // QUEUE_UNIT


def _first_written(queue: ConsumeQueue, base: int) -> int:
    """Return the first queue offset of a file that is no gap; its last if all are."""
    segment = queue.segments.find(base)
    assert segment is not None
    units = segment.size // QUEUE_UNIT
    index = 0
    while index < units - 1 and segment.buffer[index * QUEUE_UNIT :][:QUEUE_UNIT] == FILL_UNIT:
        index += 1
    return base // QUEUE_UNIT + index


def set_end(queue: ConsumeQueue, end: int, *, clear: bool) -> list[str]:
    """Let the queue, and its extension, end before a queue offset; paths of changed files.

    ``clear`` makes everything behind it zero, whatever it is: after a crash there may be holes.
    """
    changed: list[str] = []
    least = queue.segments.first_offset // QUEUE_UNIT
    offset, size, code = _unit(queue, end - 1) if end > least else (0, FILL_SIZE, 0)
    if clear and end * QUEUE_UNIT < queue.segments.limit_offset:
        segment = queue.segments.find(end * QUEUE_UNIT)
        assert segment is not None
        if segment.clear(end * QUEUE_UNIT % queue.segments.size):
            changed.append(segment.path)
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
        changed += ext.segments.paths(ext_end, ext_end + 1)
    return changed


def _unit(queue: ConsumeQueue, queue_offset: int) -> tuple[int, int, int]:
    at = queue_offset * QUEUE_UNIT
    segment = queue.segments.find(at)
    if segment is None:
        return 0, 0, 0
    offset, size, code = UNIT.unpack_from(segment.buffer, at % queue.segments.size)
    return offset, size, code
