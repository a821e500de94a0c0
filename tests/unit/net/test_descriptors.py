"""Connections follow the limit of open files: at the bound accepting pauses, and goes on."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from contrailmq.clock import SystemClock
from contrailmq.errors import ConfigError
from contrailmq.net import accepting
from contrailmq.net.accepting import AcceptingListener, bound_sockets
from contrailmq.net.descriptors import CONNECTIONS_LEAST, HELD_BACK_MAX, Descriptors
from contrailmq.net.dispatch import Dispatcher
from contrailmq.net.loop import loop_factory
from contrailmq.net.server import Server
from contrailmq.net.settings import ServerSettings


@pytest.fixture(params=["asyncio", "uvloop"])
def runs(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a coroutine on one of the two loops."""
    factory = None if request.param == "asyncio" else loop_factory()

    def start(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(work)

    return start


def test_a_part_of_the_limit_is_held_back() -> None:
    assert Descriptors(400, in_use=60).connections_max == 400 - 100 - 60
    assert Descriptors(1_000_000, in_use=60).connections_max == 1_000_000 - HELD_BACK_MAX - 60
    with pytest.raises(ConfigError, match="limit of open files is 64: 40 are open, 16 are held"):
        Descriptors(64, in_use=40)


async def _settled(server: Server, count: int) -> None:
    async with asyncio.timeout(10):
        while server.connection_count != count:  # noqa: ASYNC110 - sockets have no other signal
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert server.connection_count == count


def test_at_the_bound_peers_wait_until_a_connection_ends(
    runs: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        most = CONNECTIONS_LEAST
        descriptors = Descriptors(most + 100, in_use=100 - (most + 100) // 4)
        assert descriptors.connections_max == most
        ports = [
            Server(
                Dispatcher({}),
                ServerSettings(drain_ms=10),
                clock=SystemClock(),
                descriptors=descriptors,
            )
            for _ in range(2)
        ]
        for server in ports:
            await server.start("127.0.0.1", 0)
        first = [socket.create_connection(("127.0.0.1", ports[0].port), 5) for _ in range(most)]
        await _settled(ports[0], most)
        second = [socket.create_connection(("127.0.0.1", ports[1].port), 5) for _ in range(5)]
        await asyncio.sleep(0.1)
        assert ports[1].connection_count == 0
        assert "no connection is accepted until one ends" in caplog.text
        for peer in first[:3]:
            peer.close()
        await _settled(ports[1], 3)
        for peer in first[3:]:
            peer.close()
        await _settled(ports[0], 0)
        await _settled(ports[1], 5)
        assert "connections are accepted again" in caplog.text
        for peer in second:
            peer.close()
        await _settled(ports[1], 0)
        assert descriptors.count == 0
        for server in ports:
            await server.aclose()

    with caplog.at_level(logging.WARNING):
        runs(scenario())


class ShortOfDescriptors:
    """A listening socket of a process that has no descriptor left, the first few times."""

    def __init__(self, inner: socket.socket, times: int) -> None:
        self._inner = inner
        self.times = times

    def accept(self) -> tuple[socket.socket, object]:
        if self.times:
            self.times -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._inner.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_without_a_descriptor_accepting_pauses_and_says_so(
    runs: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "RETRY_S", 0.01)

    async def scenario() -> None:
        made = asyncio.Event()

        class Peer(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made.set()
                transport.close()

        inner = (await bound_sockets("127.0.0.1", 0, backlog=5))[0]
        short: Any = ShortOfDescriptors(inner, 3)
        listener = AcceptingListener([short], Peer, tls=None, room=accepting.unlimited)
        peer = socket.create_connection(("127.0.0.1", listener.port), 5)
        async with asyncio.timeout(10):
            await made.wait()
        assert short.times == 0
        assert "no connection is accepted for now" in caplog.text
        peer.close()
        listener.close()
        await listener.wait_closed()
        await asyncio.sleep(0.01)

    runs(scenario())
