"""The messaging half of the tour: a shop that takes orders and bills them.

Most orders are billed at once.  A few fail twice and are retried; one is broken and ends as a dead
letter.  A second group sees big orders only, by an SQL filter of the broker.  Then a reminder
that waits, and two transactions of which one is withdrawn.
"""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from contrailmq.admin.client import AdminClient
from contrailmq.client.consumer.push import PushConsumer
from contrailmq.client.consumer.subscription import Sql
from contrailmq.client.message import Message, ReceivedMessage
from contrailmq.client.producer.producer import Producer
from contrailmq.client.settings import ConsumerSettings, ProducerSettings
from contrailmq.demo.screen import Bar, Screen
from contrailmq.errors import NoRoute
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.names import dlq_topic

ORDERS: Final = "orders"
REMINDERS: Final = "reminders"
TRANSFERS: Final = "transfers"
TOTALS: Final = "order-totals"
BILLING: Final = "billing"
BIG_SPENDERS: Final = "big-spenders"
RETRIES_MAX: Final = 3
FLAKY: Final = 12
BIG: Final = 900.0  # with a point: the broker reads a property as the literal it is compared with
PATIENCE_S: Final = 60.0
_COUNTRIES: Final = ("DE", "FR", "JP", "CN", "US", "BR", "IN", "SE")
# Retries wait for level 3, 4, 5 …: a second each instead of ten seconds to two hours.
PROPERTIES: Final = {
    "messageDelayLevel": " ".join(["1s"] * 18),
    "enablePropertyFilter": "true",
    "mappedFileSizeCommitLog": str(64 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 300_000),
}


@dataclass(slots=True)
class Facts:
    """What happened, for the summary."""

    sent: int = 0
    send_s: float = 0.0
    billed: set[int] = field(default_factory=set)
    bill_s: float = 0.0
    retried: int = 0
    dead: int = 0
    big: set[int] = field(default_factory=set)
    big_expected: int = 0
    delay_s: float = 0.0
    late_ms: int = 0
    committed: list[str] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)


def order(number: int, rng: random.Random) -> dict[str, Any]:
    """One order as its JSON body has it."""
    return {
        "order": number,
        "customer": f"c{rng.randrange(500)}",
        "country": rng.choice(_COUNTRIES),
        "amount": round(rng.uniform(1, 1000), 2),
        "card": "valid",
    }


