# cython: annotation_typing=False
# ruff: noqa: ERA001
"""Entries of an index file: put them in, find them again.

An index file is a hash table on disk (docs/store-format.md): a header of 40 bytes, slots of four
bytes that hold the number of the newest entry of their chain, entries of 20 bytes linked
backwards.  Entry 0 is never used.  The view given covers a whole file; no position outside it is
touched, whatever the file says.
"""

from __future__ import annotations

from contrailmq._native import index_file, raw

Bytes = bytes | bytearray | memoryview

_INT_MAX = 0x7FFFFFFF
_SECOND_MS = 1000
_SIGN = 0x80000000
_TWO_32 = 0x100000000


def key_hash(value: int) -> int:
    """The hash an index file keeps of a Java hash: its absolute value, 0 for the smallest int."""
    if value < _SIGN:
        return value
    return 0 if value == _SIGN else _TWO_32 - value


class IndexWriter:
    """One index file that entries are put into."""

    def __init__(self, buffer: Bytes, slots: int, entries: int) -> None:
        if slots < 1 or len(buffer) < index_file.entry_at(slots, entries):
            raise ValueError("index file is too short")
        self.buffer = buffer
        self.address = raw.at_address(self.buffer)
        self.slots = slots
        self.entries = entries
        self.begin_ms = raw.get_i64(self.address, index_file.BEGIN_MS_AT)
        self.end_ms = raw.get_i64(self.address, index_file.END_MS_AT)
        self.begin_offset = raw.get_i64(self.address, index_file.BEGIN_OFFSET_AT)
        self.end_offset = raw.get_i64(self.address, index_file.END_OFFSET_AT)
        self.slot_count = raw.get_u32(self.address, index_file.SLOT_COUNT_AT)
        self.count = raw.get_u32(self.address, index_file.COUNT_AT)
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
        slot = index_file.slot_at(value % self.slots)
        before = raw.get_u32(self.address, slot)
        if before > number:
            before = 0
        seconds = 0
        if self.begin_ms > 0 and store_ms > self.begin_ms:
            seconds = (store_ms - self.begin_ms) // _SECOND_MS
            seconds = min(seconds, _INT_MAX)
        at = index_file.entry_at(self.slots, number)
        raw.put_u32(self.address, at + index_file.ENTRY_HASH_AT, value)
        raw.put_i64(self.address, at + index_file.ENTRY_OFFSET_AT, offset)
        raw.put_u32(self.address, at + index_file.ENTRY_SECONDS_AT, seconds)
        raw.put_u32(self.address, at + index_file.ENTRY_BEFORE_AT, before)
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
        raw.put_i64(self.address, index_file.BEGIN_MS_AT, self.begin_ms)
        raw.put_i64(self.address, index_file.END_MS_AT, self.end_ms)
        raw.put_i64(self.address, index_file.BEGIN_OFFSET_AT, self.begin_offset)
        raw.put_i64(self.address, index_file.END_OFFSET_AT, self.end_offset)
        raw.put_u32(self.address, index_file.SLOT_COUNT_AT, self.slot_count)
        raw.put_u32(self.address, index_file.COUNT_AT, self.count)


def find(
    data: Bytes, slots: int, entries: int, value: int, begin_ms: int, end_ms: int, limit: int
) -> list[int]:
    """Log offsets of up to ``limit`` entries with this hash and a time in range, newest first."""
    found: list[int] = []
    if slots < 1 or entries < 1 or len(data) < index_file.entry_at(slots, entries):
        raise ValueError("index file is too short")
    address = raw.at_address(data)
    count = raw.get_u32(address, index_file.COUNT_AT)
    count = min(count, entries)
    file_begin_ms = raw.get_i64(address, index_file.BEGIN_MS_AT)
    number = raw.get_u32(address, index_file.slot_at(value % slots))
    steps = 0
    while 0 < number <= count and number < entries and len(found) < limit and steps <= count:
        at = index_file.entry_at(slots, number)
        seconds = raw.get_u32(address, at + index_file.ENTRY_SECONDS_AT)
        if seconds > _INT_MAX:
            break
        time_ms = file_begin_ms + seconds * _SECOND_MS
        before = raw.get_u32(address, at + index_file.ENTRY_BEFORE_AT)
        # The entry's time is cut to seconds, so the range is widened by what the cut may lose.
        is_late = time_ms + _SECOND_MS > begin_ms
        entry_hash = raw.get_u32(address, at + index_file.ENTRY_HASH_AT)
        if entry_hash == value and is_late and time_ms <= end_ms:
            found.append(raw.get_i64(address, at + index_file.ENTRY_OFFSET_AT))
        if before == number or not is_late:
            break
        number = before
        steps += 1
    return found


def check_chains(data: Bytes, slots: int, next_entry: int, seen: bytearray) -> tuple[int, int, int]:
    """Follow every chain of an index file; ``seen`` has a zero byte for every entry number.

    The answer is ``(fault, slot, entry)`` of the first fault, or ``(0, used_slots, reached)``.
    Faults: 1 a slot or entry leads to a number that is not there, 2 a chain does not lead back,
    3 two chains share an entry, 4 an entry's hash belongs to another slot.
    """
    memory = raw.at_address(data)
    if slots <= 0 or next_entry < 1 or len(seen) < next_entry:
        raise ValueError("index: range outside the view")
    if index_file.entry_at(slots, next_entry) > len(data):
        raise ValueError("index: range outside the view")
    used = 0
    reached = 0
    for slot in range(slots):
        number = raw.get_u32(memory, index_file.slot_at(slot))
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
            at = index_file.entry_at(slots, number)
            if raw.get_u32(memory, at + index_file.ENTRY_HASH_AT) % slots != slot:
                return 4, slot, number
            before = raw.get_u32(memory, at + index_file.ENTRY_BEFORE_AT)
            if before >= number:
                return 2, slot, number
            number = before
    return 0, used, reached


def find_disorder(data: Bytes, slots: int, next_entry: int) -> int:
    """The first entry of an index file that points before the one ahead of it; 0 without one."""
    memory = raw.at_address(data)
    if slots <= 0 or index_file.entry_at(slots, next_entry) > len(data):
        raise ValueError("index: range outside the view")
    before = 0
    for number in range(1, next_entry):
        at = index_file.entry_at(slots, number)
        offset = raw.get_i64(memory, at + index_file.ENTRY_OFFSET_AT)
        if offset < before:
            return number
        before = offset
    return 0
