"""Protocol buffers for messages that are declared as structs.

A message is a ``msgspec.Struct`` whose fields are ``Annotated[kind, number]``.  ``Codec`` reads
the annotations of one struct once, and then encodes and decodes it.  Known kinds: ``int`` (varint:
int32, int64, enums), ``bool``, ``float`` (32 bit), ``str``, ``bytes``, another message, a list of
these, and ``dict[str, str]``.  ``X | None`` is a field with presence (proto3 optional, oneof, and
every message); without it a zero is not written.  Unknown fields are skipped.

The walk over the bytes, and what it refuses, is in ``_native.grpc.protobuf``.
"""

from __future__ import annotations

import functools
import types
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

from contrailmq._native.grpc import protobuf as native

Buffer = bytes | bytearray | memoryview
M = TypeVar("M", bound=msgspec.Struct)

_KINDS: Final = {
    int: native.INT,
    bool: native.BOOL,
    float: native.FLOAT,
    str: native.TEXT,
    bytes: native.BYTES,
}


class Codec(Generic[M]):
    """Encodes and decodes the messages of one struct."""

    __slots__ = ("decode_any", "encode", "kind", "plan")

    def __init__(self, kind: type[M]) -> None:
        hints = get_type_hints(kind, include_extras=True)
        fields = [
            _plan(name, hint) for name, hint in hints.items() if get_origin(hint) is Annotated
        ]
        self.kind = kind
        self.plan = native.Plan(kind, fields)
        self.encode = self.plan.encode
        self.decode_any = self.plan.decode

    def decode(self, data: Buffer) -> M:
        """The message of some bytes; raises RemoteProtocolError."""
        found: M = self.decode_any(data)
        return found


def codec_of(kind: type[M]) -> Codec[M]:
    """The codec of a declared message, made once."""
    found: Codec[M] = _made(kind)
    return found


@functools.cache
def _made(kind: Any) -> Codec[Any]:
    return Codec(kind)


def _plan(name: str, hint: Any) -> native.FieldPlan:
    declared, number = get_args(hint)[:2]
    kind, has_presence = _without_none(declared)
    is_list = get_origin(kind) is list
    codec: native.Plan | None = None
    if is_list:
        kind = get_args(kind)[0]
    if get_origin(kind) is dict:
        word = native.MAP
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        word, codec = native.MESSAGE, codec_of(kind).plan
    else:
        word = _KINDS[kind]
    return native.FieldPlan(
        name, number, word, is_list=is_list, has_presence=has_presence, codec=codec
    )


def _without_none(declared: Any) -> tuple[Any, bool]:
    if get_origin(declared) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(declared) if kind is not type(None)]
        return kinds[0], True
    return declared, False
