"""``contrail bench``: load on any RocketMQ cluster, options as the original's benchmark tools have.

``producer`` and ``consumer`` measure throughput, ``latency`` the way from a send to a consumer that
waits, at a fixed rate.  Percentiles are free of coordinated omission where a rate is given.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TextIO

from contrailmq.admin.bench.histogram import Histogram
from contrailmq.admin.bench.load import Pace, Tally, drive, random_body
from contrailmq.admin.moments import start_moment
from contrailmq.admin.options import (
    administrator,
    client_settings,
    connection_options,
    json_option,
    name_servers,
    new_parser,
    run_command,
    sub_command,
)
from contrailmq.admin.output import Printer
from contrailmq.client.consumer.push import PushConsumer
from contrailmq.client.consumer.subscription import Sql
from contrailmq.client.message import Message, ReceivedMessage
from contrailmq.client.producer.producer import Producer
from contrailmq.client.settings import ConsumerSettings, ProducerSettings
from contrailmq.clock import SystemClock
from contrailmq.errors import ClientError, ContrailError
from contrailmq.protocol.names import retry_topic
from contrailmq.usage import positive, whole

TOPIC: Final = "BenchmarkTest"
DURATION_S: Final = 10.0
_DUE: Final = struct.Struct(">d")
_EPILOG: Final = """\
examples:
  contrail bench producer -w 64 -s 128 --duration 10
  contrail bench producer -w 64 -b 32 -q 1000000         batches of 32
  contrail bench producer --rate 5000 --duration 30      open loop: honest percentiles
  contrail bench consumer -g bench --from first -q 1000000
  contrail bench latency --rate 1000 --duration 10 --json
"""


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one command line."""
    options = parser().parse_args(argv)
    printer = Printer(out, as_json=options.json)
    return run_command(options, lambda: options.act(options, printer))


