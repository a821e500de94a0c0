"""Consume queues: for every topic and queue id, where its messages are in the log.

A queue is a sequence of units of 20 bytes: log offset (8), size (4), tag code (8).  Unit ``n`` is
the message with queue offset ``n`` and lies at byte ``20 n`` of the files' stretch.  Units are
derived from the log and can always be made again from it.

A queue that does not begin at 0, because the log no longer has its first messages, is filled with
units (0, 2147483647, 0) from the start of its first file; so is a gap (``gaps``).  Readers pass
over them.

Files are sparse and get real blocks in steps ahead of the writer, so that ten thousand queues do
not take sixty gigabytes, and yet a write into the mapping can never meet a full disk: first a
page, since most of very many queues have few messages, then 64 KiB at a time.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final

from contrailmq._native.store.queues import QueueWriter
from contrailmq.errors import StoreError
from contrailmq.protocol.names import is_lmq
from contrailmq.store.files import Files, Segment
from contrailmq.store.gaps import FILL_SIZE, FILL_UNIT, UNIT, find_written, first_not_before
from contrailmq.store.layout import QUEUE_UNIT, Layout, segment_name
from contrailmq.store.mapped_files import MappedFiles
from contrailmq.store.queue_ext import ConsumeQueueExt
from contrailmq.store.segments import Segments

_RESERVE: Final = 64 * 1024 // QUEUE_UNIT * QUEUE_UNIT
_RESERVE_FIRST: Final = 4096 // QUEUE_UNIT * QUEUE_UNIT


class ConsumeQueue:
    """One queue. Owned by the loop."""

    def __init__(
        self, files: Files, layout: Layout, topic: str, queue_id: int, *, maps: MappedFiles
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.folder = layout.consume_queue(topic, queue_id)
        folder = self.folder
        self.segments = Segments(
            files,
            size=layout.queue_file_size,
            path_of=lambda base: f"{folder}/{segment_name(base)}",
            maps=maps,
        )
        self.segments.grown = self._has_grown
        self.segments.on_let_go = self._let_go
        self.writer = QueueWriter(self, topic.encode(), queue_id)
        self.ext: ConsumeQueueExt | None = None
        self.min_offset = 0
        self.dirty_from = 0  # byte offset of the first unit not yet flushed
        self.skipped = 0  # messages the log did not have
        self.has_gap = False  # it went on ahead of its end: what recovery looks at
        self._seen_max = 0
        self._reserved = 0  # byte offset: what is before it and behind the end has blocks

    def load(self, *, drop_damaged: bool = False) -> None:
        """Find the files; ``set_end`` has to follow before anything else.

        ``drop_damaged``: a file of another size was cut off, and goes; otherwise it is an error.
        """
        self.segments.load([self.folder], has_copy=True, drop_damaged=drop_damaged)
        self.min_offset = self.segments.first_offset // QUEUE_UNIT

    def set_end(self, max_offset: int, log_end: int) -> None:
        """Go on at ``max_offset``; ``log_end`` is the end of the last record the queue has.

        Files wholly behind it are removed, and units behind it in its file are cleared, so that
        no later opener takes them for real.
        """
        end = max_offset * QUEUE_UNIT
        self.segments.remove_from(end + 1)
        writer = self.writer
        writer.detach()
        writer.max_offset = writer.next_offset = max_offset
        writer.log_end = log_end
        self.min_offset = min(self.min_offset, max_offset)
        self.dirty_from = end
        self._reserved = 0
        segment = self.segments.find(end) if end < self.segments.limit_offset else None
        if segment is not None:
            position = end % self.segments.size
            if any(segment.buffer[position : position + QUEUE_UNIT]):
                segment.reserve(position, segment.size)
                segment.buffer[position:] = bytes(segment.size - position)

    @property
    def max_offset(self) -> int:
        """The queue offset behind the last readable message."""
        return self.writer.max_offset

    def units(self, offset: int) -> tuple[memoryview, int, int] | None:
        """The file with a queue offset, its position there, and where its units end."""
        segments = self.segments
        at, end = offset * QUEUE_UNIT, self.writer.max_offset * QUEUE_UNIT
        if not segments.first_offset <= at < end:
            return None
        segment = segments.find(at)
        if segment is None:
            return None
        base = at - at % segments.size
        return segment.buffer, at - base, min(end - base, segments.size)

    def unit(self, offset: int) -> tuple[int, int, int] | None:
        """Log offset, size and tag code of one message; None when there is no such unit."""
        found = self.units(offset)
        if found is None:
            return None
        log_offset, size, code = UNIT.unpack_from(found[0], found[1])
        return None if size == FILL_SIZE else (log_offset, size, code)

    def correct_min(self, log_min: int) -> None:
        """Let the queue begin at the first unit that points into what is left of the log."""
        offsets, units = self.segments.offsets, self.segments.size // QUEUE_UNIT
        low, high = 0, len(offsets)
        while low < high:
            middle = (low + high) // 2
            if self._ends_before(middle, log_min):
                low = middle + 1
            else:
                high = middle
        self.min_offset = self.max_offset
        found = self.units(offsets[low] // QUEUE_UNIT) if low < len(offsets) else None
        if found is not None:
            count = min(units, self.max_offset - offsets[low] // QUEUE_UNIT)
            place = first_not_before(found[0], 0, count, log_min)
            self.min_offset = offsets[low] // QUEUE_UNIT + place

    def _ends_before(self, number: int, log_offset: int) -> bool:
        """Whether the last message of a file is before a place of the log; a gap asks the next."""
        offsets = self.segments.offsets
        for base in offsets[number:]:
            found = self.units(base // QUEUE_UNIT)
            if found is None:
                return False
            data, start, end = found
            written = find_written(data, 0, (end - start) // QUEUE_UNIT - 1)
            if written is not None:
                at: int = UNIT.unpack_from(data, written * QUEUE_UNIT)[0]
                return at < log_offset
        return True

    def truncate(self, log_end: int) -> bool:
        """Drop the units of records that do not end before ``log_end``; whether any was."""
        offset = self.max_offset
        least = self.segments.first_offset // QUEUE_UNIT
        end = 0
        while offset > least:
            found = self.units(offset - 1)
            assert found is not None
            log_offset, size, _ = UNIT.unpack_from(found[0], found[1])
            if size == FILL_SIZE or (log_offset >= 0 and log_offset + size <= log_end):
                end = 0 if size == FILL_SIZE else log_offset + size
                break
            offset -= 1
        changed = offset != self.max_offset
        if changed:
            self.set_end(offset, end)
        return changed

    def make_room(self, writer: QueueWriter) -> None:
        """Give the writer a place for at least one unit: the deriver's call."""
        at = writer.max_offset * QUEUE_UNIT
        base = self.segments.base_of(at)
        segment = self.segments.find(at)
        if segment is None:
            if not self.segments.offsets and at != base:
                segment = self._first_file(base, at)
            else:
                segment = self.segments.create(base, reserve=False)
        position = at - base
        if not at < self._reserved <= base + segment.size:
            limit = position - position % _RESERVE + _RESERVE
            limit = min(_RESERVE_FIRST if at < _RESERVE_FIRST else limit, segment.size)
            segment.reserve(position, limit)
            self._reserved = base + limit
        limit = self._reserved - base
        writer.attach(segment.buffer, position, limit)

    def skip_to(self, writer: QueueWriter, offset: int) -> None:
        """Go on at a queue offset ahead of the end: the deriver's call.

        An empty queue simply begins there; in another the gap is filled.
        """
        self.has_gap = True
        if not self.segments.offsets:
            writer.detach()
            writer.max_offset = offset
            writer.next_offset = max(writer.next_offset, offset)
            self.min_offset = offset
            self.dirty_from = self.segments.base_of(offset * QUEUE_UNIT)
            return
        self.skipped += offset - writer.max_offset
        log_end, next_offset = writer.log_end, writer.next_offset
        while writer.max_offset < offset:
            writer.put(0, FILL_SIZE, 0)
        writer.log_end, writer.next_offset = log_end, max(next_offset, offset)

    def start_again(self, writer: QueueWriter) -> None:
        """Drop all units: a newer record begins at offset 0 again: the deriver's call.

        The topic was deleted and made anew.  Recovery meets the records of its first life before
        those of the second, whose offsets they must not take.
        """
        self.set_end(0, writer.log_end)

    def dirty_size(self) -> int:
        """Bytes of units that are not yet flushed."""
        return self.max_offset * QUEUE_UNIT - self.dirty_from

    def doubt_names(self) -> None:
        """Whether the names of its files are on disk is not known: count them as new."""
        self.segments.doubt_names()
        if self.ext is not None:
            self.ext.segments.doubt_names()

    def take_renamed(self) -> set[str]:
        """Folders in which files were made or removed since the last call, and theirs."""
        renamed = self.segments.take_renamed()
        if self.ext is not None:
            renamed |= self.ext.segments.take_renamed()
        topics = {posixpath.dirname(folder) for folder in renamed}
        return renamed | topics | {posixpath.dirname(topic) for topic in topics}

    def dirty(self) -> list[str]:
        """Paths of the files written since the last call; the caller syncs them."""
        start, end = self.dirty_from, self.max_offset * QUEUE_UNIT
        self.dirty_from = end
        if end <= start:
            return []
        extra = self.ext.dirty() if self.ext is not None else []
        return self.segments.paths(start, end) + extra

    def remove_files(self) -> None:
        """Delete every file of the queue."""
        self.writer.detach()
        self._reserved = 0
        self.segments.remove_from(0)
        if self.ext is not None:
            self.ext.segments.remove_from(0)

    def close(self) -> None:
        """Unmap everything."""
        self.writer.detach()
        self.segments.close()
        if self.ext is not None:
            self.ext.segments.close()

    def _has_grown(self) -> bool:
        seen, self._seen_max = self._seen_max, self.writer.max_offset
        return self._seen_max != seen

    def _let_go(self, base: int) -> None:
        if base == self.segments.offsets[-1]:  # the writer has no other
            self.writer.detach()

    def _first_file(self, base: int, at: int) -> Segment:
        segment = self.segments.create(base, reserve=False)
        segment.reserve(0, at - base)
        segment.buffer[: at - base] = FILL_UNIT * ((at - base) // QUEUE_UNIT)
        return segment

    def __repr__(self) -> str:
        return f"<ConsumeQueue {self.topic}:{self.queue_id} {self.min_offset}..{self.max_offset}>"


class ConsumeQueues:
    """Every queue of the store, by topic and queue id."""

    def __init__(self, files: Files, layout: Layout, *, has_ext: bool, maps: MappedFiles) -> None:
        self._files = files
        self._layout = layout
        self._has_ext = has_ext
        self.maps = maps
        self._queues: dict[str, dict[int, ConsumeQueue]] = {}
        self.removals = 0  # whoever keeps a queue looks whether this has moved

    def load(self) -> None:
        """Find the queues on disk; their ends are recovery's to set.

        A file of another size than the rest was cut off, and can be made again from the log.  When
        there is none of the right size it is the setting that is wrong, and nothing is touched.
        """
        damaged: list[tuple[ConsumeQueue, StoreError]] = []
        is_size_right = False
        for topic in self._files.folders(self._layout.consume_queues):
            for name in self._files.folders(f"{self._layout.consume_queues}/{topic}"):
                if not name.isascii() or not name.isdigit():
                    continue
                queue = self._new(topic, int(name))
                try:
                    queue.load()
                except StoreError as error:
                    damaged.append((queue, error))
                is_size_right = is_size_right or bool(queue.segments.offsets)
        for queue, reason in damaged:
            if not is_size_right:
                raise reason
            queue.load(drop_damaged=True)

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue that is there."""
        queues = self._queues.get(topic)
        return None if queues is None else queues.get(queue_id)

    def get(self, topic: str, queue_id: int) -> ConsumeQueue:
        """A queue, made if it is not there."""
        found = self.find(topic, queue_id)
        if found is None:
            found = self._new(topic, queue_id)
            if found.ext is not None:
                found.ext.truncate(0)  # left behind by a crash that took the queue itself
        return found

    def topics(self) -> list[str]:
        """Names of the topics that have queues."""
        return list(self._queues)

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """The queues of a topic, by id."""
        return [queue for _, queue in sorted(self._queues.get(topic, {}).items())]

    def remove(self, queue: ConsumeQueue) -> None:
        """Forget a queue and delete its files and folders."""
        self.removals += 1
        queues = self._queues.get(queue.topic, {})
        queues.pop(queue.queue_id, None)
        if not queues:
            self._queues.pop(queue.topic, None)
        queue.remove_files()
        for folder, root in (
            (queue.folder, self._layout.consume_queues),
            (
                self._layout.consume_queue_ext(queue.topic, queue.queue_id),
                self._layout.consume_queue_exts,
            ),
        ):
            self._files.remove_folder(folder)
            if not queues:
                self._files.remove_folder(f"{root}/{queue.topic}")

    def close(self) -> None:
        """Unmap every queue."""
        for queue in self:
            queue.close()

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter([queue for queues in self._queues.values() for queue in queues.values()])

    def _new(self, topic: str, queue_id: int) -> ConsumeQueue:
        maps = self.maps
        queue = ConsumeQueue(self._files, self._layout, topic, queue_id, maps=maps)
        if self._has_ext and not is_lmq(topic):
            queue.ext = ConsumeQueueExt(self._files, self._layout, topic, queue_id, maps=maps)
            queue.ext.load()
        self._queues.setdefault(topic, {})[queue_id] = queue
        return queue
