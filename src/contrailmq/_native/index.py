# cython: annotation_typing=False
# ruff: noqa: ERA001
"""Entries of an index file: put them in, find them again.

An index file is a hash table on disk (docs/store-format.md): a header of 40 bytes, slots of four
bytes that hold the number of the newest entry of their chain, entries of 20 bytes linked
backwards.  Entry 0 is never used.  The view given covers a whole file; no position outside it is
touched, whatever the file says.
"""

from __future__ import annotations

from array import array
from typing import Any

from contrailmq._native import raw

Bytes = bytes | bytearray | memoryview

_HEAD = 40
_ENTRY = 20
_INT_MAX = 0x7FFFFFFF
_MASK = 0xFFFFFFFF  # a literal of this size would be a Python int in C
_SIGN = 0x80000000
_TWO_32 = 0x100000000
_31_2 = 31 * 31
_31_3 = 31 * 31 * 31
_31_4 = 31 * 31 * 31 * 31


def java_hash(data: Bytes, start: int, end: int, seed: int) -> int:
    """Java's String.hashCode of UTF-8 text, as unsigned 32 bits, going on from ``seed``."""
    if start < 0 or end > len(data):
        raise ValueError("java_hash: range outside the view")
    return hash_at(raw.at_address(data), start, end, seed)


def hash_at(address: Any, start: int, end: int, seed: int) -> int:
    """The same at an address; the caller has checked the range."""
    value = seed
    at = start
    while end - at >= 4:
        # Four at a time: the chain of multiplications is what takes the time.
        a, b, c, d = address[at], address[at + 1], address[at + 2], address[at + 3]
        if (a | b | c | d) & 0x80:
            break
        value = (value * _31_4 + a * _31_3 + b * _31_2 + c * 31 + d) & _MASK
        at += 4
    while at < end:
        a = address[at]
        if a & 0x80:
            return _hash_text(bytes(address[at:end]), value)
        value = (value * 31 + a) & _MASK
        at += 1
    return value


def _hash_text(rest: bytes, seed: int) -> int:
    units = array("H", rest.decode("utf-8", "replace").encode("utf-16-le", "surrogatepass"))
    value = seed
    for unit in units:
        code = int(unit)
        value = (value * 31 + code) & _MASK
    return value


def key_hash(value: int) -> int:
    """The hash an index file keeps of a Java hash: its absolute value, 0 for the smallest int."""
    if value < _SIGN:
        return value
    return 0 if value == _SIGN else _TWO_32 - value


class IndexWriter:
    """One index file that entries are put into."""

    def __init__(self, buffer: Bytes, slots: int, entries: int) -> None:
        if len(buffer) < _HEAD + 4 * slots + _ENTRY * entries or slots < 1:
            raise ValueError("index file is too short")
        self.buffer = buffer
        self.address = raw.at_address(self.buffer)
        self.slots = slots
        self.entries = entries
        self.begin_ms = raw.get_i64(self.address, 0)
        self.end_ms = raw.get_i64(self.address, 8)
        self.begin_offset = raw.get_i64(self.address, 16)
        self.end_offset = raw.get_i64(self.address, 24)
        self.slot_count = raw.get_u32(self.address, 32)
        self.count = raw.get_u32(self.address, 36)
        self.count = max(self.count, 1)
        self.limit = 0

    def begin(self, end_ms: int, end_offset: int) -> None:
        """Make the header of a new file, which continues where the one before it ended."""
        self.begin_ms = end_ms
        self.end_ms = end_ms
        self.begin_offset = end_offset
        self.end_offset = end_offset
        self.slot_count = 0
        self.count = 1
        self._store_head()

    def is_full(self) -> bool:
        """Whether the next entry needs another file."""
        return self.count >= self.entries

    def has_room(self) -> bool:
        """Whether the place of the next entry has been reserved."""
        return self.count < self.limit and self.count < self.entries

    def put(self, value: int, offset: int, store_ms: int) -> bool:
        """Add an entry for a key's hash; False when the file is full, or the place not reserved."""
        number = self.count
        if number >= self.entries or number >= self.limit:
            return False
        slot = _HEAD + 4 * (value % self.slots)
        before = raw.get_u32(self.address, slot)
        if before > number:
            before = 0
        seconds = 0
        if self.begin_ms > 0 and store_ms > self.begin_ms:
            seconds = (store_ms - self.begin_ms) // 1000
            seconds = min(seconds, _INT_MAX)
        at = _HEAD + 4 * self.slots + _ENTRY * number
        raw.put_u32(self.address, at, value)
        raw.put_i64(self.address, at + 4, offset)
        raw.put_u32(self.address, at + 12, seconds)
        raw.put_u32(self.address, at + 16, before)
        raw.put_u32(self.address, slot, number)
        if number <= 1:
            self.begin_ms = store_ms
            self.begin_offset = offset
        if before == 0:
            self.slot_count += 1
        self.count = number + 1
        self.end_ms = store_ms
        self.end_offset = offset
        self._store_head()
        return True

    def _store_head(self) -> None:
        raw.put_i64(self.address, 0, self.begin_ms)
        raw.put_i64(self.address, 8, self.end_ms)
        raw.put_i64(self.address, 16, self.begin_offset)
        raw.put_i64(self.address, 24, self.end_offset)
        raw.put_u32(self.address, 32, self.slot_count)
        raw.put_u32(self.address, 36, self.count)


def find(
    data: Bytes, slots: int, entries: int, value: int, begin_ms: int, end_ms: int, limit: int
) -> list[int]:
    """Log offsets of up to ``limit`` entries with this hash and a time in range, newest first."""
    found: list[int] = []
    if slots < 1 or entries < 1 or len(data) < _HEAD + 4 * slots + _ENTRY * entries:
        raise ValueError("index file is too short")
    address = raw.at_address(data)
    count = raw.get_u32(address, 36)
    count = min(count, entries)
    file_begin_ms = raw.get_i64(address, 0)
    number = raw.get_u32(address, _HEAD + 4 * (value % slots))
    steps = 0
    while 0 < number <= count and number < entries and len(found) < limit and steps <= count:
        at = _HEAD + 4 * slots + _ENTRY * number
        seconds = raw.get_u32(address, at + 12)
        if seconds > _INT_MAX:
            break
        time_ms = file_begin_ms + seconds * 1000
        before = raw.get_u32(address, at + 16)
        # The entry's time is cut to seconds, so the range is widened by what the cut may lose.
        if raw.get_u32(address, at) == value and time_ms + 999 >= begin_ms and time_ms <= end_ms:
            found.append(raw.get_i64(address, at + 4))
        if before == number or time_ms + 999 < begin_ms:
            break
        number = before
        steps += 1
    return found
