# cython: annotation_typing=False
# ruff: noqa: ERA001
"""Protocol buffers on the wire: the walk over bytes for declared messages.

What a message is made of comes as ``FieldPlan``s, which ``contrailmq.grpc.protobuf`` makes of the
declarations.  Bytes that are no message raise ``RemoteProtocolError``: a length beyond the end, a
varint of more than ten bytes, text that is no UTF-8, more than ``ITEMS_MAX`` items in one list.
The depth of nesting is that of the declarations, which have no circles.
"""

from __future__ import annotations

import struct
from typing import Any

from contrailmq._native import raw
from contrailmq.errors import RemoteProtocolError

ITEMS_MAX = 10_000

INT = 0
BOOL = 1
FLOAT = 2
TEXT = 3
BYTES = 4
MESSAGE = 5
MAP = 6

_VARINT = 0
_FIXED64 = 1
_SIZED = 2
_FIXED32 = 5
_FLOAT = struct.Struct("<f")
_WORD = 0xFFFFFFFFFFFFFFFF
_POSITIVE = 0x7FFFFFFFFFFFFFFF
_SHIFT_END = 70  # of ten bytes
_HIGH_BIT = 0x80
_WORD_BITS = 64


class FieldPlan:
    """One declared field; ``codec`` is that of a message's fields."""

    def __init__(
        self, name: str, number: int, kind: int, *, is_list: bool, has_presence: bool, codec: Any
    ) -> None:
        self.name = name
        self.number = number
        self.kind = kind
        self.is_list = is_list
        self.has_presence = has_presence
        self.codec: Any = codec
        wire = _SIZED
        if kind in (INT, BOOL) and not is_list:
            wire = _VARINT
        elif kind == FLOAT:
            wire = _FIXED32
        out = bytearray()
        _put_varint(out, number << 3 | wire)
        self.tag = bytes(out)


class Plan:
    """Encodes and decodes the messages of one class."""

    def __init__(self, make: Any, fields: list[FieldPlan]) -> None:
        self._make = make
        self._fields = sorted(fields, key=lambda field: field.number)
        self._by_number: list[Any] = [None] * (max([field.number for field in fields] or [0]) + 1)
        for field in fields:
            self._by_number[field.number] = field

    def encode(self, message: Any) -> bytes:
        """The bytes of a message, fields in the order of their numbers."""
        out = bytearray()
        self.write(out, message)
        return bytes(out)

    def write(self, out: bytearray, message: Any) -> None:
        """Append the bytes of a message."""
        for field in self._fields:
            value = getattr(message, field.name)
            if (value is not None) if field.has_presence else value:
                self._put(out, field, value)

    def _put(self, out: bytearray, field: Any, value: Any) -> None:
        kind = field.kind
        if kind == MAP:
            for key, text in value.items():
                pair = bytearray()
                _put_sized(pair, b"\x0a", key.encode())
                _put_sized(pair, b"\x12", text.encode())
                _put_sized(out, field.tag, pair)
        elif field.is_list and kind == INT:
            packed = bytearray()
            for item in value:
                _put_varint(packed, item & _WORD)
            _put_sized(out, field.tag, packed)
        elif field.is_list:
            for item in value:
                self._put_one(out, field, item)
        else:
            self._put_one(out, field, value)

    def _put_one(self, out: bytearray, field: Any, value: Any) -> None:
        kind = field.kind
        if kind == TEXT:
            _put_sized(out, field.tag, value.encode())
        elif kind == BYTES:
            _put_sized(out, field.tag, value)
        elif kind == MESSAGE:
            part = bytearray()
            field.codec.write(part, value)
            _put_sized(out, field.tag, part)
        elif kind == FLOAT:
            out += field.tag
            out += _FLOAT.pack(value)
        else:
            out += field.tag
            _put_varint(out, int(value) & _WORD)

    def decode(self, data: Any) -> Any:
        """The message of some bytes; raises RemoteProtocolError."""
        reader = Reader(data)
        return self.read(reader, len(data))

    def read(self, reader: Any, stop: int) -> Any:
        """The message between the reader's place and another."""
        found: dict[str, Any] = {}
        known = len(self._by_number)
        while reader.at < stop:
            tag = reader.varint(stop)
            number = tag >> 3
            wire = tag & 7
            field = self._by_number[number] if number < known else None
            if wire == _SIZED:
                end = reader.end_of_part(stop)
                if field is not None:
                    _take(found, field, reader, end)
                reader.at = end
            elif wire == _VARINT:
                value = reader.varint(stop)
                if field is not None and field.kind <= BOOL:
                    _note(found, field, _number(field, value))
            elif wire == _FIXED32 or wire == _FIXED64:
                size = 4 if wire == _FIXED32 else 8
                if stop - reader.at < size:
                    raise _broken("a fixed number without an end", reader.at)
                if field is not None and field.kind == FLOAT and size == 4:
                    found[field.name] = _FLOAT.unpack(reader.bytes_to(reader.at + 4))[0]
                reader.at += size
            else:
                raise _broken(f"wire type {wire}", reader.at)
        return self._make(**found)


