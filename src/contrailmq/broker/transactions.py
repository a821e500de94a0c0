"""Open transactions: half messages, how they end, and asking producers about those that do not.

Theory of operation.  A half message lies in RMQ_SYS_TRANS_HALF_TOPIC.  Ending it appends an *op*
message to RMQ_SYS_TRANS_OP_HALF_TOPIC whose body names the half message's queue offset; a commit
first appends the message to its real topic.  Two cursors, kept as offsets of the group
CID_RMQ_SYS_TRANS, say up to where both topics are settled.

A round walks the half messages from the cursor on.  One with an op is settled.  One that is too
young (``transactionTimeOut``, or its own CHECK_IMMUNITY_TIME_IN_SECONDS) ends the round or is put
back behind the others.  One that is due is put back with a higher TRANSACTION_CHECK_TIMES and a
live producer of its group is asked (code 39); one that has been asked about too often goes to
TRANS_CHECK_MAX_TIME_TOPIC.  All of it is in the original's bytes, so a Java broker can take the
directory over between any two steps, and the reverse.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from contrailmq.broker.identity import Identity
from contrailmq.broker.live import LiveSettings
from contrailmq.broker.offsets import OffsetTable
from contrailmq.broker.producers import ProducerTable
from contrailmq.broker.putting import Putting
from contrailmq.broker.topics import TopicTable
from contrailmq.clock import Clock
from contrailmq.errors import BrokerError, CorruptRecord, NetworkError, RemoteProtocolError
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.transaction import CheckTransactionStateRequest
from contrailmq.protocol.ids import offset_message_id
from contrailmq.protocol.message import Record, decode_record, encode_record
from contrailmq.protocol.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from contrailmq.protocol.properties import (
    PROPERTY_CHECK_IMMUNITY_TIME,
    PROPERTY_PRODUCER_GROUP,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TAGS,
    PROPERTY_TRANSACTION_CHECK_TIMES,
    PROPERTY_TRANSACTION_ID,
    PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET,
    PROPERTY_UNIQUE_KEY,
    encode_properties,
)
from contrailmq.store.types import Appended, NewMessage

log = logging.getLogger(__name__)

GROUP: Final = "CID_RMQ_SYS_TRANS"
QUEUE: Final = 0
OP_TAG: Final = "d"
OPS_READ_MAX: Final = 200_000  # op messages held in memory by one round; the next goes on
ROUND_HALVES_MAX: Final = 50_000
YIELD_EVERY: Final = 200
ENDED_MAX: Final = 1_000_000


class TransactionLog(Protocol):
    """What this module needs of the store."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the one behind the last."""
        ...

    def unit(self, topic: str, queue_id: int, offset: int) -> tuple[int, int, int] | None:
        """Log offset, size and tag code of one message."""
        ...

    def record_at(self, commit_log_offset: int, size: int | None = None) -> bytes | None:
        """A copy of a record."""
        ...


