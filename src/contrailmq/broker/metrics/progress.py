"""How far groups are behind, by group and topic (ConsumerLagCalculator).

The original tells this of connected groups only.  Here a group that nobody serves is told, too:
it is the one whose lag matters most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from contrailmq.broker.metrics.traffic import real_topic
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.clock import Clock
from contrailmq.metrics.model import Family, Group, Kind, Labels, Point, flag, labels
from contrailmq.protocol.names import (
    is_retry_topic,
    is_system_group,
    is_system_topic,
    retry_topic,
)

_LAG: Final = Family(
    "rocketmq_consumer_lag_messages", Kind.GAUGE, "Messages a group has not settled yet."
)
_LAG_MS: Final = Family(
    "rocketmq_consumer_lag_latency", Kind.GAUGE,
    "How long the oldest message that a group has not settled is stored.", "milliseconds",
)  # fmt: skip
_IN_FLIGHT: Final = Family(
    "rocketmq_consumer_inflight_messages", Kind.GAUGE,
    "Messages a group has fetched and not settled yet.",
)  # fmt: skip
_QUEUEING_MS: Final = Family(
    "rocketmq_consumer_queueing_latency", Kind.GAUGE,
    "How long the oldest message that a group has not fetched is stored.", "milliseconds",
)  # fmt: skip
_READY: Final = Family(
    "rocketmq_consumer_ready_messages", Kind.GAUGE, "Messages a group has not fetched yet."
)


class QueueTimes(Protocol):
    """What this module needs of the store."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the one after the last."""
        ...

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message was stored; -1 when it is not there."""
        ...


class Popped(Protocol):
    """What this module needs of POP."""

    def count(self, group: str, topic: str, queue_id: int) -> int:
        """Messages of a queue that a group has popped and not settled."""
        ...


@dataclass(slots=True)
class Row:
    """One group and topic."""

    labels: Labels
    lag: int = 0
    lag_ms: int = 0
    in_flight: int = 0
    ready: int = 0
    queueing_ms: int = 0


class GroupTables(NamedTuple):
    """The tables that say how far groups are."""

    groups: GroupTable
    topics: TopicTable
    offsets: OffsetTable


class GroupProgress:
    """Tells lag and what belongs to it."""

    def __init__(
        self, tables: GroupTables, store: QueueTimes, popped: Popped, *, clock: Clock,
        hides_zero: bool,
    ) -> None:  # fmt: skip
        self._tables = tables
        self._store = store
        self._popped = popped
        self._clock = clock
        self._hides_zero = hides_zero

    def source(self) -> Iterator[Group]:
        """Five families; the tables are walked while the first is read."""
        rows: list[Row] = []
        yield _LAG, self._shown((row.labels, row.lag) for row in self._walk(rows))
        yield _LAG_MS, self._shown((row.labels, row.lag_ms) for row in rows)
        yield _IN_FLIGHT, self._shown((row.labels, row.in_flight) for row in rows)
        yield _QUEUEING_MS, self._shown((row.labels, row.queueing_ms) for row in rows)
        yield _READY, self._shown((row.labels, row.ready) for row in rows)

    def _shown(self, values: Iterator[tuple[Labels, int]]) -> Iterator[Point]:
        for key, value in values:
            if value or not self._hides_zero:
                yield Point(key, value)

    def _walk(self, rows: list[Row]) -> Iterator[Row]:
        known: dict[Labels, Row] = {}
        for pair in [pair for pair, _ in self._tables.offsets.pairs()]:
            topic, _, group = pair.partition("@")
            row = self.row(group, topic)
            if row is None:
                continue
            same = known.get(row.labels)
            if same is None:
                known[row.labels] = row
                rows.append(row)
                yield row

    def row(self, group: str, topic: str) -> Row | None:
        """How far a group is in a topic; None where that has no meaning."""
        tables = self._tables
        config = tables.topics.find(topic)
        if config is None or tables.groups.find(group) is None:
            return None
        if is_system_group(group) or is_system_topic(topic):
            return None
        is_retry = is_retry_topic(topic)
        own = is_retry and topic == retry_topic(group)
        shown = topic if own or not is_retry else real_topic(topic, group)
        row = Row(
            labels(consumer_group=group, topic=shown, is_retry=flag(is_retry), is_system="false")
        )
        now_ms = self._clock.now_ms()
        for queue_id in range(config.read_queue_nums):
            low, end = self._store.bounds(topic, queue_id)
            committed = tables.offsets.find(group, topic, queue_id)
            done = min(max(committed if committed is not None else 0, low), end)
            popped = self._popped.count(group, topic, queue_id)
            if done == end and not popped:
                continue
            pulled = tables.offsets.find_pulled(group, topic, queue_id) or 0
            fetched = min(max(pulled, done), end)
            row.lag += end - done + popped
            row.in_flight += popped + fetched - done
            row.ready += end - fetched
            # What was popped lies before the offset; without gaps this is the oldest of it.
            oldest = max(done - popped, low)
            row.lag_ms = max(row.lag_ms, self._age_ms(topic, queue_id, oldest, now_ms))
            if fetched < end:
                age_ms = self._age_ms(topic, queue_id, fetched, now_ms)
                row.queueing_ms = max(row.queueing_ms, age_ms)
        return row

    def _age_ms(self, topic: str, queue_id: int, offset: int, now_ms: int) -> int:
        stored_ms = self._store.store_time(topic, queue_id, offset)
        return max(now_ms - stored_ms, 0) if stored_ms > 0 else 0
