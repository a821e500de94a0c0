"""Typed request and response headers over RocketMQ's string-to-string ``extFields``.

A header is a frozen record (msgspec's: there are over a hundred of them, and to make each as a
dataclass took 60 ms of every start).  Its wire names are the camelCase of its field names, or what
``wire`` says.  ``None`` means absent, in both directions.  A field without a default must be there:
Java only logs a missing one and then fails on the null, so the outcome is the same, with a better
text.  Integers are bounded as Java's are, so that no handler meets one that does not fit where it
has to be stored.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, NamedTuple, Self

import msgspec

from contrailmq.errors import RemoteProtocolError

Int32 = Annotated[int, 32]
"""A header field that is a Java int."""

_INT64_BITS: Final = 64
_INT64_MAX: Final = (1 << 63) - 1
_NUMBER_LENGTH_MAX: Final = 20  # the sign and nineteen digits of a Java long


class _Field(NamedTuple):
    name: str
    wire: str
    parse: Callable[[str], Any]
    required: bool


def wire(name: str, **kwargs: Any) -> Any:
    """Declare a field whose name on the wire is not its own name in camelCase."""
    return msgspec.field(name=name, **kwargs)


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


class Header(msgspec.Struct, frozen=True, kw_only=True, rename=_camel):
    """Base of all headers: a frozen record that knows its own wire names."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> Self:
        """Parse ``extFields``; unknown keys are ignored, as Java does."""
        values: dict[str, Any] = {}
        for name, wire_name, parse, required in _layout(cls):
            text = fields.get(wire_name)
            if text is None:
                if required:
                    raise RemoteProtocolError(f"{cls.__name__}: {wire_name} is missing")
                continue
            try:
                values[name] = parse(text)
            except ValueError as error:
                raise RemoteProtocolError(
                    f"{cls.__name__}: bad {wire_name}={text[:100]!r}"
                ) from error
        return cls(**values)

    def to_fields(self) -> dict[str, str]:
        """Render ``extFields``; ``None`` means absent."""
        fields: dict[str, str] = {}
        for name, wire_name, _, _ in _layout(type(self)):
            value = getattr(self, name)
            if value is None:
                continue
            kind = type(value)
            if kind is bool:
                fields[wire_name] = "true" if value else "false"
            else:
                fields[wire_name] = value if kind is str else str(value)
        return fields

    @classmethod
    def wire_names(cls) -> tuple[str, ...]:
        """The names of this header's fields as they are written on the wire."""
        return tuple(field.wire for field in _layout(cls))

    @classmethod
    def wire_name(cls, name: str) -> str:
        """Return the name of one field as it is written on the wire."""
        return next(field.wire for field in _layout(cls) if field.name == name)


class RpcRequest(Header, frozen=True, kw_only=True):
    """What every request header of 5.x may carry besides its own fields (RpcRequestHeader)."""

    namespace: str | None = wire("ns", default=None)
    namespaced: bool | None = wire("nsd", default=None)
    broker_name: str | None = wire("bname", default=None)
    oneway: bool | None = wire("oway", default=None)


class TopicRequest(RpcRequest, frozen=True, kw_only=True):
    """The same for a request about a topic: ``lo`` marks a logical queue (TopicRequestHeader)."""

    logical: bool | None = wire("lo", default=None)


@functools.cache
def _layout(cls: type[Header]) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(
        _Field(
            name=field.name,
            wire=field.encode_name,
            parse=_parser(hints[field.name]),
            required=field.required,
        )
        for field in msgspec.structs.fields(cls)
    )


def _parser(hint: Any) -> Callable[[str], Any]:
    bits = _INT64_BITS
    if typing.get_origin(hint) not in (None, Annotated):
        (hint,) = (a for a in typing.get_args(hint) if a is not type(None))
    if typing.get_origin(hint) is Annotated:
        hint, bits = typing.get_args(hint)
    if hint is int:
        return _parse_int32 if bits == 32 else _parse_int64
    if hint is bool:
        return _parse_bool
    assert hint in (str, float), f"a header field is text, a number or a bool, not {hint}"
    kind: Callable[[str], Any] = hint
    return kind


def _parse_int32(text: str) -> int:
    value = int(text) if len(text) <= _NUMBER_LENGTH_MAX else _INT64_MAX + 1
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise ValueError("more than 32 bits")
    return value


def _parse_int64(text: str) -> int:
    value = int(text) if len(text) <= _NUMBER_LENGTH_MAX else _INT64_MAX + 1
    if not -_INT64_MAX - 1 <= value <= _INT64_MAX:
        raise ValueError("more than 64 bits")
    return value


def _parse_bool(text: str) -> bool:
    # Java's Boolean.parseBoolean takes "true" alone; the C++ client writes "1" and means it.
    return text == "1" or text.lower() == "true"
