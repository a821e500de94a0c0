"""Protocol buffers on the wire, for messages that are declared as structs.

A message is a ``msgspec.Struct`` whose fields are ``Annotated[kind, number]``.  ``Codec`` reads
the annotations of one struct once, and then encodes and decodes it.  Known kinds: ``int`` (varint:
int32, int64, enums), ``bool``, ``float`` (32 bit), ``str``, ``bytes``, another message, a list of
these, and ``dict[str, str]``.  ``X | None`` is a field with presence (proto3 optional, oneof, and
every message); without it a zero is not written.

Unknown fields are skipped.  Bytes that are no message raise ``RemoteProtocolError``: a length
beyond the end, a varint of more than ten bytes, text that is no UTF-8, more than ``ITEMS_MAX``
items in one list.  The depth of nesting is that of the declarations, which have no circles.
"""

from __future__ import annotations

import functools
import struct
import types
from collections.abc import Callable
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from contrailmq.errors import RemoteProtocolError

ITEMS_MAX: Final = 10_000
VARINT, FIXED64, SIZED, FIXED32 = 0, 1, 2, 5
_FLOAT: Final = struct.Struct("<f")
_WORD: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63

Buffer = bytes | bytearray | memoryview
M = TypeVar("M", bound=msgspec.Struct)
Writer = Callable[[bytearray, Any], None]


def varint(value: int) -> bytes:
    """A number as it stands on the wire; negative ones take ten bytes."""
    if 0 <= value < 0x80:
        return _SMALL[value]
    value &= _WORD
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL: Final = [bytes((value,)) for value in range(0x80)]


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """An unsigned number and the place after it; RemoteProtocolError if it has no end."""
    result = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & _WORD, at
        shift += 7
    raise _broken("a number without an end", at)


class _Field:
    """One declared field: how its values are written, and how they are read."""

    __slots__ = ("codec", "has_presence", "is_list", "is_map", "kind", "name", "number", "tag")

    def __init__(self, name: str, hint: Any) -> None:
        declared, self.number = get_args(hint)[:2]
        kind, self.has_presence = _without_none(declared)
        self.name = name
        self.is_list = get_origin(kind) is list
        self.is_map = get_origin(kind) is dict
        if self.is_list:
            kind = get_args(kind)[0]
        self.kind: Any = kind
        is_message = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        self.codec: Codec[Any] | None = codec_of(kind) if is_message else None
        wire = SIZED
        if kind in (int, bool) and not self.is_list:
            wire = VARINT
        elif kind is float:
            wire = FIXED32
        self.tag = varint(self.number << 3 | wire)

    def write(self, out: bytearray, value: Any) -> None:
        """Append a value that is not absent."""
        if self.codec is not None:
            for item in value if self.is_list else (value,):
                data = self.codec.encode(item)
                out += self.tag + varint(len(data)) + data
        elif self.is_map:
            for key, text in value.items():
                pair = bytearray()
                _write_sized(pair, b"\x0a", key.encode())
                _write_sized(pair, b"\x12", text.encode())
                _write_sized(out, self.tag, pair)
        elif self.is_list and self.kind is int:
            _write_sized(out, self.tag, b"".join(map(varint, value)))
        elif self.kind in (int, bool):
            out += self.tag + varint(int(value))
        elif self.kind is float:
            out += self.tag + _FLOAT.pack(value)
        else:
            for item in value if self.is_list else (value,):
                _write_sized(out, self.tag, item.encode() if self.kind is str else item)

    def read(self, data: bytes, start: int, end: int) -> Any:
        """A length-delimited value."""
        if self.codec is not None:
            return self.codec.decode_part(data, start, end)
        if self.kind is str:
            try:
                return data[start:end].decode()
            except UnicodeDecodeError:
                raise _broken(f"{self.name}: text that is no UTF-8", start) from None
        return data[start:end]


