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

A half that is put back gets an op of its own behind its copy, so a kill between two saves of the
cursors does not make it due again. Copies that were put back unasked (immunity) have no op; the
first round after a start reads which halves have a later copy, and passes over them.

The cursors that are saved never run ahead of the disk: those of a round become offsets of the
group only when everything appended before its end is flushed.  A power cut may repeat a question,
but cannot lose an open or a committed transaction that was on disk.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.identity import Identity
from contrailmq.broker.services.halves import QUEUE, HalfMessages
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.producers import ProducerTable
from contrailmq.clock import Clock
from contrailmq.errors import BrokerError, NetworkError
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.transaction import CheckTransactionStateRequest
from contrailmq.protocol.ids import offset_message_id
from contrailmq.protocol.message import Record, encode_record
from contrailmq.protocol.names import HALF_TOPIC, OP_HALF_TOPIC
from contrailmq.protocol.properties import (
    PROPERTY_CHECK_IMMUNITY_TIME,
    PROPERTY_PRODUCER_GROUP,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TRANSACTION_CHECK_TIMES,
    PROPERTY_TRANSACTION_ID,
    PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET,
    PROPERTY_UNIQUE_KEY,
)
from contrailmq.store.types import Appended

log = logging.getLogger(__name__)

GROUP: Final = "CID_RMQ_SYS_TRANS"
ROUND_HALVES_MAX: Final = 50_000
YIELD_EVERY: Final = 200
UNSAFE_ROUNDS_MAX: Final = 1000  # beyond, the oldest are forgotten; the younger say more


