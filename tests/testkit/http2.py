"""HTTP/2 peers for tests: ``h2`` as an oracle, and bare frames for what ``h2`` would never send."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from hpack import Encoder

from contrailmq.grpc.call import Methods
from contrailmq.grpc.http2.limits import Http2Limits
from contrailmq.grpc.http2.server import GrpcServer
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import SimClock, simulate

SERVER_IP, PORT = "10.0.0.1", 8081
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, MORE = range(10)
END_STREAM, END_HEADERS, PADDED, HAS_PRIORITY = 1, 4, 8, 32


def headers_of(path: str, **more: str) -> list[tuple[str, str]]:
    """The headers a gRPC client sends."""
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "server"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        *((name.replace("_", "-"), value) for name, value in more.items()),
    ]


def prefixed(message: bytes) -> bytes:
    """A gRPC message as it is on the wire."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def frame(kind: int, flags: int, number: int, payload: bytes = b"") -> bytes:
    """One frame."""
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags))
    return head + number.to_bytes(4, "big") + payload


def block(fields: list[tuple[str, str]]) -> bytes:
    """A header block that needs no table."""
    return _block(tuple(fields))


@functools.cache
def _block(fields: tuple[tuple[str, str], ...]) -> bytes:
    encoder = Encoder()
    encoder.header_table_size = 0
    encoded: bytes = encoder.encode(list(fields))
    return encoded


def request(number: int, path: str, message: bytes = b"", **more: str) -> bytes:
    """The frames of a unary call."""
    return frame(HEADERS, END_HEADERS, number, block(headers_of(path, **more))) + frame(
        DATA, END_STREAM, number, prefixed(message)
    )


@dataclass
class Answer:
    """What came of one call."""

    headers: dict[str, str] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)
    trailers: dict[str, str] = field(default_factory=dict)
    is_over: bool = False
    reset: int | None = None

    @property
    def status(self) -> int:
        """The gRPC status, -1 without one."""
        return int({**self.headers, **self.trailers}.get("grpc-status", "-1"))

    @property
    def messages(self) -> list[bytes]:
        """The whole messages that have come."""
        found, at = [], 0
        while at + 5 <= len(self.data):
            size = int.from_bytes(self.data[at + 1 : at + 5], "big")
            found.append(bytes(self.data[at + 5 : at + 5 + size]))
            at += 5 + size
        return found


class OraclePeer(asyncio.BufferedProtocol):
    """A client made of ``h2``; every frame it gets is checked by it."""

    def __init__(self, *, opens_windows: bool = True) -> None:
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.answers: dict[int, Answer] = {}
        self.goodbyes: list[Any] = []
        self.lost = False
        self.opens_windows = opens_windows
        self._view = memoryview(bytearray(65536))
        self._changed = asyncio.Event()
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.h2.initiate_connection()
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._changed.set()

    def eof_received(self) -> bool:
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        for event in self.h2.receive_data(bytes(self._view[:nbytes])):
            self._take(event)
        self.flush()
        self._changed.set()

    def _take(self, event: Any) -> None:
        if isinstance(event, ConnectionTerminated):
            self.goodbyes.append(event)
            return
        answer = self.answers.get(getattr(event, "stream_id", 0))
        if answer is None:
            return
        if isinstance(event, ResponseReceived):
            answer.headers = dict(event.headers)
        elif isinstance(event, DataReceived):
            answer.data += event.data
            if self.opens_windows and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, TrailersReceived):
            answer.trailers = dict(event.headers)
        elif isinstance(event, StreamEnded):
            answer.is_over = True
        elif isinstance(event, StreamReset):
            answer.reset = event.error_code
            answer.is_over = True

    def flush(self) -> None:
        """Send what ``h2`` has to say."""
        self.transport.write(self.h2.data_to_send())

    def begin(self, path: str, **more: str) -> int:
        """Open a call; returns its stream."""
        number: int = self.h2.get_next_available_stream_id()
        self.answers[number] = Answer()
        self.h2.send_headers(number, headers_of(path, **more))
        self.flush()
        return number

    async def send(self, number: int, message: bytes, *, end: bool = False) -> None:
        """Send a message as far as windows open."""
        left = memoryview(prefixed(message))
        while left:
            room = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size)
            if room <= 0:
                assert not self.lost, "the connection ended"
                await self._wait(1000)
                continue
            self.h2.send_data(number, bytes(left[:room]), end_stream=end and len(left) <= room)
            self.flush()
            left = left[room:]

    async def call(self, path: str, message: bytes = b"", **more: str) -> Answer:
        """One unary call to its end."""
        number = self.begin(path, **more)
        await self.send(number, message, end=True)
        return await self.over(number)

    async def over(self, number: int, timeout_s: float = 600) -> Answer:
        """Wait for the end of a call."""
        await self.until(lambda: self.answers[number].is_over, timeout_s)
        return self.answers[number]

    async def until(self, condition: Callable[[], bool], timeout_s: float = 600) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                assert not self.lost, "the connection ended"
                await self._wait(timeout_s)

    async def _wait(self, timeout_s: float) -> None:
        self._changed.clear()
        async with asyncio.timeout(timeout_s):
            await self._changed.wait()


