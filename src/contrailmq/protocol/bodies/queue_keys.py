"""A quick road for bodies whose maps have queues as keys (codes 202, 208, 317, 307).

fastjson writes such a key as an object, ``{{"brokerName":…,"queueId":…,"topic":…}:…}``, which no
standard parser reads.  Here each such key becomes a text, a standard parser reads the whole into
shadow types that have text keys, and the values of those become the body's own.  The order of the
three names is the one every version writes.  What does not fit raises, and is read by the
tolerant road as before.

A key cannot be mistaken inside a text: its quotes would have to be escaped there.
"""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec

from contrailmq.protocol.queue import MessageQueue

_KEY: Final = re.compile(
    rb'(?<=[{,])\{"brokerName":"([^"\\\x00-\x1f]*)","queueId":(-?\d{1,10}),'
    rb'"topic":"([^"\\\x00-\x1f]*)"\}(?=:)'
)
_AS_TEXT: Final = rb'"\2\\u0001\1\\u0001\3"'
_MARK: Final = "\x01"

Rebuild = Callable[[Any, dict[str, MessageQueue]], Any]


def decode_with_queue_keys(cls: type[msgspec.Struct], data: bytes) -> Any:
    """Read a body of ``cls``; raises a MsgspecError or ValueError where the road ends."""
    decoder, rebuild = _road(cls)
    return rebuild(decoder.decode(_KEY.sub(_AS_TEXT, data)), {})


@functools.cache
def has_queue_keys(cls: type[msgspec.Struct]) -> bool:
    """Whether a body, or a part of it, has a map with queues as keys."""
    return _shadow(cls)[1] is not None


@functools.cache
def _road(cls: type[msgspec.Struct]) -> tuple[msgspec.json.Decoder[Any], Rebuild]:
    shadow, rebuild = _shadow(cls)
    assert rebuild is not None, f"{cls.__name__} has no queue as a key"
    return msgspec.json.Decoder(shadow, strict=False), rebuild


def _shadow(hint: Any) -> tuple[Any, Rebuild | None]:
    """A type that a standard decoder takes, and what makes the value of ``hint`` from its value.

    Without queues the type is ``hint`` itself, and there is nothing to make.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return hint, None
    if origin in (types.UnionType, typing.Union):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        shadow, rebuild = _shadow(inner)
        return (hint, None) if rebuild is None else (shadow | None, _optional(rebuild))
    if origin is list:
        shadow, rebuild = _shadow(arguments[0])
        return (hint, None) if rebuild is None else (list[shadow], _each(rebuild))  # type: ignore[valid-type]
    if origin is dict:
        shadow, rebuild = _shadow(arguments[1])
        if arguments[0] is MessageQueue:
            return dict[str, shadow], _keyed(rebuild)  # type: ignore[valid-type]
        if rebuild is None:
            return hint, None
        return dict[arguments[0], shadow], _valued(rebuild)  # type: ignore[valid-type]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _shadow_struct(hint)
    return hint, None


@functools.cache
def _shadow_struct(cls: type[msgspec.Struct]) -> tuple[Any, Rebuild | None]:
    hints = typing.get_type_hints(cls, include_extras=True)
    fields: list[tuple[str, Any, Any]] = []
    rebuilds: dict[str, Rebuild] = {}
    for field in msgspec.structs.fields(cls):
        shadow, rebuild = _shadow(hints[field.name])
        given = msgspec.field(name=field.encode_name, default=msgspec.UNSET)
        fields.append((field.name, shadow | msgspec.UnsetType, given))
        if rebuild is not None:
            rebuilds[field.name] = rebuild
    if not rebuilds:
        return cls, None
    names = [name for name, _, _ in fields]
    made = msgspec.defstruct(f"Shadow{cls.__name__}", fields, kw_only=True)

    def rebuild_struct(value: Any, queues: dict[str, MessageQueue]) -> Any:
        arguments = {}
        for name in names:
            given = getattr(value, name)
            if given is not msgspec.UNSET:
                rebuild = rebuilds.get(name)
                arguments[name] = given if rebuild is None else rebuild(given, queues)
        return cls(**arguments)

    return made, rebuild_struct


def _queue(text: str, queues: dict[str, MessageQueue]) -> MessageQueue:
    """The queue of a rewritten key; one object however often a body names it."""
    found = queues.get(text)
    if found is None:
        number, name, topic = text.split(_MARK)
        found = queues[text] = MessageQueue(topic, name, int(number))
    return found


def _keyed(rebuild: Rebuild | None) -> Rebuild:
    if rebuild is None:
        return lambda value, queues: {_queue(key, queues): item for key, item in value.items()}
    return lambda value, queues: {
        _queue(key, queues): rebuild(item, queues) for key, item in value.items()
    }


def _valued(rebuild: Rebuild) -> Rebuild:
    return lambda value, queues: {key: rebuild(item, queues) for key, item in value.items()}


def _each(rebuild: Rebuild) -> Rebuild:
    return lambda value, queues: [rebuild(item, queues) for item in value]


def _optional(rebuild: Rebuild) -> Rebuild:
    return lambda value, queues: None if value is None else rebuild(value, queues)
