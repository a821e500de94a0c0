"""Typed bodies over the fastjson dialect.

A body is a ``msgspec.Struct``: its fields have Python names, its wire names are their camelCase
(or what ``msgspec.field(name=...)`` says).  All fields have defaults, as in Java's beans.

Decoding takes two roads.  A body that is standard JSON and of the expected types goes through
msgspec alone, and so do maps with queues as keys (``queue_keys``).  Everything else (``$ref``,
numbers for text and the reverse, nulls) is read by the tolerant parser and converted value by value
here.  Unknown keys are ignored, nulls and missing keys leave the default, and what still does not
fit is a ``RemoteProtocolError``.

Encoding writes what Java 5.x writes; ``legacy=True`` leaves out what 4.9 does not know (it would
ignore it), so that either line's bytes can be made.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import re
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Final, Self

import msgspec

from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol.bodies.queue_keys import decode_with_queue_keys, has_queue_keys
from contrailmq.protocol.fastjson import count_values, dumps, has_references, java_double, loads
from contrailmq.protocol.json_reader import ObjectKey
from contrailmq.protocol.queue import MessageQueue

Long = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A field that is a Java long."""

Int = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
"""A field that is a Java int."""

REQUEST_SIZE_MAX: Final = 1024 * 1024
REQUEST_VALUES_MAX: Final = 20_000
TOLERANT_VALUES_MAX: Final = 4_000
_decode_any = msgspec.json.Decoder(Any).decode

_Convert = Callable[[Any, dict[tuple[int, int], Any]], Any]
_MISSING: Final = object()


class Body(msgspec.Struct, rename="camel", kw_only=True):
    """Base of all bodies, and of the parts they are made of."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset()
    """Fields 4.9 does not have."""

    ALIASES: ClassVar[dict[str, str]] = {}
    """Other names peers give to fields: wire name there, wire name here."""

    def encode(
        self, *, legacy: bool = False, standard: bool = False, pretty: bool = False
    ) -> bytes:
        """The body's bytes; ``standard`` quotes all keys and escapes what is not ASCII."""
        return dumps(
            self, pretty=pretty, quote_int_keys=standard, ascii_only=standard, legacy=legacy
        )

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview | str) -> Self:
        """Read a body; ``RemoteProtocolError`` when it is not one of this kind."""
        strict = _strict_decoder(cls)
        is_plain = not has_references(data) and not _has_alias(cls, data)
        if is_plain and has_queue_keys(cls):
            raw = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
            with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
                return typing.cast(Self, decode_with_queue_keys(cls, raw))
        elif is_plain and strict is not None:
            for quoted in (_as_it_is, _with_quoted_numbers):
                try:
                    found: Self = strict.decode(quoted(data))
                    return found
                except (msgspec.MsgspecError, UnicodeError, RecursionError):
                    continue  # the tolerant road gives a better text, or reads it after all
        return cls.of(loads(data))

    @classmethod
    def decode_request(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read the body of a request; one that would take long is a ``RemoteProtocolError``.

        Every value costs time, up to 2 us on the standard road and more on the tolerant one, and
        whoever sends a request may make all others wait for it.
        """
        data = bytes(data)
        if len(data) > REQUEST_SIZE_MAX:
            raise RemoteProtocolError(f"body of {len(data)} bytes, at most {REQUEST_SIZE_MAX}")
        count = count_values(data)
        if count > REQUEST_VALUES_MAX:
            raise RemoteProtocolError(
                f"body of about {count} JSON values, at most {REQUEST_VALUES_MAX}"
            )
        if count > TOLERANT_VALUES_MAX:
            strict = _strict_decoder(cls)
            try:
                if strict is not None and not has_references(data) and not _has_alias(cls, data):
                    found: Self = strict.decode(data)
                    return found
                return cls.of(_decode_any(data))
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                raise RemoteProtocolError(
                    f"body of about {count} JSON values is not standard JSON ({error}); more than "
                    f"{TOLERANT_VALUES_MAX} values must be"
                ) from error
        return cls.decode(data)

    @classmethod
    def of(cls, value: Any) -> Self:
        """The body a parsed JSON value stands for."""
        if value is None:
            return cls()
        found: Self = _struct_converter(cls)(value, {})
        return found


def _as_it_is(data: bytes | bytearray | memoryview | str) -> bytes | bytearray | memoryview | str:
    return data


_TEXT_OR_NUMBER_KEY = re.compile(rb'"(?:[^"\\]|\\.)*"|([{,]\s*)(-?\d+)(\s*:)', re.DOTALL)


def _with_quoted_numbers(data: bytes | bytearray | memoryview | str) -> bytes:
    """The same with quotes around keys that are numbers: large tables of offsets have them.

    What a number is, the field's type says.  Nothing inside a text is changed, and a text that
    is not standard JSON after this either is read by the tolerant road, as it was.
    """
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    return _TEXT_OR_NUMBER_KEY.sub(_quote_number, raw)


def _quote_number(match: re.Match[bytes]) -> bytes:
    opening, number, colon = match.groups()
    return match.group() if number is None else b'%b"%b"%b' % (opening, number, colon)


@functools.cache
def _strict_decoder(cls: type[Body]) -> msgspec.json.Decoder[Any] | None:
    try:
        return msgspec.json.Decoder(cls, strict=False)
    except TypeError:  # keys that are queues
        return None


def _has_alias(cls: type[Body], data: bytes | bytearray | memoryview | str) -> bool:
    aliases = _aliases(cls)
    if not aliases:
        return False
    text = data.encode() if isinstance(data, str) else bytes(data)
    return any(alias in text for alias in aliases)


@functools.cache
def _aliases(cls: type[Body]) -> tuple[bytes, ...]:
    """The other names in a body and in all its parts, as they stand in its text."""
    names = {f'"{name}"'.encode() for name in cls.ALIASES}
    for hint in typing.get_type_hints(cls, include_extras=True).values():
        for part in _struct_types(hint):
            names.update(_aliases(part))
    return tuple(sorted(names))


def _struct_types(hint: Any) -> list[type[Body]]:
    if isinstance(hint, type) and issubclass(hint, Body):
        return [hint]
    return [found for argument in typing.get_args(hint) for found in _struct_types(argument)]


@functools.cache
def _struct_converter(cls: type[Body]) -> _Convert:
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = {
        wire: (name, _converter(hints[name]))
        for wire, name in zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True)
    }
    for alias, wire in cls.ALIASES.items():
        fields[alias] = fields[wire]

    def convert(value: Any, memo: dict[tuple[int, int], Any]) -> Any:
        if not isinstance(value, dict):
            raise RemoteProtocolError(f"{cls.__name__}: an object expected, not {_short(value)}")
        # A body with references holds an object more than once: it is converted once.
        mark = (id(value), id(cls))
        if mark in memo:
            return memo[mark]
        arguments: dict[str, Any] = {}
        for key, item in value.items():
            field = fields.get(key) if isinstance(key, str) else None
            if field is None or item is None:
                continue
            try:
                converted = field[1](item, memo)
            except ValueError as error:
                raise RemoteProtocolError(
                    f"{cls.__name__}: bad {key}: {error or _short(item)}"
                ) from error
            if converted is not _MISSING:
                arguments[field[0]] = converted
        memo[mark] = found = cls(**arguments)
        return found

    return convert


@functools.cache
def _converter(hint: Any) -> _Convert:
    """What turns a parsed JSON value into a value of this type; ``ValueError`` when it cannot."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        if arguments[0] is int:
            return functools.partial(_to_int, low=arguments[1].ge, high=arguments[1].le)
        return _converter(arguments[0])
    if origin in (types.UnionType, typing.Union):
        (inner,) = (a for a in arguments if a is not type(None))
        return _converter(inner)
    if origin is list:
        return functools.partial(_to_list, item=_converter(arguments[0]), kind=id(hint))
    if origin is dict:
        key, item = (_converter(a) for a in arguments)
        return functools.partial(_to_dict, key=key, item=item, kind=id(hint))
    if isinstance(hint, type) and issubclass(hint, Body):
        return _struct_converter(hint)
    return _SCALARS[hint]


def _to_int(value: Any, _memo: dict[tuple[int, int], Any], *, low: int, high: int) -> Any:
    if isinstance(value, str):
        text = value.strip()
        if text in ("", "null"):
            return _MISSING
        value = int(text) if len(text) <= 20 else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{_short(value)}: expected a number from {low} to {high}")
    return int(value)


def _to_float(value: Any, _memo: dict[tuple[int, int], Any]) -> Any:
    if isinstance(value, str) and value.strip() in ("", "null", "NaN"):
        return _MISSING
    if not isinstance(value, str | int | float):
        raise ValueError(f"{_short(value)} is no number")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{_short(value)} is too large") from error


def _to_bool(value: Any, _memo: dict[tuple[int, int], Any]) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("", "null"):
            return _MISSING
        if word in ("true", "1", "y", "t", "yes"):
            return True
        if word in ("false", "0", "n", "f", "no"):
            return False
    elif isinstance(value, int):
        return value == 1
    raise ValueError(f"{_short(value)} is neither true nor false")


def _to_str(value: Any, _memo: dict[tuple[int, int], Any]) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, int):
        return str(value)
    return dumps(value).decode()


