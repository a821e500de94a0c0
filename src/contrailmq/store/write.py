"""Putting messages into the log.

Every limit is checked before a byte is written.  When an append returns, the record is in the
page cache (or the write buffer) and has its place; without synchronous flush and write buffer it
has also been derived and can be read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

from contrailmq._native.store.log import (
    BAD_BATCH,
    BAD_BODY,
    BAD_PROPERTIES,
    BAD_SIZE,
    NO_ROOM,
    LogWriter,
    Origin,
)
from contrailmq._native.store.queues import QueueWriter
from contrailmq.clock import Clock
from contrailmq.errors import MessageTooLarge, StoreRefusal
from contrailmq.protocol.properties import PROPERTY_INNER_BASE
from contrailmq.store.commit_log import CommitLog
from contrailmq.store.derive import Derivation
from contrailmq.store.settings import StoreSettings
from contrailmq.store.types import Appended, BatchAppended, NewMessage

TOPIC_V1_MAX: Final = 127
TOPIC_V2_MAX: Final = 255
PROPERTIES_MAX: Final = 32767
QUEUE_ID_MAX: Final = 0x7FFFFFFF
_ORIGINS_MAX: Final = 1024
_TRAN_MASK: Final = 0xC


class Writing:
    """The append side of a store. Owned by the loop; nothing here blocks or awaits."""

    def __init__(
        self,
        settings: StoreSettings,
        commit_log: CommitLog,
        derivation: Derivation,
        *,
        clock: Clock,
    ) -> None:
        self.settings = settings
        self._log = commit_log
        self._derivation = derivation
        self._clock = clock
        self._writer: LogWriter = commit_log.writer
        self._origins: dict[tuple[bytes, bytes, bytes], Origin] = {}
        self.on_roll: Callable[[], None] = commit_log.roll

    def set(self, settings: StoreSettings) -> None:
        """Use other limits from now on."""
        self.settings = settings
        self._writer.record_size_max = settings.record_size_max
        self._writer.body_size_max = settings.message_size_max

    def put(self, message: NewMessage) -> Appended:
        """Append one message."""
        lights: list[QueueWriter] = []
        if self.settings.has_lights:
            message, lights = self._derivation.lights.numbered(message)
        queue = self.queue(message.topic, message.queue_id)
        body_size = len(message.body)
        writer = self._writer
        origin = self.origin(message.born_host, message.store_host, message.suffix)
        is_counted = message.sys_flag & _TRAN_MASK not in (0x4, 0xC)
        queue_offset = queue.next_offset if is_counted else 0
        for _ in range(3):  # the tail gets more blocks, or the log goes on in the next segment
            writer.store_ms = self._clock.now_ms()
            size = writer.append(
                queue,
                origin,
                message.body or b"\0",
                0,
                body_size,
                message.properties or b"\0",
                0,
                len(message.properties),
                message.flag,
                message.sys_flag,
                message.born_ms,
                message.reconsume_times,
                message.prepared_offset,
            )
            if size != NO_ROOM:
                break
            self.on_roll()
        if size <= 0:
            self._refuse(size, len(message.properties) + len(message.suffix), body_size)
        for light in lights:
            light.next_offset += 1
        end = writer.end_offset()
        return Appended(end - size, end, queue_offset, writer.store_ms, size)

    def put_whole(self, message: NewMessage, count: int) -> Appended:
        """Append a batch as one record of a batch queue; ``message.body`` has ``count`` messages.

        The properties get INNER_BASE, the queue offset of the first.
        """
        queue = self.queue(message.topic, message.queue_id)
        base = f"{PROPERTY_INNER_BASE}\x01{queue.next_offset}\x02".encode()
        appended = self.put(dataclasses.replace(message, properties=base + message.properties))
        queue.next_offset += count - 1
        return appended

    def put_batch(
        self, message: NewMessage, inner: bytes | bytearray | memoryview
    ) -> BatchAppended:
        """Append every message of a batch body, in one piece; ``message.body`` is not looked at.

        ``message.properties``, if any, is put behind the properties of each.
        """
        if message.sys_flag & _TRAN_MASK:
            raise StoreRefusal("a batch cannot be part of a transaction")
        queue = self.queue(message.topic, message.queue_id)
        origin = self.origin(message.born_host, message.store_host, message.properties)
        writer = self._writer
        queue_offset = queue.next_offset
        total = writer.measure_batch(queue, origin, inner or b"\0", 0, len(inner))
        if total <= 0:
            self._refuse(total, len(message.properties), len(inner))
        if total + 8 > self._log.segments.size:
            raise MessageTooLarge(
                f"batch of {total} bytes in the log, at most {self._log.segments.size - 8}"
            )
        while total + 8 > writer.ready - writer.position:
            self.on_roll()
        writer.store_ms = self._clock.now_ms()
        first = writer.end_offset()
        count = writer.append_batch(
            queue,
            origin,
            inner,
            0,
            len(inner),
            message.sys_flag,
            message.born_ms,
            message.reconsume_times,
        )
        if count <= 0:
            self._refuse(count, len(message.properties), len(inner))
        offsets = writer.batch_offsets(queue, origin, inner, 0, len(inner), first)
        return BatchAppended(offsets, writer.end_offset(), queue_offset, writer.store_ms)

    def queue(self, topic: str, queue_id: int) -> QueueWriter:
        """The queue a message goes to; its next offset is the message's."""
        if not 0 <= queue_id <= QUEUE_ID_MAX:
            raise StoreRefusal(f"queue id {queue_id}")
        name = topic.encode()
        longest = TOPIC_V2_MAX if self.settings.long_topics else TOPIC_V1_MAX
        if not 0 < len(name) <= longest:
            raise StoreRefusal(f"topic name of {len(name)} bytes, at most {longest}")
        if "/" in topic or topic in (".", "..") or "\0" in topic:
            raise StoreRefusal(f"topic name {topic!r} cannot be a folder's name")
        return self._derivation.deriver.find(name, queue_id)

    def origin(self, born_host: bytes, store_host: bytes, suffix: bytes) -> Origin:
        """The hosts of a record, and what is put behind its properties; kept for the next."""
        key = (born_host, store_host, suffix)
        found = self._origins.get(key)
        if found is None:
            if len(self._origins) >= _ORIGINS_MAX:
                self._origins.clear()  # a cache: the busy ones are back at once
            if len(born_host) not in (8, 20) or len(store_host) not in (8, 20):
                raise StoreRefusal("a host has 8 or 20 bytes")
            found = self._origins[key] = Origin(born_host, store_host, suffix)
        return found

    def _refuse(self, reason: int, properties_size: int, body_size: int) -> None:
        if reason == BAD_PROPERTIES:
            raise StoreRefusal(
                f"properties of {properties_size} bytes, at most {PROPERTIES_MAX} together"
            )
        if reason == BAD_BODY:
            raise MessageTooLarge(
                f"body of {body_size} bytes, at most {self.settings.message_size_max}"
            )
        if reason == BAD_SIZE:
            raise MessageTooLarge(
                f"a record with a body of {body_size} bytes, "
                f"at most {self.settings.record_size_max} in all"
            )
        if reason == BAD_BATCH:
            raise StoreRefusal("the batch's lengths do not add up")
        assert reason == NO_ROOM
        raise MessageTooLarge(f"a record with a body of {body_size} bytes fits no segment")
