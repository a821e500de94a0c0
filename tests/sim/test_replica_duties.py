"""Timers and POP's revival run on the primary only, and go on where a new primary takes over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from contrailmq.broker.app import Broker
from contrailmq.broker.config.file import read_conf
from contrailmq.controller.app import Controller
from contrailmq.controller.settings import ControllerSettings
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.controller import ElectMasterRequest
from contrailmq.testing.files import SimFiles
from testkit.broker_world import NAMESRV_IPS, PORT, World, beat, run, send
from testkit.pop_world import ack, pop, take

CONTROLLER_IP = "10.0.3.1"
CONTROLLER = f"{CONTROLLER_IP}:9878"


class To:
    """A client whose calls all go to one broker."""

    def __init__(self, client: RemotingClient, ip: str) -> None:
        self._client = client
        self._address = f"{ip}:{PORT}"

    async def call(self, address: str, command: Command, *, timeout_s: float) -> Command:
        return await self._client.call(self._address, command, timeout_s=timeout_s)


class Pair:
    """Two brokers of one group, and clients of each."""

    def __init__(
        self, brokers: list[Broker], controller: Controller, client: RemotingClient
    ) -> None:
        self.brokers = brokers
        self.client = client
        self._decisions = controller.decisions
        self.to: list[Any] = [To(client, f"10.0.0.{number}") for number in (1, 2)]

    async def elect(self, index: int) -> None:
        """Make one of them primary."""
        broker, group = self.brokers[index], self._decisions.groups["broker-a"]
        ids = [key for key, member in group.brokers.items() if member.address == broker.address]
        header = ElectMasterRequest(broker_name="broker-a", broker_id=ids[0], designate_elect=True)
        answer = await self.client.call(
            CONTROLLER, Command.request(RequestCode.CONTROLLER_ELECT_MASTER, header), timeout_s=5
        )
        assert answer.code == 0, answer
        await until(lambda: broker.identity.is_master)
        await self.in_sync(index)

    async def in_sync(self, index: int) -> None:
        """Wait until the other one has all of this one's log and its tables."""
        first, second = self.brokers[index], self.brokers[1 - index]
        assert second.replication is not None
        tables = second.replication.tables
        await until(lambda: len(self._decisions.groups["broker-a"].in_sync) == 2)
        await until(lambda: first.parts.store.max_offset == second.parts.store.max_offset)
        rounds = tables.rounds
        await until(lambda: tables.rounds >= rounds + 2)


async def until(check: Callable[[], bool], limit_s: float = 120) -> None:
    async with asyncio.timeout(limit_s):
        while not check():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@asynccontextmanager
async def pair(world: World) -> AsyncIterator[Pair]:
    """A controller, a name server and two brokers; the first is primary."""
    settings = ControllerSettings(
        bind_address=CONTROLLER_IP, ledger=str(world.directory / "ledger.json")
    )
    controller = Controller(settings, clock=world.clock, network=world.network.host(CONTROLLER_IP))
    first, second = (_member(world, f"10.0.0.{number}") for number in (1, 2))
    async with controller, world.name_server(), world.client() as client, first:
        await until(lambda: first.identity.is_known and first.identity.is_master)
        async with second:
            found = Pair([first, second], controller, client)
            await until(lambda: second.identity.is_known)
            await found.in_sync(0)
            yield found


def _member(world: World, ip: str) -> Broker:
    read = read_conf(
        {
            "brokerName": "broker-a",
            "brokerIP1": ip,
            "bindAddress": ip,
            "listenPort": str(PORT),
            "namesrvAddr": f"{NAMESRV_IPS[0]}:9876",
            "storePathRootDir": "/store",
            "mappedFileSizeCommitLog": str(1024 * 1024),
            "mappedFileSizeConsumeQueue": "20000",
            "mappedFileSizeTimerLog": "5200",
            "maxHashSlotNum": "100",
            "maxIndexNum": "400",
            "enableControllerMode": "true",
            "controllerAddr": CONTROLLER,
            "allAckInSyncStateSet": "true",
        }
    )
    return Broker(
        read.broker,
        read.store,
        ha_settings=read.ha,
        clock=world.clock,
        network=world.network.host(ip),
        files=SimFiles(),
        rng=world._stream(),
    )


async def drain(client: Any, topic: str, seconds: float) -> list[bytes]:
    """Everything pops give in a while; all of it is acknowledged."""
    loop = asyncio.get_running_loop()
    end, bodies = loop.time() + seconds, []
    while loop.time() < end:
        for message in await take(client, topic, invisibleTime=60_000):
            bodies.append(message.body)
            assert (await ack(client, message)).code == 0
        await asyncio.sleep(0.1)
    return sorted(bodies)


@pytest.mark.parametrize("seed", range(3))
def test_a_replica_brings_nothing_back_and_a_new_primary_does(seed: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with pair(world) as found:
            (first, second), (to_first, to_second) = found.brokers, found.to
            for body in (b"0", b"1", b"2"):
                assert (await send(to_first, "T", body)).code == 0
            assert (
                await send(to_first, "L", b"late", properties="TIMER_DELAY_MS\x0140000\x02")
            ).code == 0
            await beat(to_first, "c")
            got = await take(to_first, "T", invisibleTime=3_000, maxMsgNums=1)
            await asyncio.sleep(6)
            assert first.parts.pop.revive.retried == 1
            assert second.parts.pop.revive.retried == 0
            assert not second.parts.wheel.is_open
            refused = await pop(to_second, "T")
            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "is a replica: pop at its primary" in (refused.remark or "")
            assert (await ack(to_second, got[0])).code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert not second.parts.wheel.is_open

            got = await take(to_first, "T", invisibleTime=8_000)
            assert sorted(message.body for message in got) in ([b"0", b"1", b"2"], [b"1", b"2"])
            settled = next(message for message in got if message.body == b"2")
            assert (await ack(to_first, settled)).code == 0
            await found.in_sync(0)
            await found.elect(1)
            await until(lambda: second.parts.wheel.is_open)
            assert not first.parts.wheel.is_open
            assert (await pop(to_first, "T")).code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert await drain(to_second, "T", 20) == [b"0", b"1"]
            assert await drain(to_second, "L", 20) == [b"late"]
            assert first.parts.pop.revive.retried == 1

    run(seed, tmp_path, scenario)


@pytest.mark.parametrize("seed", range(3))
def test_a_primary_for_the_second_time_knows_nothing_of_the_first(
    seed: int, tmp_path: Path
) -> None:
    """What it had to decide when it ceased to be primary has been decided by the other one."""

    async def scenario(world: World) -> None:
        async with pair(world) as found:
            first, (to_first, to_second) = found.brokers[0], found.to
            assert (await send(to_first, "T", b"x")).code == 0
            await beat(to_first, "c")
            assert len(await take(to_first, "T", invisibleTime=20_000)) == 1
            await found.in_sync(0)
            revive = first.parts.pop.revive
            await until(lambda: any(queue.held for queue in revive.queues))
            await found.elect(1)
            assert any(queue.held for queue in revive.queues)
            assert await drain(to_second, "T", 20) == [b"x"]
            await asyncio.sleep(60)  # the acknowledgement is read, too
            await found.elect(0)
            assert first.parts.pop.in_flight.total() == 0
            assert await drain(to_first, "T", 20) == []
            assert revive.retried == 0

    run(seed, tmp_path, scenario)