class Reader:
    """A place in some bytes."""

    def __init__(self, data: Any) -> None:
        self._view = memoryview(data)
        self._data = raw.at_address(self._view)
        self.at = 0

    def varint(self, stop: int) -> int:
        """An unsigned number before ``stop``."""
        data = self._data
        at = self.at
        result = 0
        shift = 0
        while at < stop and shift < _SHIFT_END:
            byte = data[at]
            at += 1
            result |= _shifted(byte & 0x7F, shift)
            if byte < _HIGH_BIT:
                self.at = at
                return result
            shift += 7
        raise _broken("a number without an end", at)

    def end_of_part(self, stop: int) -> int:
        """Read a length; returns where its part ends, which is not after ``stop``."""
        size = self.varint(stop)
        room = stop - self.at
        if size > room:
            raise _broken(f"{size} bytes announced, {room} there", self.at)
        return self.at + size

    def bytes_to(self, end: int) -> bytes:
        """The bytes from here to another place; the place stays."""
        return raw.copy_of(self._data, self.at, end - self.at)

    def text_to(self, end: int, name: str) -> str:
        """The text from here to another place; the place stays."""
        try:
            return raw.copy_of(self._data, self.at, end - self.at).decode("utf-8")
        except UnicodeDecodeError:
            raise _broken(f"{name}: text that is no UTF-8", self.at) from None


def _shifted(bits: int, shift: int) -> int:
    """Seven bits in their place of a 64-bit number; those beyond it are dropped."""
    return (bits << shift) & _WORD if shift < _WORD_BITS else 0


def _take(found: dict[str, Any], field: Any, reader: Any, end: int) -> None:
    kind = field.kind
    if kind == TEXT:
        _note(found, field, reader.text_to(end, field.name))
    elif kind == MESSAGE:
        _note(found, field, field.codec.read(reader, end))
    elif kind == BYTES:
        _note(found, field, reader.bytes_to(end))
    elif kind == MAP:
        _take_pair(found, field, reader, end)
    elif kind <= BOOL:
        while reader.at < end and field.is_list:  # packed
            _note(found, field, _number(field, reader.varint(end)))


def _take_pair(found: dict[str, Any], field: Any, reader: Any, end: int) -> None:
    key = ""
    value = ""
    while reader.at < end:
        tag = reader.varint(end)
        wire = tag & 7
        if wire != _SIZED:
            raise _broken(f"wire type {wire} in a map", reader.at)
        stop = reader.end_of_part(end)
        if tag >> 3 == 1:
            key = reader.text_to(stop, field.name)
        elif tag >> 3 == 2:
            value = reader.text_to(stop, field.name)
        reader.at = stop
    pairs = found.get(field.name)
    if pairs is None:
        pairs = found[field.name] = {}
    pairs[key] = value
    _check_count(len(pairs), field.name)


def _note(found: dict[str, Any], field: Any, value: Any) -> None:
    if not field.is_list:
        found[field.name] = value
        return
    items = found.get(field.name)
    if items is None:
        items = found[field.name] = []
    items.append(value)
    _check_count(len(items), field.name)


def _check_count(count: int, name: str) -> None:
    if count > ITEMS_MAX:
        raise RemoteProtocolError(f"{name}: {count} items, at most {ITEMS_MAX}")


def _number(field: Any, value: int) -> Any:
    if field.kind == BOOL:
        return value != 0
    return _signed(value)


def _signed(value: int) -> int:
    """The same 64 bits with a sign."""
    return value if value <= _POSITIVE else -((value ^ _WORD) & _POSITIVE) - 1


def _put_sized(out: bytearray, tag: bytes, data: Any) -> None:
    out += tag
    _put_varint(out, len(data))
    out += data


def _put_varint(out: bytearray, value: int) -> None:
    high = _HIGH_BIT
    while value >= high:
        out.append(value & 0x7F | high)
        value >>= 7
    out.append(value)


def _broken(what: str, at: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"no protobuf message: {what}, at byte {at}")
