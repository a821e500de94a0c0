"""Taking messages: one pop over the queues of a topic and the group's retry topic.

Theory of operation.  All members of a group share all queues.  A pop reads a queue from the group's
committed offset, moves that offset behind what it read, and writes down what it gave out as a
checkpoint (``revive_log``) before the answer leaves.  Whatever is not settled when its time is over
is brought back by ``revive``.  A pop is one call on the loop: no queue needs a lock.

Which queue is first is drawn; in one of five pops the retry topic goes before the topic itself, so
that neither can starve the other (PopMessageProcessor).  An ordered pop writes no checkpoint: it
notes in ``order`` what is out, and leaves the committed offset where it began.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.identity import Identity
from contrailmq.broker.pop.holdback import HoldBack
from contrailmq.broker.pop.inflight import InFlight
from contrailmq.broker.pop.order import OrderTable
from contrailmq.broker.pop.plan import PopPlan
from contrailmq.broker.pop.retry_records import offsets_in, readdressed
from contrailmq.broker.pop.revive_log import ReviveLog
from contrailmq.broker.tables.counters import Counters
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.clock import Clock
from contrailmq.protocol.names import pop_retry_topic, pop_retry_topic_v2
from contrailmq.protocol.pop import (
    ORDER_REVIVE_QUEUE,
    CheckPoint,
    Handle,
    Offsets,
    flag_of,
)
from contrailmq.store.types import GetResult, GetStatus, Matcher

RETRY_SHARE: Final = 5  # one of so many pops looks into the retry topic first
INIT_MAX: Final = 1  # ConsumeInitMode.MAX
_WRONG_OFFSET: Final = (
    GetStatus.OFFSET_TOO_SMALL,
    GetStatus.OFFSET_OVERFLOW_BADLY,
    GetStatus.OFFSET_FOUND_NULL,
)
_PROGRESS: Final = (GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING)


class PopSource(Protocol):
    """What this module needs of the store."""

    def get(
        self, topic: str, queue_id: int, offset: int, *, count: int, matcher: Matcher | None = None
    ) -> GetResult:
        """Messages of a queue."""
        ...

    def loading(
        self, topic: str, queue_id: int, offset: int, *, count: int, matcher: Matcher | None = None
    ) -> asyncio.Future[None] | None:
        """What a reader has to wait for before its messages are in memory."""
        ...

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the one behind the last."""
        ...


@dataclass(slots=True, kw_only=True)
class PopCall:
    """One pop as its caller wants it."""

    group: str
    topic: str
    queue_id: int = -1
    count: int = 32
    invisible_ms: int = 0
    init_mode: int = 0
    order: bool = False
    attempt_id: str | None = None


@dataclass(slots=True)
class Popped:
    """What a pop found; ``loading`` is set when it has to be tried again after the disk."""

    pop_ms: int
    invisible_ms: int
    revive_queue: int
    rest: int = 0
    count: int = 0
    found: list[Offsets] = field(default_factory=list)
    records: list[bytes | bytearray] = field(default_factory=list)
    order_info: list[str] = field(default_factory=list)
    log_end: int = 0
    loading: asyncio.Future[None] | None = None


