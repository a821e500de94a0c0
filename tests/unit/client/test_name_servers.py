"""How a client finds its name servers: the environment, an address server, names that move."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.sim.test_client import NAMESRV, Sim, run

from contrailmq import ClientSettings, Message, Producer
from contrailmq.client.settings import World
from contrailmq.errors import ClientError, NetworkError
from contrailmq.net.accepting import Factory, unlimited
from contrailmq.net.network import Listener, Network
from contrailmq.testing.cluster import LocalCluster


def test_the_environment_of_the_original(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with LocalCluster() as cluster:
            monkeypatch.setenv("NAMESRV_ADDR", cluster.name_servers)
            async with Producer("p") as producer:
                assert (await producer.send(Message("T", b"x"))).offset == 0
        monkeypatch.delenv("NAMESRV_ADDR")
        with pytest.raises(ClientError, match="set NAMESRV_ADDR, or set discovery_url"):
            await Producer("p").start()

    asyncio.run(main())


@asynccontextmanager
async def address_server(answers: list[str]) -> AsyncIterator[str]:
    """An HTTP server that answers with the first of these texts; its address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.0 200 OK\r\n\r\n{answers[0]}\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/nsaddr"


def test_an_address_server_is_asked_first_and_again() -> None:
    """Both clusters in turn: the client follows, and lets go of the name server it has left."""

    async def main() -> None:
        async with LocalCluster() as old, LocalCluster() as new:
            answers = [old.name_servers]
            async with (
                address_server(answers) as url,
                Producer("p", client=ClientSettings(discovery_url=url)) as producer,
            ):
                session = producer._session
                await producer.send(Message("T", b"x"))
                assert session.find_connection(old.name_servers) is not None
                answers[0] = f"{new.name_servers};127.0.0.1:1"
                await session._discover()
                assert sorted(session.name_servers.addresses) == sorted(answers[0].split(";"))
                receipt = await producer.send(Message("U", b"x"))
                assert receipt.queue.broker_name == "broker-a"
                assert session.find_connection(new.name_servers) is not None
                assert session.find_connection(old.name_servers) is None
                answers[0] = ""  # an empty list is not believed
                await session._discover()
                assert len(session.name_servers.addresses) == 2

    asyncio.run(main())


class Resolver:
    """A network in which names can move."""

    def __init__(self, network: Network, table: dict[str, str]) -> None:
        self._network = network
        self.table = table
        self.asked: list[str] = []

    async def connect(self, factory: Factory, host: str, port: int) -> asyncio.BaseProtocol:
        self.asked.append(host)
        return await self._network.connect(factory, self.table.get(host, host), port)

    async def listen(
        self,
        factory: Factory,
        host: str,
        port: int,
        *,
        backlog: int = 1024,
        room: Callable[[], int] = unlimited,
    ) -> Listener:
        return await self._network.listen(factory, host, port, backlog=backlog, room=room)


def test_a_name_that_moves_is_resolved_again(tmp_path: Path) -> None:
    """The name server moves to another machine under its old name; nobody restarts anything."""

    async def scenario(sim: Sim) -> None:
        ip, world = sim.world()
        resolver = Resolver(world.network, {"names.example": NAMESRV[0]})
        async with (
            sim.cluster(brokers=1),
            Producer(
                "p",
                name_servers="names.example:9876",
                client=ClientSettings(client_ip=ip),
                world=World(network=resolver, clock=world.clock, rng=random.Random(1)),
            ) as producer,
        ):
            await producer.send(Message("T", b"x"))
            sim.network.crash(NAMESRV[0])
            resolver.table["names.example"] = NAMESRV[1]
            for _ in range(20):
                try:
                    receipt = await producer.send(Message("U", b"x"))
                    break
                except NetworkError:
                    await asyncio.sleep(0.5)
            assert receipt.queue.topic == "U"
            assert resolver.asked.count("names.example") >= 2

    run(1, tmp_path, scenario)
