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

from contrailmq._native import raw

Bytes = bytes | bytearray | memoryview

# Why a walk ended.
END = 0  # the given limit
EMPTY = 1  # nothing was written here
BLANK = 2  # a blank record closes the segment
FULL = 9  # the output has no more room
BAD_MAGIC = 3
BAD_SIZE = 4
BAD_PLACE = 5
BAD_FIELDS = 6
BAD_CRC = 7
LOST_PAGE = 8
DAMAGE = {  # or a record still being written
    BAD_MAGIC: "not a record: unknown magic number",
    BAD_SIZE: "impossible record size",
    BAD_PLACE: "the record says it belongs elsewhere",
    BAD_FIELDS: "the record's lengths do not add up",
    BAD_CRC: "the body does not have its checksum",
    LOST_PAGE: "part of the record was never written",
}
PAGE = 4096
NO_DOUBT = (1 << 63) - 1  # every record is vouched for

_MAGIC_V1 = 0xDAA320A7
_MAGIC_V2 = 0xDAA320AB
_BLANK_MAGIC = 0xCBD43194
_END = 0
_EMPTY = 1
_BLANK = 2
_BAD_MAGIC = 3
_BAD_SIZE = 4
_BAD_PLACE = 5
_BAD_FIELDS = 6
_BAD_CRC = 7
_LOST_PAGE = 8
_FULL = 9

_HEAD_SIZE = 91  # of a V1 record with IPv4 hosts: everything but body, topic and properties
_UNIT_SIZE = 20
_PAGE_SIZE = 4096


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
    table = _TABLE
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


def _check(data: Any, position: int, limit: int, base: int, crc: bool) -> int:
    """Size of the whole record at ``position``, or minus the reason why there is none."""
    room = limit - position
    if room < 8:
        return -_END if room <= 0 else -_BAD_SIZE
    size = raw.get_u32(data, position)
    magic = raw.get_u32(data, position + 4)
    if magic == _BLANK_MAGIC:
        return -_BLANK
    if magic != _MAGIC_V1 and magic != _MAGIC_V2:
        return -_EMPTY if size == 0 and magic == 0 else -_BAD_MAGIC
    if size < _HEAD_SIZE or size > room:
        return -_BAD_SIZE
    end = position + size
    if raw.get_i64(data, position + 28) != base + position:
        return -_BAD_PLACE
    sys_flag = raw.get_u32(data, position + 36)
    at = position + 84
    if sys_flag & 0x10:
        at += 12
    if sys_flag & 0x20:
        at += 12
    if at + 7 > end:
        return -_BAD_FIELDS
    body_size = raw.get_u32(data, at)
    body = at + 4
    if body_size > size or body + body_size + 3 > end:
        return -_BAD_FIELDS
    at = body + body_size
    if magic == _MAGIC_V1:
        topic_size = data[at]
        at += 1
        if topic_size > 127:
            return -_BAD_FIELDS
    else:
        topic_size = data[at] * 256 + data[at + 1]
        at += 2
    if topic_size == 0 or at + topic_size + 2 > end:
        return -_BAD_FIELDS
    topic_end = at + topic_size
    if data[at] == 0 or data[topic_end - 1] == 0:
        return -_BAD_FIELDS
    properties_size = data[topic_end] * 256 + data[topic_end + 1]
    if properties_size > 32767 or topic_end + 2 + properties_size != end:
        return -_BAD_FIELDS
    if crc and body_size:
        if crc32_at(data, body, body + body_size) & 0x7FFFFFFF != raw.get_u32(data, position + 8):
            return -_BAD_CRC
    return size


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
        size = _check(memory, position, limit, base, crc)
        if size <= 0:
            break
        if _store_time(memory, position) > doubt_ms and _is_torn(memory, position, size):
            size = -_LOST_PAGE
            break
        last = position
        position += size
        count += 1
        size = 0
    store_ms = _store_time(memory, last) if last >= 0 else -1
    return position, count, -size, store_ms


def _is_torn(data: Any, position: int, size: int) -> bool:
    """Whether topic or properties of a checked record end a page, or the record, with a zero."""
    end = position + size
    at = position + 84
    sys_flag = raw.get_u32(data, position + 36)
    if sys_flag & 0x10:
        at += 12
    if sys_flag & 0x20:
        at += 12
    at += 4 + raw.get_u32(data, at)
    if raw.get_u32(data, position + 4) == _MAGIC_V1:
        topic_size = int(data[at])
        at += 1
    else:
        topic_size = data[at] * 256 + data[at + 1]
        at += 2
    topic_end = at + topic_size
    return _page_lost(data, at, topic_end) or _page_lost(data, topic_end + 2, end)


def find_nonzero(data: Bytes, start: int, end: int) -> int:
    """The first position from ``start`` on whose byte is not zero; ``end`` when all are."""
    memory = raw.at_address(data)
    _bounds(data, start, end)
    at = start
    while end - at >= 64:
        seen = 0
        for step in range(64):
            seen |= memory[at + step]
        if seen != 0:
            break
        at += 64
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
            size = -_FULL
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
    if position < 0 or position + 76 > len(data):
        raise ValueError("scan: range outside the view")
    return _store_time(raw.at_address(data), position)


def _store_time(data: Any, position: int) -> int:
    at = position + 56
    if raw.get_u32(data, position + 36) & 0x10:
        at += 12
    return raw.get_i64(data, at)


