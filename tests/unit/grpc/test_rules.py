"""The rules of RFC 9113 that a server can be asked about, as h2spec asks them."""

from __future__ import annotations

import asyncio

import pytest

from contrailmq.grpc.call import Call, Streaming, Unary
from testkit.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HAS_PRIORITY,
    HEADERS,
    MORE,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH,
    RESET,
    SETTINGS,
    WINDOW,
    Http2World,
    block,
    frame,
    headers_of,
    in_world,
    request,
)

ECHO = "/t/Echo"
PROTOCOL, FLOW, CLOSED, SIZE, REFUSED, COMPRESSION, CALM = 1, 3, 5, 6, 7, 9, 11
BLOCK = block(headers_of(ECHO))
OPEN = frame(HEADERS, END_HEADERS, 1, BLOCK)
MESSAGE = frame(DATA, END_STREAM, 1, bytes(5))


async def wait(call: Call) -> None:
    await call.read()
    await asyncio.sleep(1000)


METHODS = {ECHO: Unary(lambda call, message: message), "/t/Wait": Streaming(wait)}
WAITING = frame(HEADERS, END_HEADERS | END_STREAM, 1, block(headers_of("/t/Wait")))


def setting(name: int, value: int) -> bytes:
    return frame(SETTINGS, 0, 0, name.to_bytes(2, "big") + value.to_bytes(4, "big"))


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (PROTOCOL, frame(DATA, 0, 1, b"x")),  # idle
        (PROTOCOL, frame(DATA, 0, 0, b"x")),
        (PROTOCOL, frame(RESET, 0, 1, bytes(4))),
        (PROTOCOL, frame(WINDOW, 0, 1, b"\0\0\0\1")),
        (PROTOCOL, frame(MORE, END_HEADERS, 1, BLOCK)),
        (PROTOCOL, frame(HEADERS, END_HEADERS, 0, BLOCK)),
        (PROTOCOL, frame(HEADERS, END_HEADERS, 2, BLOCK)),
        (PROTOCOL, request(5, ECHO) + request(3, ECHO)),  # a smaller number
        (CLOSED, request(1, ECHO) + request(1, ECHO)),
        (PROTOCOL, frame(HEADERS, 0, 1, BLOCK[:3]) + frame(PRIORITY, 0, 1, bytes(5))),
        (PROTOCOL, frame(HEADERS, 0, 1, BLOCK[:3]) + frame(MORE, END_HEADERS, 3, BLOCK[3:])),
        (PROTOCOL, frame(HEADERS, 0, 1, BLOCK[:3]) + frame(77, 0, 1)),
        (PROTOCOL, frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + BLOCK[:20])),
        (PROTOCOL, OPEN + frame(DATA, PADDED, 1, b"\x05abcd")),
        (PROTOCOL, OPEN + frame(DATA, PADDED, 1, b"")),
        (PROTOCOL, frame(PUSH, END_HEADERS, 1, bytes(4) + BLOCK)),
        (PROTOCOL, frame(PING, 0, 1, bytes(8))),
        (PROTOCOL, frame(GOAWAY, 0, 1, bytes(8))),
        (PROTOCOL, frame(SETTINGS, 0, 1, b"")),
        (PROTOCOL, frame(PRIORITY, 0, 0, bytes(5))),
        (PROTOCOL, frame(WINDOW, 0, 0, bytes(4))),
        (PROTOCOL, frame(RESET, 0, 0, bytes(4))),
        (PROTOCOL, setting(2, 2)),
        (PROTOCOL, setting(5, 16383)),
        (PROTOCOL, setting(5, 1 << 24)),
        (FLOW, setting(4, 1 << 31)),
        (FLOW, frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff")),
        (FLOW, WAITING + setting(4, 70_000) + frame(WINDOW, 0, 1, b"\x7f\xfe\xee\x8f")
         + setting(4, 1 << 30)),
        (SIZE, frame(PING, 0, 0, bytes(7))),
        (SIZE, frame(SETTINGS, 0, 0, bytes(5))),
        (SIZE, frame(SETTINGS, 1, 0, bytes(6))),
        (SIZE, frame(WINDOW, 0, 0, bytes(3))),
        (SIZE, OPEN + frame(RESET, 0, 1, bytes(3))),
        (SIZE, (16385).to_bytes(3, "big") + bytes((DATA, 0, 0, 0, 0, 1))),
        (SIZE, frame(HEADERS, END_HEADERS | HAS_PRIORITY, 1, bytes(4))),
        (COMPRESSION, frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff")),
        (COMPRESSION, frame(HEADERS, END_HEADERS, 1, b"\x82" + b"\x3f\xe1\x1f")),
    ],
)  # fmt: skip
def test_what_ends_the_connection(code: int, data: bytes) -> None:
    async def scenario(world: Http2World) -> None:
        await world.serve(METHODS)
        peer = await world.bare()
        peer.send(data)
        await asyncio.sleep(1)
        assert peer.goodbye() == code
        assert peer.lost
        other = await world.oracle()
        assert (await other.call(ECHO, b"others do not notice")).status == 0

    in_world(scenario)


