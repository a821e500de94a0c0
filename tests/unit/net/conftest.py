"""A raw peer, a server and a client on a simulated wire."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from contrailmq.net.dispatch import Dispatcher, Handler
from contrailmq.net.loop import loop_factory
from contrailmq.net.server import Server
from contrailmq.net.settings import ServerSettings
from contrailmq.protocol.command import Command, decode
from contrailmq.protocol.frame import FrameDecoder
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import SimClock, simulate

SERVER_IP = "10.0.0.1"


@pytest.fixture(scope="session", autouse=True)
def _libuv() -> None:
    """libuv opens its signal pipe once per process, with the first loop; let it be before tests."""
    factory = loop_factory()
    if factory is not None:
        factory().close()


class RawPeer(asyncio.BufferedProtocol):
    """A peer that writes any bytes and keeps what it gets; it can stop reading."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.received = bytearray()
        self.lost: list[Exception | None] = []
        self._buffer = bytearray(65536)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]

    def eof_received(self) -> bool:
        return False

    def commands(self) -> list[Command]:
        """Every whole command received so far."""
        return [decode(frame) for frame in FrameDecoder().feed(self.received)]


class World:
    """A server with given handlers and settings, and any number of raw peers."""

    def __init__(self, rng: random.Random) -> None:
        self.network = SimNetwork(random.Random(rng.getrandbits(64)))
        self.servers: list[Server] = []
        self._peers = 0

    async def serve(
        self, handlers: Mapping[int, Handler], settings: ServerSettings | None = None, **more: Any
    ) -> Server:
        server = Server(
            Dispatcher(handlers, more.pop("default", None)),
            settings or ServerSettings(),
            clock=SimClock(),
            network=self.network.host(SERVER_IP),
            **more,
        )
        await server.start(SERVER_IP, 9000)
        self.servers.append(server)
        return server

    async def peer(self, ip: str = "10.0.0.2") -> RawPeer:
        peer = RawPeer()
        await self.network.host(ip).connect(lambda: peer, SERVER_IP, 9000)
        return peer

    async def settle(self, seconds: float = 0.2) -> None:
        await asyncio.sleep(seconds)

    async def aclose(self) -> None:
        for server in self.servers:
            await server.aclose()


@pytest.fixture
def world() -> Callable[[Callable[[World], Awaitable[None]]], None]:
    """Run a scenario in a world of its own, in virtual time."""

    def run(scenario: Callable[[World], Awaitable[None]]) -> None:
        async def within(rng: random.Random) -> None:
            world = World(rng)
            await scenario(world)
            await world.aclose()

        simulate(1, within)

    return run
