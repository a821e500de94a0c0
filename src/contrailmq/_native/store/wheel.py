# cython: annotation_typing=False
# ruff: noqa: ERA001
"""The timer wheel and the timer log: where each waiting message is, by the time it is due.

**Wheel.**  1 209 600 slots of 32 bytes: time divided by the precision, position of the slot's first
and last unit in the timer log, count, magic.  The slot of a time is that quotient modulo the number
of slots.  A slot whose time is another one is empty.

**Timer log.**  Units of 52 bytes in files of one size: size, position of the slot's previous unit,
magic, time of writing, slot time less time of writing, log offset and size of the message, hash of
its topic, and 8 bytes that are 0.  So a slot is a chain, newest unit first.  A file ends with a
blank record.  The layout is the original's (TimerWheel, Slot, TimerLog): see docs/store-format.md.

Nothing a file says is believed: a position is followed only to a unit that is there and is older.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import raw

Bytes = bytes | bytearray | memoryview

SLOTS = 1209600
SLOT_SIZE = 32
UNIT_SIZE = 52
BLANK_MIN = 16
ROLL = 2
DELETE = 4
BLANK_MAGIC = 0xCBD43194
_SLOTS = 1209600
_SLOT_SIZE = 32
_UNIT_SIZE = 52
_BLANK_MIN = 16
_BLANK_MAGIC = 0xCBD43194
_MAGIC_MAX = 15
_EXPECTED = 1
_DELETE = 4


class TimerFile:
    """One file of the timer log."""

    def __init__(self, buffer: Bytes, base: int) -> None:
        self.buffer = buffer
        self.address = raw.at_address(self.buffer)
        self.base = base
        self.size = len(buffer)


class Wheel:
    """Slots by time, chains of units behind them. ``end`` is where the next unit goes."""

    def __init__(self, slots: Bytes, precision_ms: int, file_size: int) -> None:
        if len(slots) != _SLOTS * _SLOT_SIZE:
            raise ValueError(f"a wheel of {len(slots)} bytes, expected {_SLOTS * _SLOT_SIZE}")
        self.slots = slots
        self.address = raw.at_address(self.slots)
        self.precision_ms = precision_ms
        self.file_size = file_size
        self.files: dict[int, TimerFile] = {}
        self._last: TimerFile | None = None
        self.first = 0  # position of the oldest unit there can be
        self.end = 0
        self.limit = 0  # up to here the tail file has real blocks
        self.last_unit = -1

    def add(self, buffer: Bytes, base: int) -> None:
        """Make a file of the timer log known."""
        self.files[base] = TimerFile(buffer, base)
        self._last = None

    def remove(self, base: int) -> None:
        """Forget a file."""
        self.files.pop(base, None)
        self._last = None

    def release(self) -> None:
        """Forget every file and the wheel."""
        self.files.clear()
        self._last = None
        self.slots = bytearray(_SLOTS * _SLOT_SIZE)
        self.address = raw.at_address(self.slots)

    def floor(self, ms: int) -> int:
        """The slot time a moment belongs to."""
        return ms - ms % self.precision_ms

    # Slots

    def last(self, slot_ms: int) -> int:
        """Position of the newest unit of a slot; -1 for an empty slot."""
        at = self._slot(slot_ms)
        if raw.get_i64(self.address, at) != slot_ms // self.precision_ms:
            return -1
        return raw.get_i64(self.address, at + 16)

    def count(self, slot_ms: int) -> int:
        """How many messages a slot says it has; cancels count against it."""
        at = self._slot(slot_ms)
        if raw.get_i64(self.address, at) != slot_ms // self.precision_ms:
            return 0
        return raw.get_i32(self.address, at + 24)

    def put(self, slot_ms: int, position: int, change: int) -> None:
        """Make a unit the newest of its slot."""
        at = self._slot(slot_ms)
        time = slot_ms // self.precision_ms
        if raw.get_i64(self.address, at) != time:
            raw.put_i64(self.address, at, time)
            raw.put_i64(self.address, at + 8, position)
            raw.put_u32(self.address, at + 24, 0)
            raw.put_u32(self.address, at + 28, 0)
        raw.put_i64(self.address, at + 16, position)
        raw.put_u32(self.address, at + 24, raw.get_i32(self.address, at + 24) + change)

    def clear(self, slot_ms: int) -> None:
        """Empty a slot whose messages are delivered."""
        at = self._slot(slot_ms)
        if raw.get_i64(self.address, at) == slot_ms // self.precision_ms:
            for step in range(0, _SLOT_SIZE, 8):
                raw.put_i64(self.address, at + step, 0)

    def next_used(self, start_ms: int, end_ms: int) -> int:
        """The first slot time from ``start_ms`` on with a unit, or ``end_ms``."""
        time = start_ms // self.precision_ms
        end = end_ms // self.precision_ms
        if end - time > _SLOTS:
            return self._oldest_used(time, end) * self.precision_ms
        at = time % _SLOTS
        while time < end:
            if raw.get_i64(self.address, at * _SLOT_SIZE) == time:
                return time * self.precision_ms
            time += 1
            at += 1
            if at == _SLOTS:
                at = 0
        return end_ms

    def _oldest_used(self, time: int, end: int) -> int:
        """The same after a stop of more than a turn of the wheel."""
        oldest = end
        for slot in range(_SLOTS):
            found = raw.get_i64(self.address, slot * _SLOT_SIZE)
            if found >= time and found < oldest:
                oldest = found
        return oldest

    def total(self, start_ms: int) -> int:
        """How many messages wait in slots from a time on, as far as the slots' counts say."""
        time = start_ms // self.precision_ms
        total = 0
        for slot in range(_SLOTS):
            if raw.get_i64(self.address, slot * _SLOT_SIZE) >= time:
                total += raw.get_i32(self.address, slot * _SLOT_SIZE + 24)
        return total

    def points_beyond(self, start_ms: int, end: int) -> bool:
        """Whether a slot from a time on names a unit at or behind a position."""
        time = start_ms // self.precision_ms
        for slot in range(_SLOTS):
            at = slot * _SLOT_SIZE
            if raw.get_i64(self.address, at) >= time and raw.get_i64(self.address, at + 16) >= end:
                return True
        return False

    def _slot(self, slot_ms: int) -> int:
        return slot_ms // self.precision_ms % _SLOTS * _SLOT_SIZE

    # Units

    def find(self, position: int) -> TimerFile | None:
        """The file with a whole unit at a position."""
        if position < self.first or position + _UNIT_SIZE > self.end:
            return None
        last = self._last
        if last is None or position < last.base or position >= last.base + last.size:
            last = self.files.get(position - position % self.file_size)
            self._last = last
        if last is None or position - last.base + _UNIT_SIZE > last.size:
            return None
        if not _is_unit(last.address, position - last.base):
            return None
        return last

    def room(self) -> int:
        """Bytes of the tail file behind ``end``; 0 when a new file is due."""
        left = self.file_size - self.end % self.file_size
        if self.end - self.end % self.file_size not in self.files:
            return 0
        return left if left >= _UNIT_SIZE + _BLANK_MIN else 0

    def close_file(self) -> None:
        """Write the blank record at the end of the tail file; the next unit goes to the next."""
        file = self.files.get(self.end - self.end % self.file_size)
        if file is not None:
            at = self.end - file.base
            left = file.size - at
            if left >= _BLANK_MIN:
                raw.put_u32(file.address, at, left)
                raw.put_i64(file.address, at + 4, 0)
                raw.put_u32(file.address, at + 12, _BLANK_MAGIC)
            self.end = file.base + file.size

    def append(
        self, slot_ms: int, write_ms: int, magic: int, offset: int, size: int, topic_hash: int
    ) -> int:
        """Add a unit to a slot; its position, or -1 when the tail file has no room."""
        if self.room() == 0 or self.end + _UNIT_SIZE > self.limit:
            return -1
        base = self.end - self.end % self.file_size
        file = self._last
        if file is None or file.base != base:
            file = self.files.get(base)
            self._last = file
            if file is None:
                return -1
        at = self.end - base
        raw.put_u32(file.address, at, _UNIT_SIZE)
        raw.put_i64(file.address, at + 4, self.last(slot_ms))
        raw.put_u32(file.address, at + 12, magic)
        raw.put_i64(file.address, at + 16, write_ms)
        raw.put_u32(file.address, at + 24, slot_ms - write_ms)
        raw.put_i64(file.address, at + 28, offset)
        raw.put_u32(file.address, at + 36, size)
        raw.put_u32(file.address, at + 40, topic_hash)
        raw.put_i64(file.address, at + 44, 0)
        position = self.end
        self.put(slot_ms, position, -1 if magic & _DELETE else 1)
        self.end = position + _UNIT_SIZE
        self.last_unit = position
        return position

    def revise(self, base: int, start: int, from_ms: int, log_end: int) -> int:
        """Put the units of a file from a position in it on into their slots.

        Only slots from ``from_ms`` on are touched, and only by units they do not have yet.  Answers
        where in the file the first thing lies that is no unit or is the unit of a message behind
        ``log_end``; the file's size after a blank record.
        """
        file = self.files[base]
        at = start
        while at + _UNIT_SIZE <= file.size:
            if raw.get_u32(file.address, at + 12) == _BLANK_MAGIC:
                return file.size
            if not _is_unit(file.address, at):
                return at
            offset = raw.get_i64(file.address, at + 28)
            if offset + raw.get_u32(file.address, at + 36) > log_end:
                return at
            slot_ms = raw.get_i64(file.address, at + 16) + raw.get_i32(file.address, at + 24)
            self.last_unit = base + at
            if slot_ms >= from_ms and self.last(slot_ms) < base + at:
                is_cancel = raw.get_u32(file.address, at + 12) & _DELETE
                self.put(slot_ms, base + at, -1 if is_cancel else 1)
            at += _UNIT_SIZE
        return file.size

    def offsets(self, base: int, start: int, end: int) -> list[int]:
        """Log offsets of the messages of a file's units, from one position in it to another."""
        file = self.files[base]
        found: list[int] = []
        at = start
        while at + _UNIT_SIZE <= end and at + _UNIT_SIZE <= file.size:
            if not _is_unit(file.address, at):
                break
            found.append(raw.get_i64(file.address, at + 28))
            at += _UNIT_SIZE
        return found

    def unit(self, position: int) -> tuple[int, int, int, int, int, int] | None:
        """Previous position, magic, time of writing, slot time, log offset, size of a unit."""
        file = self.find(position)
        if file is None:
            return None
        at = position - file.base
        write_ms = raw.get_i64(file.address, at + 16)
        return (
            raw.get_i64(file.address, at + 4),
            raw.get_u32(file.address, at + 12),
            write_ms,
            write_ms + raw.get_i32(file.address, at + 24),
            raw.get_i64(file.address, at + 28),
            raw.get_u32(file.address, at + 36),
        )


def _is_unit(data: Any, at: int) -> bool:
    """Whether the 52 bytes here are a unit: the caller has checked that they are there."""
    size = raw.get_u32(data, at)
    magic = raw.get_u32(data, at + 12)
    return (
        size == _UNIT_SIZE
        and magic <= _MAGIC_MAX
        and magic & _EXPECTED != 0
        and raw.get_i64(data, at + 28) >= 0
    )
