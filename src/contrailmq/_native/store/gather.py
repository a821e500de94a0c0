# cython: annotation_typing=False
# ruff: noqa: ERA001
"""Gather the records of a pull into one buffer.

``Gatherer.select`` walks consume-queue units and chooses the records a pull may have: count and
byte limits, which differ for records that have probably left memory, tag codes, whether the
record is there at all, and an SQL condition.  ``copy`` brings the chosen ones together in a buffer
of their exact size; neighbours in the log are one copy.  Units and records come from disk, so
nothing they say is believed: a record is taken only when its own first bytes agree with the unit.

A selection that is ``watched`` touches no record that has left memory, for its caller must not wait
for the disk: it ends there, with what it has, or with the status ``COLD``.  What was found in
memory is believed to be there for this ``tick`` and the next.  Whoever loads old records marks
them: when a selection comes to a mark, ``touched`` tells that what follows will be wanted soon.
"""

from __future__ import annotations

from array import array
from typing import Any

from contrailmq._native import raw, record, unit
from contrailmq._native.sql import SqlProgram

Bytes = bytes | bytearray | memoryview

_LINE = 64
_AHEAD = (
    4 * unit.SIZE
)  # records lie apart: the memory of one is asked for while others are looked at
_FAR = 32 * unit.SIZE  # the same when only some units are wanted
CHUNK = 256 * 1024  # looked after as a whole
_CHUNK = 256 * 1024
_TICKS = 250  # a chunk keeps its tick in one byte
_NEAR_SIZE = 1024  # larger records are not asked for ahead of time
_FEW = 8  # codes that are compared one by one

# Status of a selection, when nothing was chosen.
FOUND = 0
NO_MATCH = 1
REMOVING = 2
NOTHING = 3
COLD = 4
_COLD = 4
_FOUND = 0
_NO_MATCH = 1
_REMOVING = 2
_GAP_SIZE = 0x7FFFFFFF  # of a unit that stands for no message
_NOTHING = 3


