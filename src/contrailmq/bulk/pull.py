"""Ranges of queues as raw records, pulled with many requests under way.

Theory of operation.  A broker answers a pull with few messages (32 or 256 KiB in Java's defaults,
8 or 64 KiB from disk), so speed comes from many pulls at once.  A range is cut into *chunks* of
as many offsets as the broker was seen to give; each chunk is one pull, and a follow-up pull if the
answer fell short of it.  A filtered range is one chunk: how far a filtered pull gets cannot be
known before its answer.

Chunks are asked in order and given out in order, range by range, whatever order answers arrive in
and however the broker divides them: a sink that writes a partition again counts on the same rows
in the same order.  What comes of later ranges waits for the first (``HELD_SIZE_MAX`` of it, then
no more is asked for).  Records are not copied: an answer's body stays in its ``Arena`` until its
rows are made.
Pulls are never held at the broker: every offset asked for is there, or is lost.

What is done for each pull is compiled (``_native.pulls``); here are the rare things: ways to a
broker, losses, refusals, signed requests.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from contrailmq._native.spark import pulls
from contrailmq._native.spark.answers import Answer, joined
from contrailmq._native.spark.arrow import find_records
from contrailmq._native.spark.pulls import Chunk
from contrailmq.bulk.cluster import Brokers, Patience
from contrailmq.bulk.loss import DataLoss, Losses
from contrailmq.bulk.planning import QueueRange
from contrailmq.bulk.wire import Wire, command_of
from contrailmq.errors import ContrailError, NetworkError, RemoteProtocolError, error_of
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.filter.tags import TYPE_SQL92, TYPE_TAG
from contrailmq.protocol.headers.pull import SUBSCRIPTION_FLAG, PullMessageRequest
from contrailmq.protocol.queue import MessageQueue

log = logging.getLogger(__name__)

SAMPLE_COUNT: Final = 32
GROUP_SIZE: Final = 2 * 1024 * 1024
HELD_SIZE_MAX: Final = 32 * 1024 * 1024  # of what came in before its turn


class Subscription(NamedTuple):
    """Which messages are wanted, as a broker is told."""

    group: str
    expression: str = "*"
    kind: str = TYPE_TAG

    @property
    def is_all(self) -> bool:
        """Whether nothing is filtered."""
        return self.kind != TYPE_SQL92 and self.expression == "*"


class Group(NamedTuple):
    """Records of one broker in one buffer; true until the iterator is asked for the next."""

    broker: str
    data: bytearray
    positions: array[int]


class Line(pulls.Line):
    """The range of one queue, on its way."""

    def __init__(self, part: QueueRange, *, chained: bool) -> None:
        super().__init__(part.start, part.end, chained)
        self.part = part


class Puller:
    """Reads the ranges of one task."""

    def __init__(self, brokers: Brokers, subscription: Subscription, *, losses: Losses) -> None:
        self._brokers = brokers
        self._subscription = subscription
        self._losses = losses

    def read(self, ranges: Sequence[QueueRange]) -> Iterator[Group]:
        """Every record of the ranges, broker by broker, of each range by range, in order."""
        by_broker: dict[str, list[QueueRange]] = {}
        for part in ranges:
            by_broker.setdefault(part.queue.broker_name, []).append(part)
        for broker, parts in by_broker.items():
            yield from self._read_broker(broker, parts)

    def _read_broker(self, broker: str, parts: list[QueueRange]) -> Iterator[Group]:
        patience = Patience(self._brokers.access.patience_s)
        lines = [Line(part, chained=not self._subscription.is_all) for part in parts]
        while any(not line.is_done() for line in lines):
            address = ""
            try:
                address = self._brokers.address(broker, parts[0].queue.topic)
                wire = self._brokers.wire(address)
                flow = _Flow(wire, self._subscription, lines, losses=self._losses)
                for group in flow.run(broker):
                    patience.renew()
                    yield group
            except (NetworkError, _TryLater) as error:
                log.info("pull interrupted broker=%s error=%s", broker, error)
                self._brokers.drop(address)
                for line in lines:
                    line.rewind()
                patience.pause(error)


class _TryLater(ContrailError):
    """The broker is busy, or has not yet what it had before."""


class _Flow(pulls.Flow):
    """One connection's pulls, until all lines are read or the connection ends."""

    def __init__(
        self,
        wire: Wire,
        subscription: Subscription,
        lines: list[Line],
        *,
        losses: Losses,
    ) -> None:
        super().__init__(wire.intake, lines, subscription.is_all, HELD_SIZE_MAX)
        self._wire = wire
        self._subscription = subscription
        self._losses = losses
        for line in lines:
            _describe(line, subscription)

    def run(self, broker: str) -> Iterator[Group]:
        """Pull everything; groups of records as they come."""
        try:
            yield from self._pull(broker)
        except (NetworkError, _TryLater):
            yield from self._groups(broker)  # these count as given out
            raise
        yield from self._groups(broker)

    def _pull(self, broker: str) -> Iterator[Group]:
        self.give_out()
        self._ask(self.plan([]))
        while self.asked:
            again = self.settle(self._wire.receive())
            self._ask(self.plan(again))
            if self.ready_size >= GROUP_SIZE:
                yield from self._groups(broker)

    def _ask(self, out: list[pulls.Asked]) -> None:
        if not out:
            return
        if not self._wire.signs:
            self._wire.send(self.encode(out))
            return
        frames = []
        for found in out:
            line, chunk = cast("Line", found[0]), found[1]
            opaque = self._wire.intake.next_opaque()
            count = self.note_asked(found, opaque)
            command = pull_command(
                self._subscription, line.part.queue, offset=chunk.at, count=count
            )
            frames.append(self._wire.encode(command, opaque=opaque))
        self._wire.send(b"".join(frames))

    def odd(self, line: pulls.Line, chunk: Chunk, answer: Answer) -> None:
        """Take an answer without records, or raise."""
        assert isinstance(line, Line)
        code, following, start = answer.code, answer.following, chunk.at
        if code == ResponseCode.SUCCESS:
            raise RemoteProtocolError(
                f"{line.part.queue}: a pull at {start} brought {len(answer.body())} bytes"
                f" and leads to {following}"
            )
        if code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            if following <= start:
                raise _TryLater(f"{line.part.queue}: nothing at {start} yet")
            if self._subscription.is_all:  # nobody filtered: the log has lost them, and the queue
                self.note_gap(line, chunk, following)  # does not know it yet
            chunk.go_on(following)
            return
        if code == ResponseCode.PULL_OFFSET_MOVED and following > start:
            self.note_gap(line, chunk, following)
            chunk.go_on(following)
            return
        if code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED):
            self._not_there(line, chunk, start)
            return
        error = error_of(code, command_of(answer).remark)
        if error.retryable:
            raise _TryLater(f"{line.part.queue} at {start}: {error}")
        error.add_note(f"pulling {line.part.queue} at {start}")
        raise error

    def note_gap(self, line: pulls.Line, chunk: Chunk, first: int) -> None:
        """The broker has nothing of this chunk before ``first``: at once where that is the end."""
        assert isinstance(line, Line)
        if self._losses.fail:
            self._losses.note_deleted(line.part.queue, chunk.at, min(first, line.end))
        super().note_gap(line, chunk, first)

    def gone(self, line: pulls.Line, start: int, end: int) -> None:
        """Say that the broker has nothing from ``start`` to before ``end``."""
        assert isinstance(line, Line)
        self._losses.note_deleted(line.part.queue, start, end)

    def _not_there(self, line: Line, chunk: Chunk, start: int) -> None:
        """The broker says the queue ends before what it had when the query was planned."""
        loss = DataLoss(line.part.queue, start, chunk.end, "not in the queue any more")
        if not self._losses.is_certain(loss):
            raise _TryLater(str(loss))
        self._losses.note(loss)
        chunk.at = chunk.end

    def _groups(self, broker: str) -> Iterator[Group]:
        for bodies in self.collect():
            data, spans, room = joined(bodies)
            positions = array("q", bytes(8 * room))
            count, bad = find_records(data, spans, positions)
            if bad >= 0:
                raise RemoteProtocolError(f"no record at {bad} of what came as answers to pulls")
            del positions[count:]
            if positions:
                yield Group(broker, data, positions)
            self.release(bodies)


