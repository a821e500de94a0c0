"""Single records of a log that is not serving yet: what recovery asks about them."""

from __future__ import annotations

from contrailmq._native.store import scan
from contrailmq.protocol.properties import (
    PROPERTY_KEYS,
    PROPERTY_UNIQUE_KEY,
    decode_properties,
    split_keys,
)
from contrailmq.store.segments import Segments

_ROLLED_BACK = 0xC  # such records are not indexed


class LogRecords:
    """Records by their offset; anything that is no whole record is not there."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments

    def find(self, offset: int) -> memoryview | None:
        """The whole record at an offset."""
        segment = self._segments.find(offset) if offset >= 0 else None
        if segment is None:
            return None
        base = self._segments.base_of(offset)
        size = scan.check(segment.buffer, offset - base, segment.size, base, False)
        return segment.buffer[offset - base : offset - base + size] if size > 0 else None

    def is_border(self, offset: int) -> bool:
        """Whether a record, a blank record or nothing begins at an offset of the log."""
        segment = self._segments.find(offset)
        assert segment is not None
        base = self._segments.base_of(offset)
        size = scan.check(segment.buffer, offset - base, segment.size, base, False)
        return size > 0 or -size in (scan.BLANK, scan.EMPTY, scan.END)

    def store_ms(self, offset: int) -> int:
        """The store time of the record at an offset; 0 without one."""
        record = self.find(offset)
        return 0 if record is None else scan.store_time(record, 0)

    def key_count(self, offset: int) -> int:
        """How many entries the record at an offset has in the index; 0 without a record."""
        record = self.find(offset)
        return 0 if record is None else _key_count(record)

    def next_keyed(self, offset: int) -> int:
        """The first record behind an offset (-1: of all) that has a key; -1 without one."""
        record = self.find(offset)
        if offset < self._segments.first_offset:
            offset = self._segments.first_offset
        elif record is None:
            return -1
        else:
            offset += len(record)
        while (segment := self._segments.find(offset)) is not None:
            record = self.find(offset)
            if record is not None:
                if _key_count(record):
                    return offset
                offset += len(record)
                continue
            base = self._segments.base_of(offset)
            size = scan.check(segment.buffer, offset - base, segment.size, base, False)
            if -size not in (scan.BLANK, scan.END):
                return -1
            offset = base + segment.size
        return -1


def _key_count(record: memoryview) -> int:
    facts = scan.fields(record, 0)
    if facts[3] & _ROLLED_BACK == _ROLLED_BACK:
        return 0
    properties = decode_properties(record[facts[9] : facts[9] + facts[10]])
    keys = sum(1 for key in split_keys(properties.get(PROPERTY_KEYS, "")) if key)
    return keys + (PROPERTY_UNIQUE_KEY in properties)
