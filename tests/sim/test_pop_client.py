"""Consumers that pop, against a real broker in virtual time: settle, extend, bury, share."""

from __future__ import annotations

import asyncio
from pathlib import Path

from contrailmq.broker.app import Broker
from contrailmq.client.consumer.pop_push import PopConsumer
from contrailmq.client.consumer.pops import PoppedMessage
from contrailmq.client.consumer.simple import SimpleConsumer
from contrailmq.client.settings import World as Outside
from contrailmq.testing.sim import SimClock
from testkit.broker_world import NAMESRV_IPS, World, run, send


def outside(world: World, number: int) -> Outside:
    return Outside(
        network=world.network.host(f"10.0.9.{number}"), clock=SimClock(), rng=world._stream()
    )


def simple(world: World, number: int = 1, **more: object) -> SimpleConsumer:
    return SimpleConsumer(
        "g", topics="T", name_servers=f"{NAMESRV_IPS[0]}:9876", world=outside(world, number),
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


async def fill(world: World, count: int, *, tags: str = "") -> None:
    async with world.client() as client:
        for number in range(count):
            answer = await send(client, "T", b"m%d" % number, queue_id=number % 2, tags=tags)
            assert answer.code == 0


def play(directory: Path, scenario: object) -> None:
    async def world(world: World) -> None:
        address = f"{NAMESRV_IPS[0]}:9876"
        async with world.name_server(), world.broker(namesrvAddr=address) as broker:
            await scenario(world, broker)  # type: ignore[operator]

    run(1, directory, world)


def test_receive_ack_extend_and_dead_letter(tmp_path: Path) -> None:
    async def scenario(world: World, broker: Broker) -> None:
        await fill(world, 5)
        async with simple(world, invisible_s=5) as consumer:
            messages = await consumer.receive(5, wait_s=1)
            by_body = {message.body: message for message in messages}
            assert sorted(by_body) == [b"m%d" % n for n in range(5)]
            await by_body[b"m0"].ack()
            await consumer.ack(by_body[b"m1"], by_body[b"m2"])
            await by_body[b"m3"].extend(30)
            await by_body[b"m4"].dead_letter()
            assert await consumer.receive(wait_s=20) == []
            (late,) = await consumer.receive(wait_s=20)
            assert (late.body, late.attempt) == (b"m3", 2)
            await consumer.change_invisible(late, 1)
            (again,) = await consumer.receive(wait_s=20)
            assert again.attempt == 3
            await again.ack()
            assert await consumer.receive(wait_s=10) == []
        assert broker.parts.store.bounds("%DLQ%g", 0)[1] == 1

    play(tmp_path, scenario)


def test_a_group_has_more_members_than_queues_and_a_slow_one_holds_up_nobody(
    tmp_path: Path,
) -> None:
    async def scenario(world: World, broker: Broker) -> None:
        await fill(world, 1)
        got: dict[int, list[bytes]] = {number: [] for number in range(10)}

        def handler(number: int) -> object:
            async def handle(message: PoppedMessage) -> None:
                got[number].append(message.body)
                await asyncio.sleep(50 if number == 0 else 0.5)

            return handle

        consumers = [
            PopConsumer(
                "g", topics="T", name_servers=f"{NAMESRV_IPS[0]}:9876", workers=1, prefetch=1,
                handler=handler(number), world=outside(world, number + 1),  # type: ignore[arg-type]
            )
            for number in range(10)
        ]  # fmt: skip
        for consumer in consumers:
            await consumer.start()
        await fill(world, 60)
        await asyncio.sleep(15)
        done = sum(len(bodies) for bodies in got.values())
        assert done == 61
        assert len([bodies for bodies in got.values() if bodies]) > 6
        await asyncio.sleep(60)
        for consumer in consumers:
            await consumer.aclose()
        assert sum(len(bodies) for bodies in got.values()) == 61

    play(tmp_path, scenario)


def test_what_a_handler_refuses_is_tried_again_and_buried_in_the_end(tmp_path: Path) -> None:
    async def scenario(world: World, broker: Broker) -> None:
        await fill(world, 1)
        attempts: list[int] = []

        async def handle(message: PoppedMessage) -> None:
            attempts.append(message.attempt)
            message.retry(1)

        async with PopConsumer(
            "g", topics="T", name_servers=f"{NAMESRV_IPS[0]}:9876", handler=handle,
            retries_max=3, world=outside(world, 1),
        ):  # fmt: skip
            await asyncio.sleep(40)
        assert attempts == [1, 2, 3, 4]
        assert broker.parts.store.bounds("%DLQ%g", 0)[1] == 1

    play(tmp_path, scenario)


def test_iterating_settles_a_message_when_the_loop_comes_back(tmp_path: Path) -> None:
    async def scenario(world: World, broker: Broker) -> None:
        await fill(world, 3)
        seen = []
        async with PopConsumer(
            "g", topics="T", name_servers=f"{NAMESRV_IPS[0]}:9876", world=outside(world, 1),
            invisible_s=10,
        ) as consumer:  # fmt: skip
            async for message in consumer:
                seen.append(message.body)
                if len(seen) == 3:
                    break
        async with simple(world, 2) as other:
            assert await other.receive(wait_s=30) == []
        assert sorted(seen) == [b"m0", b"m1", b"m2"]

    play(tmp_path, scenario)