class BarePeer(asyncio.BufferedProtocol):
    """A client that writes any bytes and keeps the frames it gets; it answers nothing."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost = False
        self.transport: Any = None
        self._view = memoryview(bytearray(65536))

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def eof_received(self) -> bool:
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._view[:nbytes]

    def send(self, *frames: bytes) -> None:
        """Write frames."""
        self.transport.write(b"".join(frames))

    def greet(self) -> None:
        """The preface and empty settings."""
        self.send(PREFACE, frame(SETTINGS, 0, 0))

    def frames(self) -> list[tuple[int, int, int, bytes]]:
        """Kind, flags, stream and payload of every frame so far."""
        found, at = [], 0
        while at + 9 <= len(self.received):
            size = int.from_bytes(self.received[at : at + 3], "big")
            kind, flags = self.received[at + 3], self.received[at + 4]
            number = int.from_bytes(self.received[at + 5 : at + 9], "big")
            found.append((kind, flags, number, bytes(self.received[at + 9 : at + 9 + size])))
            at += 9 + size
        return found

    def goodbye(self) -> int | None:
        """The code of the last GOAWAY."""
        codes = [int.from_bytes(p[4:8], "big") for kind, _, _, p in self.frames() if kind == GOAWAY]
        return codes[-1] if codes else None

    def resets(self) -> dict[int, int]:
        """The code per stream that was reset."""
        return {n: int.from_bytes(p, "big") for kind, _, n, p in self.frames() if kind == RESET}


class Http2World:
    """A server on a simulated wire, and peers of it."""

    def __init__(self, rng: random.Random) -> None:
        self.network = SimNetwork(random.Random(rng.getrandbits(64)))
        self.server: GrpcServer | None = None

    async def serve(self, methods: Methods, **limits: Any) -> GrpcServer:
        """Start the server."""
        self.server = GrpcServer(
            methods,
            Http2Limits(**limits),
            clock=SimClock(),
            network=self.network.host(SERVER_IP),
        )
        await self.server.start(SERVER_IP, PORT)
        return self.server

    async def oracle(self, **more: Any) -> OraclePeer:
        """Connect an oracle."""
        peer = OraclePeer(**more)
        await self.network.host("10.0.0.2").connect(lambda: peer, SERVER_IP, PORT)
        return peer

    async def bare(self, *, greets: bool = True) -> BarePeer:
        """Connect a peer of bare frames."""
        peer = BarePeer()
        await self.network.host("10.0.0.3").connect(lambda: peer, SERVER_IP, PORT)
        if greets:
            peer.greet()
        return peer


def in_world(scenario: Callable[[Http2World], Awaitable[None]], seed: int = 1) -> None:
    """Run a scenario in a world of its own, in virtual time."""

    async def within(rng: random.Random) -> None:
        world = Http2World(rng)
        try:
            await scenario(world)
        finally:
            if world.server is not None:
                await world.server.aclose()

    simulate(seed, within)
