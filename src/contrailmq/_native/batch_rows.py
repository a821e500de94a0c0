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

from contrailmq._native import raw

_HEAD = 20
_PROPERTIES_MAX = 32767
_UNIQUE_SIZE = 42
_MASK = 0xFFFFFFFF
_WRAP = 0x100000000


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
        if len(origin) != 8 or len(time) != 4:
            raise ValueError("an origin has 8 bytes, a time has 4")
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
        for text in self.texts:
            start = text.start(row)
            if start == -2:
                return -1
            if start >= 0 and text.end(row) > start:
                if not _is_plain(text.address, start, text.end(row)):
                    return -1
                properties += text.name_size + 2 + text.end(row) - start
        if self.pairs is not None:
            added = self._measure_pairs(self.pairs, row)
            if added < 0:
                return -1
            properties += added
        if self.with_unique:
            properties += _UNIQUE_SIZE
        if properties > _PROPERTIES_MAX:
            return -1
        return _HEAD + size + 2 + properties

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
        raw.put_u32(out, at, size)
        raw.put_i64(out, at + 4, 0)
        raw.put_u32(out, at + 12, 0)
        raw.put_u32(out, at + 16, body_size)
        place = _copy(out, at + _HEAD, self.body.address, start, body_size)
        raw.put_u16(out, place, at + size - place - 2)
        place += 2
        for text in self.texts:
            start = text.start(row)
            if start >= 0 and text.end(row) > start:
                place = _copy(out, place, text.name_address, 0, text.name_size)
                out[place] = 1
                place = _copy(out, place + 1, text.address, start, text.end(row) - start)
                out[place] = 2
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
                        out[place] = 1
                        place = _copy(out, place + 1, pairs.values.address, value, value_size)
                        out[place] = 2
                        place += 1
            entry += 1
        return place

    def _write_unique(self, row: int, out: Any, place: int) -> None:
        number = self.base + row
        place = _copy(out, place, self.unique_address, 0, _UNIQUE_SIZE - 1)
        out[place] = 2
        place -= 32
        _hex(out, place + 16, (number >> 24) & 0xFF)
        _hex(out, place + 18, (number >> 16) & 0xFF)
        _hex(out, place + 28, (number >> 8) & 0xFF)
        _hex(out, place + 30, number & 0xFF)


def hash_rows(keys: Spans, count: int, queue_count: int, out: Any) -> int:
    """The queue of each row by the Java hash of its first key; -1 where there is no key.

    Answers how many rows were left to the caller with -2: their keys are not ASCII.
    """
    if len(out) < count or queue_count <= 0:
        raise ValueError(f"no room for {count} rows, or {queue_count} queues")
    left = 0
    for row in range(count):
        at = keys.start(row)
        if at < 0:
            out[row] = -1
            continue
        end = keys.end(row)
        value = 0
        chosen = -1
        while at < end:
            code = keys.data[at]
            if code == 32:
                break
            if code > 0x7F:
                chosen = -2
                break
            value = (value * 31 + code) & _MASK
            chosen = 0
            at += 1
        if chosen == 0:
            if value > 0x7FFFFFFF:
                value = _WRAP - value
            chosen = value % queue_count
        elif chosen == -2:
            left += 1
        out[row] = chosen
    return left


def _is_plain(data: Any, at: int, end: int) -> bool:
    while at < end:
        if data[at] == 1 or data[at] == 2:
            return False
        at += 1
    return True


def _copy(out: Any, at: int, data: Any, start: int, size: int) -> int:
    raw.copy_bytes(out, at, data, start, size)
    return at + size


def _hex(out: Any, at: int, value: int) -> None:
    high = value >> 4
    low = value & 15
    out[at] = high + 48 if high < 10 else high + 55
    out[at + 1] = low + 48 if low < 10 else low + 55
