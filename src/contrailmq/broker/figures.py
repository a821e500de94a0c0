"""What others in the broker's own process may ask without a request: offsets, rates, lag.

A console that runs beside a broker (``contrail up``) would ask it by request code 202 or 208 for
every topic on screen.  In the same process this costs a dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from contrailmq.broker.metrics.progress import GroupProgress
from contrailmq.broker.services.stats import Stats
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.store.store import Store


class TopicFigures(NamedTuple):
    """One topic: the end offset of every queue, and messages per second of the last minute."""

    end_offsets: tuple[int, ...]
    put_rate: float


class GroupFigures(NamedTuple):
    """One group in one topic."""

    lag: int
    lag_ms: int
    in_flight: int
    get_rate: float


class Figures(Protocol):
    """What a broker tells its own process."""

    def topic(self, topic: str) -> TopicFigures | None:
        """One topic; None if it does not exist."""
        ...

    def topics(self, names: Iterable[str]) -> dict[str, TopicFigures]:
        """Those of some topics that exist."""
        ...

    def group(self, group: str, topic: str) -> GroupFigures | None:
        """One group in one topic; None if either does not exist."""
        ...


class BrokerFigures:
    """The ``Figures`` of a running broker. To be called by the loop that runs it."""

    def __init__(
        self, topics: TopicTable, store: Store, stats: Stats, *, progress: GroupProgress
    ) -> None:
        self._topics = topics
        self._store = store
        self._stats = stats
        self._progress = progress

    def topic(self, topic: str) -> TopicFigures | None:
        """One topic; None if it does not exist."""
        config = self._topics.find(topic)
        if config is None:
            return None
        count = max(config.read_queue_nums, config.write_queue_nums)
        ends = tuple(max(self._store.bounds(topic, n)[1], 0) for n in range(count))
        return TopicFigures(ends, self._stats.tps("TOPIC_PUT_NUMS", topic))

    def topics(self, names: Iterable[str]) -> dict[str, TopicFigures]:
        """Those of some topics that exist."""
        found = ((name, self.topic(name)) for name in names)
        return {name: figures for name, figures in found if figures is not None}

    def group(self, group: str, topic: str) -> GroupFigures | None:
        """One group in one topic; None if either does not exist."""
        row = self._progress.row(group, topic)
        if row is None:
            return None
        rate = self._stats.tps("GROUP_GET_NUMS", f"{topic}@{group}")
        return GroupFigures(row.lag, row.lag_ms, row.in_flight, rate)
