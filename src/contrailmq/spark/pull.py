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
"""

from __future__ import annotations

import logging
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from contrailmq._native.arrow import find_records
from contrailmq.errors import ContrailError, NetworkError, RemoteProtocolError, error_of
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.filter.tags import TYPE_SQL92, TYPE_TAG
from contrailmq.protocol.headers.pull import PullMessageRequest
from contrailmq.protocol.message import QUEUE_OFFSET_AT, RECORD_SIZE_MIN
from contrailmq.protocol.queue import MessageQueue
from contrailmq.spark.cluster import Brokers, Patience
from contrailmq.spark.lines import Chunk, Line
from contrailmq.spark.loss import DataLoss, Losses
from contrailmq.spark.planning import QueueRange
from contrailmq.spark.wire import Answer, Arena, Wire

log = logging.getLogger(__name__)

SUBSCRIPTION_FLAG: Final = 4
IN_FLIGHT_MAX: Final = 256
IN_FLIGHT_SIZE: Final = 8 * 1024 * 1024
STRIDE_FIRST: Final = 32
STRIDE_MAX: Final = 4096
STRIDE_PATIENCE: Final = 512  # answers until a broker that gave little is asked for more again
GROUP_SIZE: Final = 2 * 1024 * 1024
PIECE_SIZE: Final = 128 * 1024  # smaller runs in one arena are copied together
HELD_SIZE_MAX: Final = 32 * 1024 * 1024  # of what came in before its turn
FILTER_COUNT: Final = 1024
_SUCCESS: Final = int(ResponseCode.SUCCESS)
_LENGTHS: Final = struct.Struct(">II")
_QUEUE_OFFSET: Final = struct.Struct(">q")


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


class Body(NamedTuple):
    """Records of an answer; those from the queue offset ``limit`` on are not wanted."""

    arena: Arena
    start: int
    end: int
    limit: int


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
        while any(not line.is_done for line in lines):
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


class _Flow:
    """One connection's pulls, until all lines are read or the connection ends."""

    def __init__(
        self,
        wire: Wire,
        subscription: Subscription,
        lines: Sequence[Line],
        *,
        losses: Losses,
    ) -> None:
        self._wire = wire
        self._subscription = subscription
        self._is_all = subscription.is_all
        self._lines = lines
        self._losses = losses
        self._asked: dict[int, tuple[Line, Chunk]] = {}
        self._stride = STRIDE_FIRST
        self._answers_since = STRIDE_PATIENCE  # since one fell short of what was asked
        self._probe: Chunk | None = None  # the one that was asked for more than usual
        self._record_size = 256.0
        self._turn = 0
        self._front = 0  # the line whose records are given out
        self._held_size = 0  # of bodies that were not given out
        self._parked: list[tuple[Line, Chunk]] = []  # not asked further until they are in front
        self._ready: list[Body] = []
        self._ready_size = 0

    def run(self, broker: str) -> Iterator[Group]:
        """Pull everything; groups of records as they come."""
        for line in self._lines:
            line.template = self._template(line.part.queue)
        try:
            yield from self._pull(broker)
        except (NetworkError, _TryLater):
            yield from self._groups(broker)  # these count as given out
            raise
        yield from self._groups(broker)

    def _pull(self, broker: str) -> Iterator[Group]:
        self._give_out()
        self._ask_more([])
        while self._asked:
            again: list[tuple[Line, Chunk]] = []
            for answer in self._wire.receive():
                found = self._asked.pop(answer.opaque, None)
                if found is None:
                    self._wire.release(answer.arena)
                    continue
                line, chunk = found
                if not self._take(line, chunk, answer):
                    self._wire.release(answer.arena)
                if chunk.at < chunk.end:
                    again.append(found)
                if line is self._lines[self._front] and chunk is line.chunks[0]:
                    self._give_out()
            self._ask_more(again)
            if self._ready_size >= GROUP_SIZE:
                yield from self._groups(broker)

    def _take(self, line: Line, chunk: Chunk, answer: Answer) -> bool:
        """Note an answer; whether its body is kept."""
        code, following, start = answer.code, answer.following, chunk.at
        if code == _SUCCESS:
            if following <= start:
                raise RemoteProtocolError(f"{line.part.queue}: a pull at {start} leads nowhere")
            arena, body, end = answer.arena, answer.start, answer.end
            if self._is_all:
                (first,) = _QUEUE_OFFSET.unpack_from(arena.data, body + QUEUE_OFFSET_AT)
                if first > start:
                    self._gone(line, start, first)
                self._learn(chunk, following - start, end - body)
            chunk.at = following
            chunk.bodies.append((arena, body, end))
            self._held_size += end - body
            return True
        if chunk is self._probe:
            self._probe = None
        if code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            if following <= start:
                raise _TryLater(f"{line.part.queue}: nothing at {start} yet")
            if self._is_all:  # nobody filtered: the log has lost them, and the queue
                self._gone(line, start, following)  # does not know it yet
            chunk.at = following
            return False
        if code == ResponseCode.PULL_NOT_FOUND:
            return self._not_there(line, chunk, start)
        if code == ResponseCode.PULL_OFFSET_MOVED:
            if following <= start:
                return self._not_there(line, chunk, start)
            self._gone(line, start, following)
            chunk.at = min(following, chunk.end)
            return False
        error = error_of(code, answer.command.remark)
        if error.retryable:
            raise _TryLater(f"{line.part.queue} at {start}: {error}")
        error.add_note(f"pulling {line.part.queue} at {start}")
        raise error

    def _gone(self, line: Line, start: int, first: int) -> None:
        """The broker has nothing from ``start`` to before ``first``, if that is behind it."""
        gone_to, said_to = min(first, line.part.end), max(start, line.gone_to)
        if gone_to > said_to:  # said once, not for every chunk of it
            line.gone_to = gone_to
            self._losses.note_deleted(line.part.queue, said_to, gone_to)

    def _not_there(self, line: Line, chunk: Chunk, start: int) -> bool:
        """The broker says the queue ends before what it had when the query was planned."""
        loss = DataLoss(line.part.queue, start, chunk.end, "not in the queue any more")
        if self._losses.is_certain(loss):
            self._losses.note(loss)
            chunk.at = chunk.end
            return False
        raise _TryLater(str(loss))

    def _learn(self, chunk: Chunk, count: int, size: int) -> None:
        """Ask for what the broker gives: less when it fell short, more when it gave one more.

        Only one chunk at a time tries for more: a chunk that comes in two answers has its records
        in two places, and rows are made fast only of many records in one.
        """
        self._record_size += (size / count - self._record_size) / 16
        self._answers_since += 1
        if count < chunk.asked:
            self._answers_since = 0
        if chunk is self._probe:
            self._probe = None
            self._stride = max(self._stride, min(count, chunk.asked))
        elif count < chunk.asked:
            self._stride = max(1, count)

    def _cut(self, line: Line) -> Chunk | None:
        """The next chunk of a line; one of them is larger when it is time to try for more."""
        is_time = self._probe is None and self._answers_since >= STRIDE_PATIENCE
        if line.chained or not is_time or self._stride >= STRIDE_MAX:
            return line.cut(self._stride)
        self._probe = line.cut(min(2 * self._stride, STRIDE_MAX))
        return self._probe

    def _give_out(self) -> None:
        """Move what is next in order to the records ready for decoding."""
        while self._front < len(self._lines):
            line = self._lines[self._front]
            limit = line.part.end
            while line.chunks:
                chunk = line.chunks[0]
                for arena, start, end in chunk.bodies:
                    self._ready.append(Body(arena, start, end, limit))
                    self._ready_size += end - start
                    self._held_size -= end - start
                chunk.bodies.clear()
                line.given = min(chunk.at, limit)
                if chunk.at < chunk.end:
                    return
                line.chunks.popleft()
            if not line.is_done or self._front == len(self._lines) - 1:
                return
            self._front += 1

    def _ask_more(self, again: list[tuple[Line, Chunk]]) -> None:
        front, is_full = self._lines[self._front], self._held_size >= HELD_SIZE_MAX
        if self._parked or is_full:
            again, self._parked = self._parked + again, []
            if is_full:
                self._parked = [found for found in again if found[0] is not front]
                again = [found for found in again if found[0] is front]
        out = [self._request(line, chunk) for line, chunk in again]
        size = max(1.0, self._stride * self._record_size)
        most = max(4, min(IN_FLIGHT_MAX, int(IN_FLIGHT_SIZE / size)))
        idle = 0
        while len(self._asked) < most and idle < len(self._lines):
            line = self._lines[self._turn % len(self._lines)]
            chunk = None if is_full and line is not front else self._cut(line)
            if chunk is None:
                self._turn += 1
                idle += 1
                continue
            if line.chained:
                self._turn += 1
            idle = 0
            out.append(self._request(line, chunk))
        if out:
            self._wire.send(b"".join(out))

    def _request(self, line: Line, chunk: Chunk) -> bytes:
        count = FILTER_COUNT if line.chained else chunk.end - chunk.at
        chunk.asked = count
        if self._wire.signs:
            command = pull_command(
                self._subscription, line.part.queue, offset=chunk.at, count=count
            )
            data = self._wire.encode(command)
            self._asked[command.opaque] = (line, chunk)
            return data
        opaque = self._wire.next_opaque()
        self._asked[opaque] = (line, chunk)
        header = line.template % (chunk.at, count, opaque)
        size = len(header)
        return _LENGTHS.pack(4 + size, size) + header

    def _template(self, queue: MessageQueue) -> bytes:
        """The request as text with places for offset, count and number."""
        offset_mark, count_mark, opaque_mark = 7_777_777_777_777, 77_777_771, 77_777_772
        command = pull_command(self._subscription, queue, offset=offset_mark, count=count_mark)
        command.opaque = opaque_mark
        frame = command.encode()
        text = frame[8:].decode().replace("%", "%%")
        places = [str(mark) for mark in (offset_mark, count_mark, opaque_mark)]
        assert sorted(places, key=text.index) == places, "the header's order has changed"
        for place in places:
            text = text.replace(place, "%d", 1)
        return text.encode()

    def _groups(self, broker: str) -> Iterator[Group]:
        """What is ready: one group an arena, and one of all small pieces behind each other."""
        ready, self._ready, self._ready_size = self._ready, [], 0
        small: list[Body] = []
        for bodies in _runs(ready):
            if sum(body.end - body.start for body in bodies) < PIECE_SIZE:
                small += bodies
                continue
            if small:
                yield from self._group(broker, small)
                small = []
            yield from self._group(broker, bodies)
        if small:
            yield from self._group(broker, small)

    def _group(self, broker: str, bodies: list[Body]) -> Iterator[Group]:
        """Some bodies as one group; when they are of several arenas, copied."""
        data, spans = bodies[0].arena.data, bodies
        if any(body.arena is not bodies[0].arena for body in bodies):
            data, spans, at = bytearray(), [], 0
            for body in bodies:
                spans.append(body._replace(start=at, end=at + body.end - body.start))
                at = spans[-1].end
            data = data.join(body.arena.view[body.start : body.end] for body in bodies)
        positions = _positions(data, spans)
        if positions:
            yield Group(broker, data, positions)
        for body in bodies:
            self._wire.release(body.arena)


def _runs(bodies: Sequence[Body]) -> Iterator[list[Body]]:
    """Bodies behind each other in the same arena."""
    run: list[Body] = []
    for body in bodies:
        if run and run[0].arena is not body.arena:
            yield run
            run = []
        run.append(body)
    if run:
        yield run


def _positions(data: bytearray, bodies: Sequence[Body]) -> array[int]:
    """Where the records of some answers begin, without those behind the end of their range."""
    spans = array("q")
    for _, start, end, limit in bodies:
        spans.extend((start, end, limit))
    room = sum((end - start) // RECORD_SIZE_MIN + 1 for _, start, end, _ in bodies)
    positions = array("q", bytes(8 * room))
    count, bad = find_records(data, spans, positions)
    if bad >= 0:
        raise RemoteProtocolError(f"no record at {bad} of what came as answers to pulls")
    del positions[count:]
    return positions


def record_sizes(
    brokers: Brokers, group: str, starts: Mapping[MessageQueue, int]
) -> dict[MessageQueue, float]:
    """About how large the records of each queue are from an offset on: the mean of one pull."""
    everything = Subscription(group)
    questions = [
        (queue, pull_command(everything, queue, offset=at, count=STRIDE_FIRST))
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
