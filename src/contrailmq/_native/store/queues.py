# cython: annotation_typing=False
# ruff: noqa: ERA001
"""Derive consume-queue units and index entries from the log's own bytes.

``Deriver.run`` walks the records of a stretch of the log.  For each it finds the queue (topic and
queue id, through a table that a call into Python fills for new ones), writes a unit of 20 bytes
(log offset, size, tag code) into the queue's tail file and puts the hashes of the message's keys
into the index.  After an append and during recovery it is the same code, so there is one truth
about what a record means.

What a record carries twice is never stored twice: a unit is written only at the place the record
itself names (its queue offset) and only when the record lies behind everything the queue has.

The rare steps are calls of the owner's Python methods: a queue that is not known
(``host.find_queue``), a tail file with no room (``owner.make_room``), a place ahead of the queue's
end (``owner.skip_to``), a topic that was deleted and made again (``owner.start_again``), an index
file without room (``host.index_room``), the extension (``host.extend``).  Any of them may raise;
the record is then derived again at the next run.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import hashing, raw, record, text, unit
from contrailmq._native.store.index import IndexWriter, key_hash

Bytes = bytes | bytearray | memoryview

# What ended a run.
LIMIT = 0
BLANK = 1
_LIMIT = 0
_BLANK = 1


class QueueWriter:
    """The end of one consume queue: where the next unit goes, which offset a new message gets."""

    def __init__(self, owner: Any, topic: bytes, queue_id: int) -> None:
        self.owner = owner
        self.topic = topic
        self.topic_view = topic or bytes(1)
        self.topic_address = raw.at_address(self.topic_view)
        self.topic_size = len(topic)
        self.queue_id = queue_id
        self.next_offset = 0  # of the next message put into the log
        self.max_offset = 0  # of the next unit derived
        self.log_end = 0  # end of the last record derived
        self.floor = 0  # queue offset of the first unit there can be; recovery sets it
        self.is_floorless = False  # a record was met that belongs below the floor
        self.buffer = bytearray(1)
        self.address = raw.at_address(self.buffer)
        self.position = 0
        self.limit = 0
        self.batch = 0

    def attach(self, buffer: Bytes, position: int, limit: int) -> None:
        """Go on at ``position`` of this file, at most up to ``limit``."""
        if position < 0 or limit > len(buffer):
            raise ValueError("queue file is too short")
        self.buffer = buffer  # type: ignore[assignment]
        self.address = raw.at_address(self.buffer)
        self.position = position
        self.limit = limit

    def detach(self) -> None:
        """Let go of the file; the next unit asks the owner for room."""
        self.buffer = bytearray(1)
        self.address = raw.at_address(self.buffer)
        self.position = 0
        self.limit = 0

    def put(self, log_offset: int, size: int, code: int) -> None:
        """Write the next unit."""
        if self.limit - self.position < unit.SIZE:
            self.owner.make_room(self)
            if self.limit - self.position < unit.SIZE:
                raise ValueError("queue file has no room")
        at = self.position
        raw.put_i64(self.address, at + unit.LOG_OFFSET_AT, log_offset)
        raw.put_u32(self.address, at + unit.RECORD_SIZE_AT, size)
        raw.put_i64(self.address, at + unit.CODE_AT, code)
        self.position = at + unit.SIZE
        self.max_offset += 1
        self.log_end = log_offset + size
        self.next_offset = max(self.next_offset, self.max_offset)


class TopicQueues:
    """The queues of one topic, and what derivation needs to know of the topic."""

    def __init__(self, topic: bytes, is_schedule: bool) -> None:
        self.topic = topic
        self.topic_view = topic or bytes(1)
        self.topic_address = raw.at_address(self.topic_view)
        self.topic_size = len(topic)
        self.is_schedule = is_schedule
        self.has_lights = False  # its messages may be in light queues too
        self.is_batch = False  # its queues are batch queues
        self.hash_start = hashing.java_hash(topic + b"#", 0, len(topic) + 1, 0)
        self.queues: dict[int, QueueWriter] = {}
        self.last: QueueWriter | None = None  # a batch goes to one queue


class Deriver:
    """Walks the log and keeps queues and index in step with it."""

    def __init__(self, host: Any) -> None:
        self.host = host
        self.topics: dict[bytes, TopicQueues] = {}
        self.touched: list[QueueWriter] = []
        self.index: IndexWriter | None = None
        self.has_ext = False
        self.takes_parts = False
        self.batch = 1
        self.store_ms = 0
        self.count = 0
        self.ended = 0
        self.data: Bytes = bytes(1)
        self.data_size = 1
        self.address = raw.at_address(self.data)
        self.base = -1  # of the segment looked at last
        self.position = 0  # behind the last record derived, also when a run failed
        self._last = TopicQueues(b"", False)
        self.tags = 0
        self.tags_size = -1
        self.keys = 0
        self.keys_size = -1
        self.unique = 0
        self.unique_size = -1
        self.delay = 0
        self.delay_size = -1

    def take_touched(self) -> list[QueueWriter]:
        """The queues that got units since the last call, each once, in the order of their first."""
        touched = self.touched
        if touched:
            self.touched = []
            self.batch += 1
        return touched

    def detach(self) -> None:
        """Let go of the segment looked at last, and of the index."""
        self.data = bytes(1)
        self.data_size = 1
        self.address = raw.at_address(self.data)
        self.base = -1
        self.index = None

    def forget(self, topic: bytes, queue_id: int) -> None:
        """Know a queue no more: the next record of it asks the host."""
        entry = self.topics.get(topic)
        if entry is not None:
            entry.queues.pop(queue_id, None)
            entry.last = None

    def forget_topic(self, topic: bytes) -> None:
        """Know a topic no more: its next life may have queues of another kind."""
        if self.topics.pop(topic, None) is self._last:
            self._last = TopicQueues(b"", False)

    def find(self, topic: bytes, queue_id: int) -> QueueWriter:
        """The queue of a topic, from the table or from the host."""
        entry = self.topics.get(topic)
        if entry is None:
            entry = self.host.new_topic(topic)
            self.topics[topic] = entry
        queue = entry.queues.get(queue_id)
        if queue is None:
            queue = self.host.find_queue(topic, queue_id)
            entry.queues[queue_id] = queue
        return queue

    def run(self, data: Bytes, base: int, position: int, limit: int) -> int:
        """Derive the records of ``data[position:limit]``; the position reached.

        ``base`` is the log offset of ``data[0]``.  It stops at ``limit`` or behind a blank record
        (``ended`` says which); anything that is no record there is an error, for the log was
        written, or checked, by us.  With ``takes_parts`` it also stops at a record that reaches
        over the limit: the log of a replica grows by pieces that end anywhere.
        """
        if position < 0 or limit > len(data):
            raise ValueError("derive: range outside the view")
        self.data = data
        self.data_size = len(data)
        self.address = raw.at_address(self.data)
        self.base = base
        return self.run_on(position, limit)

    def run_on(self, position: int, limit: int) -> int:
        """The same in the segment of the last ``run``; it is still held."""
        if position < 0 or limit > self.data_size:
            raise ValueError("derive: range outside the view")
        self.ended = _LIMIT
        address = self.address
        self.position = position
        while limit - position >= record.START_SIZE:
            size = record.size_of(address, position)
            magic = record.magic(address, position)
            if magic == record.MAGIC_BLANK:
                self.ended = _BLANK
                return position + size
            if not record.is_record(magic) or size < record.SIZE_MIN:
                raise ValueError(f"derive: not a record at {position}")
            if size > limit - position:
                if self.takes_parts and size <= self.data_size - position:
                    return position  # the rest of it is on its way
                raise ValueError(
                    f"derive: record of {size} bytes at {position} extends beyond {limit}"
                )
            self._derive(position, size)
            position += size
            self.position = position
            self.count += 1
        return position

    def _derive(self, position: int, size: int) -> None:
        """Derive one record."""
        spans = record.locate(self.address, position, size)
        if spans.size <= 0:
            raise ValueError(f"derive: the lengths of the record at {position} do not add up")
        sys_flag = record.sys_flag(self.address, position)
        store_ms = record.store_ms(self.address, position)
        entry = self._topic(spans.topic, spans.topic_size)
        self._scan_properties(spans.properties, spans.end)
        if record.has_queue_offset(sys_flag):
            if entry.is_batch:
                self._put_batch_unit(position, size, entry, store_ms)
            elif not sys_flag & record.INNER_BATCH:
                self._put_unit(position, size, entry, store_ms)
            if entry.has_lights:
                self._put_lights(position, size, spans.properties, spans.end)
        self.store_ms = store_ms
        transaction = sys_flag & record.TRANSACTION_MASK
        if self.index is not None and transaction != record.TRANSACTION_ROLLBACK:
            if self.unique_size > 0 or self.keys_size > 0:
                self._put_keys(self.base + position, entry.hash_start, store_ms)

    def _topic(self, at: int, size: int) -> TopicQueues:
        last = self._last
        if last.topic_size == size:
            if raw.same_bytes(self.address, at, last.topic_address, 0, size):
                return last
        topic = bytes(self.data[at : at + size])
        entry = self.topics.get(topic)
        if entry is None:
            entry = self.host.new_topic(topic)
            self.topics[topic] = entry
        self._last = entry
        return entry

    def _scan_properties(self, at: int, end: int) -> None:
        """Find the values derivation needs; of a name that occurs twice the last one counts."""
        self.tags_size = -1
        self.keys_size = -1
        self.unique_size = -1
        self.delay_size = -1
        data = self.address
        while at < end:
            pair = text.pair_at(data, at, end)
            if pair.value_size > 0:
                if text.is_word(data, at, pair.name_size, b"UNIQ_KEY"):
                    self.unique = pair.value
                    self.unique_size = pair.value_size
                elif text.is_word(data, at, pair.name_size, b"TAGS"):
                    self.tags = pair.value
                    self.tags_size = pair.value_size
                elif text.is_word(data, at, pair.name_size, b"KEYS"):
                    self.keys = pair.value
                    self.keys_size = pair.value_size
                elif text.is_word(data, at, pair.name_size, b"DELAY"):
                    self.delay = pair.value
                    self.delay_size = pair.value_size
            at = pair.end + 1

    def _queue(self, entry: TopicQueues, queue_id: int) -> QueueWriter:
        queue = entry.last
        if queue is None or queue.queue_id != queue_id:
            queue = entry.queues.get(queue_id)
            if queue is None:
                queue = self.host.find_queue(entry.topic, queue_id)
                entry.queues[queue_id] = queue
            entry.last = queue
        return queue

    def _is_next(self, queue: QueueWriter, queue_offset: int, log_end: int) -> bool:
        """Whether a record that ends there is the queue's next; the queue is made to expect it."""
        if log_end <= queue.log_end:
            if queue_offset < queue.floor:
                queue.is_floorless = True
            return False
        if queue_offset != queue.max_offset:
            if queue_offset > queue.max_offset:
                queue.owner.skip_to(queue, queue_offset)
            elif queue_offset == 0:
                queue.owner.start_again(queue)
            else:
                return False
        return True

    def _put_unit(self, position: int, size: int, entry: TopicQueues, store_ms: int) -> int:
        queue = self._queue(entry, record.queue_id(self.address, position))
        offset = self.base + position
        if not self._is_next(queue, record.queue_offset(self.address, position), offset + size):
            return 0
        code = self._code()
        if entry.is_schedule and self.delay_size > 0:
            code = self.host.delivery_code(
                bytes(self.data[self.delay : self.delay + self.delay_size]), store_ms, code
            )
        if self.has_ext:
            code = self.host.extend(
                queue, code, store_ms, bytes(self.data[position : position + size])
            )
        queue.put(offset, size, code)
        self._touch(queue)
        return 0

    def _code(self) -> int:
        """Return the tag code of the record just scanned."""
        if self.tags_size <= 0:
            return 0
        return hashing.as_int(
            hashing.hash_at(self.address, self.tags, self.tags + self.tags_size, 0)
        )

    def _touch(self, queue: QueueWriter) -> int:
        if queue.batch != self.batch:
            queue.batch = self.batch
            self.touched.append(queue)
        return 0

    def _put_lights(self, position: int, size: int, at: int, end: int) -> int:
        """Put the record into the light queues that its properties name, each at its offset.

        The host reads the two lists; what makes no sense in them is passed over.
        """
        names = offsets = 0
        names_size = offsets_size = 0
        data = self.address
        while at < end:
            pair = text.pair_at(data, at, end)
            if pair.value_size > 0:
                if text.is_word(data, at, pair.name_size, b"INNER_MULTI_DISPATCH"):
                    names = pair.value
                    names_size = pair.value_size
                elif text.is_word(data, at, pair.name_size, b"INNER_MULTI_QUEUE_OFFSET"):
                    offsets = pair.value
                    offsets_size = pair.value_size
            at = pair.end + 1
        if names_size == 0 or offsets_size == 0:
            return 0
        offset = self.base + position
        code = self._code()
        for queue, queue_offset in self.host.light_queues(
            bytes(self.data[names : names + names_size]),
            bytes(self.data[offsets : offsets + offsets_size]),
        ):
            self._put_light(queue, queue_offset, offset, size, code)
        return 0

    def _put_light(
        self, queue: QueueWriter, queue_offset: int, offset: int, size: int, code: int
    ) -> int:
        if not self._is_next(queue, queue_offset, offset + size):
            return 0
        queue.put(offset, size, code)
        self._touch(queue)
        return 0

    def _put_batch_unit(self, position: int, size: int, entry: TopicQueues, store_ms: int) -> int:
        """Put a record into a batch queue, whose owner writes the unit."""
        queue = self._queue(entry, record.queue_id(self.address, position))
        offset = self.base + position
        if offset + size <= queue.log_end:
            return 0
        found = record.locate(self.address, position, size)
        if queue.owner.put_unit(
            (offset, size, self._code(), store_ms),
            record.queue_offset(self.address, position),
            record.sys_flag(self.address, position),
            bytes(self.data[found.properties : found.end]),
        ):
            self._touch(queue)
        return 0

    def _put_keys(self, offset: int, hash_start: int, store_ms: int) -> int:
        index = self.index
        if index is None or offset < index.end_offset:
            return 0
        if offset == index.end_offset and (index.count > 1 or offset > 0):
            return 0  # derived before; only an index with nothing in it also ends at 0
        if self.unique_size > 0:
            end = self.unique + self.unique_size
            self._put_key(
                hashing.hash_at(self.address, self.unique, end, hash_start), offset, store_ms
            )
        if self.keys_size <= 0:
            return 0
        at = self.keys
        end = at + self.keys_size
        while at < end:
            stop = at
            while stop < end and self.address[stop] != ord(" "):
                stop += 1
            if stop > at:
                self._put_key(hashing.hash_at(self.address, at, stop, hash_start), offset, store_ms)
            at = stop + 1
        return 0

    def _put_key(self, value: int, offset: int, store_ms: int) -> int:
        index = self.index
        if index is None or index.put(key_hash(value), offset, store_ms):
            return 0
        self.index = self.host.index_room(index)
        index = self.index
        if index is not None:
            index.put(key_hash(value), offset, store_ms)
        return 0