@dataclass(slots=True)
class _Ops:
    """Which half messages of a round have ended, by all op messages there are.

    Only the halves of the round, ``begin`` to ``end``, are kept, so memory is bounded by
    ``ROUND_HALVES_MAX`` however many op messages wait.
    """

    begin: int
    end: int
    next_offset: int
    ops: dict[int, set[int]] = field(default_factory=dict)  # op offset -> halves not settled yet
    ended: dict[int, int] = field(default_factory=dict)  # half offset -> op offset
    later: int | None = None  # the first op that names a half behind this round

    def note(self, op_offset: int, halves: set[int]) -> None:
        """Take in one op message."""
        self.next_offset = op_offset + 1
        named = {half for half in halves if self.begin <= half < self.end} - self.ended.keys()
        if named:
            self.ops[op_offset] = named
            self.ended.update(dict.fromkeys(named, op_offset))
        if self.later is None and any(half >= self.end for half in halves):
            self.later = op_offset

    def settle(self, half_offset: int) -> bool:
        """Whether a half message has ended; an op counts once."""
        op_offset = self.ended.pop(half_offset, None)
        if op_offset is None:
            return False
        self.ops[op_offset].discard(half_offset)
        return True

    def cursor(self) -> int:
        """Op messages before it name nothing that is still open."""
        least = self.next_offset if self.later is None else self.later
        for op_offset, open_halves in self.ops.items():
            if open_halves:
                return min(op_offset, least)
        return least


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
        keep_ms: Callable[[], int],
    ) -> None:
        self._halves = halves
        self._offsets = offsets
        self._producers = producers
        self._live = live
        self._identity = identity
        self._clock = clock
        self._rng = rng
        self._keep_ms = keep_ms
        self._cursors: dict[str, int] = {}
        self._copies: dict[tuple[object, ...], int] | None = None  # newest, of those found at start
        # What may be saved once the log is flushed up to an offset, by round.
        self._unsafe: deque[tuple[int, dict[str, int]]] = deque(maxlen=UNSAFE_ROUNDS_MAX)

    async def run(self) -> None:
        """A round every ``transactionCheckInterval``."""
        try:
            while True:
                await asyncio.sleep(self._live.now.transaction_check_interval_ms / 1000)
                try:
                    await self.check()
                except BrokerError as error:
                    log.warning("a round of transaction checks ended early: error=%s", error)
                self._unsafe.append((self._halves.log_end(), dict(self._cursors)))
                self._commit_flushed()
        finally:
            # A stop in good order: the store flushes before it ends.
            self._commit(self._cursors)

    def correct_cursors(self) -> None:
        """Before anybody sends: no cursor lies behind its queue, whose end a crash may take."""
        for topic in (HALF_TOPIC, OP_HALF_TOPIC):
            first, end = self._halves.bounds(topic)
            found = self._offsets.find(GROUP, topic, QUEUE) or 0
            self._cursors[topic] = min(max(found, first), end)
            if found > end:
                log.warning("a cursor is moved: topic=%s from=%s to=%s", topic, found, end)
                self._commit({topic: end})

    async def check(self) -> int:
        """One round; how many producers were asked."""
        start_ms = self._clock.now_ms()
        first, end = self._halves.bounds(HALF_TOPIC)
        offset = begin = max(self._cursors.get(HALF_TOPIC, 0), first)
        end = min(end, begin + ROUND_HALVES_MAX)
        ops = _Ops(begin, end, self._cursors.get(OP_HALF_TOPIC, 0))
        asked, unasked = 0, Counter[str]()
        try:
            if self._copies is None:
                self._copies = await self._find_copies(begin)
            await self._read_ops(ops)
            while offset < end:
                verdict = self._look(offset, ops, start_ms, unasked)
                if verdict is None:
                    break
                asked += verdict
                offset += 1
                if (offset - begin) % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
        finally:
            self._cursors = {HALF_TOPIC: offset, OP_HALF_TOPIC: ops.cursor()}
            self._halves.settled_before(offset)
            for group, count in unasked.items():
                log.warning(
                    "no producer is connected to ask about transactions: group=%s transactions=%s",
                    group,
                    count,
                )
        return asked

    async def _find_copies(self, begin: int) -> dict[tuple[object, ...], int]:
        """Find the newest copy of each half that was put back unasked before this start."""
        copies: dict[tuple[object, ...], int] = {}
        _, end = self._halves.bounds(HALF_TOPIC)
        for offset in range(begin, end):
            if (offset - begin) % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)
            half = self._halves.read(HALF_TOPIC, offset)
            if half is not None and PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET in half.properties:
                copies[_identity(half)] = offset
        return copies

    def _commit_flushed(self) -> None:
        """Let the cursors of past rounds be saved, as far as the disk has what they pass over."""
        while self._unsafe and self._halves.is_flushed(self._unsafe[0][0]):
            self._commit(self._unsafe.popleft()[1])

    def _commit(self, cursors: dict[str, int]) -> None:
        for topic, offset in cursors.items():
            self._offsets.commit(GROUP, topic, QUEUE, offset=offset)

    async def _read_ops(self, ops: _Ops) -> None:
        first, end = self._halves.bounds(OP_HALF_TOPIC)
        begin = ops.next_offset = max(ops.next_offset, first)
        for offset in range(begin, end):
            if (offset - begin) % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)
            record = self._halves.read(OP_HALF_TOPIC, offset)
            ops.note(offset, set() if record is None else set(_offsets_of(record.body)))

    def _look(self, offset: int, ops: _Ops, start_ms: int, unasked: Counter[str]) -> int | None:
        """Settle one half message (0), ask about it (1), or end the round here (None)."""
        if ops.settle(offset) or self._halves.is_ended(offset):
            return 0
        half = self._halves.read(HALF_TOPIC, offset)
        if half is None or (self._copies and self._copies.get(_identity(half), 0) > offset):
            return 0
        settings = self._live.now
        times = _number(half.properties.get(PROPERTY_TRANSACTION_CHECK_TIMES), 0)
        age_ms = start_ms - half.born_ms
        # A clock that jumps makes halves old at once; each is asked about before it is given up.
        if times >= settings.transaction_check_max or (age_ms > self._keep_ms() and times > 0):
            log.warning("a transaction is given up: half_offset=%s checks=%s", offset, times)
            self._halves.discard(half)
            return 0
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
        return self._ask(half, appended, unasked)

    def _put_back_immune(self, half: Record, ops: _Ops) -> None:
        """Not to be asked about yet: it goes to the end, and remembers where it was first."""
        name = PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET
        first = _number(half.properties.get(name), half.queue_offset)
        if first != half.queue_offset and (ops.settle(first) or self._halves.is_ended(first)):
            return
        half.properties[name] = str(first)
        self._halves.put_back_immune(half)

    def _ask(self, half: Record, appended: Appended, unasked: Counter[str]) -> int:
        properties = half.properties
        group = properties.get(PROPERTY_PRODUCER_GROUP, "")
        member = self._producers.pick(group, self._rng)
        if member is None:
            unasked[group] += 1
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


def _identity(half: Record) -> tuple[object, ...]:
    """Return what all copies of a half message have in common."""
    properties = half.properties
    origin = _number(properties.get(PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET), half.queue_offset)
    unique_key = properties.get(PROPERTY_UNIQUE_KEY)
    return origin, unique_key, properties.get(PROPERTY_PRODUCER_GROUP), half.born_ms


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
