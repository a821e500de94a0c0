"""From the log to everything that is derived of it: queues, extension, index, listeners.

Derivation follows the readable end of the log.  It reads the log's own bytes and is the same
after an append, after a flush (synchronous flush: nobody sees what the disk has not) and in
recovery.  ``derived_offset`` says how far it is; when it cannot go on, because a queue finds no
room on disk, it stays there and goes on from there at the next call.

After an append the compiled ``Follower`` does all of it; it asks here for what is rare.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from contrailmq._native.store.follow import Follower
from contrailmq._native.store.index import IndexWriter
from contrailmq._native.store.queues import BLANK, Deriver, QueueWriter, TopicQueues
from contrailmq.errors import CorruptRecord, DiskFull
from contrailmq.protocol.names import SCHEDULE_TOPIC
from contrailmq.store.batch_queue import BatchQueues
from contrailmq.store.commit_log import CommitLog
from contrailmq.store.consume_queue import ConsumeQueues
from contrailmq.store.files import Segment
from contrailmq.store.index import Indexes
from contrailmq.store.lights import Lights, has_lights
from contrailmq.store.settings import StoreSettings

log = logging.getLogger(__name__)
UNKNOWN_DELAY_MS: Final = 1000
_EVERYTHING: Final = (1 << 63) - 1
Listener = Callable[[str, int, int], None]


def no_listener(topic: str, queue_id: int, max_offset: int) -> None:
    """Nobody waits."""


def no_bitmap(topic: str, record: bytes) -> bytes:
    """No filter is compiled: an empty bit map."""
    return b""


class Derivation:
    """Keeps queues and index in step with the log. Owned by the loop."""

    def __init__(
        self,
        settings: StoreSettings,
        log: CommitLog,
        *,
        queues: ConsumeQueues,
        batches: BatchQueues,
        indexes: Indexes | None,
    ) -> None:
        self._log = log
        self._queues = queues
        self._batches = batches
        self._has_lights = settings.has_lights
        self.lights = Lights(self._light)
        self.is_batch_topic: Callable[[str], bool] = batches.has_topic
        self._indexes = indexes
        self._delays = settings.delay_ms_by_level()
        self._level_max = max(self._delays, default=0)
        self.bitmap_of: Callable[[str, bytes], bytes] = no_bitmap
        self.unread: Callable[[], None] = lambda: None  # records were appended, not readable yet
        self.on_grown: Callable[[int], None] = lambda end: None  # the log, by a good stretch
        self.deriver = Deriver(self)
        self.deriver.has_ext = settings.queue_ext_enable
        self.follower = Follower(log.writer, log.gatherer, self.deriver, self)
        self.dirty: dict[QueueWriter, None] = self.follower.dirty
        self._passed_by: list[tuple[bytes, int]] | None = None

    @property
    def derived_offset(self) -> int:
        """Everything before this log offset is derived."""
        return self.follower.derived_offset

    @derived_offset.setter
    def derived_offset(self, offset: int) -> None:
        self.follower.derived_offset = offset

    @property
    def on_readable(self) -> Listener:
        """Who is told of queues that grew."""
        return self.follower.on_readable or no_listener

    @on_readable.setter
    def on_readable(self, listener: Listener) -> None:
        self.follower.on_readable = listener

    def start(self, offset: int) -> None:
        """Go on at a log offset; the index goes on in its last file."""
        self.derived_offset = offset
        if self._indexes is not None:
            last = self._indexes.last()
            self.deriver.index = last.writer if last is not None else self._no_room_yet()

    def run(self, end: int) -> None:
        """Derive everything before ``end``, then tell who waits, once for each queue."""
        try:
            self._derive(end)
        finally:
            self.follower.tell()

    @property
    def store_ms(self) -> int:
        """Store time of the last record derived."""
        return self.deriver.store_ms

    def forget(self, topic: str, queue_id: int) -> None:
        """A queue was removed: the next message makes a new one."""
        queue = self._queues.find(topic, queue_id) or self._batches.find(topic, queue_id)
        if queue is not None:
            self.dirty.pop(queue.writer, None)
        self.deriver.forget(topic.encode(), queue_id)

    def pass_by(self, unknown: bool) -> None:
        """Make no queue that is not there, or (False, again) one for every record met."""
        for topic, queue_id in self._passed_by or ():
            self.deriver.forget(topic, queue_id)
        self._passed_by = [] if unknown else None

    def _derive(self, end: int) -> None:
        segments = self._log.segments
        while self.derived_offset < end:
            base = segments.base_of(self.derived_offset)
            limit = min(end - base, segments.size)
            position = self.derived_offset - base
            try:
                if base == self.deriver.base:
                    reached = self.deriver.run_on(position, limit)
                else:
                    reached = self.deriver.run(self._segment(base).buffer, base, position, limit)
            except ValueError as error:
                place = base + self.deriver.position
                raise CorruptRecord(f"{error} at {place}", offset=place) from error
            except BaseException:
                self.derived_offset = base + self.deriver.position
                raise
            if self.deriver.ended == BLANK or segments.size - reached < 8:
                reached = segments.size
            if reached == position:
                break
            self.derived_offset = base + reached

    def _segment(self, base: int) -> Segment:
        segment = self._log.segments.find(base)
        if segment is None:
            raise CorruptRecord("a segment is missing", offset=self.derived_offset)
        return segment

    # What the compiled follower asks.

    def write_out(self) -> None:
        """A run of records is staged and too long to be copied into the mapping."""
        self._log.write_out()

    def derive(self, end: int) -> None:
        """The log has gone on in another segment, or derivation is behind."""
        try:
            self.run(end)
        except DiskFull as error:
            self.stumbled(error)

    def stumbled(self, error: BaseException) -> None:
        """Derivation could not go on behind an append."""
        if isinstance(error, ValueError):
            raise CorruptRecord(
                f"{error} at {self.derived_offset}", offset=self.derived_offset
            ) from error
        if not isinstance(error, DiskFull):
            raise error
        log.warning("a message is stored but not in its queue yet: error=%s", error)

    def grown(self, end: int) -> None:
        """The log has grown by a good stretch."""
        self.on_grown(end)

    # What the compiled deriver asks.

    def new_topic(self, topic: bytes) -> TopicQueues:
        """A topic the deriver meets for the first time."""
        entry = TopicQueues(topic, topic == SCHEDULE_TOPIC.encode())
        name = topic.decode("utf-8", "replace")
        entry.has_lights = self._has_lights and has_lights(name)
        entry.is_batch = self.is_batch_topic(name)
        return entry

    def find_queue(self, topic: bytes, queue_id: int) -> QueueWriter:
        """A queue the deriver meets for the first time."""
        name = topic.decode("utf-8", "replace")
        if self.is_batch_topic(name):
            return self._batches.get(name, queue_id).writer
        if self._passed_by is not None and self._queues.find(name, queue_id) is None:
            self._passed_by.append((topic, queue_id))
            return _nobody(topic, queue_id)
        return self._queues.get(name, queue_id).writer

    def light_queues(self, names: bytes, offsets: bytes) -> list[tuple[QueueWriter, int]]:
        """The light queues a record names, and its offsets there."""
        return self.lights.queues(names, offsets)

    def _light(self, name: str) -> QueueWriter:
        if self._passed_by is not None and self._queues.find(name, 0) is None:
            return _nobody(name.encode(), 0)
        return self._queues.get(name, 0).writer

    def delivery_code(self, delay: bytes, store_ms: int, code: int) -> int:
        """In the delay topic a unit holds the time of delivery in place of the tag code."""
        try:
            level = min(int(delay), self._level_max)
        except ValueError:
            return code
        if level <= 0:
            return code
        return store_ms + self._delays.get(level, UNKNOWN_DELAY_MS)

    def extend(self, queue: QueueWriter, code: int, store_ms: int, record: bytes) -> int:
        """Put the tag code and the filters' bit map into the extension; the address instead."""
        ext = queue.owner.ext
        if ext is None:
            return code
        address: int = ext.put(code, store_ms, self.bitmap_of(queue.owner.topic, record))
        return address

    def index_room(self, index: IndexWriter) -> IndexWriter | None:
        """The index file has no room for another entry, or none reserved."""
        return None if self._indexes is None else self._indexes.room(index)

    def _no_room_yet(self) -> IndexWriter:
        # No file before there is a key for it: this one refuses every entry, and asks for room.
        return IndexWriter(bytearray(44), 1, 0)


def _nobody(topic: bytes, queue_id: int) -> QueueWriter:
    """Return a queue that takes nothing."""
    nobody = QueueWriter(None, topic, queue_id)
    nobody.log_end = _EVERYTHING
    return nobody