def _to_bytes(value: Any, _memo: dict[tuple[int, int], Any]) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"{_short(value)} is not base64")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{_short(value)} is not base64") from error


def _to_queue(value: Any, memo: dict[tuple[int, int], Any]) -> MessageQueue:
    if isinstance(value, MessageQueue):
        return value
    if isinstance(value, str):
        value = loads(value)  # an object written as text, where a key must be text
    if isinstance(value, MessageQueue):
        return value
    if isinstance(value, ObjectKey):
        value = dict(value)
    if not isinstance(value, dict):
        raise ValueError(f"{_short(value)} is no queue")
    queue_id = _to_int(value.get("queueId", 0), memo, low=-(1 << 31), high=(1 << 31) - 1)
    return MessageQueue(
        _to_str(value.get("topic") or "", memo),
        _to_str(value.get("brokerName") or "", memo),
        0 if queue_id is _MISSING else queue_id,
    )


def _to_any(value: Any, _memo: dict[tuple[int, int], Any]) -> Any:
    return value


def _to_list(value: Any, memo: dict[tuple[int, int], Any], *, item: _Convert, kind: int) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError(f"a list expected, not {_short(value)}")
    mark = (id(value), kind)
    if mark not in memo:
        found = [item(element, memo) for element in value if element is not None]
        memo[mark] = [element for element in found if element is not _MISSING]
    return memo[mark]


def _to_dict(
    value: Any, memo: dict[tuple[int, int], Any], *, key: _Convert, item: _Convert, kind: int
) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"an object expected, not {_short(value)}")
    mark = (id(value), kind)
    if mark not in memo:
        found = {
            key(name, memo): item(element, memo)
            for name, element in value.items()
            if element is not None
        }
        memo[mark] = {k: v for k, v in found.items() if k is not _MISSING and v is not _MISSING}
    return memo[mark]


_SCALARS: Final[dict[Any, _Convert]] = {
    str: _to_str,
    bool: _to_bool,
    float: _to_float,
    bytes: _to_bytes,
    MessageQueue: _to_queue,
    Any: _to_any,
}


def _short(value: Any) -> str:
    return repr(value)[:60] if isinstance(value, str | int | float) else type(value).__name__
