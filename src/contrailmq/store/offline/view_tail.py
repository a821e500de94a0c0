"""Queue units that a store directory should have and, on disk, does not have yet.

Queues are derived from the log.  A live broker's queues may be a moment behind it, a killed
broker's by what was not derived, a power cut's by whole pages.  ``LogTail`` derives what is
missing from the log itself, in memory, so that a reader sees what the broker will have after
recovery, without changing a byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contrailmq._native.store import scan
from contrailmq.protocol.ids import tags_code
from contrailmq.protocol.names import SCHEDULE_TOPIC
from contrailmq.protocol.properties import decode_properties
from contrailmq.store.layout import QUEUE_UNIT
from contrailmq.store.offline.view_log import LogView
from contrailmq.store.offline.view_queues import UNIT, BatchUnit
from contrailmq.store.settings import StoreSettings

TRANSACTION_MASK: Final = 0xC
TRANSACTION_COMMIT: Final = 0x8
INNER_BATCH: Final = 0x80
_UNKNOWN_DELAY_MS: Final = 1000
_LMQ_PREFIX: Final = "%LMQ%"


class TailQueue:
    """Consecutive units of one queue, from ``base`` on."""

    __slots__ = ("base", "units")

    def __init__(self, base: int) -> None:
        self.base = base
        self.units = bytearray()

    @property
    def end(self) -> int:
        """The queue offset after the last unit."""
        return self.base + len(self.units) // QUEUE_UNIT

    def put(self, queue_offset: int, unit: bytes) -> None:
        """Add a unit; one that is there already, or leaves a gap, shows a second life of it."""
        if queue_offset != self.end:
            if self.base <= queue_offset < self.end:
                del self.units[(queue_offset - self.base) * QUEUE_UNIT :]
            else:
                self.base, self.units = queue_offset, bytearray()
        self.units += unit


class LogTail:
    """Units derived from the log between two offsets, by topic and queue."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.count = 0
        self.queues: dict[tuple[str, int], TailQueue] = {}
        self.batches: dict[tuple[str, int], list[BatchUnit]] = {}
        self._delays_ms = StoreSettings().delay_ms_by_level()

    @classmethod
    def derive(cls, log: LogView, start: int, *, check_crc: bool) -> LogTail:
        """Walk the log from ``start`` to the end of its whole records."""
        tail = cls(start)
        for offset, record in log.records(start, check_crc=check_crc):
            tail.end = offset + len(record)
            tail.count += 1
            tail.add(offset, record)
        return tail

    def add(self, offset: int, record: memoryview) -> None:
        """Derive the units of one whole record."""
        facts = scan.fields(record, 0)
        size, queue_id, queue_offset, sys_flag, store_ms = facts[:5]
        if sys_flag & TRANSACTION_MASK not in (0, TRANSACTION_COMMIT):
            return  # prepared and rolled back records have no unit
        topic_at, topic_size, properties_at, properties_size = facts[7:11]
        topic = bytes(record[topic_at : topic_at + topic_size]).decode("utf-8", "replace")
        properties = decode_properties(record[properties_at : properties_at + properties_size])
        code = self._tags_code(topic, properties, store_ms)
        count = _number(properties.get("INNER_NUM"))
        if sys_flag & INNER_BATCH and count:
            unit = BatchUnit(offset, size, code, store_ms, queue_offset, count, -1, 0)
            self.batches.setdefault((topic, queue_id), []).append(unit)
            return
        unit_bytes = UNIT.pack(offset, size, code)
        self._queue(topic, queue_id, queue_offset).put(queue_offset, unit_bytes)
        names = properties.get("INNER_MULTI_DISPATCH", "").split(",")
        offsets = properties.get("INNER_MULTI_QUEUE_OFFSET", "").split(",")
        for name, text in zip(names, offsets, strict=False):
            place = _number(text)
            if name.startswith(_LMQ_PREFIX) and place is not None:
                self._queue(name, 0, place).put(place, unit_bytes)

    def _queue(self, topic: str, queue_id: int, queue_offset: int) -> TailQueue:
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            queue = self.queues[topic, queue_id] = TailQueue(queue_offset)
        return queue

    def _tags_code(self, topic: str, properties: Mapping[str, str], store_ms: int) -> int:
        if topic == SCHEDULE_TOPIC:
            level = _number(properties.get("DELAY"))
            if level:
                # The last level stands for all beyond it.
                level = min(level, max(self._delays_ms))
                return store_ms + self._delays_ms.get(level, _UNKNOWN_DELAY_MS)
        return tags_code(properties.get("TAGS"))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None