async def _producer(options: argparse.Namespace, printer: Printer) -> int:
    tally = Tally()
    body = random_body(options.size, random.Random(1))
    settings = ProducerSettings(
        send_timeout_s=options.timeout, compress_over=options.compress or options.size + 1
    )
    producer = Producer(
        options.group, name_servers=name_servers(options),
        settings=settings, client=client_settings(options),
    )  # fmt: skip
    numbers = iter(range(1 << 62))

    properties = {"p": "x" * options.properties} if options.properties else None

    def message() -> Message:
        keys = [f"k{next(numbers)}"] if options.keys else ()
        return Message(options.topic, body, tags=options.tag, keys=keys, properties=properties)

    async def send(due: float) -> int:
        if options.oneway:
            await producer.send_oneway(message())
        elif options.batch > 1:
            await producer.send_batch([message() for _ in range(options.batch)])
        else:
            await producer.send(message())
        return int(options.batch)

    async with producer:
        await producer.send(message())  # makes the topic and the connection
        pace = Pace(
            workers=options.workers,
            quantity=-(-options.quantity // options.batch),
            duration_s=_duration(options),
            rate=options.rate / options.batch,
        )
        async with _Progress(lambda: tally.done, lambda: tally.latency, lambda: tally.failed):
            await drive(send, pace, tally)
    _report(printer, {"test": "producer", **tally.summary()}, size=options.size)
    return 1 if tally.failed and not tally.done else 0


def _duration(options: argparse.Namespace) -> float:
    if options.duration is not None:
        return float(options.duration)
    return 0.0 if options.quantity else DURATION_S


async def _consumer(options: argparse.Namespace, printer: Printer) -> int:
    clock = SystemClock()
    born, stored = Histogram(), Histogram()
    sizes, full = [0], asyncio.Event()
    began = ended = 0.0

    async def take(messages: list[ReceivedMessage]) -> None:
        nonlocal began, ended
        if full.is_set():  # the others' calls end after the last that counts
            return
        ended = clock.precise_s()
        began = began or ended
        now_ms = clock.now_ms()
        wanted = options.quantity - born.count if options.quantity else len(messages)
        for message in messages[:wanted]:
            born.record(max(now_ms - message.born_ms, 0) / 1000)
            stored.record(max(now_ms - message.store_ms, 0) / 1000)
            sizes[0] += len(message.body)
        if options.quantity and born.count >= options.quantity:
            full.set()

    expression = Sql(options.sql) if options.sql is not None else options.tags or "*"
    consumer = PushConsumer(
        options.group, topics={options.topic: expression}, name_servers=name_servers(options),
        start_from=options.start, batch_handler=take, batch=options.batch, workers=options.workers,
        settings=ConsumerSettings(pull_count=options.pull), client=client_settings(options),
    )  # fmt: skip

    async with consumer, _Progress(lambda: born.count, lambda: stored, lambda: 0):
        with suppress(TimeoutError):
            async with asyncio.timeout(_duration(options) or None):
                await full.wait()
    if not born.count:
        raise ClientError(
            f"no message of {options.topic!r} came; --from first reads what is there already, "
            "and a group goes on where it left off"
        )
    seconds = max(ended - began, 1e-3)  # from the first message to the last
    _report(
        printer,
        {
            "test": "consumer",
            "messages": born.count,
            "failed": 0,
            "seconds": round(seconds, 3),
            "perSecond": round(born.count / seconds, 1),
            "bornToConsumer": born.summary(),
            "storedToConsumer": stored.summary(),
        },
        size=sizes[0] // born.count,
    )
    return 0


async def _latency(options: argparse.Namespace, printer: Printer) -> int:
    """Send at a fixed rate; the body says when the send was due, on the clock of this loop."""
    if options.size < _DUE.size:
        raise ClientError(f"--size {options.size}: at least {_DUE.size}, for the time in it")
    now, tally, whole = SystemClock().precise_s, Tally(), Histogram()
    padding = random_body(options.size - _DUE.size, random.Random(1))
    settled = asyncio.Event()

    async def take(message: ReceivedMessage) -> None:
        if tally.began:  # what was sent before only made the topic
            whole.record(now() - _DUE.unpack_from(message.body)[0])
        if tally.ended and whole.count >= tally.done:
            settled.set()

    producer = Producer(
        "contrail-bench", name_servers=name_servers(options), client=client_settings(options)
    )

    async def send(due: float) -> int:
        await producer.send(Message(options.topic, _DUE.pack(due) + padding))
        return 1

    async with producer:
        await producer.send(Message(options.topic, _DUE.pack(now()) + padding))
        group = f"contrail-bench-{SystemClock().now_ms()}"
        consumer = PushConsumer(
            group, topics=options.topic, start_from="last",
            name_servers=name_servers(options), handler=take, workers=256,
            client=client_settings(options),
        )  # fmt: skip
        async with consumer:
            await consumer.wait_assigned()
            await asyncio.sleep(0.5)  # every queue has its first pull
            pace = Pace(
                workers=options.workers, quantity=options.quantity,
                duration_s=_duration(options), rate=options.rate,
            )  # fmt: skip
            async with _Progress(lambda: tally.done, lambda: whole, lambda: tally.failed):
                await drive(send, pace, tally)
                if whole.count < tally.done:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(5):
                            await settled.wait()
    await _forget(options, group)
    found = {
        "test": "latency", "messages": tally.done, "failed": tally.failed,
        "lost": max(tally.done - whole.count, 0),
        "seconds": round(tally.ended - tally.began, 3),
        "perSecond": round(tally.rate(tally.ended), 1),
        "sendToAnswer": tally.latency.summary(), "sendToConsumer": whole.summary(),
    }  # fmt: skip
    _report(printer, found, size=options.size)
    return 1 if found["lost"] or tally.failed else 0


async def _forget(options: argparse.Namespace, group: str) -> None:
    """Take away what a group of one run leaves at the brokers: itself, offsets, retry topic."""
    async with administrator(options) as admin:
        with suppress(ContrailError):
            for address in (await admin.masters()).values():
                await admin.groups.delete_at(address, group, offsets=True)
            await admin.topics.delete(retry_topic(group))


class _Progress:
    """A line a second on standard error, where it is a terminal: the last second's rate."""

    def __init__(
        self,
        done: Callable[[], int],
        latency: Callable[[], Histogram],
        failed: Callable[[], int],
    ) -> None:
        self._done, self._latency, self._failed = done, latency, failed
        self._task: asyncio.Task[None] | None = None
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> _Progress:
        await self._group.__aenter__()
        if sys.stderr.isatty():
            self._task = self._group.create_task(self._show())
        return self

    async def __aexit__(self, *error: Any) -> None:
        if self._task is not None:
            self._task.cancel()
            sys.stderr.write("\r\033[K")
        await self._group.__aexit__(*error)

    async def _show(self) -> None:
        now = SystemClock().precise_s
        began = before = now()
        done = self._done()
        while True:
            await asyncio.sleep(1)
            passed, found = now() - before, self._latency()
            more, done, before = self._done() - done, self._done(), now()
            sys.stderr.write(
                f"\r\033[K{before - began:5.0f} s  {more / passed:>12,.0f}/s  "
                f"p50 {found.percentile(50) * 1000:.2f} ms  "
                f"p99 {found.percentile(99) * 1000:.2f} ms  failed {self._failed():,}"
            )
            sys.stderr.flush()


def _report(printer: Printer, found: dict[str, Any], *, size: int) -> None:
    found["mbPerSecond"] = round(found["perSecond"] * size / 1e6, 2)
    if printer.as_json:
        printer.pairs(found)
        return
    printer.say(
        f"{found['messages']:,} messages in {found['seconds']:.2f} s: "
        f"{found['perSecond']:,.0f} a second, {found['mbPerSecond']:,.1f} MB/s, "
        f"{found['failed']:,} failed" + (f", {found['lost']:,} lost" if "lost" in found else "")
    )
    if "lastError" in found:
        printer.say(f"last error: {found['lastError']}")
    tables = {name: value for name, value in found.items() if isinstance(value, dict)}
    if not tables:
        tables = {"sendToAnswer": {k: v for k, v in found.items() if k.endswith("Ms")}}
    rows = [
        {"latency in ms": name, **{k.removesuffix("Ms"): f"{v:.2f}" for k, v in table.items()}}
        for name, table in tables.items()
    ]
    printer.rows(rows)


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    top = new_parser("bench", "Measure a running cluster.", _EPILOG)
    commands = top.add_subparsers(required=True, metavar="producer|consumer|latency")
    parents = [connection_options()]
    many, some = whole(1), whole(0)
    sender = sub_command(commands, "producer", _producer, "send as fast as told", parents=parents)
    sender.add_argument("-b", "--batch", type=many, default=1, help="messages a request (1)")
    sender.add_argument("-k", "--keys", action="store_true", help="give each message a key")
    sender.add_argument("-l", "--tag", help="give each message this tag")
    sender.add_argument(
        "-p", "--properties", type=some, default=0, metavar="N", help="add a property of N bytes"
    )
    sender.add_argument("--compress", type=some, default=0, metavar="N", help="bodies over N bytes")
    sender.add_argument("--oneway", action="store_true", help="ask for no answers")
    sender.add_argument("-g", "--group", default="contrail-bench", help="producer group")
    taker = sub_command(
        commands, "consumer", _consumer, "consume as fast as it goes", parents=parents
    )
    taker.add_argument("-g", "--group", default="contrail-bench", help="consumer group")
    taker.add_argument("-b", "--batch", type=many, default=32, help="messages a call (32)")
    taker.add_argument("--pull", type=many, default=32, metavar="N", help="messages a pull (32)")
    choice = taker.add_mutually_exclusive_group()
    choice.add_argument("--tags", metavar="EXPR", help="filter by tags")
    choice.add_argument("--sql", metavar="EXPR", help="filter by SQL")
    taker.add_argument(
        "--from", dest="start", type=start_moment, default="last", help="first, last or a time"
    )
    both = sub_command(commands, "latency", _latency, "from a send to a consumer", parents=parents)
    for command, workers in ((sender, 64), (taker, 20), (both, 64)):
        command.add_argument("-t", "--topic", default=TOPIC, help=f"({TOPIC})")
        command.add_argument("-w", "--workers", type=many, default=workers, help=f"({workers})")
        command.add_argument("-q", "--quantity", type=some, default=0, help="stop after so many")
        command.add_argument("--duration", type=positive, metavar="S", help=f"({DURATION_S:g})")
        json_option(command)
    for command, rate in ((sender, 0.0), (both, 1000.0)):
        command.add_argument("-s", "--size", type=many, default=128, help="bytes of a body (128)")
        said = f"{rate:g}" if rate else "as fast as it goes"
        command.add_argument(
            "--rate", type=positive, default=rate, help=f"messages a second ({said})"
        )
    return top
