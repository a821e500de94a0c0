"""The one physical log: fixed-size segments, records back to back.

A record never spans two segments: what is left of a segment is closed by a blank record.  Byte by
byte: docs/store-format.md.

Offsets, in order: ``min_offset`` ≤ ``flushed_offset`` (certain on disk) ≤ ``readable_offset``
(what readers and derivation may see) ≤ ``end_offset`` (where the next record goes).  Without
a write buffer everything written is readable at once, except under synchronous flush, where
readers follow the disk.

**Written at once.**  Without a write buffer the records of a run, mostly those of one socket read,
are staged in memory; ``settle`` then writes them through the file, in one call, before anybody is
told of them.  The mapping shows what was written, and is only read.  (Very short runs are copied
into it; see ``_native.log``.)  A write that fails is final, like a failed fsync.

**Write buffer** (``transientStorePoolEnable``): records go into anonymous memory of a segment's
size first; ``commit`` writes them through the file, in a thread, and only then are they readable.
Committed pages of the buffer are given back, so memory is bounded by what is not yet committed.
"""

from __future__ import annotations

import logging
import mmap
import posixpath
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from contrailmq._native import record
from contrailmq._native.store.gather import Gatherer
from contrailmq._native.store.log import LogWriter
from contrailmq.errors import StoreError
from contrailmq.store.blocks import Blocks
from contrailmq.store.files import Files, Segment
from contrailmq.store.layout import Layout
from contrailmq.store.segments import Segments
from contrailmq.store.settings import StoreSettings

log = logging.getLogger(__name__)
PAGE: Final = 4096


class _Pending(NamedTuple):
    """A stretch of write buffer that is on its way to its segment."""

    base: int
    buffer: mmap.mmap
    segment: Segment