class HalfMessages:
    """Reads half and op messages, and writes what settles them."""

    def __init__(
        self,
        store: TransactionLog,
        putting: Putting,
        topics: TopicTable,
        *,
        identity: Identity,
        clock: Clock,
    ) -> None:
        self._store = store
        self._putting = putting
        self._topics = topics
        self._identity = identity
        self._clock = clock
        self._ended: dict[int, None] = {}

    def bounds(self, topic: str) -> tuple[int, int]:
        """First offset of the half or op queue, and the one behind the last."""
        return self._store.bounds(topic, QUEUE)

    def read(self, topic: str, offset: int) -> Record | None:
        """The message at an offset of the half or op queue."""
        unit = self._store.unit(topic, QUEUE, offset)
        return None if unit is None else self.record(unit[0])

    def record(self, log_offset: int) -> Record | None:
        """The record at a place of the log."""
        data = self._store.record_at(log_offset)
        try:
            return None if data is None else decode_record(data)
        except (CorruptRecord, RemoteProtocolError):
            return None

    def is_ended(self, offset: int) -> bool:
        """Whether this half message was ended since the broker started."""
        return offset in self._ended

    def end(self, half: Record, *, commit: bool) -> None:
        """Settle a half message; ending it a second time does nothing."""
        if half.queue_offset in self._ended:
            return
        if commit:
            self._putting.put(self._committed(half))
        self._put_op(half.queue_offset)
        self._ended[half.queue_offset] = None
        if len(self._ended) > ENDED_MAX:
            self._ended.pop(next(iter(self._ended)))

    def settled_before(self, offset: int) -> None:
        """The cursor has moved: nobody asks about what lies before it."""
        for ended in [o for o in self._ended if o < offset]:
            del self._ended[ended]

    def put_back(self, half: Record) -> Appended:
        """Append a half message again, with the properties it has now."""
        return self._putting.put(self._copy(half, HALF_TOPIC))

    def discard(self, half: Record) -> None:
        """Give a half message up: an operator finds it in its own topic."""
        self._topics.create_internal(TRANS_CHECK_MAX_TIME_TOPIC, queue_nums=1)
        self._putting.put(self._copy(half, TRANS_CHECK_MAX_TIME_TOPIC))

    def _copy(self, half: Record, topic: str) -> NewMessage:
        return NewMessage(
            topic,
            QUEUE,
            half.body,
            encode_properties(half.properties),
            flag=half.flag,
            sys_flag=half.sys_flag,
            born_ms=half.born_ms,
            born_host=half.born_host_bytes,
            store_host=self._identity.store_host,
            reconsume_times=half.reconsume_times,
            wait=False,
        )

    def _committed(self, half: Record) -> NewMessage:
        queue_id = half.properties.get(PROPERTY_REAL_QUEUE_ID, "0")
        return dataclasses.replace(
            self._copy(half, half.properties.get(PROPERTY_REAL_TOPIC, "")),
            queue_id=int(queue_id) if queue_id.isdecimal() else 0,
            properties=half.properties_bytes,  # REAL_TOPIC and TRAN_MSG stay, as in the original
            sys_flag=(half.sys_flag & ~0xC) | 0x8,
            prepared_offset=half.commit_log_offset,
        )

    def _put_op(self, half_offset: int) -> None:
        host = self._identity.store_host
        self._topics.create_internal(OP_HALF_TOPIC, queue_nums=1)
        self._putting.put(
            NewMessage(
                OP_HALF_TOPIC,
                QUEUE,
                str(half_offset).encode(),
                encode_properties({PROPERTY_TAGS: OP_TAG}),
                born_ms=self._clock.now_ms(),
                born_host=host,
                store_host=host,
                wait=False,
            )
        )


@dataclass(slots=True)
class _Ops:
    """Which half messages have ended, by the op messages read so far."""

    next_offset: int
    ops: dict[int, set[int]]  # op offset -> half offsets it names that are not settled yet
    ended: dict[int, int]  # half offset -> op offset

    def settle(self, half_offset: int) -> bool:
        op_offset = self.ended.pop(half_offset, None)
        if op_offset is None:
            return False
        self.ops[op_offset].discard(half_offset)
        return True

    def cursor(self) -> int:
        """Op messages before it name nothing that is still open."""
        for op_offset, open_halves in self.ops.items():
            if open_halves:
                return op_offset
        return self.next_offset


