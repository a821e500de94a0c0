"""What a caller may pass in a message: taken once, checked, refused with the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from contrailmq.errors import ClientError
from contrailmq.protocol import properties as names


def body_bytes(body: Any) -> bytes:
    """The bytes of a body, whatever their shape; a copy unless they are ``bytes``.

    Length and content are taken here, once: what a caller does to its buffer later, and how wide
    the items of a view are, changes nothing on the wire.
    """
    if isinstance(body, bytes):
        return body if type(body) is bytes else bytes(body)
    if isinstance(body, bytearray):
        return bytes(body)
    if isinstance(body, memoryview):
        try:
            return body.tobytes()
        except ValueError as error:
            raise ClientError(f"the body cannot be read: {error}") from error
    raise ClientError(
        f"the body is {type(body).__name__}, must be bytes; encode text with .encode()"
    )


def check_tags(tags: Any) -> None:
    """Refuse a tag that could not be stored, or that no subscription could select."""
    if tags is None:
        return
    if not isinstance(tags, str):
        raise ClientError(f"tags is {type(tags).__name__}, must be text: a message has one tag")
    if "||" in tags or "\x01" in tags or "\x02" in tags:
        raise ClientError(
            f"tags {tags!r} must not contain || (a message has one tag, a subscription may name"
            " several) or the separators \\x01 and \\x02"
        )


def check_keys(keys: tuple[Any, ...]) -> None:
    """Refuse keys that could not be stored, or would become several."""
    for key in keys:
        if not isinstance(key, str):
            raise ClientError(f"key {key!r} is {type(key).__name__}, must be text")
        if not key or key.split() != [key] or "\x01" in key or "\x02" in key:
            raise ClientError(
                f"key {key!r} must not be empty or contain spaces (they separate keys) or the"
                " separators \\x01 and \\x02"
            )


def check_whole(name: str, value: Any, least: int, most: int) -> None:
    """Refuse what is no whole number of a range."""
    if type(value) is not int or not least <= value <= most:
        raise ClientError(f"{name} is {value!r}: expected a whole number from {least} to {most}")


def check_properties(properties: Mapping[Any, Any]) -> None:
    """Refuse properties that could not be stored, or that are RocketMQ's own."""
    for name, value in properties.items():
        if isinstance(name, str) and name in names.RESERVED_PROPERTIES:
            raise ClientError(
                f"property {name!r} is RocketMQ's own; use the arguments of Message"
                " (tags, keys, delay_level, …) or another name"
            )
        if not isinstance(name, str) or not isinstance(value, str):
            kind = type(value if isinstance(name, str) else name).__name__
            raise ClientError(f"property {name!r} is {kind}, must be text")
    illegal = names.find_illegal_property(properties)
    if illegal is not None:
        raise ClientError(
            f"property {illegal!r} is empty or holds one of the separators \\x01 and \\x02"
        )


def json_bytes(value: Any) -> bytes:
    """A value as JSON text in UTF-8; also dataclasses, msgspec structs, times, sets and UUIDs."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise ClientError(f"a {type(value).__name__} cannot be written as JSON: {error}") from error


def json_value(body: bytes, kind: Any = Any) -> Any:
    """The value of a JSON text; with ``kind`` checked and made an object of that type."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (ValueError, msgspec.MsgspecError) as error:
        wanted = "" if kind is Any else f" of {getattr(kind, '__name__', kind)}"
        raise ClientError(f"the body of {len(body)} bytes is no JSON{wanted}: {error}") from error
