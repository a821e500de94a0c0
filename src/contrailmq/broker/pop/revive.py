"""Bringing back what was popped and not settled: the reader of the revive topic.

Theory of operation.  Each revive queue is read in order.  A checkpoint is kept until its messages
become visible and every acknowledgement made in time has been read; the timers say how far they
have delivered, so this is known and not guessed.  Then each message that no acknowledgement named
is put into the group's retry topic, one attempt older.  *Done* is the offset of the last record
before which nothing has to be decided; it is the committed offset of the group
CID_RMQ_SYS_REVIVE_GROUP, and is saved only as far as the retries it rests on are on disk.

Behind by more than ``BACKLOG_MS`` the queue itself says what has been delivered: records lie in it
in the order of their time, so one that was due two seconds after a checkpoint's end shows that
nothing for it can follow (PopReviveService waits for that always).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from contrailmq.broker.identity import Identity
from contrailmq.broker.pop.holdback import HoldBack
from contrailmq.broker.pop.inflight import InFlight
from contrailmq.broker.pop.retry_records import retry_of
from contrailmq.broker.pop.revive_log import ACK_INTERVAL_MS
from contrailmq.broker.services.putting import Putting
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.revive_tally import ReviveTally
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.errors import BrokerError, CorruptRecord, RemoteProtocolError
from contrailmq.protocol.message import Record, decode_record, decode_records
from contrailmq.protocol.names import (
    is_retry_topic,
    pop_retry_topic,
    pop_retry_topic_v2,
    revive_topic,
)
from contrailmq.protocol.pop import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECKPOINT_TAG,
    REVIVE_GROUP,
    AckKey,
    CheckPoint,
    find_ack,
    find_check_point,
)
from contrailmq.store.types import GetResult, Matcher

log = logging.getLogger(__name__)

BACKLOG_MS: Final = 2000
HELD_MAX: Final = 200_000  # checkpoints in memory per queue; at the bound the oldest is decided
ROUND_MAX: Final = 64  # reads of one queue before others get the loop
LOOK_S: Final = 0.1  # while something is to be decided
REST_S: Final = 0.02  # records that come together are read together
FAILED_RETRY_S: Final = 1.0


class ReviveSource(Protocol):
    """What this module needs of the store."""

    def get(
        self, topic: str, queue_id: int, offset: int, *, count: int, matcher: Matcher | None = None
    ) -> GetResult:
        """Messages of a queue."""
        ...

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the one behind the last."""
        ...

    def unit(self, topic: str, queue_id: int, offset: int) -> tuple[int, int, int] | None:
        """Log offset, size and tag code of one message."""
        ...

    def record_at(self, commit_log_offset: int, size: int | None = None) -> bytes | None:
        """A copy of a record."""
        ...


class Held:
    """A checkpoint that is not decided yet."""

    __slots__ = ("check_point", "offset", "settled")

    def __init__(self, check_point: CheckPoint, offset: int) -> None:
        self.check_point = check_point
        self.offset = offset
        self.settled: set[int] = set()


class ReviveQueue:
    """One queue of the revive topic: where its reader stands, and what is undecided."""

    __slots__ = ("_tally", "done", "held", "next_offset", "queue_id", "seen_ms")

    def __init__(self, queue_id: int, done: int, tally: ReviveTally) -> None:
        self._tally = tally
        self.queue_id = queue_id
        self.done = done
        self.next_offset = done + 1
        self.held: dict[AckKey, Held] = {}
        self.seen_ms = 0

    def take(self, record: Record) -> None:
        """Read one record; what is neither checkpoint nor acknowledgement is passed over."""
        tag = record.tags
        if tag == CHECKPOINT_TAG:
            point = find_check_point(record.body)
            if point is not None:
                self._tally.read[point.group, point.topic, "CK", self.queue_id] += 1
                known = self.held.get(point.key())
                if known is None:  # the timers may deliver one twice after a crash
                    self.held[point.key()] = Held(point, record.queue_offset)
                self.seen_ms = max(self.seen_ms, point.due_ms - ACK_INTERVAL_MS)
        elif tag in (ACK_TAG, BATCH_ACK_TAG):
            ack = find_ack(record.body)
            held = None if ack is None else self.held.get(ack.key())
            if ack is not None and held is not None:
                self._tally.read[ack.group, ack.topic, "ACK", self.queue_id] += 1
                held.settled.update(ack.settled())
                self.seen_ms = max(self.seen_ms, held.check_point.due_ms)


@dataclass(slots=True, kw_only=True)
class ReviveTables:
    """The tables a revival looks into."""

    offsets: OffsetTable
    topics: TopicTable
    groups: GroupTable
    in_flight: InFlight
    hold_back: HoldBack
    tally: ReviveTally