class TransactionChecks:
    """Asks producers about transactions that stay open. A service that runs until cancelled."""

    def __init__(
        self,
        halves: HalfMessages,
        offsets: OffsetTable,
        producers: ProducerTable,
        *,
        live: LiveSettings,
        identity: Identity,
        clock: Clock,
        rng: random.Random,
        keep_ms: int,
    ) -> None:
        self._halves = halves
        self._offsets = offsets
        self._producers = producers
        self._live = live
        self._identity = identity
        self._clock = clock
        self._rng = rng
        self._keep_ms = keep_ms

    async def run(self) -> None:
        """A round every ``transactionCheckInterval``."""
        while True:
            await asyncio.sleep(self._live.now.transaction_check_interval_ms / 1000)
            try:
                await self.check()
            except BrokerError as error:
                log.warning("a round of transaction checks ended early: error=%s", error)

    async def check(self) -> int:
        """One round; how many producers were asked."""
        start_ms = self._clock.now_ms()
        first, end = self._halves.bounds(HALF_TOPIC)
        offset = begin = max(self._cursor(HALF_TOPIC), first)
        ops = self._read_ops(begin)
        asked = 0
        try:
            while offset < min(end, begin + ROUND_HALVES_MAX):
                verdict = self._look(offset, ops, start_ms)
                if verdict is None:
                    break
                asked += verdict
                offset += 1
                if (offset - begin) % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
        finally:
            self._offsets.commit(GROUP, HALF_TOPIC, QUEUE, offset=offset)
            self._offsets.commit(GROUP, OP_HALF_TOPIC, QUEUE, offset=ops.cursor())
            self._halves.settled_before(offset)
        return asked

    def _cursor(self, topic: str) -> int:
        return self._offsets.find(GROUP, topic, QUEUE) or 0

    def _read_ops(self, half_begin: int) -> _Ops:
        first, end = self._halves.bounds(OP_HALF_TOPIC)
        begin = max(self._cursor(OP_HALF_TOPIC), first)
        ops = _Ops(begin, {}, {})
        for offset in range(begin, min(end, begin + OPS_READ_MAX)):
            record = self._halves.read(OP_HALF_TOPIC, offset)
            named = set() if record is None else set(_offsets_of(record.body))
            open_halves = {half for half in named if half >= half_begin}
            ops.ops[offset] = open_halves
            ops.ended.update(dict.fromkeys(open_halves, offset))
            ops.next_offset = offset + 1
        return ops

    def _look(self, offset: int, ops: _Ops, start_ms: int) -> int | None:
        """Settle one half message (0), ask about it (1), or end the round here (None)."""
        if ops.settle(offset) or self._halves.is_ended(offset):
            return 0
        half = self._halves.read(HALF_TOPIC, offset)
        if half is None:
            return 0
        settings = self._live.now
        times = _number(half.properties.get(PROPERTY_TRANSACTION_CHECK_TIMES), 0)
        age_ms = start_ms - half.born_ms
        if times >= settings.transaction_check_max or age_ms > self._keep_ms:
            log.warning("a transaction is given up: half_offset=%s checks=%s", offset, times)
            self._halves.discard(half)
            return 0
        if half.store_ms >= start_ms:
            return None
        immunity = half.properties.get(PROPERTY_CHECK_IMMUNITY_TIME)
        if immunity is not None:
            limit_ms = _number(immunity, -1) * 1000
            limit_ms = limit_ms if limit_ms >= 0 else settings.transaction_timeout_ms
            if age_ms < limit_ms:
                self._put_back_immune(half, ops)
                return 0
        elif 0 <= age_ms < settings.transaction_timeout_ms:
            return None
        half.properties[PROPERTY_TRANSACTION_CHECK_TIMES] = str(times + 1)
        appended = self._halves.put_back(half)
        return self._ask(half, appended)

    def _put_back_immune(self, half: Record, ops: _Ops) -> None:
        """Not to be asked about yet: it goes to the end, and remembers where it was first."""
        name = PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET
        first = _number(half.properties.get(name), half.queue_offset)
        if first != half.queue_offset and (ops.settle(first) or self._halves.is_ended(first)):
            return
        half.properties[name] = str(first)
        self._halves.put_back(half)

    def _ask(self, half: Record, appended: Appended) -> int:
        properties = half.properties
        group = properties.get(PROPERTY_PRODUCER_GROUP, "")
        member = self._producers.pick(group, self._rng)
        if member is None:
            log.warning("nobody can be asked about a transaction: group=%s", group)
            return 0
        unique_key = properties.get(PROPERTY_UNIQUE_KEY)
        queue_id = _number(properties.get(PROPERTY_REAL_QUEUE_ID), 0)
        header = CheckTransactionStateRequest(
            topic=properties.get(PROPERTY_REAL_TOPIC),
            tran_state_table_offset=appended.queue_offset,
            commit_log_offset=appended.offset,
            msg_id=unique_key,
            transaction_id=properties.get(PROPERTY_TRANSACTION_ID, unique_key),
            offset_msg_id=offset_message_id(self._identity.store_host, appended.offset),
            broker_name=self._identity.broker_name,
        )
        body = encode_record(
            topic=properties.get(PROPERTY_REAL_TOPIC, ""),
            body=half.body,
            properties=properties,
            born_ms=half.born_ms,
            born_host=half.born_host_bytes,
            store_host=self._identity.store_host,
            queue_id=queue_id,
            queue_offset=appended.queue_offset,
            commit_log_offset=appended.offset,
            store_ms=appended.store_ms,
            flag=half.flag,
            sys_flag=half.sys_flag,
            reconsume_times=half.reconsume_times,
        )
        code = RequestCode.CHECK_TRANSACTION_STATE
        try:
            member.connection.oneway(Command.request(code, header, body=body, oneway=True))
        except NetworkError as error:
            log.warning("a producer could not be asked: group=%s error=%s", group, error)
            return 0
        return 1


def _offsets_of(body: bytes) -> Iterator[int]:
    """The half offsets an op message names: one number, or a list with a comma behind each."""
    for text in body.split(b","):
        if text.isdigit():
            yield int(text)


def _number(text: str | None, default: int) -> int:
    try:
        return default if text is None else int(text)
    except ValueError:
        return default
