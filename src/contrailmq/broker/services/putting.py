"""The one way a message enters the store, whoever sends it.

Senders, retries, delayed deliveries, transactions and replies all build a ``NewMessage`` and call
``put``.  Messages that must not be seen yet are rewritten first: ``delayed`` moves them to the
schedule topic, ``half`` to the half topic; both keep the real target in REAL_TOPIC and REAL_QID,
and both leave every other property where it was, as the original does, so that a Java broker can
take over a store in which they lie.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Final, Protocol

from contrailmq._native import system
from contrailmq.broker.services.timing import TIMES, Timing
from contrailmq.broker.tables.counters import Counters
from contrailmq.errors import (
    DiskFull,
    IllegalMessage,
    RemoteProtocolError,
    ServiceNotAvailable,
    StoreClosed,
    StoreRefusal,
)
from contrailmq.protocol.batch import decode_batch
from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.names import HALF_TOPIC, LMQ_PREFIX, SCHEDULE_TOPIC, is_lmq
from contrailmq.protocol.properties import (
    PROPERTY_DELAY,
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_INNER_NUM,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TRANSACTION_ID,
    PROPERTY_UNIQUE_KEY,
    encode_properties,
)
from contrailmq.protocol.sysflag import TRANSACTION_NONE, with_transaction_type
from contrailmq.store.batch_queue import COUNT_MAX
from contrailmq.store.certainty import Outcome, ReplicaFault
from contrailmq.store.settings import StoreSettings
from contrailmq.store.types import Appended, BatchAppended, NewMessage

PROPERTIES_LIMIT_TEXT: Final = "32KB"
FLUSH_LATE: Final = "stored, but not flushed to disk within syncFlushTimeout"
STOPPED: Final = "the store stopped before the message was flushed"
Buffer = bytes | bytearray | memoryview


class MessageStore(Protocol):
    """What this module needs of the store."""

    def put(self, message: NewMessage) -> Appended:
        """Append one message."""
        ...

    def put_batch(self, message: NewMessage, inner: Buffer) -> BatchAppended:
        """Append the messages of an encoded batch to one queue, all or none."""
        ...

    @property
    def is_awaited(self) -> bool:
        """Whether senders that want it wait for disk or replicas."""
        ...

    def put_whole(self, message: NewMessage, count: int) -> Appended:
        """Append a batch as one record of a batch queue."""
        ...

    def wait_flushed(self, end_offset: int) -> asyncio.Future[Outcome] | None:
        """The future of the certainty of disk and replicas, or None when nobody waits for it."""
        ...

    def writeable_reason(self) -> str | None:
        """Why no message can be taken now, or None."""
        ...


def recode(reply: Command, outcome: Outcome) -> None:
    """Give the answer to a send the code for what became of the waits for disk and replicas."""
    if outcome is True:
        return
    if outcome is False:
        code, remark = ResponseCode.FLUSH_DISK_TIMEOUT, FLUSH_LATE
    elif outcome is ReplicaFault.TIMEOUT:
        code, remark = ResponseCode.FLUSH_SLAVE_TIMEOUT, f"stored, but {outcome.value}"
    elif outcome is ReplicaFault.NOT_AVAILABLE:
        code, remark = ResponseCode.SLAVE_NOT_AVAILABLE, f"stored, but {outcome.value}"
    else:
        code, remark = ResponseCode.SERVICE_NOT_AVAILABLE, STOPPED
    reply.code, reply.remark = int(code), remark


def delay_level(properties: Mapping[str, str]) -> int:
    """The delay level a message asks for; 0 for none."""
    try:
        return int(properties.get(PROPERTY_DELAY, "0"))
    except ValueError:
        return 0


def refuse_unserved(properties: dict[str, str]) -> None:
    """Raise for what other brokers would stumble over.

    That is a message that says that it is a batch, and one with a list of light queues in which
    other names are, too: the dispatch of 5.2.0 stops there, restarts included.  Numbers of light
    queues are the broker's to give.
    """
    if PROPERTY_INNER_NUM in properties:
        raise IllegalMessage(f"{PROPERTY_INNER_NUM} is for batches that a broker keeps whole")
    properties.pop(PROPERTY_INNER_MULTI_QUEUE_OFFSET, None)
    lights = properties.get(PROPERTY_INNER_MULTI_DISPATCH)
    if lights is None:
        return
    names = lights.split(",")
    if any(map(is_lmq, names)) and not all(map(is_lmq, names)):
        raise IllegalMessage(
            f"{PROPERTY_INNER_MULTI_DISPATCH} {lights[:200]!r}: expected names that begin with "
            f"{LMQ_PREFIX}; leave out the others"
        )


def count_batch(batch: Buffer) -> int:
    """How many messages a batch that is to be kept whole has."""
    try:
        count = len(decode_batch(batch))
    except RemoteProtocolError as error:
        raise IllegalMessage(f"the message is illegal: {error}") from error
    if not 0 < count <= COUNT_MAX:
        raise IllegalMessage(f"batch of {count} messages: expected 1 to {COUNT_MAX}")
    return count


class Putting:
    """Puts messages, and turns the store's refusals into response codes."""

    def __init__(
        self,
        store: MessageStore,
        counters: Counters,
        *,
        timing: Timing,
        message_size_max: int,
        delay_level_max: int,
    ) -> None:
        self._store = store
        self._counters = counters
        self._timing = timing
        self._message_size_max = message_size_max
        self._delay_level_max = delay_level_max

    def use(self, settings: StoreSettings) -> None:
        """Name other limits from now on; the store itself keeps them."""
        self._message_size_max = settings.message_size_max

    def put(self, message: NewMessage, *, is_delayed: bool = False) -> Appended:
        """Append one message; raises the BrokerError its sender is to see.

        ``is_delayed``: it has waited for its time.
        """
        began_ns = system.monotonic_ns()
        try:
            appended = self._store.put(message)
        except StoreRefusal as error:
            raise self._illegal(error) from error
        except (DiskFull, StoreClosed) as error:
            raise self._unavailable(error) from error
        self._counters.put(
            message.topic, message.queue_id, count=1, size=appended.size, is_delayed=is_delayed
        )
        self._time(message, began_ns)
        return appended

    def put_batch(self, message: NewMessage, inner: Buffer) -> BatchAppended:
        """Append an encoded batch; raises the BrokerError its sender is to see."""
        began_ns = system.monotonic_ns()
        try:
            appended = self._store.put_batch(message, inner)
        except StoreRefusal as error:
            raise self._illegal(error) from error
        except (DiskFull, StoreClosed) as error:
            raise self._unavailable(error) from error
        size = appended.end_offset - appended.offsets[0]
        self._counters.put(message.topic, message.queue_id, count=len(appended.offsets), size=size)
        self._time(message, began_ns)
        return appended

    def put_whole(self, message: NewMessage, count: int) -> Appended:
        """Append a batch as one record; raises the BrokerError its sender is to see."""
        try:
            appended = self._store.put_whole(message, count)
        except StoreRefusal as error:
            raise self._illegal(error) from error
        except (DiskFull, StoreClosed) as error:
            raise self._unavailable(error) from error
        self._counters.put(message.topic, message.queue_id, count=count, size=appended.size)
        return appended

    def when_flushed(
        self, reply: Command, end_offset: int
    ) -> Command | asyncio.Future[Command | None]:
        """Return the answer to a sender that waits for the flush, or a future of it."""
        flushed = self._store.wait_flushed(end_offset)
        if flushed is None:
            return reply
        loop = flushed.get_loop()
        began = loop.time()
        answer: asyncio.Future[Command | None] = loop.create_future()

        def settle(done: asyncio.Future[Outcome]) -> None:
            self._counters.put_times.add(round((loop.time() - began) * 1e9), 1)
            if not answer.done():
                has_failed = done.cancelled() or done.exception() is not None
                recode(reply, StoreClosed(STOPPED) if has_failed else done.result())
                answer.set_result(reply)

        flushed.add_done_callback(settle)
        return answer

    def arrange(self, message: NewMessage, properties: dict[str, str]) -> NewMessage:
        """The message as it is stored: rewritten if its properties ask for a delay."""
        level = delay_level(properties)
        if level > 0:
            for name in TIMES:
                properties.pop(name, None)
            return self.delayed(message, properties, level)
        if Timing.has_time(message.topic, properties):
            return self._timing.arrange(message, properties)
        return message

    def delayed(self, message: NewMessage, properties: dict[str, str], level: int) -> NewMessage:
        """The message as the schedule topic holds it until ``level`` has passed."""
        level = min(level, self._delay_level_max)
        properties[PROPERTY_REAL_TOPIC] = message.topic
        properties[PROPERTY_REAL_QUEUE_ID] = str(message.queue_id)
        return dataclasses.replace(
            message,
            topic=SCHEDULE_TOPIC,
            queue_id=level - 1,
            properties=encode_properties(properties),
        )

    def half(self, message: NewMessage, properties: dict[str, str]) -> NewMessage:
        """The message as the half topic holds it until its transaction ends."""
        if Timing.has_time(message.topic, properties) and delay_level(properties) <= 0:
            # The original would move the half itself, and lose the transaction.
            raise IllegalMessage("a message of a transaction can have no time of its own (TIMER_…)")
        unique_key = properties.get(PROPERTY_UNIQUE_KEY)
        if unique_key is not None:
            properties[PROPERTY_TRANSACTION_ID] = unique_key
        properties[PROPERTY_REAL_TOPIC] = message.topic
        properties[PROPERTY_REAL_QUEUE_ID] = str(message.queue_id)
        self._counters.transactions.begun(message.topic)
        return dataclasses.replace(
            message,
            topic=HALF_TOPIC,
            queue_id=0,
            sys_flag=with_transaction_type(message.sys_flag, TRANSACTION_NONE),
            properties=encode_properties(properties),
        )

    def _time(self, message: NewMessage, began_ns: int) -> None:
        """Count how long a put took; where its sender waits, ``when_flushed`` counts."""
        if not (message.wait and self._store.is_awaited):
            self._counters.put_times.add(system.monotonic_ns() - began_ns, 1)

    def _illegal(self, error: StoreRefusal) -> IllegalMessage:
        self._counters.put_failed += 1
        return IllegalMessage(
            "the message is illegal, maybe msg body or properties length not matched. msg body "
            f"length limit {self._message_size_max}B, msg properties length limit "
            f"{PROPERTIES_LIMIT_TEXT}. {error}"
        )

    def _unavailable(self, error: Exception) -> ServiceNotAvailable:
        self._counters.put_failed += 1
        return ServiceNotAvailable(f"service not available now. {error}")