def _describe(line: Line, subscription: Subscription) -> None:
    """Give a line its request as text, with places for offset, count and number."""
    marks = (7_777_777_777_777, 77_777_771, 77_777_772)
    command = pull_command(subscription, line.part.queue, offset=marks[0], count=marks[1])
    command.opaque = marks[2]
    text = command.encode()[8:]
    places: list[int] = []
    for mark in map(str, marks):
        place = text.index(mark.encode())
        assert not places or place >= places[-1], "the header's order has changed"
        places.append(place)
        text = text.replace(mark.encode(), b"", 1)
    line.template(text, *places)


def record_sizes(
    brokers: Brokers, group: str, starts: Mapping[MessageQueue, int]
) -> dict[MessageQueue, float]:
    """About how large the records of each queue are from an offset on: the mean of one pull."""
    everything = Subscription(group)
    questions = [
        (queue, pull_command(everything, queue, offset=at, count=SAMPLE_COUNT))
        for queue, at in starts.items()
    ]
    found: dict[MessageQueue, float] = {}
    for (queue, at), answer in zip(starts.items(), brokers.ask_all(questions), strict=True):
        if answer.code == ResponseCode.SUCCESS:
            count = int(answer.fields["nextBeginOffset"]) - at
            found[queue] = len(answer.body) / max(1, count)
    return found


def pull_command(
    subscription: Subscription, queue: MessageQueue, *, offset: int, count: int
) -> Command:
    """One pull, answered at once."""
    header = PullMessageRequest(
        consumer_group=subscription.group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=SUBSCRIPTION_FLAG,
        subscription=subscription.expression,
        expression_type=subscription.kind,
        broker_name=queue.broker_name,
    )
    return Command.request(RequestCode.PULL_MESSAGE, header)
