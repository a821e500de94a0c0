"""How fast one client process sends and consumes: JSON lines, one per measurement, and a table.

    python -m bench client.compare [--name-servers HOST:PORT] [--count N] [--size BYTES]
                                   [--java-lib DIRECTORY_OF_ROCKETMQ_JARS] [--other PYTHON ...]

Measured are single sends with many in flight, sends joined into batches, batches of 100, and the
consumption of one backlog by a push consumer (handler, loop, batches) and a lite pull consumer.
With ``--java-lib`` the Java client does the same in the same run, with the same broker, topic and
backlog (each measurement's second round counts, the first warms it up).  ``--other`` names
interpreters of environments with another Python client in them; ``other_clients.py`` says which
it knows.  Without name servers, a broker of ours is started in a process of its own.
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
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from contrailmq import (
    ConsumerSettings,
    LitePullConsumer,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)
from contrailmq.net.loop import run

HERE = pathlib.Path(__file__).parent
Row = dict[str, Any]

# As Java's defaults, a pull answers with at most 32 messages; the backlog is read in larger steps.
CONF = """maxTransferCountOnMessageInMemory=1024
maxTransferBytesOnMessageInMemory=1048576
"""
CONSUMER = ConsumerSettings(
    pull_count=1024, pull_size=1024 * 1024, queue_count_max=20_000, queue_span_max=50_000
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name-servers")
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--in-flight", type=int, default=1024)
    parser.add_argument("--only", default="", help="send, joined, batches, handler, push, …")
    parser.add_argument("--java-lib", type=pathlib.Path)
    parser.add_argument("--other", nargs="*", default=[], metavar="PYTHON")
    options = parser.parse_args()
    if options.name_servers:
        everything(options, options.name_servers)
        return
    with own_broker() as address:
        everything(options, address)


def everything(options: argparse.Namespace, name_servers: str) -> None:
    """Our client, then the others that are here."""
    topic = f"Bench{os.getpid()}"
    rows = run(measure(options, name_servers, topic))
    numbers = [str(options.count), str(options.size), str(options.in_flight)]
    backlog = str(sum(row["count"] for row in rows if row["what"].startswith("send")) + WARM_UP)
    arguments = [name_servers, *numbers, topic, backlog]
    if options.java_lib is not None:
        with tempfile.TemporaryDirectory() as classes:
            path = f"{classes}:{options.java_lib}/*"
            source = HERE / "java" / "ClientBench.java"
            subprocess.run(["javac", "-cp", path, "-d", classes, str(source)], check=True)
            command = ["java", "-Xmx1g", f"-Duser.home={classes}", "-cp", path, "ClientBench"]
            rows += foreign([*command, *arguments])
    for number, python in enumerate(options.other):
        group = f"other-{number}-{topic}"
        run(rewind(name_servers, topic, group))
        rows += foreign([python, str(HERE / "others.py"), *arguments, group])
    print(table(rows))


async def rewind(name_servers: str, topic: str, group: str) -> None:
    """Let a group begin at the first message: not every client can ask for that."""
    async with PullConsumer(group, name_servers=name_servers) as consumer:
        for queue in await consumer.queues(topic):
            await consumer.commit(queue, 0)


def foreign(command: list[str]) -> list[Row]:
    """The rows another program prints; its logging talks too."""
    rows: list[Row] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                print(line, end="", flush=True)
                rows.append(json.loads(line))
    if process.returncode != 0:
        print(f"{command[0]} ended with {process.returncode}", file=sys.stderr)
    return rows


def table(rows: list[Row]) -> str:
    """All clients side by side."""
    clients = list(dict.fromkeys(row["client"] for row in rows))
    found = {(row["client"], row["what"]): row for row in rows}
    lines = [
        "| what | " + " | ".join(f"{client} msg/s (CPU µs)" for client in clients) + " |",
        "|---" * (len(clients) + 1) + "|",
    ]
    for what in dict.fromkeys(row["what"] for row in rows):
        cells = [
            f"{row['per_second']:,} ({row['cpu_us_per_message']})" if row else ""
            for row in (found.get((client, what)) for client in clients)
        ]
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
    return "\n" + "\n".join(lines)


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


WARM_UP = 2  # messages sent before the measurements


async def measure(options: argparse.Namespace, name_servers: str, topic: str) -> list[Row]:
    """All measurements of our client, one after another."""
    body = b"x" * options.size
    only = set(filter(None, options.only.split(",")))
    rows: list[Row] = []

    def wanted(name: str) -> bool:
        return not only or name in only

    def note(what: str, spent: Spent, count: int) -> None:
        rows.append(report(what, options.size, spent, count))

    async with Producer("bench", name_servers=name_servers) as producer:
        await producer.send(Message(topic, body))
        if wanted("send"):
            note("send, single", await single(producer, topic, body, options), options.count)
    settings = ProducerSettings(batch_size=64 * 1024, batch_wait_s=0.002)
    async with Producer("bench", name_servers=name_servers, settings=settings) as producer:
        await producer.send(Message(topic, body))
        if wanted("joined"):
            spent = await joined(producer, topic, body, options)
            note("send, joined into batches", spent, options.count)
        if wanted("batches"):
            spent = await hundreds(producer, topic, body, options)
            note("send, batches of 100", spent, options.count // 100 * 100)
    backlog = sum(row["count"] for row in rows) + WARM_UP
    for name, consume in CONSUMERS.items():
        if wanted(name):
            note(WHAT[name], await consume(name_servers, topic, backlog), backlog)
    return rows


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


def report(what: str, size: int, spent: Spent, count: int) -> Row:
    """One line."""
    row = {
        "client": "contrailmq",
        "what": what,
        "count": count,
        "size": size,
        "seconds": round(spent.wall, 3),
        "per_second": round(count / spent.wall),
        "cpu_us_per_message": round(spent.cpu / count * 1e6, 2),
        "seconds_without_a_processor": spent.queued,
    }
    print(json.dumps(row), flush=True)
    return row


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


async def lite(name_servers: str, topic: str, count: int) -> Spent:
    """Poll a backlog."""
    begun = now()
    async with LitePullConsumer(
        f"L{topic}", topics=topic, name_servers=name_servers, start_from="first", settings=CONSUMER
    ) as consumer:
        seen = 0
        while seen < count:
            seen += len(await consumer.poll(10.0, count=1024))
        return now() - begun


def push_consumer(letter: str, name_servers: str, topic: str, **more: Any) -> PushConsumer:
    """A push consumer of a group that is new, at the first message."""
    return PushConsumer(
        f"{letter}{topic}", topics={topic: "*"}, name_servers=name_servers, start_from="first",
        settings=CONSUMER, **more,
    )  # fmt: skip


async def handler(name_servers: str, topic: str, count: int) -> Spent:
    """A handler that is called with single messages."""
    left, done = count, asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            done.set()

    begun = now()
    async with push_consumer("H", name_servers, topic, handler=handle):
        await done.wait()
        return now() - begun


async def push(name_servers: str, topic: str, count: int) -> Spent:
    """Loop over single messages."""
    begun = now()
    async with push_consumer("P", name_servers, topic) as consumer:
        seen = 0
        async for _ in consumer:
            seen += 1
            if seen == count:
                break
        return now() - begun


async def push_batches(name_servers: str, topic: str, count: int) -> Spent:
    """Loop over batches."""
    begun = now()
    async with push_consumer("B", name_servers, topic) as consumer:
        seen = 0
        async for messages in consumer.batches(1024):
            seen += len(messages)
            if seen >= count:
                break
        return now() - begun


CONSUMERS: dict[str, Callable[[str, str, int], Awaitable[Spent]]] = {
    "handler": handler,
    "push": push,
    "push-batches": push_batches,
    "lite": lite,
}
WHAT = {
    "handler": "consume, push handler, one by one",
    "push": "consume, push loop, one by one",
    "push-batches": "consume, push, lists of up to 1024",
    "lite": "consume, lite pull",
}

if __name__ == "__main__":
    main()
