"""Header blocks as they are written: literal fields, and the ends of calls."""

from __future__ import annotations

from typing import Final

from contrailmq.grpc.call import GrpcStatus

TEXT_SIZE_MAX: Final = 1024
_ANSWER: Final = b"\x88\x0f\x10\x10application/grpc"


def number(value: int, bits: int, first: int = 0) -> bytes:
    """A number of HPACK whose first ``bits`` bits end a byte that begins with ``first``."""
    mask = (1 << bits) - 1
    if value < mask:
        return bytes((first | value,))
    out = bytearray((first | mask,))
    value -= mask
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def text(value: bytes) -> bytes:
    """A text of HPACK, not compressed."""
    return number(len(value), 7) + value


def literal(name: bytes, value: bytes) -> bytes:
    """A field that enters no table."""
    return b"\x00" + text(name) + text(value)


def status_block(status: GrpcStatus, reason: str, *, is_begun: bool) -> bytes:
    """The trailers that end a call, or (``is_begun`` false) its only headers."""
    block = literal(b"grpc-status", b"%d" % status)
    if reason:
        block += literal(b"grpc-message", percent_encoded(reason))
    return block if is_begun else _ANSWER + block


def http_block(code: int) -> bytes:
    """The only headers of an answer that is not gRPC."""
    return b"\x08" + text(b"%d" % code)


def percent_encoded(reason: str) -> bytes:
    """A text as ``grpc-message`` has it, cut to ``TEXT_SIZE_MAX``."""
    out = bytearray()
    for byte in reason.encode()[:TEXT_SIZE_MAX]:
        if 0x20 <= byte <= 0x7E and byte != 0x25:
            out.append(byte)
        else:
            out += b"%%%02X" % byte
    return bytes(out)


def percent_decoded(value: str) -> str:
    """The text of a ``grpc-message``; what is no code stays as it is."""
    if "%" not in value:
        return value
    out = bytearray()
    raw = value.encode("latin-1", "replace")
    at = 0
    while at < len(raw):
        code = raw[at + 1 : at + 3]
        if raw[at] == 0x25 and len(code) == 2 and all(x in b"0123456789abcdefABCDEF" for x in code):
            out.append(int(code, 16))
            at += 3
        else:
            out.append(raw[at])
            at += 1
    return out.decode(errors="replace")
