"""How fast one client process sends and consumes: JSON lines, one per measurement.

    python bench/client_compare.py [--name-servers HOST:PORT] [--count N] [--size BYTES]
                                   [--java-lib DIRECTORY_OF_ROCKETMQ_JARS]

With ``--java-lib`` the Java client does the same against the same broker (its second round counts).
Without name servers, a broker of ours is started in a process of its own.  Measured are single
sends with many in flight, sends joined into batches, and the consumption of a backlog by a lite
pull consumer, a push consumer's loop, and its batches.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from contrailmq import (
    ConsumerSettings,
    LitePullConsumer,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
)
from contrailmq.net.loop import run

# As Java's defaults, a pull answers with at most 32 messages; the backlog is read in larger steps.
CONF = """maxTransferCountOnMessageInMemory=1024
maxTransferBytesOnMessageInMemory=1048576
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name-servers")
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--in-flight", type=int, default=1024)
    parser.add_argument("--only", default="")
    parser.add_argument("--java-lib", type=pathlib.Path)
    options = parser.parse_args()
    if options.name_servers:
        everything(options, options.name_servers)
        return
    with own_broker() as address:
        everything(options, address)


def everything(options: argparse.Namespace, name_servers: str) -> None:
    """Our client, and the Java client if its jars are here."""
    run(measure(options, name_servers))
    if options.java_lib is None:
        return
    source = pathlib.Path(__file__).parent / "java" / "ClientBench.java"
    with tempfile.TemporaryDirectory() as classes:
        path = f"{classes}:{options.java_lib}/*"
        subprocess.run(["javac", "-cp", path, "-d", classes, str(source)], check=True)
        numbers = [str(options.count), str(options.size), str(options.in_flight)]
        command = ["java", "-Xmx1g", f"-Duser.home={classes}", "-cp", path, "ClientBench"]
        done = subprocess.run(
            [*command, name_servers, *numbers],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for line in done.stdout.splitlines():
            if line.startswith("{"):  # its logging talks too
                print(line)


@contextmanager
def own_broker() -> Iterator[str]:
    """A broker of ours in another process."""
    with tempfile.TemporaryDirectory() as store:
        conf = pathlib.Path(store) / "broker.conf"
        conf.write_text(CONF)
        command = [
            sys.executable, "-m", "contrailmq.main", "up", "--store", store, "-c", str(conf),
            "--port", "0", "--namesrv-port", "0", "--log-level", "warning",
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            for line in process.stdout:
                found = re.search(r"(127\.0\.0\.1:\d+)", line)
                if found:
                    yield found[1]
                    break
        finally:
            process.terminate()
            process.wait(20)


async def measure(options: argparse.Namespace, name_servers: str) -> None:
    """All measurements, one after another."""
    topic = f"Bench{os.getpid()}"
    body = b"x" * options.size
    only = set(filter(None, options.only.split(",")))

    def wanted(name: str) -> bool:
        return not only or name in only

    if wanted("send"):
        async with Producer("bench", name_servers=name_servers) as producer:
            await producer.send(Message(topic, body))
            report("send, single", options, await single(producer, topic, body, options))
    settings = ProducerSettings(batch_size=64 * 1024, batch_wait_s=0.002)
    async with Producer("bench", name_servers=name_servers, settings=settings) as producer:
        await producer.send(Message(topic, body))
        report("send, joined into batches", options, await joined(producer, topic, body, options))
        report("send, batches of 100", options, await hundreds(producer, topic, body, options))
    backlog = 2 * options.count + (options.count if wanted("send") else 0)
    settings_c = ConsumerSettings(
        pull_count=1024, pull_size=1024 * 1024, queue_count_max=20_000, queue_span_max=50_000
    )
    for name in ("lite", "push-batches", "push"):
        if wanted(name):
            spent = await CONSUMERS[name](name_servers, topic, backlog, settings_c)
            report(f"consume, {name}", options, spent, count=backlog)


class Spent(NamedTuple):
    """Seconds on the wall, of this process's own work, and of waiting for a processor.

    A busy machine blurs the first, not the second; the third says how busy it was.
    """

    wall: float
    cpu: float
    queued: float

    def __sub__(self, other: Spent) -> Spent:  # type: ignore[override]
        return Spent(
            self.wall - other.wall, self.cpu - other.cpu, round(self.queued - other.queued, 3)
        )


def now() -> Spent:
    """The clocks."""
    return Spent(time.perf_counter(), time.process_time(), queued_s())


def queued_s() -> float:
    """How long this thread was ready to run and did not (Linux; elsewhere 0)."""
    try:
        return int(pathlib.Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def report(what: str, options: argparse.Namespace, spent: Spent, count: int = 0) -> None:
    """One line."""
    count = count or options.count
    row = {
        "what": what,
        "count": count,
        "size": options.size,
        "seconds": round(spent.wall, 3),
        "per_second": round(count / spent.wall),
        "cpu_us_per_message": round(spent.cpu / count * 1e6, 2),
        "seconds_without_a_processor": spent.queued,
    }
    print(json.dumps(row), flush=True)


async def single(producer: Producer, topic: str, body: bytes, options: argparse.Namespace) -> Spent:
    """One request per message, ``--in-flight`` of them at a time."""
    left = options.count

    async def sender() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await producer.send(Message(topic, body))

    begun = now()
    async with asyncio.TaskGroup() as group:
        for _ in range(options.in_flight):
            group.create_task(sender())
    return now() - begun


async def joined(producer: Producer, topic: str, body: bytes, options: argparse.Namespace) -> Spent:
    """The producer joins single sends by itself."""
    begun = now()
    for _ in range(options.count):
        await producer.submit(Message(topic, body))
    await producer.flush()
    return now() - begun


async def hundreds(
    producer: Producer, topic: str, body: bytes, options: argparse.Namespace
) -> Spent:
    """Batches given by the caller."""
    left = options.count // 100

    async def sender() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await producer.send_batch([Message(topic, body) for _ in range(100)])

    begun = now()
    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(sender())
    return now() - begun


async def lite(name_servers: str, topic: str, count: int, settings: ConsumerSettings) -> Spent:
    """Poll a backlog."""
    begun = now()
    async with LitePullConsumer(
        f"L{os.getpid()}", topics=topic, name_servers=name_servers, start_from="first",
        settings=settings,
    ) as consumer:  # fmt: skip
        seen = 0
        while seen < count:
            seen += len(await consumer.poll(10.0, count=1024))
    return now() - begun


async def push(name_servers: str, topic: str, count: int, settings: ConsumerSettings) -> Spent:
    """Loop over single messages."""
    begun = now()
    async with PushConsumer(
        f"P{os.getpid()}", topics={topic: "*"}, name_servers=name_servers, start_from="first",
        settings=settings,
    ) as consumer:  # fmt: skip
        seen = 0
        async for _ in consumer:
            seen += 1
            if seen == count:
                break
    return now() - begun


async def push_batches(
    name_servers: str, topic: str, count: int, settings: ConsumerSettings
) -> Spent:
    """Loop over batches."""
    begun = now()
    async with PushConsumer(
        f"B{os.getpid()}", topics={topic: "*"}, name_servers=name_servers, start_from="first",
        settings=settings,
    ) as consumer:  # fmt: skip
        seen = 0
        async for messages in consumer.batches(1024):
            seen += len(messages)
            if seen >= count:
                break
    return now() - begun


CONSUMERS = {"lite": lite, "push": push, "push-batches": push_batches}

if __name__ == "__main__":
    main()
