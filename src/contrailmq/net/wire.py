"""Commands as buffers for a transport, and what is said about bytes that are no frames."""

from __future__ import annotations

from typing import Final

from contrailmq.errors import LocalProtocolError, RemoteProtocolError
from contrailmq.net.endpoint import Buffer
from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.command import RESPONSE_FLAG, Command
from contrailmq.protocol.frame import LENGTH_SIZE

GATHER_SIZE_MIN: Final = 16 * 1024  # from here on a body is written from its own buffer
TLS_HELLO: Final = b"\x16\x03"


def buffers_of(command: Command) -> list[Buffer]:
    """The frame as one buffer, or as head and body when the body is large."""
    if len(command.body) < GATHER_SIZE_MIN:
        return [command.encode()]
    return [command.encode_head(), command.body]


def reply_buffers(reply: Command) -> list[Buffer]:
    """The frame of an answer; one that is too large becomes an answer that says so."""
    try:
        return buffers_of(reply)
    except LocalProtocolError as error:
        refusal = Command(
            ResponseCode.SYSTEM_ERROR,
            opaque=reply.opaque,
            flag=RESPONSE_FLAG,
            remark=str(error),
            serialization=reply.serialization,
        )
        return [refusal.encode()]


def bad_size(first: bytes, size_max: int) -> RemoteProtocolError:
    """What is wrong with a frame that begins with these four bytes."""
    size = int.from_bytes(first, "big", signed=True)
    text = f"frame of {size} bytes, at least {LENGTH_SIZE} and at most {size_max}"
    if first.startswith(TLS_HELLO):
        text += " (the peer speaks TLS, this port does not)"
    elif first.strip().isalpha() and first.isupper():
        text += " (the peer speaks HTTP, this port does not)"
    return RemoteProtocolError(text)