class Codec(Generic[M]):
    """Encodes and decodes the messages of one struct."""

    __slots__ = ("_by_number", "_fields", "kind")

    def __init__(self, kind: type[M]) -> None:
        self.kind = kind
        hints = get_type_hints(kind, include_extras=True)
        fields = [
            _Field(name, hint) for name, hint in hints.items() if get_origin(hint) is Annotated
        ]
        self._fields = sorted(fields, key=lambda field: field.number)
        self._by_number = {field.number: field for field in fields}

    def encode(self, message: M) -> bytes:
        """The bytes of a message, fields in the order of their numbers."""
        out = bytearray()
        for field in self._fields:
            value = getattr(message, field.name)
            if value if not field.has_presence else value is not None:
                field.write(out, value)
        return bytes(out)

    def decode(self, data: Buffer) -> M:
        """The message of some bytes; raises RemoteProtocolError."""
        raw = data if isinstance(data, bytes) else bytes(data)
        return self.decode_part(raw, 0, len(raw))

    def decode_part(self, data: bytes, at: int, stop: int) -> M:
        """The message that stands between two places."""
        found: dict[str, Any] = {}
        while at < stop:
            tag, at = (data[at], at + 1) if data[at] < 0x80 else read_varint(data, at, stop)
            field, wire = self._by_number.get(tag >> 3), tag & 7
            if wire == SIZED:
                size, at = (
                    (data[at], at + 1)
                    if at < stop and data[at] < 0x80
                    else read_varint(data, at, stop)
                )
                end = at + size
                if end > stop:
                    raise _broken(f"{size} bytes announced, {stop - at} there", at)
                if field is not None:
                    self._take(found, field, data, span=(at, end))
                at = end
            elif wire == VARINT:
                value, at = read_varint(data, at, stop)
                if field is not None and field.kind in (int, bool):
                    _note(found, field, _number(field, value))
            elif wire in (FIXED32, FIXED64):
                size = 4 if wire == FIXED32 else 8
                if at + size > stop:
                    raise _broken("a fixed number without an end", at)
                if field is not None and field.kind is float and wire == FIXED32:
                    found[field.name] = _FLOAT.unpack_from(data, at)[0]
                at += size
            else:
                raise _broken(f"wire type {wire}", at)
        return self.kind(**found)

    def _take(
        self, found: dict[str, Any], field: _Field, data: bytes, *, span: tuple[int, int]
    ) -> None:
        at, end = span
        if field.is_map:
            key, value = _pair(data, at, end)
            pairs = found.setdefault(field.name, {})
            pairs[key] = value
            _check_count(len(pairs), field)
        elif field.kind in (int, bool):
            while at < end and field.is_list:  # packed
                number, at = read_varint(data, at, end)
                _note(found, field, _number(field, number))
        elif field.kind is not float:
            _note(found, field, field.read(data, at, end))


def codec_of(kind: type[M]) -> Codec[M]:
    """The codec of a declared message, made once."""
    found: Codec[M] = _made(kind)
    return found


@functools.cache
def _made(kind: Any) -> Codec[Any]:
    return Codec(kind)


def _note(found: dict[str, Any], field: _Field, value: Any) -> None:
    if not field.is_list:
        found[field.name] = value
        return
    items = found.setdefault(field.name, [])
    items.append(value)
    _check_count(len(items), field)


def _check_count(count: int, field: _Field) -> None:
    if count > ITEMS_MAX:
        raise RemoteProtocolError(f"{field.name}: {count} items, at most {ITEMS_MAX}")


def _number(field: _Field, value: int) -> int:
    if field.kind is bool:
        return bool(value)
    return value - (1 << 64) if value & _SIGN else value


_PAIR_KEY, _PAIR_VALUE = 1, 2


def _pair(data: bytes, at: int, stop: int) -> tuple[str, str]:
    texts = {_PAIR_KEY: "", _PAIR_VALUE: ""}
    while at < stop:
        tag, at = read_varint(data, at, stop)
        if tag & 7 != SIZED:
            raise _broken(f"wire type {tag & 7} in a map", at)
        size, at = read_varint(data, at, stop)
        if at + size > stop:
            raise _broken(f"{size} bytes announced, {stop - at} there", at)
        try:
            texts[tag >> 3] = data[at : at + size].decode()
        except UnicodeDecodeError:
            raise _broken("text that is no UTF-8", at) from None
        at += size
    return texts[_PAIR_KEY], texts[_PAIR_VALUE]


def _write_sized(out: bytearray, tag: bytes, data: Buffer) -> None:
    out += tag + varint(len(data))
    out += data


def _without_none(declared: Any) -> tuple[Any, bool]:
    if get_origin(declared) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(declared) if kind is not type(None)]
        return kinds[0], True
    return declared, False


def _broken(what: str, at: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"no protobuf message: {what}, at byte {at}")
