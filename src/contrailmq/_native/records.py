"""Loops over stored records and property strings: scan, decode, hash, find.

A record is 88 bytes with IPv4 hosts (12 more for each IPv6 host), then body, topic with a 1-byte
(first magic) or 2-byte length (second magic), properties with a 2-byte length; its first word is
the size of all of it.  Every length is checked against the record's own end, and that against the
end of the buffer, before a byte behind it is read: compiled code does not check by itself.

Nothing here knows an error class of ours: a function answers with a reason (``REASONS``) and the
position of the damage, or raises ``RecordDamage`` with both.

Names with an underscore are C constants and C functions in the compiled build.
"""

from __future__ import annotations

import zlib
from typing import Any

_MAGIC_V1 = 0xDAA320A7
_MAGIC_V2 = 0xDAA320AB
_BLANK_MAGIC = 0xCBD43194
_RECORD_SIZE_MIN = 91
_BODY_LENGTH_AT = 84
_WRAP = 0x100000000
_MASK = 0xFFFFFFFF

_END = 0
_FULL = 1
_BLANK = 2
_SHORT = 3
_SIZE = 4
_MAGIC = 5
_LENGTHS = 6
_CRC = 7
_ZERO = 8

STOP_END = 0
STOP_FULL = 1
STOP_BLANK = 2
STOP_SHORT = 3
STOP_SIZE = 4
STOP_MAGIC = 5
STOP_LENGTHS = 6
STOP_CRC = 7
STOP_ZERO = 8

REASONS = (
    "the end of the bytes",
    "no more room for positions",
    "a blank record",
    "the bytes end within a record",
    "the size of a record is impossible",
    "no record begins here",
    "the lengths of body, topic and properties do not make up the record",
    "the body does not have its checksum",
    "nothing was written here",
)


class RecordDamage(ValueError):
    """Bytes that are no record: ``position`` says where, ``reason`` is one of the stops."""

    def __init__(self, reason: int, position: int) -> None:
        super().__init__(f"{REASONS[reason]}, at {position}")
        self.reason = reason
        self.position = position


class RecordFields:
    """The fields of one decoded record; ``protocol.message.Record`` adds what follows from them."""

    __slots__ = (
        "body",
        "body_crc",
        "born_host_bytes",
        "born_ms",
        "commit_log_offset",
        "flag",
        "lazy_properties",
        "prepared_transaction_offset",
        "properties_bytes",
        "queue_id",
        "queue_offset",
        "reconsume_times",
        "store_host_bytes",
        "store_ms",
        "store_size",
        "sys_flag",
        "topic",
    )

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    store_size: int
    sys_flag: int
    flag: int
    born_ms: int
    born_host_bytes: bytes
    store_ms: int
    store_host_bytes: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    body_crc: int
    properties_bytes: bytes
    lazy_properties: dict[str, str] | None


def _u32(data: Any, at: int) -> int:
    first = data[at]
    return (first << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3]  # type: ignore[no-any-return]


def _i32(data: Any, at: int) -> int:
    value = _u32(data, at)
    return value - _WRAP if value > 0x7FFFFFFF else value


def _i64(data: Any, at: int) -> int:
    high = _i32(data, at)
    low = _u32(data, at + 4)
    return (high << 32) | low


def _check(data: Any, at: int, end: int) -> int:
    left = end - at
    if left < 8:
        return _SHORT
    size = _u32(data, at)
    magic = _u32(data, at + 4)
    if magic == _BLANK_MAGIC:
        return _BLANK
    if magic != _MAGIC_V1 and magic != _MAGIC_V2:
        return _ZERO if size == 0 and magic == 0 else _MAGIC
    if size < _RECORD_SIZE_MIN or size > 0x7FFFFFFF:
        return _SIZE
    if size > left:
        return _SHORT
    return _check_lengths(data, at, at + size)


