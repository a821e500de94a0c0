"""Protocol Buffers without a schema: field numbers and values, as far as they can be told."""

from __future__ import annotations

import struct
from typing import Final

DEPTH_MAX: Final = 8
FIELDS_MAX: Final = 2000
FIELD_NUMBER_MAX: Final = 4096  # larger ones are rare; random bytes have them at once


class _NotProtobuf(Exception):
    pass


def read_protobuf(body: bytes) -> str | None:
    """The fields, one per line, if all bytes are fields, else None."""
    if len(body) < 2:
        return None
    lines: list[str] = []
    try:
        _message(body, 0, lines)
    except _NotProtobuf:
        return None
    return "\n".join(lines)


def _message(body: bytes, depth: int, lines: list[str]) -> None:
    position, indent = 0, "  " * depth
    while position < len(body):
        tag, position = _varint(body, position)
        number, wire = tag >> 3, tag & 7
        if not 0 < number <= FIELD_NUMBER_MAX or len(lines) >= FIELDS_MAX:
            raise _NotProtobuf
        if wire == 0:
            value, position = _varint(body, position)
            lines.append(f"{indent}{number}: {value}")
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            raw = body[position : position + size]
            if len(raw) < size:
                raise _NotProtobuf
            position += size
            whole = int.from_bytes(raw, "little")
            (real,) = struct.unpack("<d" if size == 8 else "<f", raw)
            lines.append(f"{indent}{number}: {whole} (or {real:g})")
        elif wire == 2:
            size, position = _varint(body, position)
            raw = body[position : position + size]
            if len(raw) < size:
                raise _NotProtobuf
            position += size
            _bytes_field(raw, number, depth, lines)
        else:
            raise _NotProtobuf


def _bytes_field(raw: bytes, number: int, depth: int, lines: list[str]) -> None:
    indent = "  " * depth
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = "\x00"
    if text.isprintable():
        lines.append(f'{indent}{number}: "{text}"')
        return
    inner: list[str] = []
    try:
        if depth >= DEPTH_MAX:
            raise _NotProtobuf
        _message(raw, depth + 1, inner)
    except _NotProtobuf:
        lines.append(f"{indent}{number}: {raw.hex()}")
        return
    lines.append(f"{indent}{number} {{")
    lines += inner
    lines.append(f"{indent}}}")


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(body) or shift > 63:
            raise _NotProtobuf
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