def fields(
    data: Bytes, position: int
) -> tuple[int, int, int, int, int, int, int, int, int, int, int]:
    """What a reader needs of a record that ``walk`` accepted.

    ``(size, queue_id, queue_offset, sys_flag, store_ms, body, body_size, topic, topic_size,
    properties, properties_size)``: ``body``, ``topic`` and ``properties`` are positions.
    """
    memory = raw.at_address(data)
    size = _check(memory, position, len(data), _i64_at(data, position + 28) - position, False)
    if size <= 0:
        raise ValueError("scan: no record here")
    queue_id = raw.get_u32(memory, position + 12)
    if queue_id >= 0x80000000:
        queue_id -= 0x100000000
    sys_flag = raw.get_u32(memory, position + 36)
    at = position + 84
    if sys_flag & 0x10:
        at += 12
    if sys_flag & 0x20:
        at += 12
    body_size = raw.get_u32(memory, at)
    body = at + 4
    at = body + body_size
    if raw.get_u32(memory, position + 4) == _MAGIC_V1:
        topic_size = memory[at]
        at += 1
    else:
        topic_size = memory[at] * 256 + memory[at + 1]
        at += 2
    properties_size = memory[at + topic_size] * 256 + memory[at + topic_size + 1]
    return (
        size,
        queue_id,
        raw.get_i64(memory, position + 20),
        sys_flag,
        _store_time(memory, position),
        body,
        body_size,
        at,
        topic_size,
        at + topic_size + 2,
        properties_size,
    )


def _i64_at(data: Bytes, at: int) -> int:
    memory = raw.at_address(data)
    if at < 0 or at + 8 > len(data):
        raise ValueError("scan: range outside the view")
    return raw.get_i64(memory, at)


def match_units(
    units: Bytes, index: int, first: int, data: Bytes, base: int, queue_id: int, topic: Bytes
) -> tuple[int, int]:
    """Check consume-queue units against the segment their records are in.

    ``units[20 * index:]`` are units of one queue, ``first`` is the queue offset of ``units[0:]``.
    Goes on while units point into this segment; the answer is ``(index, reason)``: the first unit
    not looked at or not right, and 0 when the unit points elsewhere or there are no more.
    A unit is right when a whole record of its size is there, of this topic and queue, with the
    unit's own queue offset.
    """
    memory = raw.at_address(data)
    marks = raw.at_address(units)
    name = raw.at_address(topic)
    count = len(units) // _UNIT_SIZE
    limit = len(data)
    length = len(topic)
    if index < 0:
        raise ValueError("scan: range outside the view")
    while index < count:
        at = index * _UNIT_SIZE
        offset = raw.get_i64(marks, at)
        if offset < base or offset >= base + limit:
            return index, _END
        position = offset - base
        size = _check(memory, position, limit, base, False)
        if size <= 0:
            return index, -size if size else _BAD_SIZE
        if size != raw.get_u32(marks, at + 8):
            return index, _BAD_SIZE
        if (
            raw.get_u32(memory, position + 12) != queue_id
            or raw.get_i64(memory, position + 20) != first + index
        ):
            return index, _BAD_PLACE
        sys_flag = raw.get_u32(memory, position + 36)
        at = position + 84
        if sys_flag & 0x10:
            at += 12
        if sys_flag & 0x20:
            at += 12
        at += 4 + raw.get_u32(memory, at)
        if raw.get_u32(memory, position + 4) == _MAGIC_V1:
            topic_size = memory[at]
            at += 1
        else:
            topic_size = memory[at] * 256 + memory[at + 1]
            at += 2
        if topic_size != length:
            return index, _BAD_FIELDS
        for step in range(length):
            if memory[at + step] != name[step]:
                return index, _BAD_FIELDS
        index += 1
    return index, _END


def check_chains(data: Bytes, slots: int, next_entry: int, seen: bytearray) -> tuple[int, int, int]:
    """Follow every chain of an index file; ``seen`` has a zero byte for every entry number.

    The answer is ``(fault, slot, entry)`` of the first fault, or ``(0, used_slots, reached)``.
    Faults: 1 a slot or entry leads to a number that is not there, 2 a chain does not lead back,
    3 two chains share an entry, 4 an entry's hash belongs to another slot.
    """
    memory = raw.at_address(data)
    entries = 40 + 4 * slots
    if slots <= 0 or next_entry < 1 or len(seen) < next_entry:
        raise ValueError("scan: range outside the view")
    if entries + _UNIT_SIZE * next_entry > len(data):
        raise ValueError("scan: range outside the view")
    used = 0
    reached = 0
    for slot in range(slots):
        number = raw.get_u32(memory, 40 + 4 * slot)
        if number == 0:
            continue
        used += 1
        while number != 0:
            if number >= next_entry:
                return 1, slot, number
            if seen[number] != 0:
                return 3, slot, number
            seen[number] = 1
            reached += 1
            at = entries + _UNIT_SIZE * number
            if raw.get_u32(memory, at) % slots != slot:
                return 4, slot, number
            before = raw.get_u32(memory, at + 16)
            if before >= number:
                return 2, slot, number
            number = before
    return 0, used, reached


def find_disorder(data: Bytes, slots: int, next_entry: int) -> int:
    """The first entry of an index file that points before the one ahead of it; 0 without one."""
    memory = raw.at_address(data)
    entries = 40 + 4 * slots
    if slots <= 0 or entries + _UNIT_SIZE * next_entry > len(data):
        raise ValueError("scan: range outside the view")
    before = 0
    for number in range(1, next_entry):
        offset = raw.get_i64(memory, entries + _UNIT_SIZE * number + 4)
        if offset < before:
            return number
        before = offset
    return 0
