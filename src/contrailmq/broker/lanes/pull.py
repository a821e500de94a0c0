"""The broker's side of the pull lane: who may pull what, and what is noted when somebody did.

The compiled ``PullLane`` asks here once for each consumer and subscription (``decide_pull``, by the
ordinary planner's own rules) and once for each queue.  Everything it cannot answer from that, the
ordinary handler does.
"""

from __future__ import annotations

from collections import deque

from contrailmq._native import names
from contrailmq._native.lanes.answers import AnswerParts
from contrailmq._native.lanes.decided import LanePlan, LaneQueue
from contrailmq._native.lanes.gate import Gate
from contrailmq._native.lanes.pull import PullLane
from contrailmq.broker.handlers.pull import pull_answer
from contrailmq.broker.identity import Identity
from contrailmq.broker.lanes.parts import cut
from contrailmq.broker.lanes.pull_plan import PullPlan, PullPlanner
from contrailmq.broker.lanes.tables import PULL_FIELDS
from contrailmq.broker.tables.counters import Counters
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.errors import BrokerError
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.pull import SUBSCRIPTION_FLAG, PullMessageRequest
from contrailmq.store.store import Store
from contrailmq.store.types import GetResult, GetStatus

_SUBSCRIBED = b"4"
_LITE = b"1"
_UNIT_SIZE = 20


class BrokerPullLane:
    """Answers runs of pulls that find something; shared by all connections of a broker."""

    def __init__(
        self,
        store: Store,
        planner: PullPlanner,
        *,
        offsets: OffsetTable,
        counters: Counters,
        identity: Identity,
        gate: Gate | None = None,
    ) -> None:
        self._store = store
        self._planner = planner
        self._offsets = offsets
        self._counters = counters
        self._identity = identity
        self._attached: deque[LaneQueue] = deque()
        self._attached_max = max(store.queues.maps.limit // 4, 1)
        limits = store.reading.limits
        self.core = PullLane(self, store.log.gatherer, limits, PULL_FIELDS, counters, gate)
        self.forget()

    @property
    def is_open(self) -> bool:
        """Whether the lane may answer: no replica's suggestions, no bit maps, nobody reset."""
        return self._is_plain and not self._offsets.has_marks

    @property
    def answered(self) -> int:
        """The number of pulls the lane has answered."""
        return self.core.answered

    def forget(self) -> None:
        """The broker's tables, or the store's queues, have changed."""
        self._is_plain = not (
            self._planner.live.now.slave_read or self._store.settings.queue_ext_enable
        )
        self.core.forget_plans(self._store.reading.limits)
        self._attached.clear()

    def release(self) -> None:
        """Let go of the buffer of the last run."""
        self.core.release()

    def decide_pull(self, key: bytes) -> LanePlan | None:
        """The plan of a consumer; None leaves it to the handler, which can also explain."""
        try:
            group, topic, wanted, kind = key[:-2].decode().split("\0")[:4]
            is_subscribed, is_lite = key[-2:-1] == _SUBSCRIBED, key[-1:] == _LITE
            header = PullMessageRequest(
                consumer_group=group,
                topic=topic,
                queue_id=0,
                queue_offset=0,
                max_msg_nums=1,
                sys_flag=SUBSCRIPTION_FLAG if is_subscribed else 0,
                commit_offset=0,
                suspend_timeout_millis=0,
                subscription=wanted if is_subscribed else None,
                sub_version=0 if is_subscribed else int(wanted or 0),
                expression_type=kind or None,
            )
            plan = self._planner.decide(header, is_lite=is_lite)
        except (ValueError, BrokerError):
            return None
        matcher = plan.matcher
        program = matcher.program if matcher is not None and matcher.record_matters else None
        if matcher is not None and matcher.record_matters and program is None:
            return None
        return LanePlan(
            group,
            topic,
            plan.topic.read_queue_nums,
            None if matcher is None else matcher.tag_codes,
            program,
            _answer(plan, GetStatus.FOUND),
            _answer(plan, GetStatus.NO_MATCHED_MESSAGE),
        )

    def lane_queue(self, topic: str, queue_id: int) -> LaneQueue | None:
        """A queue as the lane reads it; None when nothing was ever put into it."""
        queue = self._store.queues.find(topic, queue_id)
        return None if queue is None else LaneQueue(queue, queue.writer)

    def attach(self, lane_queue: LaneQueue, offset: int) -> bool:
        """Let the lane read the file that holds a queue offset."""
        found = lane_queue.queue.units(offset)
        if found is None:
            return False
        units, position, _ = found
        self._attached.append(lane_queue)
        if len(self._attached) > self._attached_max:  # what the lane reads stays mapped
            self._attached.popleft().attach(bytes(1), 0, False)
        is_mapped = lane_queue.queue.segments.find(offset * _UNIT_SIZE).is_mapped
        lane_queue.attach(units, offset - position // _UNIT_SIZE, is_mapped)
        return True

    def read_on(self) -> None:
        """A consumer of old messages goes on: what it will want next is loaded."""
        self._store.read_on()

    def tally(self, plan: LanePlan, queue_id: int) -> list[int]:
        """Where the lane counts messages and bytes it hands out."""
        return self._counters.tally(plan.group, plan.topic, queue_id)

    def pulls_of(self, plan: LanePlan) -> dict[int, int]:
        """Where the lane notes how far a group has pulled."""
        return self._offsets.pulls_of(plan.group, plan.topic)

    def commit(self, plan: LanePlan, queue_id: int, offset: int) -> None:
        """A pull that was answered brought an offset to commit."""
        if self._identity.is_master:
            self._offsets.commit(plan.group, plan.topic, queue_id, offset=offset)


def _answer(plan: PullPlan, status: GetStatus) -> AnswerParts:
    """Return the answer to a pull, cut where the lane writes values of its own."""
    sample = pull_answer(
        Command(RequestCode.PULL_MESSAGE), plan, GetResult(status, 0, 0, 0), suggested=0
    )
    return cut(
        sample,
        {
            "nextBeginOffset": names.NEXT_OFFSET,
            "minOffset": names.MIN_OFFSET,
            "maxOffset": names.MAX_OFFSET,
        },
    )