def _body_length_at(data: Any, at: int) -> int:
    place = at + _BODY_LENGTH_AT
    flags = data[at + 39]
    if flags & 0x10:
        place += 12
    if flags & 0x20:
        place += 12
    return place


def _check_lengths(data: Any, at: int, end: int) -> int:
    place = _body_length_at(data, at) + 4
    if place + 3 > end:
        return _LENGTHS
    length = _u32(data, place - 4)
    if length > end - place:
        return _LENGTHS
    place += length
    if data[at + 7] == 0xA7:
        if place + 1 > end:
            return _LENGTHS
        length = data[place]
        place += 1
    else:
        if place + 2 > end:
            return _LENGTHS
        length = (data[place] << 8) | data[place + 1]
        place += 2
    if length > end - place:
        return _LENGTHS
    place += length
    if place + 2 > end:
        return _LENGTHS
    length = (data[place] << 8) | data[place + 1]
    return _END if place + 2 + length == end else _LENGTHS


def check_record(data: Any, at: int, end: int) -> int:
    """Why the bytes from ``at`` do not begin with a whole record; STOP_END when they do."""
    if at < 0 or end > len(data) or at > end:
        raise ValueError(f"record at {at} before {end} in {len(data)} bytes")
    return _check(data, at, end)


def scan_records(data: Any, start: int, end: int, positions: Any) -> tuple[int, int, int]:
    """Find the back-to-back records of ``data`` between two positions.

    ``positions`` is a writable buffer of 64-bit integers (``array("q")``).  Answers how many of
    its places were filled, where the scan stopped, and why (a ``STOP_`` value).
    """
    if start < 0 or end > len(data) or start > end:
        raise ValueError(f"scan of {start} to {end} in {len(data)} bytes")
    room = len(positions)
    count = 0
    at = start
    reason = _END
    while at < end:
        reason = _check(data, at, end)
        if reason != _END:
            break
        if count == room:
            reason = _FULL
            break
        positions[count] = at
        count += 1
        at += _u32(data, at)
    return count, at, reason


def decode_records(data: bytes, make: Any, limit: int, check_crc: bool) -> list[Any]:
    """Decode back-to-back records, at most ``limit``; ``make`` is a subclass of RecordFields.

    Raises RecordDamage where the bytes are no record; a blank record counts as damage.
    """
    result: list[Any] = []
    view = data
    end = len(data)
    at = 0
    previous = None
    while at < end and len(result) < limit:
        reason = _check(view, at, end)
        if reason != _END:
            raise RecordDamage(reason, at)
        record = make()
        _fill_numbers(view, at, record)
        _fill_bytes(data, view, at, record, previous)
        if check_crc and zlib.crc32(record.body) & 0x7FFFFFFF != record.body_crc:
            raise RecordDamage(_CRC, at)
        result.append(record)
        previous = record
        at += record.store_size
    return result


def _fill_numbers(view: Any, at: int, record: Any) -> None:
    record.store_size = _i32(view, at)
    record.body_crc = _i32(view, at + 8)
    record.queue_id = _i32(view, at + 12)
    record.flag = _i32(view, at + 16)
    record.queue_offset = _i64(view, at + 20)
    record.commit_log_offset = _i64(view, at + 28)
    record.sys_flag = _i32(view, at + 36)
    record.born_ms = _i64(view, at + 40)
    place = at + 56
    if view[at + 39] & 0x10:
        place += 12
    record.store_ms = _i64(view, place)
    place += 16
    if view[at + 39] & 0x20:
        place += 12
    record.reconsume_times = _i32(view, place)
    record.prepared_transaction_offset = _i64(view, place + 4)


