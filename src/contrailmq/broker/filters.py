"""Which messages a consumer wants: tag codes, or SQL over the properties.

``ConsumerFilters`` is the table of ``consumerFilter.json``: the SQL subscriptions of groups, kept a
day after their consumers have gone, so that the bit maps made for them stay useful.  A matcher is
what the store asks while it walks a queue (ExpressionMessageFilter).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from contrailmq.clock import Clock
from contrailmq.errors import CorruptRecord, FilterError, RemoteProtocolError
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.filter.bloom import BloomFilter, has_bits
from contrailmq.protocol.filter.sql import SqlFilter, compile_sql
from contrailmq.protocol.filter.tags import ALL, TYPE_TAG
from contrailmq.protocol.message import decode_record
from contrailmq.store.types import Matcher, QueueExt

DEAD_LIFE_MS: Final = 24 * 3600 * 1000  # filterDataCleanTimeSpan
ENTRIES_MAX: Final = 100_000


class TagMatcher:
    """Wants certain tag codes; the consumer compares the tags themselves again."""

    __slots__ = ("tag_codes",)
    record_matters = False

    def __init__(self, codes: Iterable[int]) -> None:
        self.tag_codes: frozenset[int] | None = frozenset(codes)

    def matches(self, record: memoryview) -> bool:
        """The codes alone decide."""
        return True

    def may_match(self, ext: QueueExt) -> bool:
        """Bit maps are for SQL."""
        return True


class SqlMatcher:
    """Wants what an SQL expression is true for."""

    __slots__ = ("_filter", "_positions", "tag_codes")
    record_matters = True

    def __init__(self, sql: SqlFilter, positions: list[int]) -> None:
        self.tag_codes: frozenset[int] | None = None
        self._filter = sql
        self._positions = positions

    def matches(self, record: memoryview) -> bool:
        """Whether the expression is true for a record's properties."""
        try:
            return self._filter.matches_raw(decode_record(record).properties_bytes)
        except (CorruptRecord, RemoteProtocolError):
            return False

    def may_match(self, ext: QueueExt) -> bool:
        """Whether the bit map of a record names this subscription; without one, maybe."""
        if not ext.bitmap or not self._positions:
            return True
        if max(self._positions) >= 8 * len(ext.bitmap):
            return True
        return has_bits(ext.bitmap, self._positions)


def tag_matcher(subscription: SubscriptionData) -> Matcher | None:
    """The matcher of a tag subscription; None for everything."""
    if subscription.sub_string in (ALL, "") or not subscription.code_set:
        return None
    return TagMatcher(subscription.code_set)


def is_tag_type(expression_type: str | None) -> bool:
    """Whether an expression is one of tags, as it is when nothing is said."""
    return not expression_type or expression_type == TYPE_TAG


@dataclass(slots=True, kw_only=True)
class FilterEntry:
    """The SQL subscription of one group to one topic."""

    group: str
    topic: str
    expression: str
    expression_type: str
    client_version: int
    born_ms: int
    dead_ms: int
    matcher: SqlMatcher
    positions: list[int]

    @property
    def is_dead(self) -> bool:
        """Whether no consumer has it any more."""
        return self.dead_ms >= self.born_ms


class ConsumerFilters:
    """Compiled SQL subscriptions by topic and group."""

    def __init__(self, clock: Clock, *, bloom: BloomFilter | None = None) -> None:
        self._clock = clock
        self._bloom = bloom if bloom is not None else BloomFilter()
        self._topics: dict[str, dict[str, FilterEntry]] = {}
        self._count = 0
        self.revision = 0

    @property
    def bit_count(self) -> int:
        """Bits of one bit map."""
        return self._bloom.bit_count

    def compile(self, group: str, topic: str, expression: str) -> SqlMatcher:
        """The matcher of an expression; raises FilterError."""
        return SqlMatcher(compile_sql(expression), self._bloom.positions(f"{group}#{topic}"))

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Take the subscriptions of a heartbeat; one that does not compile is left out."""
        wanted = {s.topic: s for s in subscriptions if not is_tag_type(s.expression_type)}
        for subscription in wanted.values():
            self._register_one(group, subscription)
        for topic, groups in self._topics.items():
            entry = groups.get(group)
            if entry is not None and topic not in wanted and not entry.is_dead:
                entry.dead_ms = self._clock.now_ms()
                self.revision += 1

    def unregister(self, group: str) -> None:
        """The last consumer of a group has gone."""
        self.register(group, ())

    def find(self, group: str, topic: str) -> FilterEntry | None:
        """The SQL subscription of a group, dead or alive."""
        return self._topics.get(topic, {}).get(group)

    def entries(self, topic: str | None = None) -> Iterator[FilterEntry]:
        """All entries, or those of one topic."""
        tables = self._topics.values() if topic is None else [self._topics.get(topic, {})]
        for groups in tables:
            yield from groups.values()

    def clean(self) -> None:
        """Forget what has been dead for a day."""
        limit_ms = self._clock.now_ms() - DEAD_LIFE_MS
        for topic, groups in list(self._topics.items()):
            for group, entry in list(groups.items()):
                if entry.is_dead and entry.dead_ms < limit_ms:
                    del groups[group]
                    self._count -= 1
                    self.revision += 1
            if not groups:
                del self._topics[topic]

    def add(self, entry: FilterEntry) -> bool:
        """Enter an entry, as read from a file; False at the bound of the table."""
        groups = self._topics.setdefault(entry.topic, {})
        if entry.group not in groups:
            if self._count >= ENTRIES_MAX:
                return False
            self._count += 1
        groups[entry.group] = entry
        self.revision += 1
        return True

    def _register_one(self, group: str, subscription: SubscriptionData) -> None:
        topic, now_ms = subscription.topic, self._clock.now_ms()
        known = self.find(group, topic)
        if known is not None and subscription.sub_version <= known.client_version:
            if known.is_dead and subscription.sub_version == known.client_version:
                known.dead_ms = 0
                self.revision += 1
            return
        if known is not None and known.expression == subscription.sub_string:
            known.client_version = subscription.sub_version
            known.dead_ms = 0
            self.revision += 1
            return
        try:
            matcher = self.compile(group, topic, subscription.sub_string)
        except FilterError:
            return  # code 46 has told the consumer so
        self.add(
            FilterEntry(
                group=group,
                topic=topic,
                expression=subscription.sub_string,
                expression_type=subscription.expression_type,
                client_version=subscription.sub_version,
                born_ms=now_ms,
                dead_ms=0,
                matcher=matcher,
                positions=self._bloom.positions(f"{group}#{topic}"),
            )
        )

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<ConsumerFilters entries={self._count}>"
