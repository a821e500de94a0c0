"""Walk the records of a commit-log segment and say where they stop being whole.

A record is accepted when its magic is one of the two known, its size is what its own lengths add
up to and fits into the segment, its own position is where it was found, its topic is a name, and
(by choice) its body has the checksum it carries.  Byte by byte: docs/store-format.md.

A body's checksum does not cover the topic and the properties.  After a power cut a page of the
file may have gone back to what it was when it last reached the disk, that is, to zeros from some
place in it up to its end.  So a record that is not vouched for (``doubt_ms``) is refused too when
its topic or properties have a zero byte at the end of a page, or at the record's own end: it was
only partly written.  No name and no property string made by a client has one there.

Everything is given as one contiguous view of a whole segment; ``base`` is the segment's offset in
the log, a position is a place in the view.  No position outside the view is ever touched.
"""

from __future__ import annotations

from array import array
from typing import Any

from contrailmq._native import raw, record, text, unit
from contrailmq._native.record import (
    BAD_CRC,
    BAD_FIELDS,
    BAD_MAGIC,
    BAD_PLACE,
    BAD_SIZE,
    BLANK,
    DAMAGE,
    EMPTY,
    END,
    FULL,
    LOST_PAGE,
)

__all__ = (  # besides what is defined here: why a walk ended, from the map
    "BAD_CRC",
    "BAD_FIELDS",
    "BAD_MAGIC",
    "BAD_PLACE",
    "BAD_SIZE",
    "BLANK",
    "DAMAGE",
    "EMPTY",
    "END",
    "FULL",
    "LOST_PAGE",
)

Bytes = bytes | bytearray | memoryview

PAGE = 4096
NO_DOUBT = (1 << 63) - 1  # every record is vouched for

_PAGE_SIZE = 4096
_WASTE = 20
_BLOCK = 64  # looked at together


def _crc_table() -> array[int]:
    words = array("I", bytes(4 * 256 * 16))
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0xEDB88320 if value & 1 else 0)
        words[byte] = value
    for slice_number in range(1, 16):
        for byte in range(256):
            value = words[(slice_number - 1) * 256 + byte]
            words[slice_number * 256 + byte] = (value >> 8) ^ words[value & 0xFF]
    return words


_TABLE = _crc_table()


def _le32(data: Any, at: int) -> int:
    a: int = data[at]
    b: int = data[at + 1]
    c: int = data[at + 2]
    d: int = data[at + 3]
    return a | (b << 8) | (c << 16) | (d << 24)


def crc32(data: Bytes, start: int, end: int) -> int:
    """CRC-32 of ``data[start:end]``, all 32 bits of it."""
    if start < 0 or end < start or end > len(data):
        raise ValueError("crc32: range outside the view")
    return crc32_at(raw.at_address(data), start, end)


def crc32_at(data: Any, start: int, end: int) -> int:
    """The same at an address; the caller has checked the range."""
    table = raw.words_at(_TABLE)
    crc = 0xFFFFFFFF
    at = start
    folded = raw.crc_fold_size(end - at)
    if folded > 0:
        crc = raw.crc_fold(crc, data, at, folded)
        at += folded
    while end - at >= 16:
        w0 = _le32(data, at) ^ crc
        w1 = _le32(data, at + 4)
        w2 = _le32(data, at + 8)
        w3 = _le32(data, at + 12)
        crc = (
            table[3840 + (w0 & 0xFF)]
            ^ table[3584 + ((w0 >> 8) & 0xFF)]
            ^ table[3328 + ((w0 >> 16) & 0xFF)]
            ^ table[3072 + (w0 >> 24)]
            ^ table[2816 + (w1 & 0xFF)]
            ^ table[2560 + ((w1 >> 8) & 0xFF)]
            ^ table[2304 + ((w1 >> 16) & 0xFF)]
            ^ table[2048 + (w1 >> 24)]
            ^ table[1792 + (w2 & 0xFF)]
            ^ table[1536 + ((w2 >> 8) & 0xFF)]
            ^ table[1280 + ((w2 >> 16) & 0xFF)]
            ^ table[1024 + (w2 >> 24)]
            ^ table[768 + (w3 & 0xFF)]
            ^ table[512 + ((w3 >> 8) & 0xFF)]
            ^ table[256 + ((w3 >> 16) & 0xFF)]
            ^ table[w3 >> 24]
        )
        at += 16
    while at < end:
        crc = (crc >> 8) ^ table[(crc ^ data[at]) & 0xFF]
        at += 1
    return crc ^ 0xFFFFFFFF