class CommitLog:
    """The log. Owned by the loop; only what ``*_work`` returns runs in threads."""

    def __init__(self, settings: StoreSettings, layout: Layout, files: Files) -> None:
        self._settings = settings
        self._files = files
        self._layout = layout
        self.segments = Segments(files, size=settings.segment_size, path_of=layout.commit_log)
        self.writer = LogWriter(settings.record_size_max, settings.message_size_max)
        self.blocks = Blocks(
            self.writer,
            segment_size=settings.segment_size,
            record_size_max=settings.record_size_max,
            whole=settings.warm_segments,
        )
        self.gatherer = Gatherer(settings.segment_size)
        self.flushed_offset = 0
        self.committed_offset = 0
        self.tail: Segment | None = None
        self.fail: Callable[[str], Exception] = StoreError  # the store puts its fence here
        self._spare: tuple[int, Segment] | None = None
        self._buffers: deque[_Pending] = deque()

    def load(self) -> None:
        """Find the segments on disk and make them readable."""
        self.segments.load((*self._layout.commit_logs, *self._layout.read_only_commit_logs))
        self.segments.drop_unwritten()
        for base in self.segments.offsets:
            self._show(base)
        self.gatherer.min_offset = self.segments.first_offset

    def start(self, end_offset: int) -> None:
        """Go on behind ``end_offset``: what recovery found to be the end. Later files go away."""
        self.segments.remove_from(end_offset + 1)
        for base in [base for base in self.gatherer.views if base > end_offset]:
            self.gatherer.remove(base)
        if not self.segments.offsets and end_offset % self.segments.size:
            raise StoreError(f"the log cannot begin inside a segment: {end_offset}")
        self.writer.attach(bytearray(1), end_offset, 0)
        self.writer.detach()
        self.flushed_offset = self.committed_offset = end_offset
        self.gatherer.end_offset = end_offset
        segment = self.segments.find(end_offset)
        if segment is None or end_offset >= self.segments.limit_offset:
            return
        base = self.segments.base_of(end_offset)
        if end_offset == base and base != self.segments.first_offset:
            # Without a record: the name of the log's end is its predecessor's, and the next put
            # makes a new file. There may be no room for this one.
            self.segments.remove_from(base)
            self.gatherer.remove(base)
            return
        # What lies behind the end must not come back to life behind a record yet to come.
        segment.clear(end_offset - base)
        ready = self.blocks.after(end_offset - base)
        segment.reserve(0, ready)
        self._attach(segment, base, end_offset)
        self.writer.ready = ready

    @property
    def min_offset(self) -> int:
        """Where the oldest segment begins."""
        return self.segments.first_offset

    @property
    def end_offset(self) -> int:
        """Where the next record goes."""
        return self.writer.end_offset()

    def settle(self) -> None:
        """Bring what was appended into the file; what ``fail`` makes of an error is raised."""
        if self.writer.settle():
            self.write_out()

    def write_out(self) -> None:
        """Write what is staged, through the file; also called by the writer for want of room."""
        writer, tail = self.writer, self.tail
        if tail is None:
            raise StoreError("nothing is open to be written to")
        data = writer.staged()
        try:
            _write_all(tail, writer.start, data)
        except (OSError, StoreError) as error:
            raise self.fail(f"write to the log failed: {error}") from error
        writer.settled()

    def write_staged(self) -> None:
        """Write all that is staged through the file, however short it is.

        A page that is synced again and again costs a fault each time it is written by the mapping.
        """
        if self.writer.settled_offset() < self.writer.end_offset():
            self.write_out()

    @property
    def has_write_buffer(self) -> bool:
        """Whether records pass through anonymous memory first."""
        return self._settings.has_write_buffer

    def grow(self) -> None:
        """Let the writer have more room: more blocks of the tail, or else the next segment."""
        if self.tail is None or not self.blocks.grow(self.tail):
            self.roll()

    def roll(self) -> None:
        """Close the tail with a blank record and go on in the next segment."""
        if self.tail is not None:
            self.settle()
            self.writer.close_segment()
            self.tail = None
        base = self.end_offset
        self.writer.detach()
        segment = self._take_spare(base)
        if segment is None:
            # The spare was not ready in time. Its name must be certain before the next one's, or
            # a power cut might leave a gap.
            path = self.segments.path(base)
            segment = self.blocks.make(self._files, path)
            self._files.sync_folder(posixpath.dirname(path))
        self.segments.adopt(base, segment)
        self._show(base)
        self._attach(segment, base, base)
        self.writer.ready = self.blocks.after(0)

    def set_ready(self, segment: Segment, ready: int) -> None:
        """A thread has reserved blocks of the tail up to here."""
        if self.tail is segment:
            self.writer.ready = max(self.writer.ready, ready)

    def spare_work(self) -> tuple[int, Callable[[], Segment]] | None:
        """What a thread has to do so that the next segment is ready; None when it is."""
        base = self.segments.limit_offset
        is_ready = self._spare is not None and self._spare[0] == base
        if is_ready or not self.blocks.is_next_due:
            return None
        path, size, files = self.segments.path(base), self.segments.size, self._files
        is_warm, blocks = self._settings.warm_segments, self.blocks

        def work() -> Segment:
            segment = blocks.make(files, path)
            if is_warm:
                segment.populate(0, size)
            files.sync_folder(posixpath.dirname(path))
            return segment

        return base, work

    def keep_spare(self, base: int, segment: Segment) -> None:
        """Take over what ``spare_work`` made; if the log went on without it, drop it."""
        if base != self.segments.limit_offset:
            segment.close()
            if base > self.segments.limit_offset:  # the log was cut back meanwhile
                self._files.remove(segment.path)
            return
        self._spare = (base, segment)

    def take(self, data: memoryview) -> None:
        """Write bytes of another log at the end as they are: its segments are ours.

        The end of a segment comes with them; a piece may end anywhere.
        """
        self.settle()
        writer = self.writer
        while len(data):
            if writer.position == writer.ready:
                self.grow()
            tail = self.tail
            assert tail is not None
            piece = data[: writer.ready - writer.position]
            try:
                _write_all(tail, writer.position, piece)
            except (OSError, StoreError) as error:
                raise self.fail(f"write to the log failed: {error}") from error
            writer.taken(len(piece))
            data = data[len(piece) :]

    def begin_at(self, offset: int) -> None:
        """Let a log without a record begin at the first offset of a segment."""
        if offset % self.segments.size:
            raise StoreError(
                f"the log cannot begin at {offset}, inside a segment of {self.segments.size} bytes"
            )
        self.drop_spare()
        self.tail = None
        self.writer.detach()
        for base in self.segments.remove_from(0):
            self.gatherer.remove(base)
        self.start(offset)
        self.roll()
        self.gatherer.min_offset = self.segments.first_offset

    def cut(self, offset: int) -> None:
        """Let the log end before an offset; the caller sees to it that nobody syncs or reads."""
        self.settle()
        self.drop_spare()
        flushed = min(self.flushed_offset, offset)
        self.tail = None
        self._buffers.clear()
        self.start(offset)
        self.flushed_offset = flushed

    def drop_spare(self) -> None:
        """Remove the segment that was made ahead."""
        spare, self._spare = self._spare, None
        if spare is not None:
            spare[1].close()
            self._files.remove(spare[1].path)

    def flush_scope(self) -> tuple[int, list[Segment]]:
        """An offset, and the segments whose sync makes the log durable up to it."""
        target = self.committed_offset if self.has_write_buffer else self.writer.settled_offset()
        start = self.segments.base_of(self.flushed_offset)
        dirty = [
            segment
            for base in range(start, max(target, start + 1), self.segments.size)
            if (segment := self.segments.find(base)) is not None
        ]
        return target, dirty

    def sync_folders(self) -> None:
        """Make the names of all segments certain. Blocks; for recovery, which found them."""
        for folder in sorted(
            {posixpath.dirname(self.segments.path(base)) for base in self.segments.offsets}
        ):
            self._files.sync_folder(folder)

    def commit_work(self) -> tuple[int, Callable[[], None]]:
        """An offset, and what a thread has to do to bring the write buffer into the files."""
        target = self.end_offset
        parts: list[tuple[Segment, int, memoryview]] = []
        for base, buffer, segment in self._buffers:
            start = max(self.committed_offset, base) - base
            end = min(target, base + self.segments.size) - base
            if end > start:
                parts.append((segment, start, memoryview(buffer)[start:end]))

        def work() -> None:
            for segment, start, data in parts:
                _write_all(segment, start, data)
                data.release()

        return target, work

    def set_committed(self, offset: int) -> None:
        """The write buffer has reached the files up to ``offset``."""
        while self._buffers and offset >= self._buffers[0].base + self.segments.size:
            self._buffers.popleft()
        if self._buffers:
            base, buffer, _ = self._buffers[0]
            start = max(self.committed_offset - base, 0) // PAGE * PAGE
            end = (offset - base) // PAGE * PAGE
            if end > start:
                buffer.madvise(mmap.MADV_DONTNEED, start, end - start)
        self.committed_offset = offset

    def buffers_in_use(self) -> int:
        """Segments whose write buffer is not fully committed."""
        return len(self._buffers)

    def set_readable(self, offset: int) -> None:
        """Readers may see everything before ``offset``."""
        self.gatherer.end_offset = offset

    def forget_first(self) -> str:
        """Let the log begin with the next segment; the path of the file to be removed."""
        base = self.segments.first_offset
        path = self.segments.forget_first()
        if base in self.gatherer.views:
            self.gatherer.remove(base)
        self.gatherer.min_offset = self.segments.first_offset
        return path

    def remove_first(self) -> str | None:
        """Delete the oldest segment; None when it is the last, or its end is not yet on disk."""
        if len(self.segments.offsets) < 2:
            return None
        if self.segments.first_offset + self.segments.size > self.flushed_offset:
            return None
        path = self.segments.remove_first()
        first = self.segments.first_offset
        for base in [base for base in self.gatherer.views if base < first]:
            self.gatherer.remove(base)
        self.gatherer.min_offset = first
        return path

    def record(self, offset: int, size: int | None = None) -> memoryview | None:
        """A view of the record at an offset; None when there is none, or it is not readable."""
        segment = self.segments.find(offset) if offset >= self.gatherer.min_offset else None
        if segment is None or offset + record.SIZE_MIN > self.gatherer.end_offset:
            return None
        position = offset % self.segments.size
        if size is None:
            size = int.from_bytes(segment.buffer[position : position + 4], "big")
        if position + size > segment.size or self.gatherer.find(offset, size) is None:
            return None
        return segment.buffer[position : position + size].toreadonly()

    def close(self) -> None:
        """Give up every file. What was not flushed is for the kernel to write."""
        self.writer.detach()
        self.gatherer.clear()
        self.tail = None
        self._buffers.clear()
        if self._spare is not None:
            self._spare[1].close()
            self._spare = None
        self.segments.close()

    def _take_spare(self, base: int) -> Segment | None:
        spare, self._spare = self._spare, None
        if spare is None:
            return None
        if spare[0] != base:
            spare[1].close()
            return None
        return spare[1]

    def _attach(self, segment: Segment, base: int, end_offset: int) -> None:
        self.tail = segment
        if not self.has_write_buffer:
            position = end_offset - base
            self.writer.attach(segment.buffer, base, position, self.write_out, segment)
            return
        buffer = mmap.mmap(-1, segment.size)
        self._buffers.append(_Pending(base, buffer, segment))
        self.writer.attach(memoryview(buffer), base, end_offset - base)

    def _show(self, base: int) -> None:
        segment = self.segments.find(base)
        assert segment is not None
        self.gatherer.add(segment.buffer, base, segment.is_mapped)


def _write_all(segment: Segment, position: int, data: memoryview) -> None:
    done = segment.write(position, data)
    while done < len(data):
        written = segment.write(position + done, data[done:])
        if written <= 0:
            raise StoreError(f"{segment.path}: nothing could be written")
        done += written
