"""A consumer under load for a while, in a process of its own: ``python soak.py SECONDS [LEAK]``.

Prints one JSON line: what was sent, what became of it, and how much Python held after a warm-up,
sampled along the way.  Nothing but the client, a broker and this program is in the process: a
test framework keeps log records, and with them tracebacks and messages.  ``LEAK`` bytes are kept
for every message, to show that such a leak would be seen.
"""

from __future__ import annotations

import asyncio
import collections
import gc
import json
import logging
import random
import re
import sys
import tracemalloc
from pathlib import Path
from typing import Any

from contrailmq import ConsumerSettings, Message, Producer, PushConsumer, ReceivedMessage
from contrailmq.testing.cluster import LocalCluster

WARM_UP_S = 10.0
SAMPLES = 12


async def soak(seconds: float, leak: int) -> dict[str, Any]:
    """Load a consumer whose handlers are slow, fail and ask for retries."""
    rng = random.Random(7)
    loop = asyncio.get_running_loop()
    outcomes: collections.Counter[str] = collections.Counter()
    kept: list[bytearray] = []

    async def handle(message: ReceivedMessage) -> None:
        dice = rng.random()
        if leak:
            kept.append(bytearray(leak))
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
        async with (
            Producer("p", name_servers=servers) as producer,
            PushConsumer(
                "g", topics="T", name_servers=servers, start_from="first", handler=handle,
                settings=ConsumerSettings(queue_count_max=200),
            ) as consumer,
        ):  # fmt: skip
            tracemalloc.start()
            await _load(producer, loop.time() + min(WARM_UP_S, seconds / 2))
            first, anonymous = _held(), _anonymous()
            end, sent = loop.time() + seconds, 0
            samples: list[int] = []
            while loop.time() < end:
                sent += await _load(producer, min(end, loop.time() + seconds / SAMPLES))
                samples.append(_held() - first)
            grown_anonymous = _anonymous() - anonymous
            tracemalloc.stop()
            queues = len(consumer.assignment)
    return {
        "sent": sent, "queues": queues, "outcomes": outcomes, "samples": samples,
        "anonymous": grown_anonymous,
    }  # fmt: skip


async def _load(producer: Producer, until: float) -> int:
    loop = asyncio.get_running_loop()
    sent = 0
    while loop.time() < until:
        await asyncio.gather(*(producer.send(Message("T", b"x" * 200)) for _ in range(20)))
        sent += 20
        await asyncio.sleep(0.02)
    return sent


def _held() -> int:
    """The bytes Python holds."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _anonymous() -> int:
    """The bytes of the process that belong to no file (Linux; elsewhere 0)."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    found = re.search(r"RssAnon:\s*(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    print(json.dumps(asyncio.run(soak(float(sys.argv[1]), int((*sys.argv, "0")[2])))))
