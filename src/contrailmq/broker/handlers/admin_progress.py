"""How far groups are, and how fast things move: request codes 208, 303, 308, 315 and 317."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Final, Protocol

from contrailmq.broker.identity import Identity
from contrailmq.broker.services.stats import Stats, Window
from contrailmq.broker.tables.consumers import ConsumerTable
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.topics import TopicTable, topic_missing
from contrailmq.clock import Clock
from contrailmq.errors import SystemFailure
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.queues import QueryCorrectionOffsetBody
from contrailmq.protocol.bodies.stats import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
)
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.admin import (
    GetBrokerConsumeStatsRequest,
    GetConsumeStatsRequest,
    ViewBrokerStatsRequest,
)
from contrailmq.protocol.headers.offset import QueryCorrectionOffsetRequest
from contrailmq.protocol.headers.query import QueryConsumeTimeSpanRequest
from contrailmq.protocol.names import retry_topic
from contrailmq.protocol.queue import MessageQueue
from contrailmq.protocol.versions import V5_0_0

NO_CORRECTION: Final = (1 << 63) - 1  # Long.MAX_VALUE


class QueueTimes(Protocol):
    """What this module needs of the store."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the one behind the last."""
        ...

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message was stored; -1 when it is not there."""
        ...

    def earliest_time(self, topic: str | None = None, queue_id: int | None = None) -> int:
        """When the oldest message of a queue was stored; -1 for none."""
        ...


class Progress:
    """Request codes 208 and 317: what groups have before them."""

    def __init__(
        self,
        topics: TopicTable,
        offsets: OffsetTable,
        queues: QueueTimes,
        *,
        groups: GroupTable,
        consumers: ConsumerTable,
        stats: Stats,
        identity: Identity,
    ) -> None:
        self._topics = topics
        self._offsets = offsets
        self._queues = queues
        self._groups = groups
        self._consumers = consumers
        self._stats = stats
        self._identity = identity

    def of_group(self, request: Command, connection: Connection) -> Command:
        """Code 208: all topics of a group, or those that are named."""
        header = GetConsumeStatsRequest.from_fields(request.fields)
        group = header.consumer_group
        named = [t for t in (header.topic_list or "").split(";") if t.strip()]
        if header.topic:
            named = [header.topic]
        stats = ConsumeStats()
        for topic in named or self._offsets.topics_of(group):
            if self._is_counted(group, topic):
                self._add(stats, group, topic, is_detailed=True)
        return request.reply(body=stats.encode(legacy=request.version < V5_0_0))

    def of_broker(self, request: Command, connection: Connection) -> Command:
        """Code 317: all groups, topic by topic."""
        is_order = GetBrokerConsumeStatsRequest.from_fields(request.fields).is_order
        body = ConsumeStatsList(broker_addr=self._identity.address)
        by_group: dict[str, list[str]] = {}
        for pair, _ in self._offsets.pairs():
            topic, _, group = pair.partition("@")
            by_group.setdefault(group, []).append(topic)
        for group in list(self._groups.names()):
            found: list[ConsumeStats] = []
            for topic in by_group.get(group, ()):
                if is_order and not self._topics.is_order(topic):
                    continue
                if self._is_counted(group, topic):
                    stats = ConsumeStats()
                    self._add(stats, group, topic, is_detailed=False)
                    body.total_diff += stats.total_diff()
                    found.append(stats)
            body.consume_stats_list.append({group: found})
        return request.reply(body=body.encode(legacy=request.version < V5_0_0))

    def _is_counted(self, group: str, topic: str) -> bool:
        """A topic that exists, and that a connected group still subscribes to."""
        if self._topics.find(topic) is None:
            return False
        online = self._consumers.find(group)
        if online is None or not online.subscriptions or topic in online.subscriptions:
            return True
        # Retries of POP have a topic for each topic, which no member names in its heartbeat.
        head = retry_topic(group)
        return topic[: len(head)] == head and topic[len(head) + 1 :] in online.subscriptions

    def _add(self, stats: ConsumeStats, group: str, topic: str, *, is_detailed: bool) -> None:
        config = self._topics.find(topic)
        assert config is not None
        count = config.read_queue_nums if is_detailed else config.write_queue_nums
        for queue_id in range(count):
            _, end = self._queues.bounds(topic, queue_id)
            consumed = max(self._offsets.find(group, topic, queue_id) or 0, 0)
            pulled = self._offsets.find_pulled(group, topic, queue_id) or 0
            last_ms = self._queues.store_time(topic, queue_id, consumed - 1) if consumed else 0
            queue = MessageQueue(topic, self._identity.broker_name, queue_id)
            stats.offset_table[queue] = OffsetWrapper(
                broker_offset=max(end, 0),
                consumer_offset=consumed,
                last_timestamp=max(last_ms, 0),
                pull_offset=max(pulled, consumed) if is_detailed else 0,
            )
        stats.consume_tps += self._stats.tps("GROUP_GET_NUMS", f"{topic}@{group}")


class TimeSpans:
    """Request code 303: first, last and consumed store time of every queue."""

    def __init__(
        self,
        topics: TopicTable,
        offsets: OffsetTable,
        queues: QueueTimes,
        *,
        identity: Identity,
        clock: Clock,
    ) -> None:
        self._topics = topics
        self._offsets = offsets
        self._queues = queues
        self._identity = identity
        self._clock = clock

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Times are -1 where there is nothing."""
        header = QueryConsumeTimeSpanRequest.from_fields(request.fields)
        config = self._topics.find(header.topic)
        if config is None:
            raise topic_missing(header.topic)
        spans = [
            self._span(header.topic, header.group, queue_id)
            for queue_id in range(config.write_queue_nums)
        ]
        return request.reply(body=QueryConsumeTimeSpanBody(consume_time_span_set=spans).encode())

    def _span(self, topic: str, group: str, queue_id: int) -> QueueTimeSpan:
        queues = self._queues
        first_ms = queues.earliest_time(topic, queue_id)
        _, end = queues.bounds(topic, queue_id)
        last_ms = queues.store_time(topic, queue_id, end - 1)
        consumed = self._offsets.find(group, topic, queue_id)
        consumed_ms = first_ms
        if consumed is not None and consumed > 0:
            consumed_ms = queues.store_time(topic, queue_id, consumed - 1)
        delay_ms = 0
        if consumed is not None and consumed < end:
            next_ms = queues.store_time(topic, queue_id, consumed)
            delay_ms = self._clock.now_ms() - next_ms if next_ms > 0 else 0
        return QueueTimeSpan(
            message_queue=MessageQueue(topic, self._identity.broker_name, queue_id),
            min_time_stamp=first_ms,
            min_time_stamp_str=_time_text(first_ms),
            max_time_stamp=last_ms,
            max_time_stamp_str=_time_text(last_ms),
            consume_time_stamp=consumed_ms,
            consume_time_stamp_str=_time_text(consumed_ms),
            delay_time=delay_ms,
        )