def of(*fields: tuple[str, str]) -> bytes:
    return frame(HEADERS, END_HEADERS | END_STREAM, 1, block(list(fields)))


USUAL = headers_of(ECHO)


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (PROTOCOL, OPEN + frame(WINDOW, 0, 1, bytes(4))),
        (FLOW, OPEN + frame(WINDOW, 0, 1, b"\x7f\xff\xff\xff")),
        (CLOSED, WAITING + frame(DATA, 0, 1, b"x")),
        (CLOSED, request(1, ECHO) + frame(DATA, 0, 1, b"x")),
        (CLOSED, WAITING + frame(HEADERS, END_HEADERS | END_STREAM, 1, block([("a", "1")]))),
        (PROTOCOL, OPEN + frame(HEADERS, END_HEADERS, 1, block([("a", "1")]))),
        (PROTOCOL, OPEN + frame(HEADERS, END_HEADERS | END_STREAM, 1, block([("A", "1")]))),
        (PROTOCOL, frame(PRIORITY, 0, 1, bytes((0, 0, 0, 1, 9)))),
        (SIZE, frame(PRIORITY, 0, 1, bytes(4))),
        (
            PROTOCOL,
            frame(HEADERS, END_HEADERS | HAS_PRIORITY, 1, bytes((0, 0, 0, 1, 9)) + BLOCK),
        ),
        (PROTOCOL, of(*USUAL, ("X-Upper", "1"))),
        (PROTOCOL, of(*USUAL, (":path", "/late"))),
        (PROTOCOL, of((":path", "/twice"), *USUAL)),
        (PROTOCOL, of((":unknown", "1"), *USUAL)),
        (PROTOCOL, of((":status", "200"), *USUAL)),
        (PROTOCOL, of(*USUAL, ("connection", "keep-alive"))),
        (PROTOCOL, of(*USUAL[:4], ("te", "gzip"))),
        (PROTOCOL, of(*USUAL[1:])),
        (PROTOCOL, of(USUAL[0], *USUAL[2:])),
        (PROTOCOL, of(*USUAL[:2], *USUAL[3:])),
        (PROTOCOL, of(*USUAL[:2], (":path", ""), *USUAL[3:])),
    ],
)
def test_what_ends_a_stream_only(code: int, data: bytes) -> None:
    async def scenario(world: Http2World) -> None:
        await world.serve(METHODS)
        peer = await world.bare()
        peer.send(data)
        await asyncio.sleep(1)
        assert peer.resets() == {1: code}
        peer.send(request(3, ECHO, b"alive"))
        await asyncio.sleep(1)
        assert (DATA, 0, 3, b"\0\0\0\0\5alive") in peer.frames()

    in_world(scenario)


@pytest.mark.parametrize(
    "data",
    [
        frame(77, 255, 0, b"anything"),
        frame(77, 255, 9, b"anything"),
        setting(77, 1),
        frame(PRIORITY, 0, 9, bytes(5)),
        frame(PING, 1, 0, b"an answr"),
        frame(GOAWAY, 0, 0, bytes(8)),
        request(1, ECHO) + frame(WINDOW, 0, 1, b"\0\0\0\1"),
        request(1, ECHO) + frame(RESET, 0, 1, bytes(4)),
        request(1, ECHO) + frame(PRIORITY, 0, 1, bytes(5)),
        OPEN + frame(RESET, 0, 1, bytes(4)),
    ],
)
def test_what_changes_nothing(data: bytes) -> None:
    async def scenario(world: Http2World) -> None:
        await world.serve(METHODS)
        peer = await world.bare()
        peer.send(data, frame(PING, 0, 0, b"question"))
        peer.send(request(11, ECHO, b"alive"))
        await asyncio.sleep(1)
        assert (PING, 1, 0, b"question") in peer.frames()
        assert (DATA, 0, 11, b"\0\0\0\0\5alive") in peer.frames()
        assert peer.goodbye() is None

    in_world(scenario)


@pytest.mark.parametrize(
    "first",
    [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x10", PREFACE + request(1, ECHO), PREFACE[:-1] + b"?"],
)
def test_the_preface_and_settings_come_first(first: bytes) -> None:
    async def scenario(world: Http2World) -> None:
        await world.serve(METHODS)
        peer = await world.bare(greets=False)
        peer.send(first)
        await asyncio.sleep(1)
        assert peer.goodbye() == PROTOCOL
        assert peer.lost

    in_world(scenario)


def test_headers_in_pieces_with_padding_and_priority() -> None:
    async def scenario(world: Http2World) -> None:
        await world.serve(METHODS)
        peer = await world.bare()
        first = b"\x03" + bytes(5) + BLOCK[:4] + bytes(3)
        peer.send(frame(HEADERS, PADDED | HAS_PRIORITY, 1, first))
        peer.send(frame(MORE, 0, 1, BLOCK[4:9]), frame(MORE, END_HEADERS, 1, BLOCK[9:]), MESSAGE)
        await asyncio.sleep(1)
        assert (DATA, 0, 1, bytes(5)) in peer.frames()

    in_world(scenario)