class Revive:
    """The service; runs on a primary broker only."""

    def __init__(
        self,
        source: ReviveSource,
        putting: Putting,
        tables: ReviveTables,
        *,
        identity: Identity,
        queue_nums: int,
        delivered_until_ms: Callable[[], int],
        uses_v2: Callable[[], bool],
        save_offsets: Callable[[], None],
    ) -> None:
        self._source = source
        self._putting = putting
        self._tables = tables
        self._identity = identity
        self._delivered_until_ms = delivered_until_ms
        self._uses_v2 = uses_v2
        self._save_offsets = save_offsets
        self._event = asyncio.Event()
        self._again_s: float | None = None
        self.topic = revive_topic(identity.cluster_name)
        self.queues = [ReviveQueue(queue_id, -1, tables.tally) for queue_id in range(queue_nums)]
        self.revived: set[tuple[str, str, int]] = set()
        self.retried = 0

    def start_at_committed(self) -> None:
        """Begin behind what an earlier run, ours or Java's or another primary's, has done."""
        offsets = self._tables.offsets
        for queue in self.queues:
            low, high = self._source.bounds(self.topic, queue.queue_id)
            committed = offsets.find(REVIVE_GROUP, self.topic, queue.queue_id)
            queue.done = -1 if committed is None else committed
            queue.next_offset = min(max(queue.done + 1, low), high)
            queue.held.clear()  # of an earlier time as primary: read again, or decided by now
            queue.seen_ms = 0

    def wake(self) -> None:
        """The revive topic grew, or there may be something to decide."""
        self._event.set()

    async def run(self) -> None:
        """Decide until cancelled."""
        while True:
            wait_s = self._round()
            try:
                async with asyncio.timeout(wait_s):
                    await self._event.wait()
                    await asyncio.sleep(REST_S)
            except TimeoutError:
                pass
            self._event.clear()

    def _round(self) -> float | None:
        """Read and decide all queues once; how long to wait for the next, None until woken."""
        wait_s: float | None = None
        has_retried = self.retried
        for queue in self.queues:
            until_ms = self._delivered_until_ms()  # before the end is looked at
            at_end = self._read(queue)
            try:
                self._decide(queue, until_ms if at_end else 0)
            except BrokerError as error:
                log.warning("messages cannot be brought back yet: error=%s", error)
                wait_s = FAILED_RETRY_S
                continue
            if not at_end:
                wait_s = 0.0
            elif queue.held and wait_s is None:
                wait_s = LOOK_S
        if self.retried != has_retried:
            self._save_offsets()
        return wait_s

    def _read(self, queue: ReviveQueue) -> bool:
        """Read what is new; whether that was all."""
        for _ in range(ROUND_MAX):
            if len(queue.held) >= HELD_MAX:
                return False
            found = self._source.get(self.topic, queue.queue_id, queue.next_offset, count=32)
            if not found.count:
                if found.next_offset > queue.next_offset:
                    queue.next_offset = found.next_offset  # what lay there has been deleted
                    continue
                return True
            for record in decode_records(found.records):
                queue.take(record)
            queue.next_offset = found.next_offset
        return False

    def _decide(self, queue: ReviveQueue, until_ms: int) -> None:
        before = queue.done
        log_end = 0
        is_full = len(queue.held) >= HELD_MAX
        try:
            while queue.held:
                key, held = next(iter(queue.held.items()))
                due_ms = held.check_point.due_ms
                if not (until_ms > due_ms or queue.seen_ms > due_ms + BACKLOG_MS or is_full):
                    break
                is_full = False
                log_end = self._bring_back(held) or log_end
                del queue.held[key]
                queue.done = held.offset
            if not queue.held:
                queue.done = max(queue.done, queue.next_offset - 1)
        finally:
            if queue.done != before:
                pair = f"{self.topic}@{REVIVE_GROUP}"
                if log_end:
                    self._tables.hold_back.note(
                        pair, queue.queue_id, before=before, log_end=log_end
                    )
                self._tables.offsets.commit(
                    REVIVE_GROUP, self.topic, queue.queue_id, offset=queue.done
                )

    def _bring_back(self, held: Held) -> int:
        """Put what is not settled into the retry topic; where the log then ends, 0 for nothing."""
        point = held.check_point
        log_end = 0
        for offset in point.offsets():
            if offset in held.settled:
                continue
            if not self._is_known(point):
                break
            record = self._record(point, offset)
            if record is not None:
                log_end = self._retry(point, record) or log_end
                held.settled.add(offset)  # should the next one fail, this one is done
        return log_end

    def _is_known(self, point: CheckPoint) -> bool:
        """Whether topic and group of a checkpoint still exist."""
        topic = point.topic
        if is_retry_topic(topic):
            for head in (pop_retry_topic("", point.group), pop_retry_topic_v2("", point.group)):
                if topic.startswith(head):
                    topic = topic[len(head) :]
                    break
        tables = self._tables
        return tables.topics.find(topic) is not None and tables.groups.find(point.group) is not None

    def _record(self, point: CheckPoint, offset: int) -> Record | None:
        """The message of a checkpoint; None when it is gone, or another has its offset now."""
        unit = self._source.unit(point.topic, point.queue_id, offset)
        data = None if unit is None else self._source.record_at(unit[0], unit[1])
        try:
            record = None if data is None else decode_record(data)
        except (CorruptRecord, RemoteProtocolError):
            record = None
        if record is None:
            log.warning(
                "a popped message is gone: topic=%s queue=%s offset=%s",
                point.topic, point.queue_id, offset,
            )  # fmt: skip
            return None
        return record if record.store_ms <= point.pop_ms else None

    def _retry(self, point: CheckPoint, record: Record) -> int:
        topic, group = point.topic, point.group
        if not is_retry_topic(topic):
            name = pop_retry_topic_v2 if self._uses_v2() else pop_retry_topic
            topic = name(topic, group)
        key = (topic, record.unique_key or "", record.reconsume_times + 1)
        if key in self.revived:  # just before the crash this run began with
            self.revived.discard(key)
            return 0
        tables = self._tables
        if tables.topics.find(topic) is None:
            tables.topics.create_internal(topic, queue_nums=1)
            if tables.offsets.find(group, topic, 0) is None:
                tables.offsets.commit(group, topic, 0, offset=0)
        message, properties = retry_of(record, point, topic, host=self._identity.store_host)
        appended = self._putting.put(self._putting.arrange(message, properties))
        tables.in_flight.add(group, point.topic, point.queue_id, -1)
        self.retried += 1
        tables.tally.retried[group, point.topic] += 1
        return appended.end_offset
