"""Settling what was popped: acknowledgements, one or many, and changes of the invisible time.

Nothing is looked up: an acknowledgement is written down and meets its checkpoint in the revive
topic.  A late one changes nothing.  A change of the invisible time is a new checkpoint of one
message followed by an acknowledgement of the old one: a crash between the two gives the message out
once more, and never loses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from contrailmq.broker.identity import Identity
from contrailmq.broker.pop.inflight import InFlight
from contrailmq.broker.pop.order import ILLEGAL, OrderTable
from contrailmq.broker.pop.polls import PopPolls
from contrailmq.broker.pop.revive_log import ReviveLog
from contrailmq.broker.tables.counters import Counters
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.topics import TopicTable, topic_missing
from contrailmq.clock import Clock
from contrailmq.errors import IllegalMessage, NoMessage
from contrailmq.protocol.pop import ORDER_REVIVE_QUEUE, Ack, CheckPoint, Handle


class QueueBounds(Protocol):
    """What this module needs of the store."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the one behind the last."""
        ...


class Settling:
    """Acknowledges and changes; every call returns where the log then ends, 0 for no record."""

    def __init__(
        self,
        queues: QueueBounds,
        offsets: OffsetTable,
        revive_log: ReviveLog,
        *,
        topics: TopicTable,
        order: OrderTable,
        in_flight: InFlight,
        polls: PopPolls,
        counters: Counters,
        identity: Identity,
        clock: Clock,
    ) -> None:
        self._queues = queues
        self._offsets = offsets
        self._revive_log = revive_log
        self._topics = topics
        self._order = order
        self._in_flight = in_flight
        self._polls = polls
        self._counters = counters
        self._identity = identity
        self._clock = clock

    def check(self, topic: str, queue_id: int, offset: int, *, peer: object = "") -> None:
        """Raise unless such a message can exist: TopicNotExist, IllegalMessage, NoMessage."""
        config = self._topics.find(topic)
        if config is None:
            raise topic_missing(topic)
        if not 0 <= queue_id < config.read_queue_nums:
            raise IllegalMessage(
                f"queueId[{queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{config.read_queue_nums}] consumer:[/{peer}]"
            )
        low, high = self._queues.bounds(topic, queue_id)
        if not low <= offset <= high:
            raise NoMessage(
                f"offset is illegal, key:{topic}@{queue_id}, commit:{offset}, store:{low}~{high}"
            )

    def ack(self, group: str, topic: str, queue_id: int, *, offset: int, handle: Handle) -> int:
        """Settle one message; ``topic`` is the one it really lies in."""
        self._identity.check_primary("acknowledge")
        if handle.revive_queue == ORDER_REVIVE_QUEUE:
            self._ack_ordered(group, topic, queue_id, offset=offset, handle=handle)
            return 0
        ack = Ack(
            offset=offset,
            broker_name=handle.broker_name,
            group=group,
            pop_ms=handle.pop_ms,
            queue_id=queue_id,
            start_offset=handle.start_offset,
            topic=topic,
        )
        return self._put(ack, handle, 1)

    def ack_many(
        self, group: str, topic: str, queue_id: int, *, offsets: Iterable[int], handle: Handle
    ) -> int:
        """Settle messages of one checkpoint by one record; those that cannot exist are left out."""
        self._identity.check_primary("acknowledge")
        low, high = self._queues.bounds(topic, queue_id)
        if self._topics.find(topic) is None or high <= 0:
            return 0
        settled = [offset for offset in offsets if low <= offset <= high]
        if handle.revive_queue == ORDER_REVIVE_QUEUE:
            for offset in settled:
                self._ack_ordered(group, topic, queue_id, offset=offset, handle=handle)
            return 0
        if not settled:
            return 0
        ack = Ack(
            offsets=settled,
            offset=-1,
            broker_name=handle.broker_name,
            group=group,
            pop_ms=handle.pop_ms,
            queue_id=queue_id,
            start_offset=handle.start_offset,
            topic=topic,
        )
        return self._put(ack, handle, len(settled))

    def change(
        self, group: str, topic: str, queue_id: int, *,
        offset: int, handle: Handle, invisible_ms: int,
    ) -> tuple[Handle, int]:  # fmt: skip
        """Hide a message for another while, from now; its new handle and the log's end."""
        self._identity.check_primary("change the invisible time")
        if handle.revive_queue == ORDER_REVIVE_QUEUE:
            return self._change_ordered(
                group, topic, queue_id, offset=offset, handle=handle, invisible_ms=invisible_ms
            ), 0
        now_ms = self._clock.now_ms()
        check_point = CheckPoint(
            broker_name=handle.broker_name,
            group=group,
            differences=[0],
            invisible_ms=invisible_ms,
            count=1,
            pop_ms=now_ms,
            queue_id=queue_id,
            revive_ms=now_ms + invisible_ms,
            start_offset=offset,
            topic=topic,
        )
        self._revive_log.put_check_point(check_point, handle.revive_queue)
        self._counters.note_check_points(group, topic, 1)
        log_end = self.ack(group, topic, queue_id, offset=offset, handle=handle)
        self._in_flight.add(group, topic, queue_id, 1)  # it is still out
        return Handle(
            offset, now_ms, invisible_ms, handle.revive_queue, handle.flag, handle.broker_name,
            queue_id, offset,
        ), log_end  # fmt: skip

    def _put(self, ack: Ack, handle: Handle, count: int) -> int:
        due_ms = handle.pop_ms + handle.invisible_ms
        appended = self._revive_log.put_ack(ack, handle.revive_queue, due_ms=due_ms)
        self._in_flight.add(ack.group, ack.topic, ack.queue_id, -count)
        self._counters.note_acks(ack.group, ack.topic, count)
        return appended.end_offset

    def _ack_ordered(
        self, group: str, topic: str, queue_id: int, *, offset: int, handle: Handle
    ) -> None:
        committed = self._offsets.find(group, topic, queue_id)
        committed = -1 if committed is None else committed
        if offset < committed:
            return
        following = self._order.settle(group, topic, queue_id, offset=offset, pop_ms=handle.pop_ms)
        if following == ILLEGAL:
            raise IllegalMessage(
                f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{committed}, "
                f"commit:{offset}, next:{following}"
            )
        if following < 0:
            return
        self._offsets.commit(group, topic, queue_id, offset=following)
        self._in_flight.add(group, topic, queue_id, -1)
        if not self._order.is_blocked(
            group, topic, queue_id, attempt_id=None, invisible_ms=handle.invisible_ms
        ):
            self._polls.wake_free(topic, group, queue_id)

    def _change_ordered(
        self, group: str, topic: str, queue_id: int, *,
        offset: int, handle: Handle, invisible_ms: int,
    ) -> Handle:  # fmt: skip
        committed = self._offsets.find(group, topic, queue_id)
        if committed is not None and offset < committed:
            return handle._replace(pop_ms=0, invisible_ms=0, revive_queue=0)
        visible_ms = self._clock.now_ms() + invisible_ms
        self._order.hide(
            group, topic, queue_id, offset=offset, pop_ms=handle.pop_ms, visible_ms=visible_ms
        )
        return handle._replace(invisible_ms=visible_ms - handle.pop_ms)
