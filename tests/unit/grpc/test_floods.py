"""Peers that ask for nothing and make work, or ask for too much: bounded, others do not notice."""

from __future__ import annotations

import asyncio

import pytest

from contrailmq.grpc.call import Call, Streaming, Unary
from testkit.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    MORE,
    PING,
    PRIORITY,
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

ECHO, WAIT, BIG = "/t/Echo", "/t/Wait", "/t/Big"
CALM, REFUSED, CANCEL = 11, 7, 8
BLOCK = block(headers_of(ECHO))


async def wait(call: Call) -> None:
    await call.read()
    await asyncio.sleep(100_000)


METHODS = {
    ECHO: Unary(lambda call, message: message),
    WAIT: Streaming(wait),
    BIG: Unary(lambda call, message: bytes(1_000_000)),
}


def opened(number: int, path: str = ECHO, flags: int = END_HEADERS) -> bytes:
    return frame(HEADERS, flags, number, block(headers_of(path)))


FLOODS = {
    "resets": lambda n: opened(2 * n + 1, WAIT) + frame(RESET, 0, 2 * n + 1, bytes(4)),
    "pings": lambda n: frame(PING, 0, 0, bytes(8)),
    "settings": lambda n: frame(SETTINGS, 0, 0),
    "priorities": lambda n: frame(PRIORITY, 0, 1, bytes(5)),
    "windows": lambda n: frame(WINDOW, 0, 0, b"\0\0\0\1"),
    "unknown": lambda n: frame(200, 0, 0),
    "empty data": lambda n: (opened(1) if n == 0 else b"") + frame(DATA, 0, 1),
    "continuations": lambda n: frame(HEADERS, 0, 1, BLOCK[:1]) if n == 0 else frame(MORE, 0, 1),
    "malformed": lambda n: frame(HEADERS, END_HEADERS, 2 * n + 1, block([("a", "1")])),
    "late data": lambda n: (request(1, ECHO) if n == 0 else b"") + frame(DATA, 0, 1, b"x"),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_ends_its_connection(kind: str) -> None:
    async def scenario(world: Http2World) -> None:
        server = await world.serve(METHODS)
        peer = await world.bare()
        other = await world.oracle()
        for turn in range(24):
            peer.send(*(FLOODS[kind](turn * 500 + number) for number in range(500)))
            await asyncio.sleep(0.01)
            assert (await other.call(ECHO, b"others do not notice")).status == 0
        await asyncio.sleep(10)
        assert peer.lost
        assert peer.goodbye() == CALM
        assert not server.tasks

    in_world(scenario)


def test_pings_and_windows_of_busy_clients_are_no_flood() -> None:
    async def scenario(world: Http2World) -> None:
        await world.serve(METHODS)
        peer = await world.bare()
        for turn in range(12):
            noise = frame(PING, 0, 0, bytes(8)) + frame(WINDOW, 0, 0, b"\0\0\0\x05")
            first = turn * 2000 + 1
            peer.send(*(request(n, ECHO) + noise for n in range(first, first + 2000, 2)))
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        assert not peer.lost

    in_world(scenario)


def test_streams_beyond_the_limit_are_refused() -> None:
    async def scenario(world: Http2World) -> None:
        server = await world.serve(METHODS, streams_max=10)
        peer = await world.bare()
        for number in range(15):
            peer.send(opened(2 * number + 1, WAIT))
        await asyncio.sleep(1)
        assert peer.resets() == dict.fromkeys(range(21, 31, 2), REFUSED)
        assert len(server.tasks) == 10
        assert not peer.lost

    in_world(scenario)


def test_requests_that_never_end_are_given_up() -> None:
    async def scenario(world: Http2World) -> None:
        server = await world.serve(METHODS)
        peer = await world.bare()
        peer.send(opened(1), opened(3), frame(DATA, 0, 3, b"\0\0\0\1\0half"), opened(5, WAIT))
        for _ in range(10):
            await asyncio.sleep(10)
            peer.send(frame(PING, 0, 0, bytes(8)))
        assert peer.resets() == {1: CANCEL, 3: CANCEL}
        (connection,) = server.connections
        assert list(connection.session.streams) == [5]
        assert connection.session.held < 2_000

    in_world(scenario)


def test_answers_nobody_takes_are_given_up() -> None:
    async def scenario(world: Http2World) -> None:
        server = await world.serve(METHODS)
        peer = await world.bare()
        peer.send(*(request(2 * number + 1, BIG) for number in range(20)))
        await asyncio.sleep(1)
        (connection,) = server.connections
        assert connection.session.held > 19_000_000
        for _ in range(10):
            await asyncio.sleep(10)
            peer.send(frame(PING, 0, 0, bytes(8)))
        assert set(peer.resets().values()) == {CANCEL}
        assert connection.session.held == 0

    in_world(scenario)


def test_headers_beyond_the_limit_are_refused() -> None:
    async def scenario(world: Http2World) -> None:
        await world.serve(METHODS)
        peer = await world.oracle()
        answer = await peer.call(ECHO, b"", large="x" * 9_000)
        assert answer.status == 8
        assert "8192" in answer.headers["grpc-message"]
        assert (await peer.call(ECHO, b"ok")).messages == [b"ok"]
        bare = await world.bare()
        bare.send(frame(HEADERS, 0, 1, BLOCK))
        bare.send(*(frame(MORE, 0, 1, bytes(8_000)) for _ in range(5)))
        await asyncio.sleep(1)
        assert bare.goodbye() == CALM

    in_world(scenario)


def test_a_promise_of_much_takes_no_memory() -> None:
    async def scenario(world: Http2World) -> None:
        server = await world.serve(METHODS)
        peer = await world.bare()
        head = b"\0" + (130 * 1024 * 1024).to_bytes(4, "big")
        peer.send(*(opened(2 * n + 1) + frame(DATA, 0, 2 * n + 1, head) for n in range(100)))
        peer.send(opened(301), frame(DATA, 0, 301, b"\0\xf0\0\0\0"))
        await asyncio.sleep(1)
        (connection,) = server.connections
        assert connection.session.held < 100_000
        ends = [n for kind, flags, n, _ in peer.frames() if flags & END_STREAM and kind == HEADERS]
        assert ends == [301]

    in_world(scenario)


def test_a_reader_that_never_reads_stops_its_sender() -> None:
    async def never(call: Call) -> None:
        await asyncio.sleep(100_000)

    async def scenario(world: Http2World) -> None:
        server = await world.serve({"/t/Never": Streaming(never)})
        peer = await world.bare()
        peer.send(opened(1, "/t/Never"))
        chunk = prefixed(bytes(16_000))
        peer.send(*(frame(DATA, 0, 1, chunk) for _ in range(65)))
        await asyncio.sleep(1)
        (connection,) = server.connections
        assert 1_000_000 < connection.session.held < 1_100_000
        assert all(number == 0 for kind, _, number, _ in peer.frames() if kind == WINDOW)
        peer.send(frame(DATA, 0, 1, chunk))  # beyond the window of 1 MiB
        await asyncio.sleep(1)
        assert peer.resets() == {1: 3}
        assert connection.session.held == 0

    in_world(scenario)