def _page_lost(data: Any, start: int, end: int) -> bool:
    """Whether ``data[start:end]`` has a zero where a page ends, or at its own end."""
    if end <= start:
        return False
    if data[end - 1] == 0:
        return True
    at = start - start % _PAGE_SIZE + _PAGE_SIZE - 1
    while at < end:
        if data[at] == 0:
            return True
        at += _PAGE_SIZE
    return False


def _text_lost(data: Any, start: int, end: int) -> bool:
    """Whether properties have lost a page.

    5.2.0 leaves room for a checksum, 20 bytes of anything, after those of light queues.
    """
    if not _page_lost(data, start, end):
        return False
    stop = end - _WASTE
    if stop <= start or data[stop - 1] != text.VALUE_END or _page_lost(data, start, stop):
        return True
    while start < stop:
        pair = text.pair_at(data, start, stop)
        if text.is_word(data, start, pair.name_size, b"INNER_MULTI_DISPATCH"):
            return False
        start = pair.end + 1
    return True


def _find(data: Any, position: int, limit: int, base: int) -> record.Spans:
    """Find the parts of the record at ``position``, or the reason why there is none."""
    room = limit - position
    if room < record.START_SIZE:
        return record.no_record(record.END if room <= 0 else record.BAD_SIZE)
    size = record.size_of(data, position)
    magic = record.magic(data, position)
    if magic == record.MAGIC_BLANK:
        return record.no_record(record.BLANK)
    if not record.is_record(magic):
        is_empty = size == 0 and magic == 0
        return record.no_record(record.EMPTY if is_empty else record.BAD_MAGIC)
    if size < record.SIZE_MIN or size > room:
        return record.no_record(record.BAD_SIZE)
    if record.log_offset(data, position) != base + position:
        return record.no_record(record.BAD_PLACE)
    found = record.locate(data, position, size)
    if found.size <= 0:
        return found
    if found.end != position + size or found.properties_size > record.PROPERTIES_SIZE_MAX:
        return record.no_record(record.BAD_FIELDS)
    if not _is_name(data, found.topic, found.topic_size, magic):
        return record.no_record(record.BAD_FIELDS)
    return found


def _has_checksum(data: Any, position: int, body: int, body_size: int) -> bool:
    """Whether the body of a record has the checksum it carries; an empty body needs none."""
    if body_size == 0:
        return True
    crc = crc32_at(data, body, body + body_size)
    return crc & record.CRC_MASK == record.body_crc(data, position)


def _is_name(data: Any, at: int, size: int, magic: int) -> bool:
    """Whether a topic can be one: not empty, not too long for the magic, no zero at its ends."""
    if size == 0 or (magic == record.MAGIC_V1 and size > record.TOPIC_SIZE_MAX_V1):
        return False
    return bool(data[at] and data[at + size - 1])


def _check(data: Any, position: int, limit: int, base: int, crc: bool) -> int:
    """Return the size of the whole record at ``position``, or minus the reason for none."""
    found = _find(data, position, limit, base)
    if crc and found.size > 0:
        if not _has_checksum(data, position, found.body, found.body_size):
            return -record.BAD_CRC
    return found.size


def _bounds(data: Bytes, position: int, limit: int) -> None:
    if position < 0 or limit > len(data):
        raise ValueError("scan: range outside the view")


def walk(
    data: Bytes, position: int, until: int, base: int, crc: bool, doubt_ms: int
) -> tuple[int, int, int, int]:
    """Pass over whole records: where it stopped, how many, why, and the last store time.

    Ends (``END``) at the first record that begins at ``until`` or later; records themselves may
    reach beyond it.  What was stored after ``doubt_ms`` is looked at for lost pages too.  The
    answer is ``(position, count, reason, store_ms)``; ``store_ms`` is -1 when none was passed.
    """
    memory = raw.at_address(data)
    _bounds(data, position, until)
    limit = len(data)
    count = 0
    last = -1
    size = 0
    while position < until:
        found = _find(memory, position, limit, base)
        size = found.size
        if size <= 0:
            break
        if crc and not _has_checksum(memory, position, found.body, found.body_size):
            size = -record.BAD_CRC
            break
        if record.store_ms(memory, position) > doubt_ms and (
            _page_lost(memory, found.topic, found.topic + found.topic_size)
            or _text_lost(memory, found.properties, found.end)
        ):
            size = -record.LOST_PAGE
            break
        last = position
        position += size
        count += 1
        size = 0
    store_ms = record.store_ms(memory, last) if last >= 0 else -1
    return position, count, -size, store_ms


