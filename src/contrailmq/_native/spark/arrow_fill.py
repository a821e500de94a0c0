"""Arrow columns that take what they need of one block after the other of an ``arrow.Survey``.

What a survey found is trusted here.  Lengths are taken from it, not read again, so bytes that
change in between (a segment somebody still writes to) change values but never what is read or
written.  A column's buffers are fresh for every reading, and are not cleared; texts get as much
room as those of the last reading needed, and more when that was too little.

Names with an underscore are C constants and C functions in the compiled build.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contrailmq._native import raw, record, text
from contrailmq._native.spark import place

_I64_MAX = 0x7FFFFFFFFFFFFFFF
_SIZE_MAX = 0x7FFFFFFF  # what a 32-bit offset reaches
_ID_SIZE = 32
_ID_MORE = 24  # with an IPv6 host
_HOST_SIZE_MAX = 27  # four numbers of three digits, a port that may be negative
_HOST_MORE = 24  # with an IPv6 address
_ADDRESS_SIZE = 4  # IPv4
_BITS = 8  # of a byte of validity
_SLACK = 64  # lets the last values be copied in whole steps too


def fill(survey: Any, columns: Sequence[Column], is_plain: bool = False) -> None:
    """Survey everything, and fill the columns as long as no record is damaged or odd.

    ``is_plain``: what looks odd is not, for only the flag of its compression is left.
    """
    for column in columns:
        column.begin(survey.rows)
    while survey.more():
        if is_plain or not survey.odd:
            for column in columns:
                column.add(survey)


class Column:
    """A column that is being filled; each kind has its own way."""

    def begin(self, rows: int) -> None:
        """Get ready for so many rows."""

    def add(self, survey: Any) -> None:
        """Take the rows of a block."""


class Ints(Column):
    """4-byte numbers ``shift`` bytes behind one part of each record."""

    def __init__(self, part: int, shift: int) -> None:
        self._part = part
        self._shift = shift
        self.begin(0)

    def begin(self, rows: int) -> None:
        """Get ready for so many rows."""
        self.data = raw.new_buffer(4 * rows)
        self._out = memoryview(self.data).cast("i")

    def add(self, survey: Any) -> None:
        """Take the rows of a block."""
        _require(len(self._out), survey.first + survey.count)
        out = self._out
        places = survey.places
        for index in range(survey.count):
            at = places[index * place.PLACE_WIDTH + self._part] + self._shift
            out[survey.first + index] = raw.get_i32(survey.source, at)


class Longs(Column):
    """8-byte numbers ``shift`` bytes behind one part of each record, times ``scale``.

    What would be too large then is as large as can be.
    """

    def __init__(self, part: int, shift: int, scale: int) -> None:
        self._part = part
        self._shift = shift
        self._scale = scale
        self.begin(0)

    def begin(self, rows: int) -> None:
        """Get ready for so many rows."""
        self.data = raw.new_buffer(8 * rows)
        self._out = memoryview(self.data).cast("q")

    def add(self, survey: Any) -> None:
        """Take the rows of a block."""
        _require(len(self._out), survey.first + survey.count)
        out = self._out
        places = survey.places
        top = _I64_MAX // self._scale
        for index in range(survey.count):
            at = places[index * place.PLACE_WIDTH + self._part] + self._shift
            value = raw.get_i64(survey.source, at)
            if self._scale != 1:
                value = min(max(value, -top), top)
            out[survey.first + index] = value * self._scale


class Texts(Column):
    """Texts or bytes: offsets and the bytes themselves."""

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self._rows = 0
        self._clear(0, 0)

    def begin(self, rows: int) -> None:
        """Get ready for so many rows, of which each is about as large as those of the last time."""
        count = self.count * rows // max(self._rows, 1)
        size = self.size * rows // max(self._rows, 1)
        self._rows = rows
        self._clear(count + count // 16 + _SLACK, min(size + size // 16 + _SLACK, _SIZE_MAX))

    def take(self) -> tuple[memoryview, memoryview]:
        """The offsets and the bytes."""
        return (
            memoryview(self._offset_memory)[: 4 * (self.count + 1)],
            memoryview(self._memory)[: self.size],
        )

    def _clear(self, count: int, size: int) -> None:
        self.count = 0
        self.size = 0
        self._offset_memory = raw.new_buffer(4 * (count + 1))
        self._offsets = memoryview(self._offset_memory).cast("i")
        self._offsets[0] = 0
        self._memory = raw.new_buffer(size)
        self._out = self._memory

    def _make_room(self, survey: Any, count: int, size: int) -> None:
        """Room for so many more values of so many bytes, and for what probably follows."""
        count += self.count
        size += self.size
        done = survey.first + survey.count
        if size > _SIZE_MAX:
            raise ValueError(f"column of {size} bytes, at most {_SIZE_MAX}")
        if len(self._offsets) <= count:
            count = max(count, count * survey.rows // done)
            offsets = raw.new_buffer(4 * (count + count // 16 + _SLACK))
            offsets[: 4 * (self.count + 1)] = self._offset_memory[: 4 * (self.count + 1)]
            self._offset_memory = offsets
            self._offsets = memoryview(offsets).cast("i")
        if len(self._out) < size:
            size = max(size, size * survey.rows // done)
            memory = raw.new_buffer(min(size + size // 16 + _SLACK, _SIZE_MAX))
            memory[: self.size] = memoryview(self._memory)[: self.size]
            self._memory = memory
            self._out = memory

    def _append(
        self, survey: Any, numbers: Any, count: int, width: int, first: int, cut: int
    ) -> None:
        """Bytes from one number of each place, pair or hit to the next number; none from -1 on."""
        size = self.size
        room = len(self._out)
        source = survey.source
        limit = survey.limit
        target = raw.at_address(self._out)
        offsets = self._offsets
        for index in range(count):
            start = numbers[index * width + first]
            if start >= 0:
                length = numbers[index * width + first + 1] - start - cut
                if length > room - size:
                    raise ValueError("no room for the bytes of a column")
                raw.copy_short(target, size, room, source, start, limit, length)
                size += length
            offsets[self.count + index + 1] = size
        self.count += count
        self.size = size


class Spans(Texts):
    """The bytes from one part of each record to the next part: bodies or topics."""

    def __init__(self, part: int) -> None:
        super().__init__()
        self._part = part

    def add(self, survey: Any) -> None:
        """Take the rows of a block."""
        size = survey.body_size if self._part == place.BODY else survey.topic_size
        self._make_room(survey, survey.count, size)
        self._append(survey, survey.places, survey.count, place.PLACE_WIDTH, self._part, 0)


class Names(Texts):
    """The names of all pairs."""

    def add(self, survey: Any) -> None:
        """Take the pairs of a block."""
        self._make_room(survey, survey.pair_count, survey.names_size)
        # A name ends one byte before its value begins.
        self._append(survey, survey.pairs, survey.pair_count, place.PAIR_WIDTH, place.NAME, 1)


class Values(Texts):
    """The values of all pairs."""

    def add(self, survey: Any) -> None:
        """Take the pairs of a block."""
        self._make_room(survey, survey.pair_count, survey.values_size)
        self._append(survey, survey.pairs, survey.pair_count, place.PAIR_WIDTH, place.VALUE, 0)


class Hits(Texts):
    """The values of one name; records without one are gaps."""

    def __init__(self, column: int) -> None:
        super().__init__()
        self._column = column
        self.gap_count = 0
        self.validity = bytearray()

    def begin(self, rows: int) -> None:
        """Get ready for so many rows."""
        Texts.begin(self, rows)
        self.gap_count = 0
        self.validity = bytearray((rows + _BITS - 1) // _BITS)

    def add(self, survey: Any) -> None:
        """Take the rows of a block."""
        self._make_room(survey, survey.count, survey.value_size(self._column))
        _require(8 * len(self.validity), survey.first + survey.count)
        step = place.HIT_WIDTH * survey.column_count
        hits = survey.hits
        validity = self.validity
        for index in range(survey.count):
            row = survey.first + index
            if hits[index * step + place.HIT_WIDTH * self._column] < 0:
                self.gap_count += 1
            else:
                validity[row >> 3] |= 1 << (row & 7)
        self._append(survey, hits, survey.count, step, place.HIT_WIDTH * self._column, 0)


class MessageIds(Texts):
    """The offset id of each record: its store host and log offset in hexadecimal."""

    def add(self, survey: Any) -> None:
        """Take the rows of a block."""
        self._make_room(survey, survey.count, _ID_SIZE * survey.count + _ID_MORE * survey.store_v6)
        data = survey.source
        places = survey.places
        out = raw.at_address(self._out)
        size = self.size
        for index in range(survey.count):
            slot = index * place.PLACE_WIDTH
            at = places[slot + place.STORE_MS] + record.STORE_HOST_AT - record.STORE_MS_AT
            end = places[slot + place.BODY] - record.BODY_AT + record.RECONSUME_TIMES_AT
            while at < end:
                size = text.put_hex_8(out, size, data[at])
                at += 1
            offset = record.log_offset(data, places[slot + place.RECORD])
            size = text.put_hex_64(out, size, offset)
            self._offsets[self.count + index + 1] = size
        self.count += survey.count
        self.size = size


class BornHosts(Texts):
    """``ip:port`` of each producer."""

    def add(self, survey: Any) -> None:
        """Take the rows of a block."""
        self._make_room(
            survey, survey.count, _HOST_SIZE_MAX * survey.count + _HOST_MORE * survey.born_v6
        )
        data = survey.source
        places = survey.places
        out = raw.at_address(self._out)
        size = self.size
        before = -1
        before_end = -1
        for index in range(survey.count):
            slot = index * place.PLACE_WIDTH
            at = places[slot + place.RECORD] + record.BORN_HOST_AT
            end = places[slot + place.STORE_MS] - record.PORT_SIZE
            if before >= 0 and _same_host(data, before, before_end, at, end):
                # Neighbours mostly come from one producer: copy its text.
                start = self._offsets[self.count + index - 1]
                length = size - start
                for step in range(length):
                    out[size + step] = out[start + step]
                size += length
            else:
                before = at
                before_end = end
                size = _host(data, at, end, out, size)
            self._offsets[self.count + index + 1] = size
        self.count += survey.count
        self.size = size


def _require(room: int, rows: int) -> None:
    if room < rows:
        raise ValueError(f"no room for {rows} rows")


def _host(data: Any, at: int, end: int, out: Any, size: int) -> int:
    if end - at == _ADDRESS_SIZE:
        for byte in range(at, end):
            size = text.put_number(out, size, data[byte])
            out[size] = ord(".")
            size += 1
        out[size - 1] = ord(":")
    else:
        for byte in range(at, end, 2):
            size = _hexadecimal(raw.get_u16(data, byte), out, size)
            out[size] = ord(":")
            size += 1
    return text.put_number(out, size, raw.get_i32(data, end))


def _same_host(data: Any, first: int, first_end: int, second: int, second_end: int) -> bool:
    size = second_end - second
    return first_end - first == size and raw.is_same(data, first, second, size + record.PORT_SIZE)


def _hexadecimal(value: int, out: Any, size: int) -> int:
    shift = 12
    while shift > 0 and value >> shift == 0:
        shift -= 4
    while shift >= 0:
        out[size] = text.lower_hex((value >> shift) & 15)
        size += 1
        shift -= 4
    return size
