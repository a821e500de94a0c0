"""Servers and clients, unchanged, in virtual time over a wire with faults."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random

import pytest

from contrailmq.errors import ConnectFailed, ConnectionLost, NetworkError, RequestTimeout
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Dispatcher
from contrailmq.net.server import Server
from contrailmq.net.settings import ClientNetSettings, ServerSettings
from contrailmq.protocol.command import Command
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import SimClock, SimDeadlock, SimTimeout, simulate

ECHO = 1
SLOW = 2
PUSH = 3
SERVER_IP, CLIENT_IP = "10.0.0.1", "10.0.0.2"
ADDRESS = f"{SERVER_IP}:9000"


def _echo(request: Command, connection: Connection) -> Command:
    return request.reply(body=request.body)


async def _slow(request: Command, connection: Connection) -> Command:
    await asyncio.sleep(5)
    return request.reply(body=b"slow")


class _World:
    """One server and one client."""

    def __init__(self, rng: random.Random, **settings: int) -> None:
        self.network = SimNetwork(random.Random(rng.getrandbits(64)))
        self.server = self.new_server()
        self.client = RemotingClient(
            ClientNetSettings(**settings),
            clock=SimClock(),
            network=self.network.host(CLIENT_IP),
            rng=random.Random(rng.getrandbits(64)),
            handlers={PUSH: lambda request, connection: request.reply(remark="pushed")},
        )

    def new_server(self) -> Server:
        return Server(
            Dispatcher({ECHO: _echo, SLOW: _slow}),
            ServerSettings(),
            clock=SimClock(),
            network=self.network.host(SERVER_IP),
        )

    async def __aenter__(self) -> _World:
        await self.server.start(SERVER_IP, 9000)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.network.heal()
        await self.client.aclose()
        await self.server.aclose()
        assert not self.network.transports, "a connection is left"

    async def echo(self, body: bytes, *, timeout_s: float = 3.0) -> bytes:
        answer = await self.client.call(ADDRESS, Command(ECHO, body=body), timeout_s=timeout_s)
        return bytes(answer.body)


async def _exchange(rng: random.Random) -> list[tuple[float, str]]:
    """Many calls of all sizes at once, some broken by resets."""
    async with _World(rng) as world:

        async def caller(number: int) -> None:
            await asyncio.sleep(rng.uniform(0, 0.5))
            body = bytes([number]) * rng.choice((0, 1, 1000, 20_000, 300_000, 2_000_000))
            with contextlib.suppress(ConnectionLost, ConnectFailed):
                assert await world.echo(body, timeout_s=30) == body

        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(caller(number))
            await asyncio.sleep(rng.uniform(0, 0.5))
            world.network.reset(SERVER_IP, CLIENT_IP)
    return world.network.trace


@pytest.mark.parametrize("seed", range(10))
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    first, second = simulate(seed, _exchange), simulate(seed, _exchange)
    assert first == second
    assert len(first) > 20


def test_another_seed_gives_another_trace() -> None:
    assert simulate(1, _exchange) != simulate(2, _exchange)


def test_a_call_times_out_at_its_deadline_and_not_before() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            await world.echo(b"")
            loop = asyncio.get_running_loop()
            begin = loop.time()
            with pytest.raises(RequestTimeout, match=r"code 2 within 1\.25 s"):
                await world.client.call(ADDRESS, Command(SLOW), timeout_s=1.25)
            assert loop.time() - begin == pytest.approx(1.25, abs=0.001)
            await asyncio.sleep(6)  # the late answer finds nobody and harms nobody
            assert await world.echo(b"still there") == b"still there"
            assert world.server.connection_count == 1

    simulate(1, scenario)


def test_many_timeouts_of_one_connection_each_at_its_own_time() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            await world.echo(b"")
            loop = asyncio.get_running_loop()

            async def one(timeout_s: float) -> None:
                begin = loop.time()
                with pytest.raises(RequestTimeout):
                    await world.client.call(ADDRESS, Command(SLOW), timeout_s=timeout_s)
                assert loop.time() - begin == pytest.approx(timeout_s, abs=0.002)

            async with asyncio.TaskGroup() as group:
                for timeout_s in (2.0, 0.5, 1.0, 0.25, 0.75, 1.5):
                    group.create_task(one(timeout_s))

    simulate(1, scenario)


def test_calls_under_way_fail_at_once_when_the_connection_breaks() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            await world.echo(b"")
            loop = asyncio.get_running_loop()
            call = asyncio.ensure_future(world.client.call(ADDRESS, Command(SLOW), timeout_s=60))
            await asyncio.sleep(1)
            begin = loop.time()
            assert world.network.reset(SERVER_IP, CLIENT_IP) == 1
            with pytest.raises(ConnectionLost, match="ConnectionResetError"):
                await call
            assert loop.time() - begin < 0.1
            assert await world.echo(b"again") == b"again"

    simulate(1, scenario)


def test_callers_share_one_connection_and_one_attempt() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            bodies = [b"%d" % number for number in range(50)]
            assert await asyncio.gather(*map(world.echo, bodies)) == bodies
            assert world.server.connection_count == 1
            connects = [event for _, event in world.network.trace if event.startswith("connect")]
            assert len(connects) == 1

    simulate(1, scenario)


def test_failed_attempts_back_off_and_the_address_recovers() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            await world.server.aclose()
            for _ in range(400):
                with pytest.raises(ConnectFailed):
                    await world.echo(b"")
                await asyncio.sleep(0.05)
            refused = [at for at, event in world.network.trace if event.startswith("refused")]
            gaps = [b - a for a, b in itertools.pairwise(refused)]
            assert 10 < len(refused) < 30  # 20 s of trying every 50 ms
            assert max(gaps) < 2.2
            assert gaps[0] < 0.2
            world.server = world.new_server()
            await world.server.start(SERVER_IP, 9000)
            await asyncio.sleep(2.0)
            assert await world.echo(b"back") == b"back"
            await world.server.aclose()
            begin = len(world.network.trace)
            for _ in range(10):
                with pytest.raises(NetworkError):
                    await world.echo(b"")
                await asyncio.sleep(0.02)
            again = [event for _, event in world.network.trace[begin:] if "refused" in event]
            assert len(again) >= 2  # a success has reset the back-off to its beginning

    simulate(1, scenario)


def test_a_connect_that_gets_no_answer_ends_after_its_timeout() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            world.network.cut(CLIENT_IP, SERVER_IP)
            begin = asyncio.get_running_loop().time()
            with pytest.raises(ConnectFailed, match="no connection within 3 s"):
                await world.echo(b"", timeout_s=10)
            assert asyncio.get_running_loop().time() - begin == pytest.approx(3.0, abs=0.01)
            with pytest.raises(RequestTimeout, match="no connection to"):
                await asyncio.sleep(3)
                await world.echo(b"", timeout_s=1)

    simulate(1, scenario)


def test_a_short_cut_delays_bytes_and_loses_none() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            await world.echo(b"")
            world.network.cut(CLIENT_IP, SERVER_IP)
            calls = [asyncio.ensure_future(world.echo(b"%d" % n)) for n in range(5)]
            await asyncio.sleep(2)
            assert not any(call.done() for call in calls)
            world.network.heal()
            assert await asyncio.gather(*calls) == [b"%d" % n for n in range(5)]

    simulate(1, scenario)


def test_a_half_open_connection_is_given_up_after_a_silent_timeout() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            await world.echo(b"")
            old = world.client.find_connection(ADDRESS)
            world.network.crash(SERVER_IP)
            await world.server.aclose()
            await asyncio.sleep(1)
            with pytest.raises(NetworkError):
                await world.echo(b"", timeout_s=3)
            assert old is not None
            assert old.closed
            assert "no byte came" in str(old.close_reason)
            world.network.restart(SERVER_IP)
            world.server = world.new_server()
            await world.server.start(SERVER_IP, 9000)
            assert await world.echo(b"new") == b"new"

    simulate(1, scenario)


def test_an_idle_connection_is_closed_after_120_seconds() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            await world.echo(b"")
            await asyncio.sleep(100)
            await world.echo(b"")
            await asyncio.sleep(119)
            assert world.server.connection_count == 1
            await asyncio.sleep(2)
            assert world.server.connection_count == 0
            assert world.client.addresses == []
            assert await world.echo(b"anew") == b"anew"

    simulate(1, scenario)


def test_a_name_is_resolved_at_every_connect() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            world.network.names["broker.example"] = "10.0.0.99"
            with pytest.raises(ConnectFailed):
                await world.client.call("broker.example:9000", Command(ECHO), timeout_s=3)
            world.network.names["broker.example"] = SERVER_IP
            await asyncio.sleep(1)
            answer = await world.client.call("broker.example:9000", Command(ECHO), timeout_s=3)
            assert answer.code == 0

    simulate(1, scenario)


def test_a_server_calls_its_client() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            await world.echo(b"")
            (connection,) = world.server.connections
            answer = await connection.call(Command(PUSH), timeout_s=3)
            assert answer.remark == "pushed"

    simulate(1, scenario)


def test_closing_the_server_lets_requests_under_way_be_answered() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            quick: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            async def wait(request: Command, connection: Connection) -> Command:
                await quick
                return request.reply(body=b"drained")

            server = Server(
                Dispatcher({ECHO: wait}),
                ServerSettings(),
                clock=SimClock(),
                network=world.network.host("10.0.0.3"),
            )
            await server.start("10.0.0.3", 9000)
            call = asyncio.ensure_future(
                world.client.call("10.0.0.3:9000", Command(ECHO), timeout_s=3)
            )
            await asyncio.sleep(0.1)
            closing = asyncio.ensure_future(server.aclose())
            await asyncio.sleep(0.1)
            quick.set_result(None)
            assert (await call).body == b"drained"
            await closing

    simulate(1, scenario)


def test_a_world_in_which_all_wait_is_an_error() -> None:
    async def scenario(rng: random.Random) -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(SimDeadlock):
        simulate(1, scenario)


def test_a_world_without_end_is_an_error() -> None:
    async def scenario(rng: random.Random) -> None:
        await asyncio.sleep(1000)

    with pytest.raises(SimTimeout) as caught:
        simulate(7, scenario, limit_s=100)
    assert "seed 7" in caught.value.__notes__[0]
