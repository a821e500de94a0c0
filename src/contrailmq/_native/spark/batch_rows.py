"""Rows of Arrow columns into the messages of a batch send, without an object a row.

A message of a batch is: size, magic 0, CRC 0, flag, body with a 4-byte length, properties with a
2-byte length.  Properties come from text columns (one name each), from a map column, and from the
row's own number: its unique key, 32 hexadecimal digits in the layout of a client's
(8 bytes of ``origin``, the high half of the row number, 4 bytes of time, its low half).

``Spans`` is a column: offsets, bytes, validity; ``first`` is where the batch's rows begin in it.
Columns come from Arrow, which vouches for its offsets; they are checked here all the same.  A row
is measured first, with all checks; writing it copies from address to address.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import hashing, inner, raw, record, text

_UNIQUE_SIZE = 42  # UNIQ_KEY, its separator, 32 digits, the separator after them
_UNIQUE_DIGITS = 32
_HIGH_AT = 16  # where the digits of the row number's halves are
_LOW_AT = 28
_ORIGIN_SIZE = 8
_TIME_SIZE = 4


class Spans:
    """A text or binary column under the name of a property."""

    def __init__(self, name: bytes, offsets: Any, data: Any, validity: Any, first: int) -> None:
        self.name = name
        self.offsets = offsets
        self.data = data
        self.validity = validity
        self.first = first
        self.name_address = raw.at_address(name)
        self.name_size = len(name)
        self.address = raw.at_address(data)
        self.size = len(offsets) - 1
        self.limit = len(data)
        self.has_gaps = len(validity) > 0
        if self.has_gaps and len(validity) * 8 < self.size:
            raise ValueError(f"validity of {len(validity)} bytes for {self.size} rows")

    def start(self, row: int) -> int:
        """Where the value of a row begins; -1 when it is null."""
        at = row + self.first
        if at < 0 or at >= self.size:
            return -2
        if self.has_gaps and not (self.validity[at >> 3] >> (at & 7)) & 1:
            return -1
        start = self.offsets[at]
        if start < 0 or self.offsets[at + 1] < start or self.offsets[at + 1] > self.limit:
            return -2
        return start  # type: ignore[no-any-return]

    def end(self, row: int) -> int:
        """Where it ends; only after ``start`` has said that it is there."""
        return self.offsets[row + self.first + 1]  # type: ignore[no-any-return]


class Pairs:
    """A map column: entries of row n are ``offsets[n]`` to before ``offsets[n + 1]``.

    ``skip`` has a 1 for each entry that is not to be written.
    """

    def __init__(
        self, offsets: Any, validity: Any, first: int, names: Spans, values: Spans, skip: Any
    ) -> None:
        self.rows = Spans(b"", offsets, b"", validity, first)
        self.offsets = offsets
        self.first = first
        self.names = names
        self.values = values
        self.skip = skip
        self.count = len(skip)
        self.rows.limit = self.count
        self.end_at = 0

    def start(self, row: int) -> int:
        """The first entry of a row, -1 for none; ``end_at`` is then where they end."""
        start = self.rows.start(row)
        if start >= 0:
            self.end_at = self.offsets[row + self.first + 1]
        return start


class Encoder:
    """Writes rows of one Arrow batch; ``bad_row`` says which row an error is about."""

    def __init__(self, body: Spans, texts: list[Spans], pairs: Pairs | None) -> None:
        self.body = body
        self.texts = texts
        self.pairs = pairs
        self.with_unique = False
        self.unique = b""
        self.unique_address = raw.at_address(self.unique)
        self.base = 0
        self.bad_row = -1

    def number(self, origin: bytes, time: bytes, base: int) -> None:
        """Give every row a unique key: of 8 bytes, 4 bytes and ``base`` plus the row."""
        if len(origin) != _ORIGIN_SIZE or len(time) != _TIME_SIZE:
            raise ValueError(
                f"origin of {len(origin)} bytes, time of {len(time)}: expected 8 and 4 bytes"
            )
        text = f"{bytes(origin).hex()}0000{bytes(time).hex()}0000".upper()
        self.unique = b"UNIQ_KEY\x01" + text.encode()  # but for the number
        self.unique_address = raw.at_address(self.unique)
        self.base = base
        self.with_unique = True

    def encode(self, rows: Any, begin: int, out: Any, at: int, limit: int) -> tuple[int, int]:
        """Write rows ``rows[begin:]`` to ``out`` from ``at`` on, while they fit before ``limit``.

        Answers how many were written and where they end.
        """
        if at < 0 or limit > len(out) or begin < 0:
            raise ValueError(f"no room from {at} to {limit}")
        count = 0
        total = len(rows)
        target = raw.at_address(out)
        while begin + count < total:
            row = rows[begin + count]
            size = self._measure(row)
            if size < 0:
                self.bad_row = row
                raise ValueError("a property is too long or has a separator in it, or no body")
            if size > limit - at:
                break
            self._write(row, target, at, size)
            at += size
            count += 1
        return count, at

    def _measure(self, row: int) -> int:
        start = self.body.start(row)
        if start < 0:
            return -1
        size = self.body.end(row) - start
        properties = 0
        for column in self.texts:
            start = column.start(row)
            if start == -2:
                return -1
            if start >= 0 and column.end(row) > start:
                if not _is_plain(column.address, start, column.end(row)):
                    return -1
                properties += column.name_size + 2 + column.end(row) - start
        if self.pairs is not None:
            added = self._measure_pairs(self.pairs, row)
            if added < 0:
                return -1
            properties += added
        if self.with_unique:
            properties += _UNIQUE_SIZE
        if properties > record.PROPERTIES_SIZE_MAX:
            return -1
        return inner.SIZE_MIN + size + properties

    def _measure_pairs(self, pairs: Pairs, row: int) -> int:
        size = 0
        entry = pairs.start(row)
        if entry == -2:
            return -1
        if entry < 0:
            return 0
        while entry < pairs.end_at:
            if not pairs.skip[entry]:
                name = pairs.names.start(entry)
                value = pairs.values.start(entry)
                if name == -2 or value == -2:
                    return -1
                if name >= 0 and value >= 0:
                    name_end = pairs.names.end(entry)
                    value_end = pairs.values.end(entry)
                    if not _is_plain(pairs.names.address, name, name_end) or not _is_plain(
                        pairs.values.address, value, value_end
                    ):
                        return -1
                    if name_end > name and value_end > value:
                        size += name_end - name + value_end - value + 2
            entry += 1
        return size

    def _write(self, row: int, out: Any, at: int, size: int) -> None:
        start = self.body.start(row)
        body_size = self.body.end(row) - start
        raw.put_u32(out, at + inner.SIZE_AT, size)
        raw.put_u32(out, at + inner.MAGIC_AT, 0)
        raw.put_u32(out, at + inner.BODY_CRC_AT, 0)
        raw.put_u32(out, at + inner.FLAG_AT, 0)
        raw.put_u32(out, at + inner.BODY_LENGTH_AT, body_size)
        place = _copy(out, at + inner.BODY_AT, self.body.address, start, body_size)
        place += inner.PROPERTIES_HEAD
        raw.put_u16(out, place - inner.PROPERTIES_HEAD, at + size - place)
        for column in self.texts:
            start = column.start(row)
            if start >= 0 and column.end(row) > start:
                place = _copy(out, place, column.name_address, 0, column.name_size)
                out[place] = text.NAME_END
                place = _copy(out, place + 1, column.address, start, column.end(row) - start)
                out[place] = text.VALUE_END
                place += 1
        if self.pairs is not None:
            place = self._write_pairs(self.pairs, row, out, place)
        if self.with_unique:
            self._write_unique(row, out, place)

    def _write_pairs(self, pairs: Pairs, row: int, out: Any, place: int) -> int:
        entry = pairs.start(row)
        if entry < 0:
            return place
        while entry < pairs.end_at:
            if not pairs.skip[entry]:
                name = pairs.names.start(entry)
                value = pairs.values.start(entry)
                if name >= 0 and value >= 0:
                    name_size = pairs.names.end(entry) - name
                    value_size = pairs.values.end(entry) - value
                    if name_size > 0 and value_size > 0:
                        place = _copy(out, place, pairs.names.address, name, name_size)
                        out[place] = text.NAME_END
                        place = _copy(out, place + 1, pairs.values.address, value, value_size)
                        out[place] = text.VALUE_END
                        place += 1
            entry += 1
        return place

    def _write_unique(self, row: int, out: Any, place: int) -> None:
        number = self.base + row
        place = _copy(out, place, self.unique_address, 0, _UNIQUE_SIZE - 1)
        out[place] = text.VALUE_END
        place -= _UNIQUE_DIGITS
        _put_half(out, place + _HIGH_AT, number >> 16)
        _put_half(out, place + _LOW_AT, number)


def hash_rows(keys: Spans, count: int, queue_count: int, out: Any) -> None:
    """Choose the queue of each row by the Java hash of its first key; -1 where there is no key."""
    if len(out) < count or queue_count <= 0:
        raise ValueError(f"no room for {count} rows, or {queue_count} queues")
    for row in range(count):
        out[row] = -1
        at = keys.start(row)
        if at < 0:
            continue
        end = raw.find_byte(keys.address, at, keys.end(row), ord(" "))
        if end < 0:
            end = keys.end(row)
        if end > at:
            value = hashing.as_int(hashing.java_hash(keys.data, at, end, 0))
            out[row] = (-value if value < 0 else value) % queue_count


def _is_plain(data: Any, at: int, end: int) -> bool:
    while at < end:
        if data[at] == text.NAME_END or data[at] == text.VALUE_END:
            return False
        at += 1
    return True


def _copy(out: Any, at: int, data: Any, start: int, size: int) -> int:
    raw.copy_bytes(out, at, data, start, size)
    return at + size


def _put_half(out: Any, at: int, value: int) -> None:
    """Write the lowest 16 bits as four digits."""
    text.put_hex_8(out, at, (value >> 8) & 0xFF)
    text.put_hex_8(out, at + 2, value & 0xFF)