class Shop:
    """Runs the half; its billing goes on afterwards, for the dead letters that come back."""

    def __init__(self, name_servers: str, screen: Screen, *, count: int, seed: int) -> None:
        self._name_servers = name_servers
        self._screen = screen
        self._count = count
        self._rng = random.Random(seed)
        self._broken = self._rng.randrange(count)
        self._flaky = set(self._rng.sample(range(count), min(FLAKY, count))) - {self._broken}
        self._stack = AsyncExitStack()
        self._changed = asyncio.Event()
        self._bar: Bar | None = None
        self.facts = Facts()

    async def __aenter__(self) -> Shop:
        async with AdminClient(self._name_servers) as admin:
            for topic, queues in ((ORDERS, 4), (REMINDERS, 2), (TRANSFERS, 2), (TOTALS, 2)):
                config = TopicConfig(
                    topic_name=topic, read_queue_nums=queues, write_queue_nums=queues
                )
                await admin.topics.create(config)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def trade(self) -> None:
        """Send all orders while two members of a group bill them and another group filters."""
        facts = self.facts
        settings = ConsumerSettings(retries_max=RETRIES_MAX)
        for _ in range(2):
            await self._consume(BILLING, ORDERS, self._bill, settings=settings)
        await self._consume(BIG_SPENDERS, {ORDERS: Sql(f"amount > {BIG}")}, self._see_big)
        self._screen.note(
            f"two members of group {BILLING}, one of {BIG_SPENDERS} with the SQL filter "
            f"amount > {BIG}"
        )
        bar = self._screen.bar("orders sent", self._count)
        batching = ProducerSettings(batch_size=64 * 1024, batch_wait_s=0.002)
        async with self._producer("shop", settings=batching) as producer:
            for number in range(self._count):
                await producer.submit(self._order_message(number))
                if number % 500 == 499:
                    await asyncio.sleep(0)
                    bar.set(number + 1)
            await producer.flush()
        bar.set(self._count)
        facts.sent, facts.send_s = self._count, bar.finish()
        self._bar = self._screen.bar("orders billed", self._count - 1)
        await self._until(lambda: len(facts.billed) >= self._count - 1 - len(self._waiting()))
        facts.bill_s = bar.seconds
        await self._until(lambda: len(facts.billed) >= self._count - 1)
        self._bar.set(len(facts.billed))
        self._bar.finish()
        self._bar = None
        await self._until(lambda: len(facts.big) >= facts.big_expected)

    def _waiting(self) -> set[int]:
        return self._flaky - self.facts.billed

    def _order_message(self, number: int) -> Message:
        body = order(number, self._rng)
        if number == self._broken:
            body["card"] = "expired"
        if body["amount"] > BIG:
            self.facts.big_expected += 1
        return Message(
            ORDERS,
            json.dumps(body).encode(),
            tags="refund" if number % 50 == 0 else "order",
            keys=[f"order-{number}"],
            properties={"amount": str(body["amount"]), "country": body["country"]},
        )

    async def _bill(self, message: ReceivedMessage) -> None:
        body = json.loads(message.body)
        number = body["order"]
        is_flaky = number in self._flaky and message.attempt <= 2
        if body["card"] == "expired" or is_flaky:
            self.facts.retried += 1
            message.retry()
        else:
            self.facts.billed.add(number)
            if self._bar is not None:
                self._bar.set(len(self.facts.billed))
        self._changed.set()

    async def _see_big(self, message: ReceivedMessage) -> None:
        self.facts.big.add(json.loads(message.body)["order"])
        self._changed.set()

    async def bury(self) -> None:
        """Wait until the broken order has failed too often."""
        facts, topic = self.facts, dlq_topic(BILLING)
        bar = self._screen.bar("broken order, attempts", RETRIES_MAX + 1)
        async with AdminClient(self._name_servers) as admin, asyncio.timeout(PATIENCE_S):
            while not facts.dead:
                try:
                    stats = await admin.topics.stats(topic)
                    facts.dead = sum(offset.max_offset for offset in stats.values())
                except NoRoute:
                    pass  # the topic comes to be with its first dead letter
                if not facts.dead:
                    await asyncio.sleep(0.1)
        bar.set(RETRIES_MAX + 1)
        bar.finish(f"dead letter in {topic}")
        self._screen.good(
            f"{len(self._flaky)} flaky orders were billed at the third attempt; one gave up"
        )

    async def remind(self) -> None:
        """One message that the broker holds back for a second."""
        clock = self._screen.clock
        arrived: list[int] = []

        async def note(message: ReceivedMessage) -> None:
            arrived.append(clock.monotonic_ms())
            self._changed.set()

        await self._consume("reminding", REMINDERS, note)
        async with self._producer("reminders") as producer:
            sent_ms = clock.monotonic_ms()
            await producer.send(Message(REMINDERS, b"pay order 17", delay_level=2))
        await self._until(lambda: bool(arrived))
        self.facts.delay_s = (arrived[0] - sent_ms) / 1000
        self.facts.late_ms = arrived[0] - sent_ms - 1000
        self._screen.good(f"a message delayed by 1 s came after {self.facts.delay_s:.3f} s")

    async def transfer(self) -> None:
        """Two transactions: one commits, one is rolled back and never seen."""
        facts = self.facts
        seen: list[str] = []

        async def note(message: ReceivedMessage) -> None:
            seen.append(bytes(message.body).decode())
            self._changed.set()

        await self._consume("statements", TRANSFERS, note)
        async with self._producer("bank", check=lambda message: True) as producer:
            async with producer.transaction(Message(TRANSFERS, b"alice pays 30")):
                facts.committed.append("alice pays 30")
            try:
                async with producer.transaction(Message(TRANSFERS, b"bob pays 500")):
                    raise ValueError("bob has only 20")
            except ValueError:
                facts.rolled_back.append("bob pays 500")
        await self._until(lambda: bool(seen))
        self._screen.good(f"transaction committed and seen: {', '.join(seen)}")
        self._screen.good(
            f"transaction rolled back, never delivered: {', '.join(facts.rolled_back)}"
        )
        assert seen == facts.committed, seen

    async def until_billed(self, count: int) -> None:
        """Wait until so many orders are billed, the re-driven ones included."""
        await self._until(lambda: len(self.facts.billed) >= count)

    def _producer(self, group: str, **more: Any) -> Producer:
        return Producer(group, name_servers=self._name_servers, **more)

    async def _consume(self, group: str, topics: Any, handler: Any, **more: Any) -> None:
        consumer = PushConsumer(
            group, topics=topics, name_servers=self._name_servers,
            start_from="first", handler=handler, workers=64, **more,
        )  # fmt: skip
        await self._stack.enter_async_context(consumer)

    async def _until(self, is_true: Any) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not is_true():
                self._changed.clear()
                await self._changed.wait()
