"""The same on real sockets of the loopback interface, on asyncio's loop and on uvloop's."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from contrailmq.clock import SystemClock
from contrailmq.errors import ConnectFailed, ConnectionLost, NetworkError
from contrailmq.net.accepting import ACCEPTS_A_TURN
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Dispatcher
from contrailmq.net.loop import loop_factory, run
from contrailmq.net.server import Server
from contrailmq.net.settings import ClientNetSettings, ServerSettings
from contrailmq.protocol.command import Command
from contrailmq.protocol.hosts import split_address
from testkit.certificates import self_signed, tls_network

ECHO, LATER, NEVER = 1, 2, 3
Factory = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=["asyncio", "uvloop"])
def runs(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a coroutine on one of the two loops."""
    factory = None if request.param == "asyncio" else loop_factory()

    def start(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(work)

    return start


def _echo(request: Command, connection: Connection) -> Command:
    return request.reply(fields=request.fields, body=request.body)


async def _later(request: Command, connection: Connection) -> Command:
    await asyncio.sleep(0)
    return request.reply(body=request.body)


async def _never(request: Command, connection: Connection) -> Command:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("nobody wakes this handler")


async def _pair(host: str = "127.0.0.1") -> tuple[Server, RemotingClient, str]:
    server = Server(
        Dispatcher({ECHO: _echo, LATER: _later, NEVER: _never}),
        ServerSettings(drain_ms=50),
        clock=SystemClock(),
    )
    await server.start(host, 0)
    client = RemotingClient(ClientNetSettings(), clock=SystemClock(), rng=random.Random(1))
    return server, client, f"{host}:{server.port}"


def test_connections_that_come_together_are_taken_together(runs: Any) -> None:
    async def scenario() -> None:
        server, client, _ = await _pair()
        peers = [
            socket.create_connection(("127.0.0.1", server.port), 5)
            for _ in range(2 * ACCEPTS_A_TURN)
        ]
        turns = taken = 0
        while taken < len(peers):
            await asyncio.sleep(0)
            turns += server.connection_count > taken
            taken = server.connection_count
        for peer in peers:
            peer.close()
        await client.aclose()
        await server.aclose()
        with pytest.raises(ConnectionRefusedError):  # nothing listens any more
            socket.create_connection(("127.0.0.1", server.port), 5)
        assert turns <= 10  # or those that came first would keep the others waiting

    runs(scenario())


def test_bodies_of_all_sizes_make_the_round_trip(runs: Any) -> None:
    async def scenario() -> None:
        server, client, address = await _pair()
        rng = random.Random(5)
        bodies = [rng.randbytes(size) for size in (0, 1, 16_383, 16_384, 262_144, 4_194_304)]
        for code in (ECHO, LATER):
            answers = await asyncio.gather(
                *(client.call(address, Command(code, body=body), timeout_s=20) for body in bodies)
            )
            assert [answer.body for answer in answers] == bodies
        assert server.connection_count == 1
        await client.aclose()
        await server.aclose()

    runs(scenario())


def test_a_socket_has_no_delay_and_keeps_alive(runs: Any) -> None:
    async def scenario() -> None:
        server, client, address = await _pair()
        await client.call(address, Command(ECHO), timeout_s=30)
        ends = [*server.connections, client.find_connection(address)]
        for end in ends:
            sock = end._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        await client.aclose()
        await server.aclose()

    runs(scenario())


def test_closing_the_server_ends_calls_and_connections(runs: Any) -> None:
    async def scenario() -> None:
        server, client, address = await _pair()
        await client.call(address, Command(ECHO), timeout_s=30)
        call = asyncio.ensure_future(client.call(address, Command(NEVER), timeout_s=30))
        await client.call(address, Command(ECHO), timeout_s=30)
        await server.aclose()
        try:
            answer = await call  # the handler was cancelled, and its caller told
            assert (answer.code, answer.remark) == (14, "the server is stopping")
        except ConnectionLost:
            pass
        with pytest.raises((ConnectFailed, ConnectionLost)):
            await client.call(address, Command(ECHO), timeout_s=30)
        await client.aclose()

    runs(scenario())


def test_a_taken_port_is_an_error(runs: Any) -> None:
    async def scenario() -> None:
        server, client, _ = await _pair()
        second = Server(Dispatcher({}), ServerSettings(), clock=SystemClock())
        with pytest.raises(OSError, match="in use"):
            await second.start("127.0.0.1", server.port)
        await client.aclose()
        await server.aclose()

    runs(scenario())


def test_ipv6_where_the_machine_has_it(runs: Any) -> None:
    async def scenario() -> None:
        try:
            server, client, _ = await _pair("::1")
        except OSError:
            pytest.skip("no IPv6 on this machine")
        answer = await client.call(f"[::1]:{server.port}", Command(ECHO), timeout_s=30)
        assert answer.code == 0
        (connection,) = server.connections
        assert len(connection.peer_host) == 20
        assert connection.peer_host[:16] == bytes(15) + b"\x01"
        await client.aclose()
        await server.aclose()

    runs(scenario())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh key and certificate for 127.0.0.1 in one file."""
    return self_signed(tmp_path_factory.mktemp("tls"))


def test_the_same_over_tls(runs: Any, certificate: Path) -> None:
    async def scenario() -> None:
        network = tls_network(certificate)
        server = Server(
            Dispatcher({ECHO: _echo}), ServerSettings(), clock=SystemClock(), network=network
        )
        await server.start("127.0.0.1", 0)
        address = f"127.0.0.1:{server.port}"
        client = RemotingClient(clock=SystemClock(), network=network)
        for size in (0, 100, 1_000_000):
            answer = await client.call(address, Command(ECHO, body=b"x" * size), timeout_s=20)
            assert answer.body == b"x" * size
        plain = RemotingClient(clock=SystemClock())
        with pytest.raises(NetworkError):
            await plain.call(address, Command(ECHO), timeout_s=30)
        await plain.aclose()
        await client.aclose()
        await server.aclose()

    runs(scenario())


def test_run_uses_uvloop_where_it_is_installed() -> None:
    async def name() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run(name()).startswith("uvloop" if loop_factory() else "asyncio")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:9876", ("127.0.0.1", 9876)),
        ("[::1]:9876", ("::1", 9876)),
        ("fd00::5:10911", ("fd00::5", 10911)),
        (" broker.example:1 ", ("broker.example", 1)),
    ],
)
def test_an_address_splits_at_its_last_colon(text: str, parts: tuple[str, int]) -> None:
    assert split_address(text) == parts


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:x", "host:70000", "host:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected host:port"):
        split_address(text)