class Popping:
    """Pops. Constructor arguments are all it knows; callers check permissions before."""

    def __init__(
        self,
        source: PopSource,
        offsets: OffsetTable,
        revive_log: ReviveLog,
        *,
        topics: TopicTable,
        order: OrderTable,
        in_flight: InFlight,
        hold_back: HoldBack,
        counters: Counters,
        live: LiveSettings,
        identity: Identity,
        clock: Clock,
        rng: random.Random,
        is_in_memory: Callable[[str, int, int], bool],
    ) -> None:
        self._source = source
        self._offsets = offsets
        self._revive_log = revive_log
        self._topics = topics
        self._order = order
        self._in_flight = in_flight
        self._hold_back = hold_back
        self._counters = counters
        self._live = live
        self._identity = identity
        self._clock = clock
        self._rng = rng
        self._is_in_memory = is_in_memory
        self._serial = 0

    def pop(self, call: PopCall, plan: PopPlan) -> Popped:
        """Take up to ``call.count`` messages; raises the store's refusal of a checkpoint."""
        self._identity.check_primary("pop")
        revive_queue = ORDER_REVIVE_QUEUE
        if not call.order:
            revive_queue = self._serial % self._live.now.revive_queue_nums
            self._serial += 1
        popped = Popped(self._clock.now_ms(), call.invisible_ms, revive_queue)
        draw = self._rng.randrange(100)
        retry_first = draw % RETRY_SHARE == 0 and not call.order
        if retry_first:
            self._take_retries(popped, call, plan, draw)
        if call.queue_id >= 0:
            self._take(popped, call, plan, place=(call.topic, call.queue_id))
        else:
            queues = plan.topic.read_queue_nums
            for index in range(queues):
                self._take(popped, call, plan, place=(call.topic, (draw + index) % queues))
        if not retry_first and popped.count < call.count and not call.order:
            self._take_retries(popped, call, plan, draw)
        return popped

    def next_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Where the group's next pop of a queue begins, as far as is known before it."""
        offset = self._offsets.find(group, topic, queue_id)
        return self._source.bounds(topic, queue_id)[0] if offset is None or offset < 0 else offset

    def peek(self, call: PopCall, plan: PopPlan) -> tuple[list[bytes | bytearray], int]:
        """Messages a pop would find, without filter and without taking them; and how many wait."""
        draw = self._rng.randrange(100)
        places = [(call.topic, call.queue_id)]
        if call.queue_id < 0:
            queues = plan.topic.read_queue_nums
            places = [(call.topic, (draw + index) % queues) for index in range(queues)]
        for topic in self.retry_topics(call.group, call.topic, draw):
            config = self._topics.find(topic)
            places += [(topic, q) for q in range(0 if config is None else config.read_queue_nums)]
        records: list[bytes | bytearray] = []
        count = rest = 0
        for topic, queue_id in places:
            offset = self.next_offset(call.group, topic, queue_id)
            rest += self.waiting(call.group, topic, queue_id)
            if count < call.count:
                found = self._source.get(topic, queue_id, offset, count=call.count - count)
                if found.status in _WRONG_OFFSET:
                    offset = found.next_offset
                    found = self._source.get(topic, queue_id, offset, count=call.count - count)
                if found.count:
                    records.append(found.records)
                    count += found.count
        return records, rest

    def waiting(self, group: str, topic: str, queue_id: int) -> int:
        """Messages of a queue that the group has not popped yet."""
        _, end = self._source.bounds(topic, queue_id)
        return end - self.next_offset(group, topic, queue_id)

    def retry_topics(self, group: str, topic: str, draw: int) -> list[str]:
        """The retry topic a pop looks into; where both forms are read, a coin has decided."""
        settings = self._live.now
        if not settings.retry_topic_v2:
            return [pop_retry_topic(topic, group)]
        if settings.reads_retry_topic_v1 and draw % 2 == 0:
            return [pop_retry_topic(topic, group)]
        return [pop_retry_topic_v2(topic, group)]

    def _take_retries(self, popped: Popped, call: PopCall, plan: PopPlan, draw: int) -> None:
        for topic in self.retry_topics(call.group, call.topic, draw):
            config = self._topics.find(topic)
            queues = 0 if config is None else config.read_queue_nums
            for index in range(queues):
                self._take(popped, call, plan, place=(topic, (draw + index) % queues))

    def _take(
        self, popped: Popped, call: PopCall, plan: PopPlan, *, place: tuple[str, int]
    ) -> None:
        topic, queue_id = place
        offset = self._begin(call, topic, queue_id)
        if self._is_closed(popped, call, place):
            popped.rest += max(self._source.bounds(topic, queue_id)[1] - offset, 0)
            return
        wanted = call.count - popped.count
        loading = self._source.loading(topic, queue_id, offset, count=wanted, matcher=plan.matcher)
        if loading is not None:
            if popped.count == 0:
                popped.loading = loading
            popped.rest += max(self._source.bounds(topic, queue_id)[1] - offset, 0)
            return
        result = self._source.get(topic, queue_id, offset, count=wanted, matcher=plan.matcher)
        if result.status in _WRONG_OFFSET and result.next_offset != offset:
            offset = result.next_offset
            self._offsets.commit(call.group, topic, queue_id, offset=offset)
            result = self._source.get(topic, queue_id, offset, count=wanted, matcher=plan.matcher)
        popped.rest += max(result.max_offset - result.next_offset, 0)
        if result.count:
            self._give(popped, call, place, offset=offset, result=result)
        elif result.status in _PROGRESS and result.next_offset > offset:
            self._offsets.commit(call.group, topic, queue_id, offset=result.next_offset)

    def _is_closed(self, popped: Popped, call: PopCall, place: tuple[str, int]) -> bool:
        """Whether nothing of this queue may be given out by this pop."""
        topic, queue_id = place
        if call.order:
            if self._order.is_blocked(
                call.group, topic, queue_id,
                attempt_id=call.attempt_id, invisible_ms=call.invisible_ms,
            ):  # fmt: skip
                return True
            self._in_flight.clear(call.group, topic, queue_id)
        if popped.count >= call.count or popped.loading is not None:
            return True
        settings = self._live.now
        return settings.pop_threshold_enable and (
            self._in_flight.count(call.group, topic, queue_id) > settings.pop_threshold
        )

    def _begin(self, call: PopCall, topic: str, queue_id: int) -> int:
        mark = self._offsets.take_mark(call.group, topic, queue_id)
        if mark is not None:
            self._offsets.commit(call.group, topic, queue_id, offset=mark)
            self._order.clear(call.group, topic, queue_id)
            self._in_flight.clear(call.group, topic, queue_id)
            return mark
        offset = self._offsets.find(call.group, topic, queue_id)
        if offset is not None and offset >= 0:
            return offset
        first, end = self._source.bounds(topic, queue_id)
        if call.init_mode != INIT_MAX:
            return first
        is_young = self._live.now.init_pop_in_memory and first <= 0
        offset = max(end - 1, 0)
        if is_young and self._is_in_memory(topic, queue_id, 0):
            offset = 0
        self._offsets.commit(call.group, topic, queue_id, offset=offset)
        return offset

    def _give(
        self, popped: Popped, call: PopCall, place: tuple[str, int], *,
        offset: int, result: GetResult,
    ) -> None:  # fmt: skip
        topic, queue_id = place
        group = call.group
        offsets = offsets_in(result, offset)
        flag = flag_of(topic) if topic != call.topic else "0"
        if call.order:
            self._note_order(popped, call, place, offset=offset, offsets=offsets)
        else:
            self._check_point(popped, call, place, offset=offset, offsets=offsets)
            self._offsets.commit(group, topic, queue_id, offset=result.next_offset)
            self._hold_back.note(
                f"{topic}@{group}", queue_id, before=offset, log_end=popped.log_end
            )
        popped.count += result.count
        popped.found.append(Offsets(flag, queue_id, offset, offsets))
        records = result.records
        if flag != "0" and not self._live.now.pop_actual_retry_topic:
            handle = Handle(
                offset, popped.pop_ms, call.invisible_ms, popped.revive_queue, flag,
                self._identity.broker_name,
            )  # fmt: skip
            records = readdressed(records, call.topic, handle)
        popped.records.append(records)
        self._in_flight.add(group, topic, queue_id, result.count)
        self._counters.got(group, topic, queue_id, count=result.count, size=len(records))
        self._counters.note_pop(group, topic)

    def _check_point(
        self, popped: Popped, call: PopCall, place: tuple[str, int], *,
        offset: int, offsets: Sequence[int],
    ) -> None:  # fmt: skip
        check_point = CheckPoint(
            broker_name=self._identity.broker_name,
            group=call.group,
            differences=[each - offset for each in offsets],
            invisible_ms=call.invisible_ms,
            count=len(offsets),
            pop_ms=popped.pop_ms,
            queue_id=place[1],
            revive_ms=popped.pop_ms + call.invisible_ms,
            start_offset=offset,
            topic=place[0],
        )
        popped.log_end = self._revive_log.put_check_point(
            check_point, popped.revive_queue
        ).end_offset

    def _note_order(
        self, popped: Popped, call: PopCall, place: tuple[str, int], *,
        offset: int, offsets: Sequence[int],
    ) -> None:  # fmt: skip
        topic, queue_id = place
        times = self._order.popped(
            call.group, topic, queue_id,
            offsets=offsets, pop_ms=popped.pop_ms, invisible_ms=call.invisible_ms,
            attempt_id=call.attempt_id,
        )  # fmt: skip
        popped.order_info += [f"0 qo{queue_id}%{each} {count}" for each, count in times]
        least = min(count for _, count in times) if len(times) == len(offsets) else 0
        popped.order_info.append(f"0 {queue_id} {least}")
        self._offsets.commit(call.group, topic, queue_id, offset=offset)
