"""Bodies of statistics: queue bounds, consumer progress, rates, replication."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from contrailmq.protocol.bodies.body import Body, Int, Long
from contrailmq.protocol.queue import MessageQueue


class TopicOffset(Body):
    """The bounds of one queue, and when its last message was stored (0 = never)."""

    last_update_timestamp: Long = 0
    max_offset: Long = 0
    min_offset: Long = 0


class TopicStatsTable(Body):
    """Code 202's answer."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"topic_put_tps"})

    offset_table: dict[MessageQueue, TopicOffset] = {}
    topic_put_tps: float | None = None


class OffsetWrapper(Body):
    """How far a group is in one queue."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"pull_offset"})

    broker_offset: Long = 0
    consumer_offset: Long = 0
    last_timestamp: Long = 0
    pull_offset: Long = 0


class ConsumeStats(Body):
    """Code 208's answer: how far a group is in all its queues."""

    consume_tps: float = 0.0
    offset_table: dict[MessageQueue, OffsetWrapper] = {}

    def total_diff(self) -> int:
        """How many messages the group has before it."""
        return sum(o.broker_offset - o.consumer_offset for o in self.offset_table.values())


class ConsumeStatsList(Body):
    """Code 317's answer: the same for all groups of a broker."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"total_inflight_diff"})

    broker_addr: str = ""
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []
    total_diff: Long = 0
    total_inflight_diff: Long = 0


class QueueTimeSpan(Body):
    """First, last and consumed store time of one queue.

    Java adds each time as text of its own time zone; nobody reads it.
    """

    consume_time_stamp: Long = 0
    consume_time_stamp_str: str | None = None
    delay_time: Long = 0
    max_time_stamp: Long = 0
    max_time_stamp_str: str | None = None
    message_queue: MessageQueue = MessageQueue("", "", 0)
    min_time_stamp: Long = 0
    min_time_stamp_str: str | None = None


class QueryConsumeTimeSpanBody(Body):
    """Code 303's answer."""

    consume_time_span_set: list[QueueTimeSpan] = []


class BrokerStatsItem(Body):
    """A statistic over one span of time."""

    avgpt: float = 0.0
    sum: Long = 0
    tps: float = 0.0


class BrokerStatsData(Body):
    """Code 315's answer: a statistic over a minute, an hour and a day."""

    stats_day: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    stats_minute: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)


class HAConnectionRuntimeInfo(Body):
    """One replica, as its primary sees it."""

    addr: str = ""
    diff: Long = 0
    in_sync: bool = False
    slave_ack_offset: Long = 0
    transfer_from_where: Long = 0
    transferred_byte_in_second: Long = 0


class HAClientRuntimeInfo(Body):
    """The primary, as a replica sees it."""

    last_read_timestamp: Long = 0
    last_write_timestamp: Long = 0
    master_addr: str | None = None
    master_flush_offset: Long = 0
    max_offset: Long = 0
    transferred_byte_in_second: Long = 0


class HARuntimeInfo(Body):
    """Code 907's answer: the state of replication."""

    ha_client_runtime_info: HAClientRuntimeInfo | None = msgspec.field(
        default_factory=HAClientRuntimeInfo
    )
    ha_connection_info: list[HAConnectionRuntimeInfo] = []
    in_sync_slave_nums: Int = 0
    master: bool = False
    master_commit_log_max_offset: Long = 0


class EpochEntry(Body):
    """A stretch of the log written under one primary."""

    end_offset: Long = 0
    epoch: Int = 0
    start_offset: Long = 0


class EpochEntryCache(Body):
    """Code 1007's answer."""

    broker_id: Long = 0
    broker_name: str = ""
    cluster_name: str = ""
    epoch_list: list[EpochEntry] = []
    max_offset: Long = 0


class SyncStateSet(Body):
    """The replicas that are in sync (code 1008's request)."""

    sync_state_set: list[Long] = []
    sync_state_set_epoch: Int = 0