def _fill_bytes(data: bytes, view: Any, at: int, record: Any, previous: Any) -> int:
    # Neighbours mostly share their topic and hosts: those are made once, and compared.
    raw = data
    place = at + 48
    size = 20 if view[at + 39] & 0x10 else 8
    known = None if previous is None else previous.born_host_bytes
    record.born_host_bytes = _host(raw, place, size, known)
    place += size + 8
    size = 20 if view[at + 39] & 0x20 else 8
    known = None if previous is None else previous.store_host_bytes
    record.store_host_bytes = _host(raw, place, size, known)
    place += size + 12
    size = _i32(view, place)
    place += 4
    record.body = raw[place : place + size]
    place += size
    if view[at + 7] == 0xA7:
        size = view[place]
        place += 1
    else:
        size = (view[place] << 8) | view[place + 1]
        place += 2
    if previous is not None and _is_text(raw, place, size, previous.topic):
        record.topic = previous.topic
    else:
        record.topic = raw[place : place + size].decode("utf-8", "replace")
    place += size
    size = (view[place] << 8) | view[place + 1]
    place += 2
    record.properties_bytes = raw[place : place + size]
    record.lazy_properties = None
    return 0


def _host(raw: Any, at: int, size: int, known: bytes | None) -> bytes:
    if known is not None and len(known) == size:
        other = known
        index = 0
        while index < size and raw[at + index] == other[index]:
            index += 1
        if index == size:
            return known
    return raw[at : at + size]  # type: ignore[no-any-return]


def _is_text(raw: Any, at: int, size: int, text: str) -> bool:
    if len(text) != size:
        return False
    for index in range(size):
        if raw[at + index] > 0x7F or raw[at + index] != ord(text[index]):
            return False
    return True


def decode_properties(data: bytes) -> dict[str, str]:
    """Split a property string: pairs without name or value are dropped, the last name wins."""
    result: dict[str, str] = {}
    view = data
    raw = data
    end = len(data)
    start = 0
    while start < end:
        name_end = -1
        at = start
        while at < end:
            byte = view[at]
            if byte == 2:
                break
            if byte == 1 and name_end < 0:
                name_end = at
            at += 1
        if name_end > start and at > name_end + 1:
            name = raw[start:name_end].decode("utf-8", "replace")
            result[name] = raw[name_end + 1 : at].decode("utf-8", "replace")
        start = at + 1
    return result


def property_at(data: Any, start: int, end: int, name: Any) -> int:
    """Where the value of a property begins in the property string at ``start``; -1 without it.

    The value ends before the next 0x02, or at ``end``.
    """
    if start < 0 or end > len(data) or start > end:
        raise ValueError(f"properties at {start} to {end} in {len(data)} bytes")
    return _property_at(data, start, end, name)


def _property_at(data: Any, start: int, end: int, name: Any) -> int:
    found = -1
    length = len(name)
    while start < end:
        index = 0
        at = start
        while at < end and index < length and data[at] == name[index]:
            at += 1
            index += 1
        if index == length and length and at + 1 < end and data[at] == 1 and data[at + 1] != 2:
            found = at + 1
        while at < end and data[at] != 2:
            at += 1
        start = at + 1
    return found


def find_property(data: bytes, name: bytes) -> bytes | None:
    """The last value of a property in a property string, without making a dict of it."""
    view = data
    raw = data
    end = len(data)
    start = _property_at(view, 0, end, name)
    if start < 0:
        return None
    at = start
    while at < end and view[at] != 2:
        at += 1
    return raw[start:at]


def java_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units, as a signed 32-bit number."""
    value = 0
    for character in text:
        code = ord(character)
        if code > 0xFFFF:
            code -= 0x10000
            value = (value * 31 + (0xD800 | (code >> 10))) & _MASK
            code = 0xDC00 | (code & 0x3FF)
        value = (value * 31 + code) & _MASK
    return value - _WRAP if value > 0x7FFFFFFF else value


def java_hash_utf8(data: bytes) -> int:
    """``java_hash`` of UTF-8 bytes; what is not UTF-8 counts as Java would have decoded it."""
    value = 0
    view = data
    for index in range(len(data)):
        code = view[index]
        if code > 0x7F:
            return java_hash(data.decode("utf-8", "replace"))
        value = (value * 31 + code) & _MASK
    return value - _WRAP if value > 0x7FFFFFFF else value
