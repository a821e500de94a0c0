"""MessagePack as JSON text, for reading: maps, lists, numbers, text; bytes as hexadecimal."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

LENGTH_MAX: Final = 256 * 1024


def read_msgpack(body: bytes) -> str | None:
    """The body as indented JSON if it is a MessagePack map or list, else None."""
    if not body or not _begins_container(body[0]):
        return None
    try:
        value = msgspec.msgpack.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError, TypeError):
        return None
    text = json.dumps(_plain(value), indent=2, ensure_ascii=False)
    return text[:LENGTH_MAX]


def _begins_container(first: int) -> bool:
    return 0x80 <= first <= 0x9F or first in (0xDC, 0xDD, 0xDE, 0xDF)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)