def find_nonzero(data: Bytes, start: int, end: int) -> int:
    """The first position from ``start`` on whose byte is not zero; ``end`` when all are."""
    memory = raw.at_address(data)
    _bounds(data, start, end)
    at = start
    while end - at >= _BLOCK:
        seen = 0
        for step in range(_BLOCK):
            seen |= memory[at + step]
        if seen != 0:
            break
        at += _BLOCK
    while at < end and memory[at] == 0:
        at += 1
    return max(at, start)


def collect(
    data: Bytes, position: int, limit: int, base: int, crc: bool, out: memoryview
) -> tuple[int, int, int]:
    """Like ``walk``, and put the position of every record passed into ``out``."""
    memory = raw.at_address(data)
    _bounds(data, position, limit)
    count = 0
    room = len(out)
    while True:
        size = _check(memory, position, limit, base, crc)
        if size <= 0:
            break
        if count >= room:
            size = -record.FULL
            break
        out[count] = position
        position += size
        count += 1
    return position, count, -size


def check(data: Bytes, position: int, limit: int, base: int, crc: bool) -> int:
    """Size of the whole record at ``position``, or minus the reason why there is none."""
    memory = raw.at_address(data)
    _bounds(data, position, limit)
    return _check(memory, position, limit, base, crc)


def store_time(data: Bytes, position: int) -> int:
    """The store time of a record that ``walk`` accepted, or whose head at least is there."""
    if position < 0 or position + record.STORE_HOST_AT + record.IPV6_EXTRA > len(data):
        raise ValueError("scan: range outside the view")
    return record.store_ms(raw.at_address(data), position)


def fields(
    data: Bytes, position: int
) -> tuple[int, int, int, int, int, int, int, int, int, int, int]:
    """What a reader needs of a record that ``walk`` accepted.

    ``(size, queue_id, queue_offset, sys_flag, store_ms, body, body_size, topic, topic_size,
    properties, properties_size)``: ``body``, ``topic`` and ``properties`` are positions.
    """
    if position < 0 or position + record.SIZE_MIN > len(data):
        raise ValueError("scan: range outside the view")
    memory = raw.at_address(data)
    base = record.log_offset(memory, position) - position  # wherever it says it belongs
    found = _find(memory, position, len(data), base)
    if found.size <= 0:
        raise ValueError("scan: no record here")
    return (
        found.size,
        raw.get_i32(memory, position + record.QUEUE_ID_AT),
        record.queue_offset(memory, position),
        record.sys_flag(memory, position),
        record.store_ms(memory, position),
        found.body,
        found.body_size,
        found.topic,
        found.topic_size,
        found.properties,
        found.properties_size,
    )


def match_units(
    units: Bytes, index: int, first: int, data: Bytes, base: int, queue_id: int, topic: Bytes
) -> tuple[int, int]:
    """Check consume-queue units against the segment their records are in.

    ``units`` are units of one queue, ``first`` is the queue offset of the first of them.
    Goes on while units point into this segment; the answer is ``(index, reason)``: the first unit
    not looked at or not right, and 0 when the unit points elsewhere or there are no more.
    A unit is right when a whole record of its size is there, of this topic and queue, with the
    unit's own queue offset.
    """
    memory = raw.at_address(data)
    marks = raw.at_address(units)
    name = raw.at_address(topic)
    count = len(units) // unit.SIZE
    limit = len(data)
    length = len(topic)
    if index < 0:
        raise ValueError("scan: range outside the view")
    while index < count:
        at = index * unit.SIZE
        offset = raw.get_i64(marks, at + unit.LOG_OFFSET_AT)
        if offset < base or offset >= base + limit:
            return index, record.END
        position = offset - base
        found = _find(memory, position, limit, base)
        if found.size <= 0:
            return index, -found.size if found.size else record.BAD_SIZE
        if found.size != raw.get_u32(marks, at + unit.RECORD_SIZE_AT):
            return index, record.BAD_SIZE
        if (
            record.queue_id(memory, position) != queue_id
            or record.queue_offset(memory, position) != first + index
        ):
            return index, record.BAD_PLACE
        if found.topic_size != length or not raw.same_bytes(memory, found.topic, name, 0, length):
            return index, record.BAD_FIELDS
        index += 1
    return index, record.END


def find_wrong_bodies(data: Bytes, positions: Any) -> list[int]:
    """Return the places in ``positions`` of records whose body does not have its checksum."""
    memory = raw.at_address(data)
    limit = len(data)
    bad: list[int] = []
    for number in range(len(positions)):
        position = positions[number]
        if position < 0 or position + record.SIZE_MIN > limit:
            raise ValueError("scan: range outside the view")
        base = record.log_offset(memory, position) - position
        if _check(memory, position, limit, base, True) == -BAD_CRC:
            bad.append(number)
    return bad
