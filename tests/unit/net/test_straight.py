"""Answers of a fast lane on real sockets: straight to the socket, or through the transport.

Whatever a socket takes at once, and whoever has written before, a peer gets every answer whole and
in the order of its requests.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import ssl
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contrailmq.clock import SystemClock
from contrailmq.net import connection as connection_module
from contrailmq.net import endpoint as endpoint_module
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Dispatcher
from contrailmq.net.loop import loop_factory
from contrailmq.net.network import AsyncioNetwork
from contrailmq.net.server import Server
from contrailmq.net.settings import ServerSettings
from contrailmq.protocol.command import Command, decode
from contrailmq.protocol.frame import FrameDecoder
from testkit.builds import native_module
from testkit.certificates import self_signed, tls_network

BY_LANE, BY_HANDLER = 310, 1


class CuttingLane:
    """Answers frames of one code: their bodies many times, cut into up to ``parts`` buffers."""

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self._rng = random.Random(parts)
        self.answered = 0

    def run(
        self, buffer: bytearray, start: int, end: int, connection: Connection, out: list[Any]
    ) -> int:
        answers = bytearray()
        while end - start >= 4:
            size = int.from_bytes(buffer[start : start + 4], "big")
            if start + 4 + size > end:
                break
            request = decode(bytes(buffer[start + 4 : start + 4 + size]))
            if request.code != BY_LANE:
                break
            answers += request.reply(body=request.body * request.opaque).encode()
            self.answered += 1
            start += 4 + size
        cuts = sorted(self._rng.randrange(len(answers) + 1) for _ in range(self._parts - 1))
        makers = itertools.cycle((bytes, bytearray, memoryview))
        for first, last in itertools.pairwise((0, *cuts, len(answers))):
            if last > first:
                out.append(next(makers)(bytes(answers[first:last])))
        return start


def _echo(request: Command, connection: Connection) -> Command:
    return request.reply(body=request.body * request.opaque)


@pytest.fixture(params=["asyncio", "uvloop"])
def runs(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a coroutine on one of the two loops."""
    factory = None if request.param == "asyncio" else loop_factory()

    def start(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(work)

    return start


@pytest.fixture(params=["compiled", "pure"], autouse=True)
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both builds of what reads."""
    is_pure = request.param == "pure"
    monkeypatch.setattr(connection_module, "Reads", native_module("net.reads", pure=is_pure).Reads)
    monkeypatch.setattr(endpoint_module, "Turns", native_module("net.turns", pure=is_pure).Turns)
    return str(request.param)


async def _served(lane: CuttingLane, network: AsyncioNetwork | None = None) -> Server:
    server = Server(
        Dispatcher({BY_HANDLER: _echo}),
        ServerSettings(drain_ms=50),
        clock=SystemClock(),
        lane=lane,
        network=network,
    )
    await server.start("127.0.0.1", 0)
    return server


def _requests(count: int, times: int) -> list[tuple[bytes, bytes]]:
    """Requests of the lane and others, with up to so many times their bodies in the answers."""
    rng = random.Random(count)
    found = []
    for _ in range(count):
        body, opaque = rng.randbytes(rng.randrange(1, 1000)), rng.randrange(times)
        code = BY_HANDLER if rng.random() < 0.1 else BY_LANE
        found.append((Command(code, body=body, opaque=opaque).encode(), body * opaque))
    return found


async def _answers(reader: asyncio.StreamReader, count: int) -> list[Command]:
    decoder, found = FrameDecoder(), []
    while len(found) < count:
        data = await asyncio.wait_for(reader.read(65536), 60)
        assert data, "closed before all was answered"
        found += [decode(frame) for frame in decoder.feed(data)]
    return found


@pytest.mark.parametrize("parts", [1, 2, 40])
@pytest.mark.parametrize("times", [3, 400])
def test_a_peer_that_reads_late_gets_every_answer_in_order(
    runs: Any, parts: int, times: int
) -> None:
    async def scenario() -> None:
        lane = CuttingLane(parts)
        server = await _served(lane)
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # little is taken at once
        peer.setblocking(False)
        await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", server.port))
        reader, writer = await asyncio.open_connection(sock=peer, limit=4096)
        requests = _requests(80, times)
        for frame, _ in requests:
            writer.write(frame)
            for _ in range(5):  # mostly a read of its own
                await asyncio.sleep(0)
        found = await _answers(reader, len(requests))
        assert [answer.body for answer in found] == [body for _, body in requests]
        assert lane.answered > 40
        writer.close()
        await writer.wait_closed()
        await server.aclose()

    runs(scenario())


def test_what_waits_in_the_transport_goes_first() -> None:
    class OneAnswer:
        def run(self, buffer: Any, start: int, end: int, connection: Any, out: list[Any]) -> int:
            out.append(b"answer")
            return end

    waiting, written = [6], []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        reads = connection_module.Reads(None, bytearray(64), OneAnswer(), lambda: 0.0)
        reads.outlet = SimpleNamespace(later=None, is_paused=False)
        reads.write, reads.waiting, reads.fd = written.append, waiting.pop, ours.fileno()
        reads.is_straight = True
        reads.buffer_updated(64)
        assert written == [b"answer"]  # behind the six bytes
        with pytest.raises(BlockingIOError):
            theirs.recv(100)
        waiting.append(0)
        reads.buffer_updated(64)
        assert (written, theirs.recv(100)) == ([b"answer"], b"answer")
        waiting += [0, 6]
        reads.answer(b"later")
        assert (written.pop(), waiting.pop()) == (b"later", 0)
        waiting.append(0)
        reads.answer(b"later")
        assert (written, theirs.recv(100)) == ([b"answer"], b"later")


def test_one_request_after_another_is_answered(runs: Any) -> None:
    async def scenario() -> None:
        server = await _served(CuttingLane(2))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for number in range(20):
            code = BY_HANDLER if number % 5 == 4 else BY_LANE
            writer.write(Command(code, body=b"x" * number, opaque=number).encode())
            (answer,) = await _answers(reader, 1)
            assert (answer.opaque, answer.body) == (number, b"x" * number * number)
        writer.close()
        await writer.wait_closed()
        await server.aclose()

    runs(scenario())


def test_a_peer_that_sends_no_more_gets_its_answers_and_the_end(runs: Any) -> None:
    async def scenario() -> None:
        server = await _served(CuttingLane(1))
        requests = _requests(30, 3)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.sleep(0)
        for cut in range(2):  # a frame in the middle, then the end of all
            frames = b"".join(frame for frame, _ in requests)
            writer.write(frames[: len(frames) // 2] if cut == 0 else frames[len(frames) // 2 :])
            await asyncio.sleep(0)
        writer.write_eof()
        found = await _answers(reader, len(requests))
        assert [answer.body for answer in found] == [body for _, body in requests]
        assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(30):
            for connection in server.connections:
                await connection.wait_closed()
        assert server.connection_count == 0
        await server.aclose()

    runs(scenario())


def test_a_peer_that_has_reset_the_connection_is_forgotten(runs: Any) -> None:
    async def scenario() -> None:
        lane = CuttingLane(1)
        server = await _served(lane)
        for _ in range(20):
            peer = socket.create_connection(("127.0.0.1", server.port), 5)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.sendall(b"".join(frame for frame, _ in _requests(50, 3)))
            peer.close()
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(Command(BY_LANE, body=b"last", opaque=1).encode())
            assert [answer.body for answer in await _answers(reader, 1)] == [b"last"]
            for connection in server.connections[:-1]:
                await connection.wait_closed()
        assert server.connection_count == 1
        writer.close()
        await writer.wait_closed()
        await server.aclose()

    runs(scenario())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh key and certificate for 127.0.0.1 in one file."""
    return self_signed(tmp_path_factory.mktemp("tls"))


def test_under_tls_nothing_goes_past_it(runs: Any, certificate: Path) -> None:
    async def scenario() -> None:
        theirs = ssl.create_default_context(cafile=str(certificate))
        server = await _served(CuttingLane(2), tls_network(certificate))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=theirs)
        for frame, body in _requests(50, 100):
            writer.write(frame)
            assert [answer.body for answer in await _answers(reader, 1)] == [body]
        writer.close()
        await server.aclose()

    runs(scenario())
