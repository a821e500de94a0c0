"""A consumer with slow, failing and retrying handlers for a long time: its memory stays flat."""

from __future__ import annotations

import asyncio
import collections
import gc
import random
import tracemalloc

import pytest

from contrailmq import ConsumerSettings, Message, Producer, PushConsumer, ReceivedMessage
from contrailmq.testing.cluster import LocalCluster

GROWTH_MAX = 3_000_000


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_ten_minutes_with_slow_and_failing_handlers() -> None:
    asyncio.run(soak(600.0))


@pytest.mark.slow
def test_half_a_minute_with_slow_and_failing_handlers() -> None:
    asyncio.run(soak(30.0))


async def soak(seconds: float) -> None:
    """Load a consumer; what Python holds after a warm-up may not grow."""
    rng = random.Random(7)
    loop = asyncio.get_running_loop()
    outcomes: collections.Counter[str] = collections.Counter()

    async def handle(message: ReceivedMessage) -> None:
        dice = rng.random()
        if message.attempt == 1 and dice < 0.02:
            outcomes["failed"] += 1
            raise ValueError("on purpose")
        if message.attempt == 1 and dice < 0.04:
            outcomes["later"] += 1
            message.retry(after=1)
            return
        if dice < 0.10:
            outcomes["slow"] += 1
            await asyncio.sleep(0.05)
        outcomes["done"] += 1

    async with LocalCluster() as cluster:
        servers = cluster.name_servers
        settings = ConsumerSettings(queue_count_max=200)
        async with (
            Producer("p", name_servers=servers) as producer,
            PushConsumer(
                "g", topics="T", name_servers=servers, start_from="first", handler=handle,
                settings=settings,
            ) as consumer,
        ):  # fmt: skip
            tracemalloc.start()
            try:
                await _load(producer, loop.time() + min(10.0, seconds / 3))
                gc.collect()
                before = tracemalloc.get_traced_memory()[0]
                await _load(producer, loop.time() + seconds)
                gc.collect()
                grown = tracemalloc.get_traced_memory()[0] - before
            finally:
                tracemalloc.stop()
            assert consumer.assignment
    assert outcomes["failed"] > 0
    assert outcomes["later"] > 0
    assert outcomes["done"] > 1000
    assert grown < GROWTH_MAX, f"{grown} bytes more than after the warm-up"


async def _load(producer: Producer, until: float) -> None:
    loop = asyncio.get_running_loop()
    body = b"x" * 200
    while loop.time() < until:
        await asyncio.gather(*(producer.send(Message("T", body)) for _ in range(20)))
        await asyncio.sleep(0.02)
