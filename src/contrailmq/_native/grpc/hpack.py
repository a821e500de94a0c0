# cython: annotation_typing=False
# ruff: noqa: ERA001
"""HPACK (RFC 7541): header blocks to fields, fields to header blocks.

A decoder keeps the peer's dynamic table.  ``decode`` raises ``HpackError`` for what breaks the
table, which ends the connection.  What is only a wrong header (a name in upper case, a pseudo
header twice) it notes in ``problem`` and goes on, since the table must see the rest of the block.
A list beyond ``list_size_max`` sets ``is_too_large``; its further fields are not kept.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import raw
from contrailmq._native.grpc import tables
from contrailmq.errors import RemoteProtocolError

_FIELD_EXTRA = 32
_NUMBER_MAX = 1 << 28
_SHIFT_MAX = 21  # of a number's last byte
_HIGH_BIT = 0x80
_SIZE_BITS = 0xE0
_SIZE_MARK = 0x20
_SLACK = 64  # entries that were evicted and still take room

_REGULAR = 0
_BAD = 1
_METHOD = 2
_SCHEME = 3
_PATH = 4
_AUTHORITY = 5
_STATUS = 6
_PSEUDO = {
    ":method": _METHOD,
    ":scheme": _SCHEME,
    ":path": _PATH,
    ":authority": _AUTHORITY,
    ":status": _STATUS,
}
_FORBIDDEN = frozenset(
    ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade")
)
_NAME_LETTERS = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")

_steps = tables.STEP_NEXT
_does = tables.STEP_DOES
_symbols = tables.STEP_SYMBOL
_may_end = tables.MAY_END


class HpackError(RemoteProtocolError):
    """A header block does not decode; the connection's table is lost."""


class Field:
    """One header: its name, value, size in a table, and what kind it is."""

    def __init__(self, name: str, value: str, kind: int) -> None:
        self.name = name
        self.value = value
        self.kind = kind
        self.size = len(name) + len(value) + _FIELD_EXTRA


def _kind_of(name: str) -> int:
    if name[:1] == ":":
        return _PSEUDO.get(name, _BAD)
    if not name or name in _FORBIDDEN or not _NAME_LETTERS.issuperset(name):
        return _BAD
    return _REGULAR


def _has_control(value: str) -> bool:
    return not value.isprintable() and any(
        (letter < " " and letter != "\t") or letter == "\x7f" for letter in value
    )


def _latin(data: Any, at: int, size: int) -> str:
    """A stretch as text, one character per byte."""
    return raw.copy_of(data, at, size).decode("latin-1")


_static = [Field(name, value, _kind_of(name)) for name, value in tables.STATIC]
_static_count = len(_static)


