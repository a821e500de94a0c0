"""Targets of HTTP/2: header blocks, and the walk over frames. Both builds do the same."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

from hpack import Decoder, Encoder
from hpack.exceptions import HPACKError

from contrailmq._native.grpc.faults import Http2Fault
from contrailmq.grpc.call import Call, Unary
from contrailmq.grpc.http2.limits import Http2Limits
from testkit.builds import native_module
from testkit.http2 import (
    DATA,
    END_HEADERS,
    HEADERS,
    MORE,
    PADDED,
    PING,
    PREFACE,
    RESET,
    SETTINGS,
    WINDOW,
    Http2World,
    block,
    frame,
    headers_of,
    in_world,
    prefixed,
    request,
)

HPACK = [native_module("grpc.hpack", pure=pure) for pure in (False, True)]
SESSION = [native_module("grpc.session", pure=pure) for pure in (False, True)]
ECHO, STREAM = "/t/Echo", "/t/Stream"


def block_seeds() -> list[bytes]:
    """Blocks of one connection, one after another, each with its length before it."""
    found = []
    for huffman in (True, False):
        encoder = Encoder()
        parts = []
        for number in range(6):
            fields = headers_of(ECHO, x_mq_request_id=f"id-{number}", x_long="v" * 50 * number)
            encoded = encoder.encode(fields, huffman=huffman)
            parts.append(len(encoded).to_bytes(2, "big") + encoded)
            if number == 3:
                encoder.header_table_size = 100
        found.append(b"".join(parts))
    return found


def decoded(module: ModuleType, data: bytes) -> list[Any]:
    """What a build makes of a series of blocks."""
    decoder, found, at = module.HeaderDecoder(4096, 8192), [], 0
    while at + 2 <= len(data):
        end = min(at + 2 + int.from_bytes(data[at : at + 2], "big"), len(data))
        try:
            fields = decoder.decode(data, at + 2, end)
        except module.HpackError as error:
            return [*found, str(error)]
        found.append((fields, decoder.path, decoder.problem, decoder.is_too_large))
        assert decoder.table_size <= 4096
        at = end
    return found


def check_blocks(data: bytes) -> None:
    """Both builds agree; what we decode without a complaint the oracle decodes, to the same."""
    first, second = (decoded(module, data) for module in HPACK)
    assert first == second
    oracle, at = Decoder(1 << 20), 0
    for found in first:
        end = min(at + 2 + int.from_bytes(data[at : at + 2], "big"), len(data))
        if isinstance(found, str) or found[2] is not None or found[3]:
            return
        try:
            fields = oracle.decode(data[at + 2 : end], raw=True)
        except (HPACKError, UnicodeDecodeError) as error:  # pragma: no cover
            raise AssertionError(f"the oracle refuses: {error}") from error
        joined: dict[str, str] = {}
        for name, value, *_ in fields:
            if not name.startswith(b":"):
                key, text = name.decode("latin-1"), value.decode("latin-1")
                joined[key] = f"{joined[key]},{text}" if key in joined else text
        assert joined == found[0]
        at = end


class Host:
    """Owns a session; refuses what is odd and keeps count."""

    peer = local = "?"
    is_tls = False

    def __init__(self, module: ModuleType) -> None:
        limits = Http2Limits(message_size_max=5000, streams_max=20, window=30_000)
        self.events: list[Any] = []
        self.session = module.Session(
            self, {ECHO: lambda call, message: message}, {STREAM: None}, limits
        )

    def plan_flush(self) -> None:
        self.events.append("flush")

    def control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        self.events.append((kind, flags, number, payload))
        stream = self.session.streams.get(number)
        if kind == RESET and stream is not None:
            self.session.lose(stream)

    def begin(self, stream: Any) -> None:
        self.events.append(("begin", stream.number))

    def wake(self, stream: Any) -> None:
        message = self.session.next_message(stream)
        self.events.append(("wake", stream.number, message))
        if message is not None:
            self.session.write(stream, message)
        elif stream.has_ended:
            self.session.end(stream, None)

    def gone(self, stream: Any) -> None:
        self.events.append(("gone", stream.number))

    def odd(self, stream: Any, decoder: Any) -> None:
        self.session.end(stream, b"\x08\x03405")

    def unreadable(self, stream: Any, flag: int, size: int) -> None:
        self.session.end(stream, b"\x88")

    def failed(self, stream: Any, error: Exception | None) -> None:
        self.session.end(stream, b"\x88")


def frame_seeds() -> list[bytes]:
    """Calls of all kinds."""
    head = block(headers_of(STREAM))
    both = frame(HEADERS, END_HEADERS, 1, head)
    return [
        request(1, ECHO, b"abc") + request(3, ECHO, bytes(300)) + frame(PING, 0, 0, bytes(8)),
        both + frame(DATA, 0, 1, prefixed(b"abc") + prefixed(b"d")[:3]) + frame(DATA, 1, 1, b"\0d"),
        frame(HEADERS, 0, 1, head[:9]) + frame(MORE, END_HEADERS, 1, head[9:]) + both,
        frame(HEADERS, END_HEADERS | PADDED, 1, b"\2" + head + bytes(2))
        + frame(RESET, 0, 1, b"1234"),
        request(1, ECHO, bytes(4000)) * 3 + frame(WINDOW, 0, 0, b"\0\0\1\0"),
        frame(SETTINGS, 0, 0, b"\0\4\0\0\0\5") + request(5, ECHO, b"x")
        + frame(WINDOW, 0, 5, b"\0\0\0\7"),
    ]  # fmt: skip


def walked(module: ModuleType, data: bytes) -> tuple[Any, ...]:
    """What a build does with frames: whole, and cut in two."""
    host = Host(module)
    session, middle = host.session, len(data) // 3
    fault: Any = None
    try:
        for part in (data[:middle], data[middle:]):
            session.take(part, len(part), 1.0)
    except Http2Fault as error:
        fault = (error.code, str(error))
    held = sum(stream.held for stream in session.streams.values())
    assert session.held == held >= 0
    assert len(session.streams) <= 20
    return fault, bytes(session.frames.out), host.events, session.credit, session.last_id


def check_frames(data: bytes) -> None:
    """Both builds do the same, and nothing but a fault comes out."""
    assert walked(SESSION[0], data) == walked(SESSION[1], data)


def check_server(data: bytes) -> None:
    """A whole server in virtual time survives, and serves the next peer."""

    async def late(call: Call, message: bytes) -> bytes:
        await asyncio.sleep(0.1)
        return message

    async def scenario(world: Http2World) -> None:
        await world.serve({ECHO: Unary(lambda call, message: message), STREAM: Unary(late)})
        peer = await world.bare(greets=False)
        peer.send(data)
        await asyncio.sleep(1)
        other = await world.oracle()
        assert (await other.call(ECHO, b"alive")).messages == [b"alive"]

    in_world(scenario)


WORDS = [frame(kind, flags, number) for kind in range(10) for flags in (0, 5) for number in (0, 1)]

TARGETS = [
    ("hpack", "both builds and the oracle decode the same", check_blocks, block_seeds, ()),
    ("http2", "both builds walk frames alike", check_frames, frame_seeds, WORDS),
    (
        "http2_server",
        "a server outlives any peer",
        check_server,
        lambda: [PREFACE + frame(SETTINGS, 0, 0) + seed for seed in frame_seeds()],
        WORDS,
    ),
]
