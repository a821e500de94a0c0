"""A broker that dies, a name server that comes back: how soon everything is right again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from contrailmq import Message, Producer, blocking
from contrailmq.client.routes import QUEUES_MAX, publish_route, subscribe_queues
from contrailmq.errors import ContrailError
from contrailmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from contrailmq.testing.cluster import LocalCluster
from contrailmq.testing.files import SimFiles
from testkit.broker_world import ADDRESS, NAMESRV_IPS, World, now, route_of, run, send

# The first uvloop of a process opens a pipe that libuv keeps for its signals.
blocking.LoopThread().close()
NAMESRV = {"namesrvAddr": f"{NAMESRV_IPS[0]}:9876", "storePathRootDir": "/s"}


def test_keyed_sends_move_within_two_seconds_of_a_death() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with (
            LocalCluster(brokers=2) as cluster,
            Producer("p", name_servers=cluster.name_servers) as producer,
        ):
            await cluster.create_topic("T", queues=2)
            keys = [f"key {number}" for number in range(20)]
            places = {key: (await producer.send(Message("T", b"x"), key=key)).queue for key in keys}
            moved = [key for key in keys if places[key].broker_name == "broker-b"]
            assert 0 < len(moved) < len(keys)
            await cluster.brokers[1].stop()
            died = loop.time()
            for key in moved:
                while True:
                    try:
                        receipt = await producer.send(Message("T", b"x"), key=key)
                        break
                    except ContrailError:
                        assert loop.time() - died < 2.0, "keyed sends do not move"
                        await asyncio.sleep(0.02)
                assert receipt.queue.broker_name == "broker-a"
            assert loop.time() - died < 2.0

    asyncio.run(main())


@pytest.mark.parametrize("lost_s", [0.5, 40])
def test_a_broker_registers_as_soon_as_a_name_server_returns(lost_s: float, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        loop = asyncio.get_running_loop()
        async with world.broker(files=SimFiles(), **NAMESRV), world.client() as client:
            await asyncio.sleep(3)  # it starts before any name server
            for _ in range(3):
                async with world.name_server():
                    began = loop.time()
                    while not await route_of(client, "TBW102"):
                        assert loop.time() - began < 6.0, "not registered"
                        await asyncio.sleep(0.1)
                    if lost_s < 1:
                        assert loop.time() - began < 2.0
                    await asyncio.sleep(2)
                await asyncio.sleep(lost_s)

    run(1, tmp_path, scenario)


def test_a_clock_set_forward_expires_no_broker(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with (
            world.name_server(),
            world.broker(files=SimFiles(), **NAMESRV),
            world.client() as client,
        ):
            await asyncio.sleep(2)
            world.clock.jump(3_600_000)
            for _ in range(12):
                await asyncio.sleep(1)
                assert await route_of(client, "TBW102")
            world.clock.jump(-7_200_000)
            for _ in range(12):
                await asyncio.sleep(1)
                assert await route_of(client, "TBW102")

    run(1, tmp_path, scenario)


def test_numbers_in_routes_are_bounded() -> None:
    most = (1 << 31) - 1
    route = TopicRouteData(
        broker_datas=[BrokerData(broker_addrs={0: "a:1"}, broker_name="b", cluster="c")],
        queue_datas=[
            QueueData(broker_name="b", perm=6, read_queue_nums=most, write_queue_nums=most)
        ],
    )
    assert len(publish_route("T", route).queues) == QUEUES_MAX
    assert len(subscribe_queues("T", route)) == QUEUES_MAX
    ordered = TopicRouteData(order_topic_conf=f"b:{most}")
    assert len(publish_route("T", ordered).queues) == QUEUES_MAX


def test_the_first_send_to_a_topic_waits_for_name_servers_but_not_for_long(
    tmp_path: Path,
) -> None:
    async def scenario(world: World) -> None:
        async with (
            world.name_server(),
            world.broker(namesrvAddr=f"{NAMESRV_IPS[0]}:9876"),
            world.client() as client,
        ):
            await send(client, "warm", b"x", default_topic="TBW102")
            assert await route_of(client, "warm") == [ADDRESS]
            world.network.stall(NAMESRV_IPS[0])
            before = now()
            assert (await send(client, "held", b"x", default_topic="TBW102")).code == 0
            assert 0.2 < now() - before < 0.4
            world.network.heal()

    run(12, tmp_path, scenario)
