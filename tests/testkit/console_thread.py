"""A shop's cluster and its console in a thread of their own, for a browser in the test's."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contrailmq.admin.client import AdminClient
from contrailmq.client.consumer.push import PushConsumer
from contrailmq.client.message import Message, ReceivedMessage
from contrailmq.client.producer.producer import Producer
from contrailmq.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from contrailmq.console.serving import serving
from contrailmq.console.settings import ConsoleSettings
from contrailmq.protocol.names import TRACE_TOPIC
from contrailmq.up import local_cluster

TOPICS = ("orders", "payments", "shipments", "invoices", "audit-log", "images")
PROPERTIES = {
    "mappedFileSizeCommitLog": str(1 << 24),
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
}
HOSTILE = "<img src=x onerror=alert(1)>\u202egnp.\x00"


@contextmanager
def shop_console(folder: Path) -> Iterator[str]:
    """Gives the address of the console once there is something to see."""
    ready: list[str] = []
    faults: list[BaseException] = []
    told, stop = threading.Event(), threading.Event()

    def run() -> None:
        try:
            asyncio.run(_shop(folder, ready, told, stop))
        except BaseException as error:
            faults.append(error)
        finally:
            told.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert told.wait(60), "the shop did not open"
    if faults:
        raise faults[0]
    try:
        yield ready[0]
    finally:
        stop.set()
        thread.join(30)
    if faults:
        raise faults[0]


async def _shop(
    folder: Path, ready: list[str], told: threading.Event, stop: threading.Event
) -> None:
    async with local_cluster(str(folder), PROPERTIES) as cluster:
        names = cluster.namesrv_address
        async with AdminClient(names) as admin:
            for topic in TOPICS:
                await admin.topics.create(topic, queues=4)
        settings = ConsoleSettings(port=0)
        async with serving(names, settings, client=ClientSettings()) as address:
            ready.append(address)
            await _trade(names, told, stop)


async def _trade(names: str, told: threading.Event, stop: threading.Event) -> None:
    rng = random.Random(7)

    async def bill(message: ReceivedMessage) -> None:
        await asyncio.sleep(0)

    async def hang(message: ReceivedMessage) -> None:
        await asyncio.sleep(3600)

    async def mail(message: ReceivedMessage) -> None:
        if rng.random() < 0.2:
            raise ValueError("no such address")

    quick = ConsumerSettings(commit_interval_s=0.5, trace_topic=TRACE_TOPIC, close_timeout_s=0.1)
    once = ConsumerSettings(commit_interval_s=0.5, retries_max=0)
    producing = ProducerSettings(trace_topic=TRACE_TOPIC)
    async with (
        Producer("shop", name_servers=names, settings=producing) as producer,
        PushConsumer(
            "billing", topics={"orders": "*"}, name_servers=names, handler=bill,
            start_from="first", settings=quick,
        ),
        PushConsumer(
            "analytics", topics={"payments": "*"}, name_servers=names, handler=hang,
            start_from="first", workers=1, settings=quick,
        ),
        PushConsumer(
            "mailer", topics={"shipments": "*"}, name_servers=names, handler=mail,
            start_from="first", settings=once,
        ),
    ):  # fmt: skip
        await producer.send(Message("invoices", HOSTILE.encode(), tags="x", keys="hostile"))
        number = 0
        while not stop.is_set():
            for _ in range(rng.randint(4, 12)):
                number += 1
                await producer.send(_order(number, rng))
            await producer.send(Message("images", rng.randbytes(200), keys="picture"))
            await producer.send(Message("audit-log", gzip.compress(b'{"who": "ada"}')))
            if number > 120:
                told.set()
            await asyncio.sleep(0.25)


def _order(number: int, rng: random.Random) -> Message:
    order = {
        "order": number,
        "amount": rng.randint(1, 2000),
        "customer": {"id": rng.randint(1, 99), "name": "Ada Ω"},
        "items": [{"sku": f"A-{n}", "count": n} for n in range(3)],
        "ledger": 12345678901234567890,
    }
    return Message(
        rng.choice(("orders", "orders", "payments", "shipments")), json.dumps(order).encode(),
        tags=rng.choice(("paid", "refunded", "new")), keys=f"order-{number}",
        properties={"amount": str(order["amount"])},
    )  # fmt: skip
