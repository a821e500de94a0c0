"""Batches of messages on their way to brokers, for one task.

Theory of operation.  Every queue has a *lane*: messages are written into its buffer, a full buffer
becomes a batch, and batches of a lane are sent one after the other (a few at once when that is
allowed), those of different lanes at the same time.  What a broker has of a lane's rows is
therefore always a beginning of them, whatever breaks when.

That is what makes *effectively once* cheap.  Rows have unique keys that depend on nothing but
query, batch, partition and row.  A lane begins by asking its broker for the key of its first row:
not there means that nothing of the lane is there, and everything is sent.  Otherwise this is a
replay: batches whose last row is there are skipped, until one is not.  The same question is asked
when a connection breaks while batches are under way.
"""

from __future__ import annotations

import logging
from array import array
from dataclasses import dataclass, field
from typing import Any, Final

from contrailmq._native.spark.batch_rows import Encoder
from contrailmq.bulk.cluster import Brokers, Patience, pause
from contrailmq.bulk.new_topics import queues_to_write, refused_text
from contrailmq.bulk.options import BATCH_SIZE_MAX, SinkOptions
from contrailmq.bulk.sink_rows import Numbering, Run
from contrailmq.bulk.wire import Wire, command_of
from contrailmq.client.producer.outgoing import Outgoing
from contrailmq.client.producer.settings import ProducerSettings
from contrailmq.clock import Clock
from contrailmq.errors import ConfigError, ContrailError, NetworkError, NoRoute, error_of
from contrailmq.protocol.batch import decode_batch, encode_batch
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.query import QueryMessageRequest
from contrailmq.protocol.message import decode_records
from contrailmq.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from contrailmq.protocol.queue import MessageQueue

log = logging.getLogger(__name__)

FUTURE_MS: Final = 86_400_000
SETTLE_S: Final = 1.0  # a Java broker indexes a message a moment after it has stored it
_WAIT: Final = "WAIT\x01true\x02"
_STORED: Final = frozenset(
    map(
        int,
        (
            ResponseCode.SUCCESS,
            ResponseCode.FLUSH_DISK_TIMEOUT,
            ResponseCode.FLUSH_SLAVE_TIMEOUT,
            ResponseCode.SLAVE_NOT_AVAILABLE,
        ),
    )
)


@dataclass(slots=True, eq=False)
class Sealed:
    """A batch that is complete: its bytes, its flags, its rows and, for once, their numbers."""

    body: bytes
    sys_flag: int
    count: int
    numbers: array[int]
    is_timed: bool = False


@dataclass(slots=True, eq=False)
class Lane:
    """What is to go to one queue."""

    queue: MessageQueue
    buffer: bytearray
    size: int = 0
    count: int = 0
    sys_flag: int = 0
    numbers: array[int] = field(default_factory=lambda: array("q"))
    under_way: list[Sealed] = field(default_factory=list)
    is_checking: bool = False
    is_timed: bool = False  # brokers look at due times of messages that come alone only


class _Refused(ContrailError):
    """A broker did not take some batches, and says that it might later."""

    def __init__(self, batches: list[tuple[Lane, Sealed]], error: ContrailError) -> None:
        super().__init__(str(error))
        self.batches = batches
        self.error = error


