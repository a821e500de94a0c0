"""Clients through a kill of the primary: everything goes on at the new one, without a restart."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from typing import Any

import pytest

from contrailmq import Message, PopConsumer, Producer, PushConsumer
from contrailmq.client.settings import World
from contrailmq.errors import ContrailError
from contrailmq.namesrv.app import NameServer
from contrailmq.namesrv.settings import NameServerSettings
from contrailmq.testing.sim import SimClock, simulate
from testkit.group_world import Group, Machine

NAMESRV = "10.0.1.1"
AGAIN_S = 3.0


class Shop:
    """A group with a name server, and clients of every kind."""

    def __init__(self, rng: random.Random) -> None:
        self.group = Group(rng, brokers=2)
        self.group.conf |= {
            "namesrvAddr": f"{NAMESRV}:9876",
            "timerWheelEnable": "true",
            "mappedFileSizeTimerLog": "5200",
            "transactionTimeOut": "4000",
            "transactionCheckInterval": "3000",
        }
        for machine in self.group.machines:
            machine.clock = SimClock()
        self.got: dict[str, list[bytes]] = {}
        self._hosts = 0

    def client(self) -> dict[str, Any]:
        """What every client is given."""
        self._hosts += 1
        host = self.group.network.host(f"10.0.4.{self._hosts}")
        world = World(network=host, clock=SimClock(), rng=self.group.stream())
        return {"name_servers": f"{NAMESRV}:9876", "world": world}

    def consumer(self, topic: str, *, ordered: bool = False) -> PushConsumer:
        """A consumer that notes what it gets."""
        found = self.got.setdefault(topic, [])

        async def take(message: Any) -> None:
            found.append(message.body)

        return PushConsumer(
            f"g-{topic}", topics={topic: "*"}, start_from="first", handler=take, ordered=ordered,
            **self.client(),
        )  # fmt: skip

    def popper(self, topic: str) -> PopConsumer:
        """One that pops."""
        found = self.got.setdefault(topic, [])

        async def take(message: Any) -> None:
            found.append(message.body)

        return PopConsumer(
            f"g-{topic}", topics={topic: "*"}, handler=take, invisible_s=10, **self.client()
        )

    async def primary_dies(self) -> Machine:
        """Kill -9 of the primary; it stays away."""
        primary = self.group.primary()
        assert primary is not None
        await primary.kill(power=False)
        return primary


async def until(check: Any, what: str, limit_s: float = 180) -> None:
    try:
        async with asyncio.timeout(limit_s):
            while not check():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(what) from None


async def send_again(producer: Producer, message: Message, **more: Any) -> None:
    while True:
        try:
            await producer.send(message, **more)
            return
        except ContrailError:
            await asyncio.sleep(0.05)


async def _story(rng: random.Random) -> None:
    shop = Shop(rng)
    group, loop = shop.group, asyncio.get_running_loop()

    async def was_booked(message: Any) -> bool:
        return True

    async with AsyncExitStack() as stack:
        settings = NameServerSettings(bind_address=NAMESRV, listen_port=9876)
        name_server = NameServer(
            settings, clock=SimClock(), network=group.network.host(NAMESRV), rng=group.stream()
        )
        await stack.enter_async_context(name_server)
        for part in (*group.controllers, *group.machines):
            await part.start()
        await group._settled()
        producer = Producer("shop", check=was_booked, **shop.client())
        await stack.enter_async_context(producer)
        for topic in ("Ordered", "Paid", "Later", "Exact", "Popped"):
            await send_again(producer, Message(topic, b"first"), key="k")
        for consumer in (
            shop.consumer("Ordered", ordered=True), shop.consumer("Paid"), shop.consumer("Later"),
            shop.consumer("Exact"), shop.popper("Popped"),
        ):  # fmt: skip
            await stack.enter_async_context(consumer)
        await until(lambda: all(b"first" in found for found in shop.got.values()), "all consume")
        for number in range(20):
            await producer.send(Message("Ordered", b"%d" % number), key="k")
            await producer.send(Message("Popped", b"%d" % number))
        async with producer.transaction(Message("Paid", b"half")) as transaction:
            transaction.unknown()
        await producer.send(Message("Later", b"level", delay_level=2))
        await producer.send(Message("Exact", b"timer", delay_s=7))
        await asyncio.sleep(rng.choice((0.0, 1.0, 4.0)))

        old = await shop.primary_dies()
        died = loop.time()
        await send_again(producer, Message("Ordered", b"20"), key="k")
        assert loop.time() - died < AGAIN_S, f"sends succeed after {loop.time() - died:.2f} s"
        for number in range(21, 40):
            await send_again(producer, Message("Ordered", b"%d" % number), key="k")
            await send_again(producer, Message("Popped", b"%d" % number))
        expected = {b"%d" % number for number in range(40)}
        await until(lambda: expected <= set(shop.got["Ordered"]), "ordered messages go on")
        await until(lambda: expected - {b"20"} <= set(shop.got["Popped"]), "pops go on")
        await until(lambda: b"half" in shop.got["Paid"], "the new primary asks about the half")
        await until(lambda: b"level" in shop.got["Later"], "delays go on")
        await until(lambda: b"timer" in shop.got["Exact"], "timers go on")
        numbers = [int(body) for body in shop.got["Ordered"] if body.isdigit()]
        firsts = sorted(set(numbers), key=numbers.index)
        assert firsts == sorted(firsts)  # the first delivery of each is in order
        await old.start()
        await group._settled()
    for machine in group.machines:
        await machine.kill(power=False)
    for controller in group.controllers:
        await controller.kill()


@pytest.mark.parametrize("seed", range(1))
def test_clients_go_on(seed: int) -> None:
    simulate(seed, _story, limit_s=3600)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 106))
def test_clients_go_on_often(seed: int) -> None:
    simulate(seed, _story, limit_s=3600)