class CorrectionOffsets:
    """Request code 308: the smallest offset of other groups in every queue of a topic.

    Where another group is behind ``compareGroup`` its offset is answered, where none is the largest
    number.  Groups to filter are left out of the answer; the original loses their offsets here.
    """

    def __init__(self, offsets: OffsetTable) -> None:
        self._offsets = offsets

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Queues nobody has consumed are not in the answer."""
        header = QueryCorrectionOffsetRequest.from_fields(request.fields)
        left_out = set((header.filter_groups or "").split(","))
        groups = [g for g in self._offsets.groups_of(header.topic) if g not in left_out]
        smallest = self._smallest(header.topic, groups)
        for queue_id, offset in self._offsets.queues_of(header.compare_group, header.topic).items():
            if smallest.get(queue_id, NO_CORRECTION) > offset:
                smallest[queue_id] = NO_CORRECTION
        return request.reply(body=QueryCorrectionOffsetBody(correction_offsets=smallest).encode())

    def _smallest(self, topic: str, groups: Iterable[str]) -> dict[int, int]:
        smallest: dict[int, int] = {}
        for group in groups:
            for queue_id, offset in self._offsets.queues_of(group, topic).items():
                smallest[queue_id] = min(smallest.get(queue_id, offset), offset)
        return dict(sorted(smallest.items()))


class StatsItem:
    """Request code 315: one figure over a minute, an hour and a day."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats

    def __call__(self, request: Command, connection: Connection) -> Command:
        """A figure nothing was ever counted for does not exist."""
        header = ViewBrokerStatsRequest.from_fields(request.fields)
        found = self._stats.find(header.stats_name, header.stats_key)
        if found is None:
            raise SystemFailure(f"The stats <{header.stats_name}> <{header.stats_key}> not exist")
        body = BrokerStatsData(
            stats_minute=_item(found.minute),
            stats_hour=_item(found.hour),
            stats_day=_item(found.day),
        )
        return request.reply(body=body.encode())


def _item(window: Window) -> BrokerStatsItem:
    return BrokerStatsItem(sum=window.sum, tps=window.tps, avgpt=window.average)


def _time_text(timestamp_ms: int) -> str:
    """A time of the local zone as the original writes it (UtilAll.timeMillisToHumanString2)."""
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    try:
        moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return ""
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{milliseconds:03d}"
