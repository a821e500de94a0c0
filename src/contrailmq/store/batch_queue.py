"""Batch queues: the queues of topics with ``queue.type=BatchCQ``.

Their topics keep a batch as one record.  A unit has 46 bytes: log offset (8), size (4), tag code
(8), store time (8), queue offset of the first message (8), number of messages (2), -1 (4), 0 (4).
Units lie one after another from byte 0 on, so the unit of a queue offset is searched for; a file is
named after its first byte.  Like other queues they are made from the log and can be made again.
"""

from __future__ import annotations

import bisect
import posixpath
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from contrailmq._native.store.queues import QueueWriter
from contrailmq.errors import ProtocolError
from contrailmq.protocol import fastjson
from contrailmq.protocol.properties import PROPERTY_INNER_NUM, decode_properties
from contrailmq.protocol.sysflag import INNER_BATCH
from contrailmq.store.files import Files
from contrailmq.store.layout import BATCH_QUEUE_UNIT, Layout, segment_name
from contrailmq.store.mapped_files import MappedFiles
from contrailmq.store.segments import Segments

UNIT: Final = struct.Struct(">qiqqqhii")
COUNT_MAX: Final = 32767
QUEUE_TYPE: Final = "queue.type"  # the attribute of a topic, and its value
BATCH_QUEUE: Final = "BatchCQ"
_RESERVE: Final = 64 * 1024 // BATCH_QUEUE_UNIT * BATCH_QUEUE_UNIT


class BatchUnit(NamedTuple):
    """One record of a batch queue: its place in the log, and the messages it stands for."""

    log_offset: int
    size: int
    code: int
    store_ms: int
    base: int
    messages: int