class HeaderDecoder:
    """The decoder of one connection."""

    def __init__(self, table_size_max: int, list_size_max: int) -> None:
        self._table: list[Any] = []  # the oldest first
        self._first = 0  # of the entries still in the table
        self._size = 0
        self._size_max = table_size_max  # what the peer chose
        self._size_limit = table_size_max  # what we allow it to choose
        self._list_size_max = list_size_max
        self._view: Any = None
        self._data: Any = raw.at_address(b"")
        self._at = 0
        self._end = 0
        self.method: str | None = None
        self.scheme: str | None = None
        self.path: str | None = None
        self.authority: str | None = None
        self.status: str | None = None
        self.problem: str | None = None
        self.is_too_large = False

    @property
    def table_size(self) -> int:
        """What the dynamic table holds, by HPACK's count."""
        return self._size

    def decode(self, block: Any, start: int, end: int) -> dict[str, str]:
        """The regular fields of a whole block, a repeated name's values joined by commas.

        Pseudo headers are in the attributes of their names.
        """
        view = memoryview(block)
        if not 0 <= start <= end <= len(view):
            raise HpackError(f"block {start}..{end} outside of {len(view)} bytes")
        self._view = view
        self._data = raw.at_address(view)
        self._at = start
        self._end = end
        self.method = self.scheme = self.path = self.authority = self.status = None
        self.problem = None
        self.is_too_large = False
        fields: dict[str, str] = {}
        try:
            self._walk(fields)
        finally:
            self._view = None
            self._data = raw.at_address(b"")
        return fields

    def _walk(self, fields: dict[str, str]) -> None:
        total = 0
        is_first = True
        while self._at < self._end:
            byte = self._data[self._at]
            if byte & 0x80:
                field = self._entry(self._number(7))
            elif byte & _SIZE_BITS == _SIZE_MARK:
                if not is_first:
                    raise HpackError("a table size after a field; it must come first")
                self._resize(self._number(5))
                continue
            elif byte & 0x40:
                field = self._literal(6)
                self._insert(field)
            else:
                field = self._literal(4)
            is_first = False
            total += field.size
            if total > self._list_size_max:
                self.is_too_large = True
            else:
                self._keep(field, fields)

    def _keep(self, field: Any, fields: dict[str, str]) -> None:
        kind = field.kind
        if kind == _REGULAR:
            name = field.name
            if name in fields:
                fields[name] = fields[name] + "," + field.value
            else:
                fields[name] = field.value
            return
        if kind == _BAD:
            self.problem = f"header {field.name[:64]!r} is not allowed"
            return
        if len(fields) > 0:
            self.problem = f"{field.name} after a regular header"
        before: str | None
        if kind == _METHOD:
            before, self.method = self.method, field.value
        elif kind == _SCHEME:
            before, self.scheme = self.scheme, field.value
        elif kind == _PATH:
            before, self.path = self.path, field.value
        elif kind == _AUTHORITY:
            before, self.authority = self.authority, field.value
        else:
            before, self.status = self.status, field.value
        if before is not None:
            self.problem = f"{field.name} twice"

    def _number(self, bits: int) -> int:
        """A number whose first ``bits`` bits are the end of the next byte."""
        mask = (1 << bits) - 1
        value: int = self._data[self._at] & mask
        self._at += 1
        if value < mask:
            return value
        shift = 0
        while True:
            if self._at >= self._end or shift > _SHIFT_MAX:
                raise HpackError("a number is cut short, or above 2^28")
            byte = self._data[self._at]
            self._at += 1
            value += (byte & 0x7F) << shift
            shift += 7
            if byte < _HIGH_BIT:
                if value > _NUMBER_MAX:
                    raise HpackError(f"number {value}, at most {_NUMBER_MAX}")
                return value

    def _entry(self, index: int) -> Any:
        if index <= _static_count:
            if index == 0:
                raise HpackError("index 0 names no header")
            return _static[index - 1]
        place = len(self._table) - (index - _static_count)
        if place < self._first:
            count = len(self._table) - self._first
            raise HpackError(f"index {index}, the tables have {_static_count + count}")
        return self._table[place]

    def _literal(self, bits: int) -> Any:
        index = self._number(bits)
        if index > 0:
            known = self._entry(index)
            name = known.name
            kind = known.kind
        else:
            name = self._text()
            kind = _kind_of(name)
        value = self._text()
        if _has_control(value) or (name == "te" and value != "trailers"):
            kind = _BAD
        return Field(name, value, kind)

    def _text(self) -> str:
        if self._at >= self._end:
            raise HpackError("a text is cut short")
        is_coded = self._data[self._at] >= _HIGH_BIT
        size = self._number(7)
        start = self._at
        if size > self._end - start:
            raise HpackError(f"text of {size} bytes, {self._end - start} are left")
        self._at = start + size
        if is_coded:
            return self._unpacked(start, size)
        return _latin(self._data, start, size)

    def _unpacked(self, start: int, size: int) -> str:
        buffer = raw.new_buffer(size * 2)  # no code is shorter than five bits
        out = raw.at_address(buffer)
        data = self._data
        state = 0
        count = 0
        for at in range(start, start + size):
            byte = data[at]
            for half in range(2):
                step = state * 16 + (byte >> 4 if half == 0 else byte & 15)
                doing = _does_at[step]
                state = _steps_at[step]
                if doing == 1:
                    out[count] = _symbols_at[step]
                    count += 1
                elif doing == 2:
                    raise HpackError("a text holds the end mark")
        if not _may_end_at[state]:
            raise HpackError("a text ends within a symbol")
        return _latin(out, 0, count)

    def _insert(self, field: Any) -> None:
        self._shrink(self._size_max - field.size)
        if field.size <= self._size_max:
            self._table.append(field)
            self._size += field.size

    def _resize(self, size: int) -> None:
        if size > self._size_limit:
            raise HpackError(f"table size {size}, at most {self._size_limit}")
        self._size_max = size
        self._shrink(size)

    def _shrink(self, size: int) -> None:
        """Evict the oldest until the table is within a size; below 0 empties it."""
        while self._size > size and self._first < len(self._table):
            field = self._table[self._first]
            self._table[self._first] = None
            self._first += 1
            self._size -= field.size
        if self._first > _SLACK and self._first * 2 > len(self._table):
            del self._table[: self._first]
            self._first = 0


_steps_at = raw.at_address(_steps)
_does_at = raw.at_address(_does)
_symbols_at = raw.at_address(_symbols)
_may_end_at = raw.at_address(_may_end)