class Outbox:
    """The lanes of one task."""

    def __init__(
        self, brokers: Brokers, options: SinkOptions, *, numbering: Numbering, clock: Clock
    ) -> None:
        self._brokers = brokers
        self._asking = Brokers(options.access, clock=clock)  # questions overtake batches
        self._options = options
        self._numbering = numbering
        self._clock = clock
        self._settings = ProducerSettings()
        self._lanes: dict[str, list[Lane]] = {}
        self._waiting: dict[tuple[str, int], tuple[Lane, Sealed]] = {}
        self._in_flight = 1 if options.once else options.in_flight
        self._patience = Patience(options.access.patience_s, clock=clock)
        self._has_timed = False
        self.sent = 0
        self.skipped = 0

    def close(self) -> None:
        """Close the connection that questions go over; the other is its owner's."""
        self._asking.close()

    def queue_count(self, topic: str) -> int:
        """How many queues a topic has to write to."""
        return len(self._topic(topic))

    def add(
        self, run: Run, *, encoder: Encoder, base: int, flags: int, timed: bool = False
    ) -> None:
        """Write rows of an Arrow batch, whose first row has the number ``base``, to their queue."""
        lane = self._topic(run.topic)[run.queue_index]
        if (lane.sys_flag, lane.is_timed) != (flags, timed) and lane.size:
            self._seal(lane)
        lane.sys_flag, lane.is_timed = flags, timed
        self._has_timed |= timed
        rows, done = run.rows, 0
        most = 1 if timed else self._options.batch_count
        while done < len(rows):
            chosen = rows[done : done + most - lane.count]
            count, lane.size = encoder.encode(chosen, 0, lane.buffer, lane.size, len(lane.buffer))
            lane.count += count
            if self._options.once:
                lane.numbers.extend([base + row for row in chosen[:count]])
            done += count
            if count < len(chosen) or lane.count >= most:
                if lane.size:
                    self._seal(lane)
                else:
                    self._widen(lane)

    def flush(self) -> None:
        """Send everything and wait until brokers have it."""
        lanes = [lane for found in self._lanes.values() for lane in found]
        for lane in lanes:
            if lane.size:
                self._seal(lane)
        for lane in lanes:
            self._await(lane, 0)

    # Inside

    def _topic(self, topic: str) -> list[Lane]:
        lanes = self._lanes.get(topic)
        if lanes is None:
            queues = self._brokers.patiently(
                lambda: queues_to_write(self._brokers, topic, create=self._options.create_topic)
            )
            if self._brokers.is_expected(topic):
                self._asking.expect(topic, self._brokers.route(topic))
            lanes = self._lanes[topic] = [
                Lane(queue, bytearray(self._options.batch_size), is_checking=self._options.once)
                for queue in queues
            ]
        return lanes

    def _widen(self, lane: Lane) -> None:
        """A message is larger than a batch was to be."""
        size = 2 * len(lane.buffer)
        if size > 4 * BATCH_SIZE_MAX:
            raise ConfigError(f"a message of {lane.queue.topic} is larger than {BATCH_SIZE_MAX}")
        lane.buffer = bytearray(size)

    def _seal(self, lane: Lane) -> None:
        body = bytes(memoryview(lane.buffer)[: lane.size])
        sealed = Sealed(body, lane.sys_flag, lane.count, lane.numbers, lane.is_timed)
        lane.size, lane.count, lane.numbers = 0, 0, array("q")
        self._await(lane, self._in_flight - 1)
        left = self._unwritten(lane, sealed) if lane.is_checking else sealed
        if left is not None:
            lane.under_way.append(left)
            self._try(lane, left)

    def _try(self, lane: Lane, batch: Sealed) -> None:
        """Send a batch; a connection that breaks is repaired."""
        address = ""
        try:
            address = self._brokers.address(lane.queue.broker_name, lane.queue.topic)
            wire = self._brokers.wire(address)
            command = self._command(lane.queue, batch)
            data = wire.encode(command)
            self._waiting[address, command.opaque] = (lane, batch)
            wire.send(data)
        except NetworkError as error:
            self._repair(address, lane, error)

    def _await(self, lane: Lane, most: int) -> None:
        """Take answers until at most so many batches of a lane are under way."""
        while len(lane.under_way) > most:
            address = ""
            try:
                address = self._brokers.address(lane.queue.broker_name, lane.queue.topic)
                self._take(self._brokers.wire(address), address)
            except _Refused as refusal:
                self._patience.pause(refusal.error)
                for other, batch in refusal.batches:
                    if batch in other.under_way:  # unless it went out with a repair
                        self._try(other, batch)
            except NetworkError as error:
                self._repair(address, lane, error)

    def _take(self, wire: Wire, address: str) -> None:
        refused: list[tuple[Lane, Sealed]] = []
        reason: ContrailError | None = None
        for answer in wire.receive():
            found = self._waiting.pop((address, answer.opaque), None)
            remark = None if answer.code in _STORED else command_of(answer).remark
            wire.intake.release(answer.arena)
            if found is None:
                continue
            lane, batch = found
            if answer.code in _STORED:
                self._done(lane, batch)
                continue
            error = error_of(answer.code, remark)
            if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                self._check_made(lane.queue.topic, error)
            error.add_note(f"writing to {lane.queue}")
            if not error.retryable:
                raise error
            refused.append((lane, batch))
            reason = error
        if reason is not None:
            raise _Refused(refused, reason)

    def _check_made(self, topic: str, error: ContrailError) -> None:
        """Say how to make a topic that its first message was to make."""
        if self._brokers.is_expected(topic):
            raise NoRoute(refused_text(topic, error))

    def _done(self, lane: Lane, batch: Sealed) -> None:
        lane.under_way.remove(batch)
        self.sent += batch.count
        self._patience.renew()

    def _repair(self, address: str, lane: Lane, error: Exception) -> None:
        """A connection broke: find out what the broker has of what was under way, send the rest."""
        log.warning("writing interrupted broker=%s error=%s", lane.queue.broker_name, error)
        broken = [lane]
        for other, _ in self._waiting.values():
            if other.queue.broker_name == lane.queue.broker_name and other not in broken:
                broken.append(other)
        self._waiting = {
            key: (other, batch)
            for key, (other, batch) in self._waiting.items()
            if other not in broken
        }
        if address:
            self._brokers.drop(address)
        self._patience.pause(error)
        for other in broken:
            self._send_again(other)

    def _send_again(self, lane: Lane) -> None:
        """Send what a lane has under way, each batch alone, so that order is kept."""
        is_certain = False
        while lane.under_way:
            batch = lane.under_way[0]
            if self._options.once and not is_certain:
                pause(SETTLE_S)
                left = self._unwritten(lane, batch)
                if left is None:
                    self._done(lane, batch)
                    self.skipped -= batch.count
                    continue
                lane.under_way[0] = batch = left
            address, is_certain = "", True
            try:
                address = self._brokers.address(lane.queue.broker_name, lane.queue.topic)
                answer = self._brokers.wire(address).call(self._command(lane.queue, batch))
            except NetworkError as error:
                if address:
                    self._brokers.drop(address)
                self._patience.pause(error)
                is_certain = False
                continue
            if answer.code in _STORED:
                self._done(lane, batch)
                continue
            refused = error_of(answer.code, answer.remark)
            if not refused.retryable:
                raise refused
            self._patience.pause(refused)

    def _command(self, queue: MessageQueue, batch: Sealed) -> Command:
        outgoing = (
            self._alone(queue, batch)
            if batch.is_timed
            else Outgoing(
                topic=queue.topic,
                body=batch.body,
                properties=_WAIT,
                message_id="",
                code=int(RequestCode.SEND_BATCH_MESSAGE),
                sys_flag=batch.sys_flag,
                batch=True,
            )
        )
        return outgoing.command(
            self._options.group, queue, born_ms=self._clock.now_ms(), settings=self._settings
        )

    def _alone(self, queue: MessageQueue, batch: Sealed) -> Outgoing:
        """A batch of one as a message of its own."""
        (message,) = decode_batch(batch.body)
        return Outgoing(
            topic=queue.topic,
            body=message.body,
            properties=message.properties.decode() + _WAIT,
            message_id="",
            code=int(RequestCode.SEND_MESSAGE_V2),
            sys_flag=batch.sys_flag,
            batch=False,
        )

    # Effectively once

    def _unwritten(self, lane: Lane, batch: Sealed) -> Sealed | None:
        """What of a batch its broker does not have yet; None when it has all of it."""
        numbers = batch.numbers
        if not self._is_written(lane.queue, numbers[0]):
            lane.is_checking = False
            return batch
        if self._is_written(lane.queue, numbers[-1]):
            self.skipped += len(numbers)
            return None
        low, high = 1, len(numbers) - 1  # numbers[low - 1] is written, numbers[high] is not
        while low < high:
            middle = (low + high) // 2
            if self._is_written(lane.queue, numbers[middle]):
                low = middle + 1
            else:
                high = middle
        lane.is_checking = False
        self.skipped += low
        rest = encode_batch(decode_batch(batch.body)[low:])
        return Sealed(rest, batch.sys_flag, len(numbers) - low, numbers[low:], batch.is_timed)

    def _is_written(self, queue: MessageQueue, number: int) -> bool:
        """Whether a broker has a row, be it among the messages that wait for their time."""
        waiting = (TIMER_TOPIC, SCHEDULE_TOPIC) if self._has_timed else ()
        topics = (queue.topic, *waiting)
        return any(self._has_key(queue, topic, number) for topic in topics)

    def _has_key(self, queue: MessageQueue, topic: str, number: int) -> bool:
        key = self._numbering.unique_key(number)
        header = QueryMessageRequest(
            topic=topic,
            key=key,
            max_num=32,
            begin_timestamp=0,
            end_timestamp=self._clock.now_ms() + FUTURE_MS,
            unique_key_query=True,
            broker_name=queue.broker_name,
        )

        def ask() -> list[Any]:
            request = Command.request(RequestCode.QUERY_MESSAGE, header)
            return self._asking.ask_all([(queue, request)])

        answer = self._asking.patiently(ask)[0]
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return False
        if answer.code != 0:
            raise error_of(answer.code, answer.remark)
        return any(record.unique_key == key for record in decode_records(answer.body))