class BatchQueue:
    """One batch queue. Owned by the loop."""

    def __init__(
        self, files: Files, layout: Layout, topic: str, queue_id: int, *, maps: MappedFiles
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.folder = folder = layout.batch_consume_queue(topic, queue_id)
        self.segments = Segments(
            files,
            size=layout.batch_queue_file_size,
            path_of=lambda base: f"{folder}/{segment_name(base)}",
            maps=maps,
        )
        self.writer = QueueWriter(self, topic.encode(), queue_id)
        self.min_offset = 0
        self.ext = None
        self._end = 0  # byte behind the last unit
        self._dirty_from = 0
        self._last_base = -1
        self._reserved = 0  # byte: what is before it and behind the end has blocks

    @property
    def max_offset(self) -> int:
        """The queue offset behind the last message."""
        return self.writer.max_offset

    def load(self) -> None:
        """Find the files, and the end of what was written."""
        self.segments.load([self.folder], has_copy=True, drop_damaged=True)
        low, high = self._bounds(self.segments.limit_offset)
        while low < high:
            middle = (low + high) // 2
            if self.at(middle) is not None:
                low = middle + 1
            else:
                high = middle
        self._set_end(low)
        self.correct_min(0)

    def at(self, number: int) -> BatchUnit | None:
        """A unit by its number; None where none was written."""
        position = number * BATCH_QUEUE_UNIT
        segment = self.segments.find(position)
        if segment is None:
            return None
        unit = BatchUnit(*UNIT.unpack_from(segment.buffer, position % segment.size)[:6])
        is_whole = unit.log_offset >= 0 and unit.size > 0 and unit.base >= 0 and unit.messages > 0
        return unit if is_whole else None

    def units(self, offset: int) -> Iterator[BatchUnit]:
        """The units from the one that holds a queue offset on."""
        low, high = self._bounds(self._end)
        number = max(bisect.bisect_right(range(high), offset, low, high, key=self._base) - 1, low)
        while number < high:
            unit = self.at(number)
            number += 1
            if unit is not None and unit.base + unit.messages > offset:
                yield unit

    def unit(self, offset: int) -> tuple[int, int, int] | None:
        """Log offset, size and tag code of the record that holds a message; None without one."""
        found = next(self.units(offset), None)
        if found is None or found.base > offset:
            return None
        return found.log_offset, found.size, found.code

    def offset_by_time(self, ms: int, *, upper: bool) -> int:
        """The first message of the first record stored at ``ms`` or later, or of the last before.

        The unit itself has the time.
        """
        low, high = self._bounds(self._end)
        find = bisect.bisect_right if upper else bisect.bisect_left
        number = find(range(high), ms, low, high, key=lambda n: self._part(n, 3))
        if upper:
            return max(self._base(number - 1), self.min_offset) if number > low else self.min_offset
        if number == high:  # the original answers with its last record
            number -= 1
        return max(self._base(number), self.min_offset) if high > low else 0

    def put_unit(
        self, place: tuple[int, int, int, int], base: int, sys_flag: int, properties: bytes
    ) -> bool:
        """Write the unit of a record; False for one that the queue has: the deriver's call.

        ``place`` is the record's log offset, size, tag code and store time.
        """
        count = 1
        if sys_flag & INNER_BATCH:
            text = decode_properties(properties).get(PROPERTY_INNER_NUM, "")
            count = int(text) if text.isdecimal() and len(text) <= 5 else 0
        if not 0 < count <= COUNT_MAX:
            return False  # the original's dispatcher passes over it, too
        if base <= self._last_base:
            if base != 0:
                return False
            self._set_end(self.segments.first_offset // BATCH_QUEUE_UNIT)
        if self._end == self.segments.first_offset:
            self.min_offset = base
        at = self._end
        segment = self.segments.find(at)
        if segment is None:
            segment = self.segments.create(self.segments.base_of(at), reserve=False)
        position = at % segment.size
        if at >= self._reserved:
            limit = min(position + _RESERVE, segment.size)
            segment.reserve(position, limit)
            self._reserved = at - position + limit
        UNIT.pack_into(segment.buffer, position, *place, base, count, -1, 0)
        self._end = at + BATCH_QUEUE_UNIT
        writer = self.writer
        # 5.2.0 begins inside its last batch after a restart: so it can be that this is no more.
        writer.max_offset = max(base + count, writer.max_offset)
        self._last_base = base
        writer.next_offset = max(writer.next_offset, writer.max_offset)
        writer.log_end = place[0] + place[1]
        return True

    def truncate(self, log_offset: int) -> list[str]:
        """Drop the units of records at or behind a place of the log; paths of changed files."""
        low, high = self._bounds(self._end)
        number = bisect.bisect_left(
            range(high), log_offset, low, high, key=lambda n: self._part(n, 0)
        )
        if number == high:
            self.writer.next_offset = self.writer.max_offset
            return []
        self._set_end(number)
        return self.segments.paths(self._end, self._end + 1)

    def correct_min(self, log_min: int) -> None:
        """Let the queue begin at the first unit that points into what is left of the log."""
        low, high = self._bounds(self._end)
        number = bisect.bisect_left(range(high), log_min, low, high, key=lambda n: self._part(n, 0))
        self.min_offset = self._base(number) if number < high else self.max_offset

    def trim(self, log_min: int) -> list[str]:
        """Let go of files whose last unit points before the log, never the last; their paths."""
        paths, segments = [], self.segments
        while len(segments.offsets) > 1:
            last = self.at((segments.offsets[0] + segments.size) // BATCH_QUEUE_UNIT - 1)
            if last is not None and last.log_offset >= log_min:
                break
            paths.append(segments.forget_first())
        self.correct_min(log_min)
        return paths

    def dirty_size(self) -> int:
        """Bytes of units that are not yet flushed."""
        return self._end - self._dirty_from

    def dirty(self) -> list[str]:
        """Paths of the files written since the last call; the caller syncs them."""
        start, self._dirty_from = self._dirty_from, self._end
        return self.segments.paths(start, self._end) if self._end > start else []

    def doubt_names(self) -> None:
        """Whether the names of its files are on disk is not known: count them as new."""
        self.segments.doubt_names()

    def take_renamed(self) -> set[str]:
        """Folders in which files were made or removed since the last call, and theirs."""
        renamed = self.segments.take_renamed()
        topics = {posixpath.dirname(folder) for folder in renamed}
        return renamed | topics | {posixpath.dirname(topic) for topic in topics}

    def remove_files(self) -> None:
        """Delete every file of the queue."""
        self.segments.remove_from(0)

    def close(self) -> None:
        """Unmap everything."""
        self.segments.close()

    def _bounds(self, end: int) -> tuple[int, int]:
        return self.segments.first_offset // BATCH_QUEUE_UNIT, end // BATCH_QUEUE_UNIT

    def _part(self, number: int, field: int) -> int:
        unit = self.at(number)
        return -1 if unit is None else int(unit[field])

    def _base(self, number: int) -> int:
        return self._part(number, 4)

    def _set_end(self, number: int) -> None:
        """Let the queue end before a unit; what follows it is cleared."""
        end = number * BATCH_QUEUE_UNIT
        last = self.at(number - 1) if end > self.segments.first_offset else None
        self.segments.remove_from(end + 1)
        segment = self.segments.find(end) if end < self.segments.limit_offset else None
        if segment is not None:
            segment.clear(end % segment.size)
        self._end = self._dirty_from = end
        self._reserved = 0
        self._last_base = -1 if last is None else last.base
        writer = self.writer
        writer.max_offset = writer.next_offset = 0 if last is None else last.base + last.messages
        writer.log_end = 0 if last is None else last.log_offset + last.size

    def __repr__(self) -> str:
        return f"<BatchQueue {self.topic}:{self.queue_id} {self.min_offset}..{self.max_offset}>"


class BatchQueues:
    """Every batch queue of the store, by topic and queue id."""

    def __init__(self, files: Files, layout: Layout, *, maps: MappedFiles) -> None:
        self._files = files
        self._layout = layout
        self._maps = maps
        self._queues: dict[str, dict[int, BatchQueue]] = {}

    def load(self) -> None:
        """Find the queues on disk."""
        root = self._layout.batch_consume_queues
        for topic in self._files.folders(root):
            for name in self._files.folders(f"{root}/{topic}"):
                if name.isascii() and name.isdigit():
                    self.get(topic, int(name)).load()

    def find(self, topic: str, queue_id: int) -> BatchQueue | None:
        """A queue that is there."""
        return self._queues.get(topic, {}).get(queue_id)

    def get(self, topic: str, queue_id: int) -> BatchQueue:
        """A queue, made if it does not exist."""
        found = self.find(topic, queue_id)
        if found is None:
            found = BatchQueue(self._files, self._layout, topic, queue_id, maps=self._maps)
            self._queues.setdefault(topic, {})[queue_id] = found
        return found

    def has_topic(self, topic: str) -> bool:
        """Whether there is a queue of this topic."""
        return topic in self._queues

    def topics(self) -> list[str]:
        """Names of the topics that have batch queues."""
        return list(self._queues)

    def of_topic(self, topic: str) -> list[BatchQueue]:
        """The queues of a topic, by id."""
        return [queue for _, queue in sorted(self._queues.get(topic, {}).items())]

    def remove(self, queue: BatchQueue) -> None:
        """Forget a queue and delete its files and folders."""
        queues = self._queues.get(queue.topic, {})
        queues.pop(queue.queue_id, None)
        queue.remove_files()
        self._files.remove_folder(queue.folder)
        if not queues:
            self._queues.pop(queue.topic, None)
            self._files.remove_folder(f"{self._layout.batch_consume_queues}/{queue.topic}")

    def clear(self) -> None:
        """Remove every queue."""
        for queue in self:
            self.remove(queue)

    def truncate(self, log_offset: int) -> list[str]:
        """Drop the units of records at or behind a place of the log; paths of changed files."""
        return [path for queue in self for path in queue.truncate(log_offset)]

    def end_at(self, log_end: int, log_min: int) -> list[str]:
        """Let the queues begin and end with the log; paths of changed files."""
        changed = self.truncate(log_end)
        for queue in self:
            queue.correct_min(log_min)
        return changed

    def trim(self, log_min: int) -> list[str]:
        """Let go of files of records that the log no longer has; their paths."""
        return [path for queue in self for path in queue.trim(log_min)]

    def close(self) -> None:
        """Unmap every queue."""
        for queue in self:
            queue.close()

    def __iter__(self) -> Iterator[BatchQueue]:
        return iter([queue for queues in self._queues.values() for queue in queues.values()])


def batch_topics(data: bytes | None) -> frozenset[str]:
    """The topics with batch queues that a ``topics.json`` names; none for a damaged one."""
    try:
        table: dict[str, Any] = fastjson.loads(data or b"{}")["topicConfigTable"]
        return frozenset(
            topic
            for topic, config in table.items()
            if (config.get("attributes") or {}).get(QUEUE_TYPE) == BATCH_QUEUE
        )
    except (ProtocolError, KeyError, TypeError, AttributeError):
        return frozenset()
