# cython: annotation_typing=False
# ruff: noqa: ERA001
"""Append records to the tail segment of the log.

``LogWriter`` holds a writable view of the tail segment.  ``append`` writes one record from its
parts, field by field as docs/store-format.md has them, and gives it its place: the position in
the log, the queue's next offset, the time of the writer's clock (``store_ms``, set by the caller
once per batch).  The parts come as views with a start and a size, so that a caller that has whole
requests in one buffer needs no object per message.  Every length is checked before a byte is
written; a record that does not fit leaves the segment as it was.

**Staging.**  A fresh page of a mapped file costs a fault, its zeroing and the file system's own
work for a page that becomes dirty; the same page written through the file costs an eighth of it.
So a writer that was given a ``spill`` appends to a stage of its own, which stays in the processor's
cache.  After each run of records the owner calls ``settle``: a short run is copied into the mapped
segment there and then; of a longer one ``settle`` tells the size, the owner writes ``staged()``
through the file and says ``settled()``.  Whoever reads the segment sees a run only then.  A stage
without room for the next record is emptied by ``spill()`` in the middle of a run.  Positions and
sizes are the segment's in both cases; ``start`` is the position the buffer begins at.

**Ready.**  Records and the blank record after the last one go before position ``ready``, which the
owner moves: beyond it the file has no blocks yet, and a copy into the mapping would end the process
on a full disk.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import inner, raw, record, system, text
from contrailmq._native.store import scan
from contrailmq._native.store.queues import QueueWriter

Bytes = bytes | bytearray | memoryview

_STAGE_SIZE = 524288  # more than the records of one socket read
_SHORT_RUN = 2048  # up to here a copy into the mapping is cheaper than a system call

# What append answers instead of a size.
NO_ROOM = 0
BAD_PROPERTIES = -1
BAD_SIZE = -2
BAD_BATCH = -3
BAD_BODY = -4


class Origin:
    """Where messages come from and go to: the two hosts of a record, the broker's properties.

    ``suffix`` is put behind the properties of every message: what the broker itself adds.
    """

    def __init__(self, born_host: bytes, store_host: bytes, suffix: bytes) -> None:
        for host in (born_host, store_host):
            if len(host) not in (record.HOST_SIZE, record.HOST_SIZE_V6):
                raise ValueError(f"host of {len(host)} bytes: expected 8 (IPv4) or 20 (IPv6)")
        self.born_host = born_host
        self.store_host = store_host
        self.born_size = len(born_host)
        self.store_size = len(store_host)
        self.suffix = suffix or bytes(1)
        self.suffix_size = len(suffix)
        self.born_host_address = raw.at_address(self.born_host)
        self.store_host_address = raw.at_address(self.store_host)
        self.suffix_address = raw.at_address(self.suffix)
        self.flags = 0
        if self.born_size == record.HOST_SIZE_V6:
            self.flags |= record.BORN_HOST_V6
        if self.store_size == record.HOST_SIZE_V6:
            self.flags |= record.STORE_HOST_V6


class LogWriter:
    """The write end of the log.

    A message has a body of at most ``body_size_max`` bytes, and so has a batch.
    """

    def __init__(self, record_size_max: int, body_size_max: int = 0x7FFFFFFF) -> None:
        self.record_size_max = record_size_max
        self.body_size_max = body_size_max
        self.stage = bytearray(1)
        self.spill: Any = None
        self.base = 0
        self.store_ms = 0
        self.batch_count = 0
        self._let_go()

    def attach(
        self, buffer: Bytes, base: int, position: int, spill: Any = None, file: Any = None
    ) -> None:
        """Go on at ``position`` of the segment that begins at log offset ``base``.

        With ``spill``, a function without arguments, records are staged (see above).  Long runs are
        written here where ``file`` has a ``descriptor``, else, and after an error, by ``spill``.
        """
        if position < 0 or position > len(buffer):
            raise ValueError("position outside the segment")
        self.segment = buffer
        self.segment_address = raw.at_address(self.segment)
        self.base = base
        self.position = position
        self.size = len(buffer)
        self.ready = self.size
        self.spill = spill
        self.file = file
        if spill is None:
            self.start = 0
            self._use(self.segment, self.size)
        else:
            if len(self.stage) < _STAGE_SIZE:
                self.stage = bytearray(_STAGE_SIZE)
            self.start = position
            self._use(self.stage, _STAGE_SIZE)

    def detach(self) -> None:
        """Let go of the segment; nothing fits until the next attach."""
        self.base += self.position
        self._let_go()

    def _let_go(self) -> None:
        self.segment = bytearray(1)
        self.segment_address = raw.at_address(self.segment)
        self.position = 0
        self.size = 0
        self.ready = 0
        self.start = 0
        self.spill = None
        self.file = None
        self._use(self.segment, 0)

    def _use(self, buffer: Bytes, room: int) -> None:
        """Put the next records here; its first byte is position ``start`` of the segment."""
        self.buffer = buffer
        self.address = raw.at_address(self.buffer)
        self.room = room

    def end_offset(self) -> int:
        """The log offset of the next record."""
        return self.base + self.position

    def settled_offset(self) -> int:
        """Up to which log offset the segment itself has everything."""
        return self.base + (self.position if self.spill is None else self.start)

    def settle(self) -> int:
        """Bring a short run into the segment; the size of one that has to be written instead."""
        if self.spill is None:
            return 0
        size = self.position - self.start
        if size > _SHORT_RUN:
            fd = -1 if self.file is None else self.file.descriptor
            if fd < 0 or system.write_at(fd, self.address, size, self.start) != size:
                return size
            self.settled()
            return 0
        raw.copy_bytes(self.segment_address, self.start, self.address, 0, size)
        self.start = self.position
        return 0

    def staged(self) -> memoryview:
        """What ``settle`` did not bring into the segment; it belongs at ``start``."""
        return memoryview(self.buffer)[: self.position - self.start]

    def settled(self) -> None:
        """What was staged has been written."""
        if self.spill is not None:
            self.start = self.position
            if self.room != _STAGE_SIZE:
                self._use(self.stage, _STAGE_SIZE)

    def taken(self, size: int) -> None:
        """Records of another log were written behind the end, through the file.

        Nothing may be staged.
        """
        if self.spill is not None and self.start != self.position:
            raise ValueError("records are staged")
        if size < 0 or size > self.size - self.position:
            raise ValueError("more than the segment has room for")
        self.position += size
        if self.spill is not None:
            self.start = self.position

    def _make_room(self, size: int) -> None:
        """Empty the stage; for a record that no stage holds, take one of its size this once."""
        self.spill()
        if self.start != self.position:
            raise AssertionError("the stage was not emptied")
        if size > self.room:
            self._use(bytearray(size), size)

    def close_segment(self) -> None:
        """Fill what is left with a blank record, so that readers go on in the next segment.

        Nothing may be staged.
        """
        if self.spill is not None and self.start != self.position:
            raise ValueError("records are staged")
        room = self.size - self.position
        if room >= record.START_SIZE:
            raw.put_u32(self.segment_address, self.position + record.SIZE_AT, room)
            raw.put_u32(self.segment_address, self.position + record.MAGIC_AT, record.MAGIC_BLANK)
        self.position = self.size
        self.start = 0 if self.spill is None else self.size

    def record_size(
        self, queue: QueueWriter, origin: Origin, body_size: int, properties_size: int
    ) -> int:
        """The size of a record with such parts."""
        return record.size_with(body_size, queue.topic_size, properties_size, origin.flags)

    def append(
        self,
        queue: QueueWriter,
        origin: Origin,
        bodies: Bytes,
        body: int,
        body_size: int,
        properties: Bytes,
        properties_at: int,
        properties_size: int,
        flag: int,
        sys_flag: int,
        born_ms: int,
        reconsume_times: int,
        prepared_offset: int,
    ) -> int:
        """Write one record; its size, or what is wrong (the constants above) with nothing written.

        The body is ``bodies[body:][:body_size]``, the properties
        ``properties[properties_at:][:properties_size]``, with the origin's suffix after them.
        """
        if body < 0 or body_size < 0 or body + body_size > len(bodies):
            raise ValueError("body outside its buffer")
        if (
            properties_at < 0
            or properties_size < 0
            or properties_at + properties_size > len(properties)
        ):
            raise ValueError("properties outside their buffer")
        return self.append_at(
            queue,
            origin,
            raw.at_address(bodies),
            body,
            body_size,
            raw.at_address(properties),
            properties_at,
            properties_size,
            flag,
            sys_flag,
            born_ms,
            reconsume_times,
            prepared_offset,
        )

    def append_at(
        self,
        queue: QueueWriter,
        origin: Origin,
        bodies: Any,
        body: int,
        body_size: int,
        properties: Any,
        properties_at: int,
        properties_size: int,
        flag: int,
        sys_flag: int,
        born_ms: int,
        reconsume_times: int,
        prepared_offset: int,
    ) -> int:
        """The same for callers that have checked the ranges of both parts themselves."""
        if body_size > self.body_size_max:
            return BAD_BODY
        separator = _separator(origin, properties, properties_at, properties_size)
        whole = properties_size + separator + origin.suffix_size
        if whole > record.PROPERTIES_SIZE_MAX:
            return BAD_PROPERTIES
        size = self.record_size(queue, origin, body_size, whole)
        if size > self.record_size_max:
            return BAD_SIZE
        if size + record.START_SIZE > self.ready - self.position:
            return NO_ROOM
        if size > self.room - (self.position - self.start):
            self._make_room(size)
        sys_flag = (sys_flag & ~(record.BORN_HOST_V6 | record.STORE_HOST_V6)) | origin.flags
        self._head(queue, origin, size, flag, sys_flag, born_ms)
        start = self.position - self.start
        at = start + record.moved(origin.flags)
        raw.put_u32(self.address, at + record.RECONSUME_TIMES_AT, reconsume_times)
        raw.put_i64(self.address, at + record.PREPARED_OFFSET_AT, prepared_offset)
        raw.put_u32(self.address, at + record.BODY_LENGTH_AT, body_size)
        at = self._copy(at + record.BODY_AT, bodies, body, body_size)
        checksum = 0
        if body_size:
            checksum = scan.crc32_at(bodies, body, body + body_size) & record.CRC_MASK
        raw.put_u32(self.address, start + record.BODY_CRC_AT, checksum)
        if record.topic_head(queue.topic_size) == 1:
            self.address[at] = queue.topic_size
        else:
            raw.put_u16(self.address, at, queue.topic_size)
        at += record.topic_head(queue.topic_size)
        at = self._copy(at, queue.topic_address, 0, queue.topic_size)
        raw.put_u16(self.address, at, whole)
        at += record.PROPERTIES_HEAD
        at = self._copy(at, properties, properties_at, properties_size)
        if separator:
            self.address[at] = text.VALUE_END
            at += 1
        at = self._copy(at, origin.suffix_address, 0, origin.suffix_size)
        if at != start + size:
            raise AssertionError("a record has another size than was reckoned")
        self.position += size
        if record.has_queue_offset(sys_flag):
            queue.next_offset += 1
        return size

    def _head(
        self,
        queue: QueueWriter,
        origin: Origin,
        size: int,
        flag: int,
        sys_flag: int,
        born_ms: int,
    ) -> None:
        """Write everything up to the store host, except the checksum."""
        at = self.position - self.start
        is_long = record.topic_head(queue.topic_size) == 2
        queue_offset = queue.next_offset if record.has_queue_offset(sys_flag) else 0
        times = at + record.store_ms_at(origin.flags)
        raw.put_u32(self.address, at + record.SIZE_AT, size)
        raw.put_u32(
            self.address, at + record.MAGIC_AT, record.MAGIC_V2 if is_long else record.MAGIC_V1
        )
        raw.put_u32(self.address, at + record.QUEUE_ID_AT, queue.queue_id)
        raw.put_u32(self.address, at + record.FLAG_AT, flag)
        raw.put_i64(self.address, at + record.QUEUE_OFFSET_AT, queue_offset)
        raw.put_i64(self.address, at + record.LOG_OFFSET_AT, self.base + self.position)
        raw.put_u32(self.address, at + record.SYS_FLAG_AT, sys_flag)
        raw.put_i64(self.address, at + record.BORN_MS_AT, born_ms)
        self._copy(at + record.BORN_HOST_AT, origin.born_host_address, 0, origin.born_size)
        raw.put_i64(self.address, times, self.store_ms)
        times += record.STORE_HOST_AT - record.STORE_MS_AT
        self._copy(times, origin.store_host_address, 0, origin.store_size)

    def _copy(self, at: int, source: Any, start: int, size: int) -> int:
        """Copy into the buffer; the place behind it. The caller has checked both ranges."""
        raw.copy_bytes(self.address, at, source, start, size)
        return at + size

    def append_batch(
        self,
        queue: QueueWriter,
        origin: Origin,
        batch: Bytes,
        start: int,
        end: int,
        sys_flag: int,
        born_ms: int,
        reconsume_times: int,
    ) -> int:
        """Write every message of a batch body as a record of its own, all or none.

        The answer is the number of records, NO_ROOM when they do not fit into this segment
        together, or what is wrong with the batch.
        """
        total = self.measure_batch(queue, origin, batch, start, end)
        if total <= 0:
            return total
        if not self.has_room(total):
            return NO_ROOM
        self.write_batch(
            queue, origin, raw.at_address(batch), start, end, sys_flag, born_ms, reconsume_times
        )
        return self.batch_count

    def has_room(self, size: int) -> bool:
        """Whether so many bytes of records fit before ``ready``."""
        return size + record.START_SIZE <= self.ready - self.position

    def write_batch(
        self,
        queue: QueueWriter,
        origin: Origin,
        batch: Any,
        start: int,
        end: int,
        sys_flag: int,
        born_ms: int,
        reconsume_times: int,
    ) -> None:
        """Write the records of a batch that was measured and has room."""
        at = start
        while at < end:
            body_size = raw.get_u32(batch, at + inner.BODY_LENGTH_AT)
            properties = at + inner.BODY_AT + body_size + inner.PROPERTIES_HEAD
            properties_size = raw.get_u16(batch, properties - inner.PROPERTIES_HEAD)
            self.append_at(
                queue,
                origin,
                batch,
                at + inner.BODY_AT,
                body_size,
                batch,
                properties,
                properties_size,
                raw.get_u32(batch, at + inner.FLAG_AT),
                sys_flag,
                born_ms,
                reconsume_times,
                0,
            )
            at = properties + properties_size

    def measure_batch(
        self, queue: QueueWriter, origin: Origin, batch: Bytes, start: int, end: int
    ) -> int:
        """Bytes a batch will take in the log, or what is wrong with it; nothing is written.

        ``batch_count`` is then the number of its messages.
        """
        self.batch_count = 0
        if start < 0 or end > len(batch) or start >= end:
            return BAD_BATCH
        if end - start > self.body_size_max:
            return BAD_BODY
        address = raw.at_address(batch)
        total = 0
        at = start
        while at < end:
            if end - at < inner.SIZE_MIN:
                return BAD_BATCH
            body_size = raw.get_u32(address, at + inner.BODY_LENGTH_AT)
            if body_size > end - at - inner.SIZE_MIN:
                return BAD_BATCH
            properties = at + inner.SIZE_MIN + body_size
            properties_size = raw.get_u16(address, properties - inner.PROPERTIES_HEAD)
            if properties_size > end - properties:
                return BAD_BATCH
            inner_size = inner.SIZE_MIN + body_size + properties_size
            if raw.get_u32(address, at + inner.SIZE_AT) != inner_size:
                return BAD_BATCH
            whole = properties_size + origin.suffix_size
            whole += _separator(origin, address, properties, properties_size)
            if whole > record.PROPERTIES_SIZE_MAX:
                return BAD_PROPERTIES
            size = self.record_size(queue, origin, body_size, whole)
            if size > self.record_size_max:
                return BAD_SIZE
            total += size
            self.batch_count += 1
            at += inner_size
        return total

    def inner_record_size(self, queue: QueueWriter, origin: Origin, batch: Any, at: int) -> int:
        """The size of the record of one message of a batch that was measured."""
        body_size = raw.get_u32(batch, at + inner.BODY_LENGTH_AT)
        properties = at + inner.SIZE_MIN + body_size
        properties_size = raw.get_u16(batch, properties - inner.PROPERTIES_HEAD)
        whole = properties_size + origin.suffix_size
        whole += _separator(origin, batch, properties, properties_size)
        return self.record_size(queue, origin, body_size, whole)

    def batch_offsets(
        self,
        queue: QueueWriter,
        origin: Origin,
        batch: Bytes,
        start: int,
        end: int,
        offset: int,
    ) -> list[int]:
        """Log offsets of the records of a batch that was measured and begins at ``offset``."""
        if start < 0 or end > len(batch):
            raise ValueError("batch outside its buffer")
        address = raw.at_address(batch)
        found: list[int] = []
        at = start
        while at < end:
            found.append(offset)
            offset += self.inner_record_size(queue, origin, address, at)
            at += raw.get_u32(address, at + inner.SIZE_AT)
        return found


def _separator(origin: Origin, properties: Any, at: int, size: int) -> int:
    """Return 1 if a separator is missing between properties and the origin's suffix, else 0."""
    if origin.suffix_size == 0 or size == 0:
        return 0
    return 0 if properties[at + size - 1] == text.VALUE_END else 1
