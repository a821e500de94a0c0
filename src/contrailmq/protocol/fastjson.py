"""JSON as fastjson 1.2 reads and writes it: the dialect of RocketMQ's bodies and config files.

Reading: ``loads`` tries a standard parser first and the tolerant one (``json_reader``) only when
that gives up, so standard bodies cost what standard JSON costs.

Writing: ``dumps`` writes what Java's classes write.  The fields of a bean (a ``msgspec.Struct``
here) are sorted by their names on the wire, a map (a ``dict``) keeps its order, nulls are left out
of both, keys that are not text have no quotes, a ``MessageQueue`` is an object even where it is a
key, bytes are base64, floats have Java's text.  The pretty form is the one of the config files:
one tab a level, and no line break before a key that is not text.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import math
import re
from typing import Any, Final

import msgspec

from contrailmq.errors import LocalProtocolError, RemoteProtocolError
from contrailmq.protocol.json_reader import DEPTH_MAX, ObjectKey, read, resolve_references
from contrailmq.protocol.queue import MessageQueue

SIZE_MAX: Final = 256 * 1024 * 1024

_decode_standard = msgspec.json.Decoder(Any).decode


def loads(data: bytes | bytearray | memoryview | str) -> Any:
    """The value of a JSON text; ``RemoteProtocolError`` when it is none."""
    if len(data) > SIZE_MAX:
        raise RemoteProtocolError(f"JSON of {len(data)} bytes, at most {SIZE_MAX}")
    try:
        value = _decode_standard(data)
    except (msgspec.MsgspecError, UnicodeError):
        return read(text_of(data))
    except RecursionError as error:
        raise RemoteProtocolError("JSON is nested too deeply") from error
    return resolve_references(value) if has_references(data) else value


def text_of(data: bytes | bytearray | memoryview | str) -> str:
    """Bytes as text: UTF-8, with what is not valid replaced, as Java reads it."""
    return data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")


def count_values(data: bytes) -> int:
    """About how many values a text has, or more; quick, whatever it holds."""
    return 1 + data.count(b",") + data.count(b"{") + data.count(b"[") + data.count(b":")


def has_references(data: bytes | bytearray | memoryview | str) -> bool:
    """Whether a text may hold a ``$ref``."""
    if isinstance(data, str):
        return "$ref" in data or "\\u0024" in data
    data = data if isinstance(data, bytes | bytearray) else bytes(data)
    return b"$ref" in data or b"\\u0024" in data


def dumps(
    value: Any,
    *,
    pretty: bool = False,
    quote_int_keys: bool = False,
    ascii_only: bool = False,
    legacy: bool = False,
) -> bytes:
    """The bytes fastjson would write for ``value``.

    ``quote_int_keys`` and ``ascii_only`` together give standard JSON (what a name server answers
    to newer clients).  ``legacy`` leaves out the fields that 4.9 does not know.
    """
    writer = _Writer(
        pretty=pretty, quote_int_keys=quote_int_keys, ascii_only=ascii_only, legacy=legacy
    )
    writer.value(value, 0)
    return "".join(writer.out).encode("utf-8", "replace")


class _Writer:
    """One text in the making."""

    __slots__ = ("_ascii_only", "_legacy", "_pretty", "_quote_int_keys", "out")

    def __init__(
        self, *, pretty: bool, quote_int_keys: bool, ascii_only: bool, legacy: bool
    ) -> None:
        self._pretty = pretty
        self._quote_int_keys = quote_int_keys
        self._ascii_only = ascii_only
        self._legacy = legacy
        self.out: list[str] = []

    def value(self, value: Any, depth: int) -> None:
        kind = type(value)
        if kind is str:
            self.out.append(quote(value, ascii_only=self._ascii_only))
        elif kind is int:
            self.out.append(str(value))
        elif kind is bool:
            self.out.append("true" if value else "false")
        elif value is None:
            self.out.append("null")
        elif kind is float:
            self.out.append(java_double(value))
        elif kind is dict:
            self._object(list(value.items()), depth)
        elif kind is MessageQueue:
            self._object(_queue_items(value), depth)
        elif kind in (list, tuple):
            self._array(value, depth)
        else:
            self._other(value, depth)

    def _other(self, value: Any, depth: int) -> None:
        if isinstance(value, msgspec.Struct):
            self._bean(value, depth)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = sorted(field.name for field in dataclasses.fields(value))
            self._object([(name, getattr(value, name)) for name in names], depth)
        elif isinstance(value, ObjectKey):
            self._object(list(value), depth)
        elif isinstance(value, bytes | bytearray | memoryview):
            self.out.append(f'"{base64.b64encode(value).decode("ascii")}"')
        elif isinstance(value, int):  # an IntEnum
            self.out.append(str(int(value)))
        elif isinstance(value, str):
            self.out.append(quote(str(value), ascii_only=self._ascii_only))
        elif isinstance(value, dict):
            self._object(list(value.items()), depth)
        elif isinstance(value, set | frozenset):
            self._array(sorted(value), depth)
        else:
            raise LocalProtocolError(f"{type(value).__name__} has no JSON form")

    def _bean(self, value: msgspec.Struct, depth: int) -> None:
        if depth >= DEPTH_MAX:
            raise LocalProtocolError(f"JSON nested more than {DEPTH_MAX} deep, or in a circle")
        out = self.out
        separator = "{"
        line = "\n" + "\t" * (depth + 1) if self._pretty else ""
        for label, name, is_new in _bean_fields(type(value)):
            field = getattr(value, name)
            if field is None or (is_new and self._legacy):
                continue
            out.append(f"{separator}{line}{label}")
            separator = ","
            self.value(field, depth + 1)
        if separator == "{":
            out.append("{}")
        else:
            out.append("\n" + "\t" * depth + "}" if self._pretty else "}")

    def _object(self, items: list[tuple[Any, Any]], depth: int) -> None:
        if depth >= DEPTH_MAX:
            raise LocalProtocolError(f"JSON nested more than {DEPTH_MAX} deep, or in a circle")
        out = self.out
        out.append("{")
        is_first = True
        for key, value in items:
            if value is None:
                continue
            if not is_first:
                out.append(",")
            is_first = False
            if type(key) is str:
                if self._pretty:
                    out.append("\n" + "\t" * (depth + 1))
                out.append(quote(key, ascii_only=self._ascii_only))
            elif type(key) is int and self._quote_int_keys:
                out.append(f'"{key}"')
            else:
                self.value(key, depth + 1)
            out.append(":")
            self.value(value, depth + 1)
        out.append("}" if is_first or not self._pretty else "\n" + "\t" * depth + "}")

    def _array(self, items: list[Any] | tuple[Any, ...], depth: int) -> None:
        if depth >= DEPTH_MAX:
            raise LocalProtocolError(f"JSON nested more than {DEPTH_MAX} deep, or in a circle")
        self.out.append("[")
        for index, item in enumerate(items):
            if index:
                self.out.append(",")
            self.value(item, depth + 1)
        self.out.append("]")


def _queue_items(queue: MessageQueue) -> list[tuple[Any, Any]]:
    return [
        ("brokerName", queue.broker_name),
        ("queueId", queue.queue_id),
        ("topic", queue.topic),
    ]


@functools.cache
def _bean_fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, bool], ...]:
    """Label, attribute and whether 4.9 does not know it, of every field, in the wire's order."""
    new: frozenset[str] = getattr(kind, "SINCE_5", frozenset())
    fields = zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
    return tuple((f"{quote(wire)}:", name, name in new) for wire, name in sorted(fields))


_SPECIAL = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]')
_SPECIAL_OR_NOT_ASCII = re.compile('["\\\\\x00-\x1f]|[^\x00-\x7e]')
_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def quote(text: str, *, ascii_only: bool = False) -> str:
    """``text`` in double quotes, escaped as fastjson escapes."""
    special = _SPECIAL_OR_NOT_ASCII if ascii_only else _SPECIAL
    return f'"{text}"' if special.search(text) is None else f'"{special.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    simple = _ESCAPES.get(character)
    if simple is not None:
        return simple
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2))


def java_double(value: float) -> str:
    """Java's text of a double: ``1.0E10`` from ten million on, and null for what is no number."""
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "-0.0" if math.copysign(1.0, value) < 0 else "0.0"
    if 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    digits = mantissa.lstrip("-")
    whole, _, fraction = digits.partition(".")
    power = int(exponent or 0)
    significant = whole + (fraction if fraction != "0" else "")
    stripped = significant.lstrip("0")
    power += len(whole) - 1 - (len(significant) - len(stripped))
    stripped = stripped.rstrip("0") or "0"
    return f"{sign}{stripped[0]}.{stripped[1:] or '0'}E{power}"
