"""``contrail tail``: the last messages of a topic, and those that come, taking them from nobody."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import heapq
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple, TextIO

from contrailmq.admin.moments import moment
from contrailmq.admin.options import client_settings, name_servers, new_parser, run_command
from contrailmq.admin.output import Printer
from contrailmq.admin.reading import Show, expression_of, reading_options
from contrailmq.client.consumer.pull import PullConsumer
from contrailmq.client.consumer.subscription import Expression
from contrailmq.client.message import ReceivedMessage
from contrailmq.errors import ClientError, NoRoute
from contrailmq.protocol.names import TOOLS_GROUP
from contrailmq.protocol.queue import MessageQueue
from contrailmq.usage import whole

LONG_POLL_S: Final = 10.0
LOOKS: Final = 10  # for a topic that may be new
LOOK_S: Final = 0.05
_EPILOG: Final = """\
examples:
  contrail tail orders                       the last ten messages
  contrail tail orders -f                    and those that come, until Ctrl-C
  contrail tail orders --from first          all of them
  contrail tail orders --from 10m --sql 'amount > 100'
  contrail tail %DLQ%billing --json          dead letters for a program
"""


class Stretch(NamedTuple):
    """What is to be read of one queue; ``end`` is its end when we looked."""

    queue: MessageQueue
    begin: int
    end: int


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one command line."""
    options = parser().parse_args(argv)
    printer = Printer(out, as_json=options.style == "json")
    return run_command(options, lambda: _tail(options, printer))


async def _tail(options: argparse.Namespace, printer: Printer) -> int:
    show = Show(printer, options)
    consumer = PullConsumer(
        TOOLS_GROUP, name_servers=name_servers(options), client=client_settings(options)
    )
    async with consumer:
        stretches = [
            await _stretch(consumer, queue, options) for queue in await _queues(consumer, options)
        ]
        await _show_past(consumer, stretches, options, show)
        if options.follow and not _is_full(options, show):
            await _follow(consumer, stretches, options, show)
    return 0


async def _queues(consumer: PullConsumer, options: argparse.Namespace) -> list[MessageQueue]:
    queues = await _known_queues(consumer, options.topic)
    if options.queue is None:
        return queues
    chosen = [queue for queue in queues if queue.queue_id == options.queue]
    if not chosen:
        raise ClientError(f"topic {options.topic!r} has no queue {options.queue}")
    return chosen


async def _known_queues(consumer: PullConsumer, topic: str) -> list[MessageQueue]:
    """The name servers hear of a topic a moment after the first message has made it."""
    for _ in range(LOOKS):
        with contextlib.suppress(NoRoute):
            return await consumer.queues(topic)
        await asyncio.sleep(LOOK_S)
    return await consumer.queues(topic)


async def _stretch(
    consumer: PullConsumer, queue: MessageQueue, options: argparse.Namespace
) -> Stretch:
    low, high = await consumer.bounds(queue)
    start = options.start
    if options.until is not None:
        # Brokers differ in which neighbour of a moment they name: one more does no harm.
        high = min(high, await consumer.offset_at(queue, options.until) + 1)
    if start == "first":
        return Stretch(queue, low, high)
    if start == "last":
        return Stretch(queue, high, high)
    if isinstance(start, int):
        return Stretch(queue, await consumer.offset_at(queue, start), high)
    # Filters may leave little of the last ten: look back further for them.
    is_filtered = expression_of(options) != "*" or options.grep is not None
    back = options.lines * 50 if is_filtered else options.lines
    return Stretch(queue, max(low, high - back), high)


async def _show_past(
    consumer: PullConsumer, stretches: list[Stretch], options: argparse.Namespace, show: Show
) -> None:
    """What is there already, in the order of store time over all queues."""
    if options.start is None:
        found = [
            message
            for stretch in stretches
            async for message in _messages(consumer, stretch, expression_of(options))
            if _is_wanted(message, options)
        ]
        found.sort(key=lambda message: (message.store_ms, message.queue_id))
        for message in found[max(len(found) - options.lines, 0) :]:
            show(message)
        return
    await _merge(consumer, stretches, options, show)


async def _merge(
    consumer: PullConsumer, stretches: list[Stretch], options: argparse.Namespace, show: Show
) -> None:
    """Go through all queues at once without holding more than one answer of each."""
    streams = [_messages(consumer, s, expression_of(options)) for s in stretches]
    heap: list[tuple[int, int, ReceivedMessage]] = []
    for number, stream in enumerate(streams):
        first = await anext(stream, None)
        if first is not None:
            heapq.heappush(heap, (first.store_ms, number, first))
    while heap and not _is_full(options, show):
        _, number, message = heap[0]
        if _is_wanted(message, options):
            show(message)
        following = await anext(streams[number], None)
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (following.store_ms, number, following))


async def _messages(
    consumer: PullConsumer, stretch: Stretch, expression: Expression
) -> AsyncIterator[ReceivedMessage]:
    offset = stretch.begin
    while offset < stretch.end:
        pulled = await consumer.pull(stretch.queue, offset, expression=expression)
        for message in pulled.messages:
            if message.queue_offset < stretch.end:
                yield message
        if pulled.next_offset <= offset:
            return
        offset = pulled.next_offset


async def _follow(
    consumer: PullConsumer, stretches: list[Stretch], options: argparse.Namespace, show: Show
) -> None:
    """Print what comes, until the count is reached or it has been quiet for ``--wait``."""
    arrived: asyncio.Queue[ReceivedMessage] = asyncio.Queue(1000)

    async def watch(stretch: Stretch) -> None:
        offset = stretch.end
        while True:
            pulled = await consumer.pull(
                stretch.queue, offset, expression=expression_of(options), wait_s=LONG_POLL_S
            )
            for message in pulled.messages:
                await arrived.put(message)
            offset = pulled.next_offset

    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(watch(stretch)) for stretch in stretches]
        while not _is_full(options, show):
            try:
                async with asyncio.timeout(options.wait):
                    message = await arrived.get()
            except TimeoutError:
                break
            if _is_wanted(message, options):
                show(message)
        for watcher in watchers:
            watcher.cancel()


def _is_full(options: argparse.Namespace, show: Show) -> bool:
    return options.count is not None and show.count >= options.count


def _is_wanted(message: ReceivedMessage, options: argparse.Namespace) -> bool:
    if options.until is not None and message.store_ms >= options.until:
        return False
    return options.grep is None or options.grep.encode() in bytes(message.body)


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    top = new_parser("tail", "Show messages of a topic without a group.", _EPILOG, connects=True)
    top.add_argument("topic")
    top.add_argument("-f", "--follow", action="store_true", help="go on with what comes")
    top.add_argument(
        "-l", "--lines", type=whole(0), default=10, metavar="N", help="the last N (10)"
    )
    top.add_argument("-c", "--count", type=whole(1), help="stop after so many")
    top.add_argument("-q", "--queue", type=whole(0), help="this queue id only")
    top.add_argument("--until", type=moment, metavar="TIME", help="stored before this time")
    top.add_argument("--grep", metavar="TEXT", help="bodies with this text")
    reading_options(top, start="")
    top.set_defaults(start=None)
    return top
