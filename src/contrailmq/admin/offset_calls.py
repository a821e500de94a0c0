"""Calls about how far groups are: progress, resets, clones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from contrailmq.admin.caller import AdminCaller
from contrailmq.admin.group_calls import GroupCalls
from contrailmq.admin.topic_calls import TopicCalls
from contrailmq.errors import ConsumerNotOnline, QueryNotFound
from contrailmq.protocol.bodies.queues import (
    ConsumerOffsets,
    DelayOffsets,
    GetConsumerStatusBody,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
)
from contrailmq.protocol.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
)
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.headers.admin import (
    GetBrokerConsumeStatsRequest,
    GetConsumeStatsRequest,
)
from contrailmq.protocol.headers.offset import (
    CloneGroupOffsetRequest,
    GetConsumerStatusRequest,
    GetEarliestMsgStoretimeRequest,
    GetEarliestMsgStoretimeResponse,
    GetMaxOffsetRequest,
    GetMaxOffsetResponse,
    GetMinOffsetRequest,
    GetMinOffsetResponse,
    QueryConsumerOffsetRequest,
    QueryConsumerOffsetResponse,
    QueryCorrectionOffsetRequest,
    ResetOffsetRequest,
    SearchOffsetRequest,
    SearchOffsetResponse,
    UpdateConsumerOffsetRequest,
)
from contrailmq.protocol.headers.query import QueryConsumeTimeSpanRequest
from contrailmq.protocol.queue import MessageQueue

NOW = -1  # a moment that means the end of the queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """What an offline reset did to one queue (RollbackStats)."""

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    time_offset: int
    rollback_offset: int


class OffsetCalls:
    """Calls about offsets of groups and bounds of queues."""

    def __init__(self, caller: AdminCaller, groups: GroupCalls, topics: TopicCalls) -> None:
        self._caller = caller
        self._groups = groups
        self._topics = topics

    async def stats_at(self, address: str, group: str, topic: str | None = None) -> ConsumeStats:
        """How far a group is in its queues at one broker."""
        header = GetConsumeStatsRequest(consumer_group=group, topic=topic)
        code = RequestCode.GET_CONSUME_STATS
        answer = await self._caller.ask(address, code, header, timeout_s=3 * self._caller.timeout_s)
        return ConsumeStats.decode(answer.body)

    async def stats(self, group: str, topic: str | None = None) -> ConsumeStats:
        """How far a group is in all its queues, or in those of one topic."""
        whole = ConsumeStats()
        for address in await self._groups.addresses(group):
            part = await self.stats_at(address, group, topic)
            whole.offset_table.update(part.offset_table)
            whole.consume_tps += part.consume_tps
        whole.offset_table = dict(sorted(whole.offset_table.items()))
        return whole

    async def broker_stats(self, address: str, *, ordered: bool = False) -> ConsumeStatsList:
        """How far all groups are at one broker."""
        header = GetBrokerConsumeStatsRequest(is_order=ordered)
        code = RequestCode.GET_BROKER_CONSUME_STATS
        answer = await self._caller.ask(address, code, header, timeout_s=6 * self._caller.timeout_s)
        return ConsumeStatsList.decode(answer.body)

    async def time_spans(self, topic: str, group: str) -> list[QueueTimeSpan]:
        """First, last and consumed store time of every queue."""
        header = QueryConsumeTimeSpanRequest(topic=topic, group=group)
        found: list[QueueTimeSpan] = []
        for address in (await self._caller.masters_of(topic)).values():
            answer = await self._caller.ask(address, RequestCode.QUERY_CONSUME_TIME_SPAN, header)
            found += QueryConsumeTimeSpanBody.decode(answer.body).consume_time_span_set
        return found

    async def reset(
        self, topic: str, group: str, timestamp_ms: int, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Let a group go on from a moment (NOW: the end) in every queue of a topic.

        Brokers of 5.2 on do it themselves; older ones tell the connected clients, and raise
        ConsumerNotOnline when there are none: then ``reset_offset_offline`` is the way.
        """
        found: dict[MessageQueue, int] = {}
        header = ResetOffsetRequest(
            topic=topic, group=group, timestamp=timestamp_ms, is_force=force, queue_id=-1
        )
        for address in (await self._caller.masters_of(topic)).values():
            answer = await self._caller.ask(
                address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header
            )
            if answer.body:
                found.update(ResetOffsetBody.decode(answer.body).offset_table)
        return dict(sorted(found.items()))

    async def reset_queue(self, queue: MessageQueue, group: str, offset: int) -> None:
        """Let a group go on from an offset in one queue (5.x)."""
        header = ResetOffsetRequest(
            topic=queue.topic,
            group=group,
            timestamp=-1,
            is_force=True,
            queue_id=queue.queue_id,
            offset=offset,
        )
        address = await self._caller.address_of(queue.broker_name)
        await self._caller.ask(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)

    async def reset_offline(
        self, topic: str, group: str, timestamp_ms: int, *, force: bool = True
    ) -> list[Rollback]:
        """Set the committed offsets of a group nobody is connected of, queue by queue."""
        done: list[Rollback] = []
        for address in (await self._caller.masters_of(topic)).values():
            stats = await self.stats_at(address, group, topic)
            queues: Iterable[MessageQueue] = stats.offset_table
            if not stats.offset_table:
                queues = (await self._topics.stats_at(address, topic)).offset_table
            done += [
                await self._roll_back(address, queue, group, timestamp_ms=timestamp_ms, force=force)
                for queue in sorted(queues)
            ]
        return done

    async def _roll_back(
        self, address: str, queue: MessageQueue, group: str, *, timestamp_ms: int, force: bool
    ) -> Rollback:
        end = await self.end(queue, address=address)
        now = await self.committed(queue, group, address=address)
        target = (
            end if timestamp_ms == NOW else await self.at_time(queue, timestamp_ms, address=address)
        )
        if force or now is None or target <= now:
            await self.commit(queue, group, target, address=address)
            chosen = target
        else:
            chosen = now
        return Rollback(
            queue=queue,
            broker_offset=end,
            consumer_offset=now if now is not None else -1,
            time_offset=target,
            rollback_offset=chosen,
        )

    async def reset_anyhow(
        self, topic: str, group: str, timestamp_ms: int, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """``reset_offset``, or the offline way when the group is not connected."""
        try:
            return await self.reset(topic, group, timestamp_ms, force=force)
        except ConsumerNotOnline:
            done = await self.reset_offline(topic, group, timestamp_ms, force=force)
            return {rollback.queue: rollback.rollback_offset for rollback in done}

    async def consumer_status(
        self, topic: str, group: str, client_id: str | None = None
    ) -> dict[str, dict[MessageQueue, int]]:
        """Where the connected clients of a group stand: client id to queue to offset."""
        header = GetConsumerStatusRequest(topic=topic, group=group, client_addr=client_id)
        code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        for address in (await self._caller.masters_of(topic)).values():
            answer = await self._caller.ask(
                address, code, header, timeout_s=3 * self._caller.timeout_s
            )
            if answer.body:
                return GetConsumerStatusBody.decode(answer.body).consumer_table
        return {}

    async def clone(self, source: str, target: str, topic: str, *, offline: bool = False) -> None:
        """Give one group the offsets of another in a topic."""
        header = CloneGroupOffsetRequest(
            src_group=source, dest_group=target, topic=topic, offline=offline
        )
        for address in (await self._caller.masters_of(topic)).values():
            await self._caller.ask(address, RequestCode.CLONE_GROUP_OFFSET, header)

    async def correction(
        self, address: str, topic: str, *, compare_group: str, filter_groups: list[str]
    ) -> dict[int, int]:
        """The smallest offsets of some groups, where they differ from another group's."""
        header = QueryCorrectionOffsetRequest(
            topic=topic, compare_group=compare_group, filter_groups=",".join(filter_groups)
        )
        answer = await self._caller.ask(address, RequestCode.QUERY_CORRECTION_OFFSET, header)
        return QueryCorrectionOffsetBody.decode(answer.body).correction_offsets

    async def table(self, address: str) -> dict[str, dict[int, int]]:
        """Every committed offset of one broker, by ``topic@group`` and queue."""
        answer = await self._caller.ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        return ConsumerOffsets.decode(answer.body).offset_table

    async def delay_levels(self, address: str) -> dict[int, int]:
        """How far each delay level is at one broker."""
        answer = await self._caller.ask(address, RequestCode.GET_ALL_DELAY_OFFSET)
        return DelayOffsets.decode(answer.body).offset_table

    async def committed(
        self, queue: MessageQueue, group: str, *, address: str | None = None
    ) -> int | None:
        """The committed offset of a group in a queue, or None."""
        header = QueryConsumerOffsetRequest(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=False,
        )
        target = address or await self._caller.address_of(queue.broker_name)
        try:
            answer = await self._caller.ask(target, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except QueryNotFound:
            return None
        return QueryConsumerOffsetResponse.from_fields(answer.fields).offset

    async def commit(
        self, queue: MessageQueue, group: str, offset: int, *, address: str | None = None
    ) -> None:
        """Set the committed offset of a group in a queue."""
        header = UpdateConsumerOffsetRequest(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        target = address or await self._caller.address_of(queue.broker_name)
        await self._caller.ask(target, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def end(self, queue: MessageQueue, *, address: str | None = None) -> int:
        """The offset the next message of a queue will have."""
        header = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        target = address or await self._caller.address_of(queue.broker_name)
        answer = await self._caller.ask(target, RequestCode.GET_MAX_OFFSET, header)
        return GetMaxOffsetResponse.from_fields(answer.fields).offset

    async def first(self, queue: MessageQueue, *, address: str | None = None) -> int:
        """The offset of the oldest message of a queue."""
        header = GetMinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        target = address or await self._caller.address_of(queue.broker_name)
        answer = await self._caller.ask(target, RequestCode.GET_MIN_OFFSET, header)
        return GetMinOffsetResponse.from_fields(answer.fields).offset

    async def at_time(
        self, queue: MessageQueue, timestamp_ms: int, *,
        upper: bool = False, address: str | None = None,
    ) -> int:  # fmt: skip
        """The offset of the first message stored at a moment or later."""
        header = SearchOffsetRequest(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=timestamp_ms,
            boundary_type="UPPER" if upper else None,
        )
        target = address or await self._caller.address_of(queue.broker_name)
        answer = await self._caller.ask(target, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return SearchOffsetResponse.from_fields(answer.fields).offset

    async def earliest_time(self, queue: MessageQueue) -> int:
        """When the oldest message of a queue was stored; -1 when there is none."""
        header = GetEarliestMsgStoretimeRequest(topic=queue.topic, queue_id=queue.queue_id)
        target = await self._caller.address_of(queue.broker_name)
        answer = await self._caller.ask(target, RequestCode.GET_EARLIEST_MSG_STORETIME, header)
        return GetEarliestMsgStoretimeResponse.from_fields(answer.fields).timestamp
