"""Producers and consumers that are given a gRPC port, against a real broker in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from contrailmq.broker.app import Broker
from contrailmq.client.consumer.pop_push import PopConsumer
from contrailmq.client.consumer.pops import PoppedMessage
from contrailmq.client.consumer.simple import SimpleConsumer
from contrailmq.client.message import Message
from contrailmq.client.producer.producer import Producer
from contrailmq.client.settings import World as Outside
from contrailmq.errors import ClientError, ContrailError, NetworkError
from contrailmq.grpc.http2.limits import Http2Limits
from contrailmq.grpc.http2.server import GrpcServer
from contrailmq.testing.sim import SimClock
from testkit.broker_world import BROKER_IP, NAMESRV_IPS, World, run
from testkit.grpc_world import Door

PORT = 8081
ENDPOINT = f"{BROKER_IP}:{PORT}"


def outside(world: World, number: int) -> Outside:
    return Outside(
        network=world.network.host(f"10.0.9.{number}"), clock=SimClock(), rng=world._stream()
    )


def producer(world: World, **more: Any) -> Producer:
    return Producer(endpoints=ENDPOINT, world=outside(world, 1), **more)


def simple(world: World, **more: Any) -> SimpleConsumer:
    return SimpleConsumer(
        "g", topics={"T": "*"}, endpoints=ENDPOINT, world=outside(world, 2), **more
    )


def play(
    directory: Path, scenario: Callable[[World, Broker], Awaitable[None]], kind: str = ""
) -> None:
    async def within(world: World) -> None:
        address = f"{NAMESRV_IPS[0]}:9876"
        async with world.name_server(), world.broker(namesrvAddr=address) as broker:
            door = Door(broker)
            door.topic("T", kind)
            server = GrpcServer(
                door.methods, Http2Limits(), clock=SimClock(), network=world.network.host(BROKER_IP)
            )
            await server.start(BROKER_IP, PORT)
            await asyncio.sleep(1)
            try:
                await scenario(world, broker)
            finally:
                await server.aclose()
                await door.service.aclose()

    run(1, directory, within)


def test_what_is_sent_is_received_whole(tmp_path: Path) -> None:
    async def scenario(world: World, broker: Broker) -> None:
        body = bytes(range(256)) * 40  # large enough to be compressed by remoting clients
        async with producer(world) as sender, simple(world, invisible_s=20) as consumer:
            receipt = await sender.send(
                Message("T", body, tags="red", keys=["k1", "k2"], properties={"colour": "é"})
            )
            (message,) = await consumer.receive(4, wait_s=10)
            assert message.message_id == receipt.message_id
            assert (message.body, message.tags, message.keys) == (body, "red", ["k1", "k2"])
            assert message.properties["colour"] == "é"
            assert message.attempt == 1
            await message.ack()
            assert await consumer.receive(wait_s=5) == []

    play(tmp_path, scenario)


def test_receive_ack_extend_and_dead_letter(tmp_path: Path) -> None:
    async def scenario(world: World, broker: Broker) -> None:
        async with producer(world) as sender:
            for number in range(5):
                await sender.send(Message("T", b"m%d" % number))
        async with simple(world, invisible_s=10) as consumer:
            found: dict[bytes, PoppedMessage] = {}
            while len(found) < 5:
                found |= {one.body: one for one in await consumer.receive(5, wait_s=5)}
            await found[b"m0"].ack()
            await consumer.ack(found[b"m1"], found[b"m2"])
            await found[b"m3"].extend(20)
            await found[b"m4"].dead_letter()
            late: list[PoppedMessage] = []
            begun = asyncio.get_running_loop().time()
            while not late:
                late = await consumer.receive(wait_s=10)
            assert asyncio.get_running_loop().time() - begun > 15
            assert [(one.body, one.attempt) for one in late] == [(b"m3", 2)]
            await late[0].ack()
        assert broker.parts.store.bounds("%DLQ%g", 0)[1] == 1

    play(tmp_path, scenario)


def test_a_handler_is_handed_messages(tmp_path: Path) -> None:
    async def scenario(world: World, broker: Broker) -> None:
        seen: list[bytes] = []
        done = asyncio.Event()

        async def handle(message: PoppedMessage) -> None:
            seen.append(message.body)
            if len(set(seen)) == 20 and seen.count(b"m3") == 2:
                done.set()
            if message.body == b"m3" and message.attempt == 1:
                raise ValueError("again, please")

        consumer = PopConsumer(
            "g", topics={"T": "*"}, endpoints=ENDPOINT, handler=handle, world=outside(world, 2)
        )
        async with producer(world) as sender, consumer:
            for number in range(20):
                await sender.send(Message("T", b"m%d" % number))
            async with asyncio.timeout(600):
                await done.wait()
        assert sorted(set(seen)) == sorted(b"m%d" % number for number in range(20))

    play(tmp_path, scenario)


@pytest.mark.parametrize("verdict", [True, False])
def test_transactions_end_and_are_asked_for(tmp_path: Path, verdict: bool) -> None:
    asked: list[str] = []

    def check(message: Any) -> bool:
        asked.append(message.message_id)
        return verdict

    async def scenario(world: World, broker: Broker) -> None:
        async with producer(world, check=check) as sender, simple(world) as consumer:
            async with sender.transaction(Message("T", b"at once")):
                pass
            with pytest.raises(ZeroDivisionError):
                async with sender.transaction(Message("T", b"never")):
                    _ = 1 / 0
            (message,) = await consumer.receive(wait_s=10)
            assert message.body == b"at once"
            await message.ack()
            async with sender.transaction(Message("T", b"later")) as transaction:
                transaction.unknown()
            await asyncio.sleep(100)
            assert asked == [transaction.transaction_id]
            found = await consumer.receive(wait_s=10)
            assert [one.body for one in found] == ([b"later"] if verdict else [])

    play(tmp_path, scenario, "TRANSACTION")


def test_errors_are_those_of_other_clients(tmp_path: Path) -> None:
    async def scenario(world: World, broker: Broker) -> None:
        async with producer(world) as sender:
            with pytest.raises(ContrailError, match="T"):
                await sender.send(Message("NoSuchTopicHere", b"x"))
            with pytest.raises(ClientError, match="one by one"):
                await sender.send_batch([Message("T", b"a"), Message("T", b"b")])
        with pytest.raises(ClientError, match="give one of them"):
            Producer("g", endpoints=ENDPOINT, name_servers="127.0.0.1:9876")
        with pytest.raises(ClientError, match="8081"):
            Producer(endpoints="no port")
        lost = Producer(endpoints="10.0.0.77:1", world=outside(world, 3))
        async with lost:
            with pytest.raises(NetworkError):
                await lost.send(Message("T", b"x"))

    play(tmp_path, scenario)
