"""A broker under everything at once for a long time: flat memory, no error, nothing lost.

    python -m bench broker.soak [--seconds 600] [--seed 1]

Theory of operation.  A broker process of its own; producers send single messages, batches, many at
a time, delayed ones and transactions (some withdrawn, some left to the broker's check) at bounded
rates; push, lite and plain pull consumers read them whole, by tags and by SQL, and send some back.
Every message has a number.  Each consumer keeps a ledger of the numbers it must see, and at the
end, after a time to settle, every ledger must be full and no withdrawn message may have come.

The broker's anonymous memory and open files are looked at every five seconds.  After a warm-up
neither may grow by more than a bound.  One JSON line says what was done; the exit code is 1 when
something was wrong, and "wrong" says what.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.broker.brokers import OurBroker
from contrailmq import (
    LitePullConsumer,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    Sql,
)
from contrailmq.errors import ContrailError, NoRoute

PLAIN, DELAYED, HALVES = "soak", "soak-delayed", "soak-halves"
CONF = {
    "enablePropertyFilter": "true",
    "transactionTimeOut": "2000",
    "transactionCheckInterval": "3000",
}
SAMPLE_S = 5.0
WARM_S = 60.0
SETTLE_S = 60
REGISTERED_S = 30
GROWTH_MAX = 6_000_000
FILES_MAX = 16
WRONG_MAX = 20
TAGS = "ABCD"


class Ledger:
    """Numbers that must come, and those that came; a byte a number."""

    def __init__(self, wanted: Callable[[int], bool] = lambda number: True) -> None:
        self._wanted = wanted
        self._seen = bytearray()
        self.count = self.again = self.unwanted = 0

    def see(self, number: int) -> None:
        """A message came."""
        if not self._wanted(number):
            self.unwanted += 1
        if number >= len(self._seen):
            self._seen.extend(bytes(number + 1 - len(self._seen)))
        self.again += self._seen[number]
        self.count += not self._seen[number]
        self._seen[number] = 1

    def missing(self, sent: bytearray) -> int:
        """How many of the numbers that were sent have not come."""
        seen = self._seen
        return sum(
            1
            for number, is_sent in enumerate(sent)
            if is_sent and self._wanted(number) and not (number < len(seen) and seen[number])
        )


class Soak:
    """One run: who sends, who reads, what is wrong."""

    def __init__(self, name_servers: str, seconds: float, rng: random.Random) -> None:
        self._servers = name_servers
        self._seconds = seconds
        self._rng = rng
        self.sent = {topic: bytearray() for topic in (PLAIN, DELAYED, HALVES)}
        self.counts: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self.ledgers = {
            "all": Ledger(),
            "tags": Ledger(lambda number: TAGS[number % 4] in "AB"),
            "sql": Ledger(lambda number: number % 100 > 50),
            "lite": Ledger(),
            "pull": Ledger(),
            "delayed": Ledger(),
            "halves": Ledger(lambda number: number % 10 != 9),
        }

    async def run(self) -> None:
        """Load the broker, then wait until everything has come."""
        async with contextlib.AsyncExitStack() as stack:
            producer = await stack.enter_async_context(
                Producer("soak", name_servers=self._servers, check=lambda message: True)
            )
            for topic in self.sent:  # topics come to be before their readers
                await self._send_first(producer, topic)
            for consumer in self._consumers():
                await stack.enter_async_context(consumer)
            lite = await stack.enter_async_context(
                LitePullConsumer(
                    "lite", topics=PLAIN, name_servers=self._servers, start_from="first"
                )
            )
            pull = await stack.enter_async_context(PullConsumer("pull", name_servers=self._servers))
            readers = [self._poll(lite), self._pull(pull)]
            async with asyncio.TaskGroup() as group:
                reading = [group.create_task(reader) for reader in readers]
                await self._load(producer)
                await self._settle()
                for task in reading:
                    task.cancel()

    def missing(self) -> dict[str, int]:
        """What has not come, by reader."""
        topics = {"delayed": DELAYED, "halves": HALVES}
        found = {
            name: ledger.missing(self.sent[topics.get(name, PLAIN)])
            for name, ledger in self.ledgers.items()
        }
        return {name: count for name, count in found.items() if count}

    # -- readers

    def _consumers(self) -> list[PushConsumer]:
        topics: dict[str, dict[str, str | Sql]] = {
            "all": {PLAIN: "*"},
            "tags": {PLAIN: "A || B"},
            "sql": {PLAIN: Sql("n > 50")},
            "delayed": {DELAYED: "*"},
            "halves": {HALVES: "*"},
        }
        return [
            PushConsumer(
                name, topics=topics[name], name_servers=self._servers, start_from="first",
                handler=self._handler(name, self.ledgers[name]),
            )
            for name in topics
        ]  # fmt: skip

    def _handler(self, name: str, ledger: Ledger) -> Callable[[ReceivedMessage], Awaitable[None]]:
        async def take(message: ReceivedMessage) -> None:
            if name == "all" and message.attempt == 1 and self._rng.random() < 0.02:
                self.counts["sent back"] += 1
                message.retry(after=1)
                return
            self._see(ledger, message)
            if name == "delayed" and message.store_ms - int(message.keys[0]) < 1000:
                self._is_wrong(f"delayed by {message.store_ms - int(message.keys[0])} ms, not 1 s")

        return take

    async def _poll(self, consumer: LitePullConsumer) -> None:
        while True:
            for message in await consumer.poll(timeout_s=1):
                self._see(self.ledgers["lite"], message)

    async def _pull(self, consumer: PullConsumer) -> None:
        """By offset, queue after queue."""
        queues = await consumer.queues(PLAIN)
        offsets = dict.fromkeys(queues, 0)
        while True:
            for queue in queues:
                pulled = await consumer.pull(queue, offsets[queue], count=64)
                offsets[queue] = pulled.next_offset
                for message in pulled.messages:
                    self._see(self.ledgers["pull"], message)
            await asyncio.sleep(0.05)

    def _see(self, ledger: Ledger, message: ReceivedMessage) -> None:
        self.counts["received"] += 1
        ledger.see(int(message.properties["number"]))

    # -- writers

    async def _load(self, producer: Producer) -> None:
        writers = (
            (0.01, self._singles), (0.1, self._batch), (0.1, self._many), (0.05, self._delayed),
            (0.1, self._transaction),
        )  # fmt: skip
        async with asyncio.TaskGroup() as group:
            for gap_s, write in writers:
                group.create_task(self._repeat(gap_s, write, producer))

    async def _repeat(
        self, gap_s: float, write: Callable[[Producer], Awaitable[None]], producer: Producer
    ) -> None:
        loop = asyncio.get_running_loop()
        due, end = loop.time(), loop.time() + self._seconds
        while due < end:
            await asyncio.sleep(max(due - loop.time(), 0))
            due += gap_s
            try:
                await write(producer)
            except ContrailError as error:
                self._is_wrong(f"{write.__name__}: {type(error).__name__}: {error}")

    def _message(self, topic: str, number: int, **more: Any) -> Message:
        properties = {"number": str(number), "n": str(number % 100)}
        body = b"x" * (64 + number % 512)
        return Message(topic, body, tags=TAGS[number % 4], properties=properties, **more)

    def _next(self, topic: str, count: int = 1) -> range:
        """Numbers for messages that are about to be sent."""
        first = len(self.sent[topic])
        self.sent[topic].extend(bytes(count))
        return range(first, first + count)

    def _is_sent(self, topic: str, numbers: range, kind: str) -> None:
        for number in numbers:
            self.sent[topic][number] = 1
        self.counts[kind] += len(numbers)

    async def _send(self, producer: Producer, topic: str) -> None:
        numbers = self._next(topic)
        keys = str(time.time_ns() // 1_000_000 - 1000)
        await producer.send(self._message(topic, numbers[0], keys=keys))
        self._is_sent(topic, numbers, "single")

    async def _send_first(self, producer: Producer, topic: str) -> None:
        """A broker answers a moment before its name server knows it."""
        async with asyncio.timeout(REGISTERED_S):
            while True:
                with contextlib.suppress(NoRoute):
                    return await self._send(producer, topic)
                await asyncio.sleep(0.05)

    async def _singles(self, producer: Producer) -> None:
        for _ in range(2):
            await self._send(producer, PLAIN)

    async def _batch(self, producer: Producer) -> None:
        numbers = self._next(PLAIN, 20)
        await producer.send_batch([self._message(PLAIN, number) for number in numbers])
        self._is_sent(PLAIN, numbers, "in batches")

    async def _many(self, producer: Producer) -> None:
        numbers = self._next(PLAIN, 20)
        futures = [await producer.submit(self._message(PLAIN, number)) for number in numbers]
        await asyncio.gather(*futures)
        self._is_sent(PLAIN, numbers, "submitted")

    async def _delayed(self, producer: Producer) -> None:
        numbers = self._next(DELAYED)
        keys = str(time.time_ns() // 1_000_000)
        await producer.send(self._message(DELAYED, numbers[0], keys=keys, delay_level=1))
        self._is_sent(DELAYED, numbers, "delayed")

    async def _transaction(self, producer: Producer) -> None:
        numbers = self._next(HALVES)
        async with producer.transaction(self._message(HALVES, numbers[0])) as transaction:
            if numbers[0] % 10 == 9:
                transaction.rollback()
            elif numbers[0] % 10 == 8:
                transaction.unknown()  # the broker asks, and the producer says yes
        self._is_sent(HALVES, numbers, "transactions")

    async def _settle(self) -> None:
        for _ in range(SETTLE_S):
            if not self.missing():
                return
            await asyncio.sleep(1)

    def _is_wrong(self, text: str) -> None:
        self.counts["errors"] += 1
        if len(self.wrong) < WRONG_MAX:
            self.wrong.append(text)


class Watch:
    """The broker's memory and open files, sample after sample."""

    def __init__(self, broker: OurBroker, warm_s: float) -> None:
        self._broker = broker
        self._warm_s = warm_s
        self.memory: list[tuple[float, int]] = []
        self.files: list[int] = []

    async def run(self) -> None:
        """Look until cancelled."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            await asyncio.sleep(min(SAMPLE_S, self._warm_s))
            if loop.time() - began >= self._warm_s:
                self.memory.append((loop.time() - began, self._broker.anonymous()))
                self.files.append(self._broker.open_files())

    def summary(self) -> dict[str, Any]:
        """Growth since the warm-up, and its trend."""
        values = [value for _, value in self.memory]
        slope = 0.0
        if len(self.memory) > 2:
            times = [when for when, _ in self.memory]
            slope = statistics.linear_regression(times, values).slope
        return {
            "anonymous_mb": {
                "warm": round(values[0] / 1e6, 1),
                "end": round(values[-1] / 1e6, 1),
                "most": round(max(values) / 1e6, 1),
            },
            "growth_kb": round((max(values) - values[0]) / 1e3),
            "kb_per_minute": round(slope * 60 / 1e3, 1),
            "files": {"warm": self.files[0], "most": max(self.files)},
        }

    def wrong(self) -> list[str]:
        """What grew beyond its bound."""
        values = [value for _, value in self.memory]
        found = []
        if max(values) - values[0] > GROWTH_MAX:
            found.append(f"memory grew from {values[0]} to {max(values)} bytes")
        if max(self.files) - self.files[0] > FILES_MAX:
            found.append(f"open files grew from {self.files[0]} to {max(self.files)}")
        return found


def main(arguments: list[str]) -> int:
    """Run a soak; 1 when something was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m bench broker.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=600, help="under load (600)")
    parser.add_argument("--seed", type=int, default=1, help="of what is sent back (1)")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="contrail-soak-") as home,
        OurBroker(Path(home) / "broker", CONF) as broker,
    ):
        found = asyncio.run(_run(broker, options))
    print(json.dumps(found), flush=True)
    return 1 if found["wrong"] else 0


async def _run(broker: OurBroker, options: argparse.Namespace) -> dict[str, Any]:
    soak = Soak(f"127.0.0.1:{broker.namesrv_port}", options.seconds, random.Random(options.seed))
    watch = Watch(broker, min(WARM_S, options.seconds / 4))
    before = broker.cpu_s()
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch.run())
        await soak.run()
        watching.cancel()
    wrong = [*soak.wrong, *watch.wrong()]
    wrong += [f"{name}: {count} messages missing" for name, count in soak.missing().items()]
    wrong += [
        f"{name}: {ledger.unwanted} messages it did not ask for"
        for name, ledger in soak.ledgers.items()
        if ledger.unwanted
    ]
    lines = (broker.home / "log").read_text(errors="replace").splitlines()
    wrong += [f"broker: {line}" for line in lines if " ERROR " in line or "Traceback" in line]
    return {
        "soak": options.seconds,
        "sent": sum(sum(numbers) for numbers in soak.sent.values()),
        **dict(soak.counts),
        "again": sum(ledger.again for ledger in soak.ledgers.values()),
        "cpu_s": round(broker.cpu_s() - before, 1),
        **watch.summary(),
        "wrong": wrong[:WRONG_MAX],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
