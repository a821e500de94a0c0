"""Several messages in one body: what a batch send carries.

Each is: size, magic 0, CRC 0, flag, body with a 4-byte length, properties with a 2-byte length.
Topic, queue and hosts are the request's.  The broker makes an ordinary record of each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from contrailmq.errors import LocalProtocolError, RemoteProtocolError
from contrailmq.protocol.properties import PROPERTIES_SIZE_MAX

_HEAD: Final = struct.Struct(">iiiii")
INNER_SIZE_MIN: Final = 22


class BatchMessage(NamedTuple):
    """One message of a batch."""

    body: bytes
    properties: bytes = b""
    flag: int = 0


def encode_batch(messages: Iterable[BatchMessage]) -> bytes:
    """Join messages into the body of a batch send."""
    parts: list[bytes] = []
    for message in messages:
        if len(message.properties) > PROPERTIES_SIZE_MAX:
            raise LocalProtocolError(
                f"properties of {len(message.properties)} bytes, at most {PROPERTIES_SIZE_MAX}"
            )
        size = INNER_SIZE_MIN + len(message.body) + len(message.properties)
        parts.append(_HEAD.pack(size, 0, 0, message.flag, len(message.body)))
        parts.append(message.body)
        parts.append(len(message.properties).to_bytes(2, "big"))
        parts.append(message.properties)
    return b"".join(parts)


def decode_batch(data: bytes | bytearray | memoryview) -> list[BatchMessage]:
    """The messages of a batch body; RemoteProtocolError where the lengths do not fit."""
    view = memoryview(data)
    messages: list[BatchMessage] = []
    at = 0
    while at < len(view):
        if len(view) - at < INNER_SIZE_MIN:
            raise RemoteProtocolError(f"batch ends within a message, at {at} of {len(view)}")
        size, _, _, flag, body_size = _HEAD.unpack_from(view, at)
        end = at + size
        body_at = at + _HEAD.size
        if size < INNER_SIZE_MIN or end > len(view):
            raise RemoteProtocolError(
                f"message of {size} bytes at {at} of a {len(view)}-byte batch"
            )
        if not 0 <= body_size <= size - INNER_SIZE_MIN:
            raise RemoteProtocolError(f"body of {body_size} bytes in a message of {size}, at {at}")
        properties_at = body_at + body_size + 2
        properties_size = int.from_bytes(view[properties_at - 2 : properties_at], "big")
        if properties_at + properties_size != end:
            raise RemoteProtocolError(f"properties of {properties_size} bytes at {properties_at}")
        body = bytes(view[body_at : body_at + body_size])
        messages.append(BatchMessage(body, bytes(view[properties_at:end]), flag))
        at = end
    return messages