class LogView:
    """A segment of the log, or a file of a queue, for reading."""

    def __init__(self, buffer: Bytes, base: int, is_mapped: bool) -> None:
        self.buffer = buffer
        self.base = base
        self.address = raw.at_address(self.buffer)
        self.size = len(buffer)
        self.is_mapped = is_mapped  # a file's pages: they may have left memory
        self.seen = bytearray(len(buffer) // _CHUNK + 1)  # the tick a chunk was last in memory
        self.marked = bytearray(len(buffer) // _CHUNK + 1)  # who comes here will want more soon


class Limits:
    """How much one pull may take: count and bytes, in memory and on disk.

    A pull looks at units of at least ``scan_size`` bytes, if there are so many.  The last
    ``memory_size`` bytes of the log are probably in memory.
    """

    def __init__(
        self, count_memory: int, bytes_memory: int, scan_size: int = 0, memory_size: int = 0
    ) -> None:
        self.count_memory = count_memory
        self.bytes_memory = bytes_memory
        self.count_disk = count_memory
        self.bytes_disk = bytes_memory
        self.scan_size = scan_size
        self.memory_size = memory_size

    def on_disk(self, count: int, size: int) -> None:
        """Limits once a record is thought to be out of memory."""
        self.count_disk = count
        self.bytes_disk = size

    def span(self, count: int) -> int:
        """Return the bytes of units a pull of so many messages may look at."""
        size = count * unit.SIZE
        return size if size > self.scan_size else self.scan_size

    def disk_before(self, end_offset: int) -> int:
        """Return the log offset before which records have probably left memory."""
        return end_offset - self.memory_size


class Gatherer:
    """The readable part of the log, and the scratch space of one selection."""

    def __init__(self, segment_size: int) -> None:
        self.segment_size = segment_size
        self.views: dict[int, LogView] = {}
        self._last: LogView | None = None
        self.min_offset = 0
        self.end_offset = 0
        self.chosen = array("q", bytes(2 * 8 * 64))
        self.count = 0
        self.total = 0
        self.status = _NOTHING
        self.next_unit = 0
        self.last_offset = -1
        self.unreadable = 0  # how often a selection passed over something that is no record
        self.unreadable_at = -1  # the last place where it did
        self.watched = False
        self.tick = 1
        self.cold_offset = -1
        self.touched = -1  # log offset of a mark that was come to
        self.away_at = 0
        self._codes_of: frozenset[int] | None = None
        self._codes = array("q", [0])
        self._code_count = 0

    def add(self, buffer: Bytes, base: int, is_mapped: bool = False) -> None:
        """Make a segment readable."""
        self.views[base] = LogView(buffer, base, is_mapped)

    def age(self) -> None:
        """Time passes: what was in memory two ticks ago has to be looked for again."""
        self.tick = self.tick % _TICKS + 1

    def note_loaded(self, start: int, end: int) -> None:
        """These bytes of the log, of one segment, have just been read from the disk."""
        view = self.views.get(start - start % self.segment_size)
        if view is not None:
            first = (start - view.base) // _CHUNK
            last = min((end - view.base - 1) // _CHUNK, len(view.seen) - 1)
            for chunk in range(first, last + 1):
                view.seen[chunk] = self.tick
            view.marked[first] = 1

    def must_load(self, start: int, end: int) -> bool:
        """Whether these bytes of the log, of one segment, have left memory.

        If they have not, and nobody knew, it is as if they had been loaded.
        """
        view = self.views.get(start - start % self.segment_size)
        if view is None or not view.is_mapped:
            return False
        first = (start - view.base) // _CHUNK
        last = min((end - view.base - 1) // _CHUNK, len(view.seen) - 1)
        before = self.tick - 1 if self.tick > 1 else _TICKS
        if view.seen[last] == self.tick or view.seen[last] == before:
            return False
        if self.is_away(view, start - view.base, end - view.base, end - view.base):
            return True
        view.marked[first] = 1
        return False

    def is_away(self, view: LogView, start: int, end: int, limit: int) -> bool:
        """Whether bytes of a file may have left memory; the first chunk that has is ``away_at``.

        Behind ``limit`` nothing was written, and nothing need be there.
        """
        if not view.is_mapped or start < 0 or end > view.size or start >= end:
            return False
        before = self.tick - 1 if self.tick > 1 else _TICKS
        for chunk in range(start // _CHUNK, (end - 1) // _CHUNK + 1):
            if view.seen[chunk] != self.tick and view.seen[chunk] != before:
                stop = min((chunk + 1) * _CHUNK, limit, view.size)
                if not raw.is_resident(view.address, chunk * _CHUNK, stop - chunk * _CHUNK):
                    self.away_at = chunk * _CHUNK
                    return True
                view.seen[chunk] = self.tick
            if view.marked[chunk]:
                view.marked[chunk] = 0
                self.touched = view.base + chunk * _CHUNK
        return False

    def is_cold(self, offset: int, size: int) -> bool:
        """Whether a record may have left memory; its first chunk that has is ``cold_offset``."""
        view = self._view(offset)
        if view is None or not view.is_mapped:
            return False
        position = offset - view.base
        if size < 1 or position + size > view.size or offset + size > self.end_offset:
            return False  # no record: whoever looks for it will say so
        if not self.is_away(view, position, position + size, self.end_offset - view.base):
            return False
        self.cold_offset = view.base + self.away_at
        return True

    def remove(self, base: int) -> None:
        """Forget a segment."""
        self.views.pop(base, None)
        self._last = None

    def clear(self) -> None:
        """Forget every segment."""
        self.views.clear()
        self._last = None

    def _view(self, offset: int) -> LogView | None:
        last = self._last
        if last is not None and last.base <= offset < last.base + last.size:
            return last
        self._last = self.views.get(offset - offset % self.segment_size)
        return self._last

    def find(self, offset: int, size: int) -> LogView | None:
        """The segment with a whole record of this size at this offset, if there is one."""
        if size < record.SIZE_MIN or offset < self.min_offset or offset + size > self.end_offset:
            return None
        view = self._view(offset)
        if view is None:
            return None
        position = offset - view.base
        if position + size > view.size or record.size_of(view.address, position) != size:
            return None
        if record.log_offset(view.address, position) != offset:
            return None
        return view

    def begin(self, units: int) -> None:
        """Forget the last selection and make room for as many units."""
        if len(self.chosen) < 2 * units:
            self.chosen = array("q", bytes(2 * 8 * units))
        self.count = 0
        self.total = 0
        self.status = _NOTHING
        self.last_offset = -1

    def is_full(self, size: int, count_max: int, limits: Limits, on_disk: bool) -> bool:
        """Whether a record of this size is too much; never for the first."""
        if self.count == 0:
            return False
        if self.count >= count_max:
            return True
        if on_disk:
            return self.total + size > limits.bytes_disk or self.count >= limits.count_disk
        return self.total + size > limits.bytes_memory or self.count >= limits.count_memory

    def choose(self, offset: int, size: int) -> None:
        """Add a record to the selection; the caller has found it."""
        if 2 * self.count + 2 > len(self.chosen):
            raise ValueError("gather: more records than were announced")
        self.chosen[2 * self.count] = offset
        self.chosen[2 * self.count + 1] = size
        self.count += 1
        self.total += size
        self.status = _FOUND

    def select(
        self,
        units: Bytes,
        start: int,
        end: int,
        count_max: int,
        limits: Limits,
        disk_before: int,
        codes: frozenset[int] | None,
        program: SqlProgram | None,
    ) -> int:
        """Choose from the units of ``units[start:end]``; how many units were looked at.

        Records before ``disk_before`` count as on disk.  With ``codes`` only units with one of
        these tag codes are taken, with ``program`` only records it is true for.
        """
        if start < 0 or end > len(units):
            raise ValueError("gather: range outside the view")
        self.begin((end - start) // unit.SIZE)
        if codes is not None and codes is not self._codes_of:
            self._use_codes(codes)
        address = raw.at_address(units)
        skip_before = -1
        at = start
        while end - at >= unit.SIZE:
            offset = raw.get_i64(address, at + unit.LOG_OFFSET_AT)
            size = raw.get_u32(address, at + unit.RECORD_SIZE_AT)
            if offset < skip_before:
                at += unit.SIZE
                continue
            if self.is_full(size, count_max, limits, offset < disk_before):
                break
            self.last_offset = offset
            ahead = at + (_AHEAD if codes is None else _FAR)
            at += unit.SIZE
            if ahead < end - unit.SIZE and (
                codes is None or self._is_wanted(raw.get_i64(address, ahead + unit.CODE_AT))
            ):
                self._ask_for(
                    raw.get_i64(address, ahead + unit.LOG_OFFSET_AT),
                    raw.get_u32(address, ahead + unit.RECORD_SIZE_AT),
                )
            if codes is not None and not self._is_wanted(
                raw.get_i64(address, at - unit.SIZE + unit.CODE_AT)
            ):
                if self.count == 0:
                    self.status = _NO_MATCH
                continue
            if self.watched and self.is_cold(offset, size):
                if self.count == 0:
                    self.status = _COLD
                at -= unit.SIZE
                break
            view = self.find(offset, size)
            if view is None:
                if self.count == 0:
                    self.status = _REMOVING
                if offset < self.min_offset:
                    skip_before = self.min_offset  # deleted, and so is everything before it
                elif size != _GAP_SIZE:
                    self._note_unreadable(offset)
                continue
            if program is not None and not program.matches_record(
                view.address, offset - view.base, size
            ):
                if self.count == 0:
                    self.status = _NO_MATCH
                continue
            self.choose(offset, size)
        return (at - start) // unit.SIZE

    def _note_unreadable(self, offset: int) -> None:
        self.unreadable += 1
        self.unreadable_at = offset

    def _ask_for(self, offset: int, size: int) -> None:
        """Have the memory of a record brought near, if it is in the segment used last."""
        view = self._last
        if view is None or offset < view.base or size > _NEAR_SIZE:
            return
        position = offset - view.base
        stop = position + size
        if stop > view.size:
            return
        while position < stop:
            raw.prefetch(view.address, position)
            position += _LINE

    def _use_codes(self, codes: frozenset[int]) -> None:
        self._codes_of = codes
        self._codes = array("q", sorted(codes) or [0])
        self._code_count = len(codes)

    def _is_wanted(self, code: int) -> bool:
        """Whether a tag code is one of those asked for."""
        low = 0
        high = self._code_count
        while high - low > _FEW:
            middle = (low + high) // 2
            if self._codes[middle] <= code:
                low = middle
            else:
                high = middle
        while low < high:
            if self._codes[low] == code:
                return True
            low += 1
        return False

    def copy(self) -> bytearray:
        """The chosen records, one after another."""
        out = raw.new_buffer(self.total)
        if self.total > 0:
            self._fill(raw.at_address(out), 0)
        return out

    def copy_behind(self, head: Any, head_size: int) -> bytearray:
        """The same behind a head: an answer that is one buffer is one write."""
        out = raw.new_buffer(head_size + self.total)
        target = raw.at_address(out)
        raw.copy_bytes(target, 0, head, 0, head_size)
        self._fill(target, head_size)
        return out

    def _fill(self, target: Any, filled: int) -> None:
        number = 0
        while number < self.count:
            offset = self.chosen[2 * number]
            size = self.chosen[2 * number + 1]
            number += 1
            view = self._view(offset)
            if view is None:
                raise ValueError("gather: segment vanished")
            # Neighbours in one segment are one run.
            while (
                number < self.count
                and self.chosen[2 * number] == offset + size
                and offset + size - view.base < view.size
            ):
                size += self.chosen[2 * number + 1]
                number += 1
            raw.copy_bytes(target, filled, view.address, offset - view.base, size)
            filled += size
