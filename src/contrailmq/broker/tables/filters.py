"""Which messages a consumer wants: tag codes, or SQL over the properties.

``ConsumerFilters`` is the table of ``consumerFilter.json``: the SQL subscriptions of groups, kept a
day after their consumers have gone, so that the bit maps made for them stay useful.  A matcher is
what the store asks while it walks a queue (ExpressionMessageFilter).

Bit maps.  With ``enableCalcFilterBitMap`` and ``enableConsumeQueueExt`` the store asks ``bitmap``
for every message it derives: which of the topic's subscriptions are true for it, as a bloom filter
of their names.  A pull of a subscription skips what its bits say no to, without reading the log;
but only messages stored after the subscription was born: to older ones nobody put the question.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from contrailmq._native.sql import SqlProgram
from contrailmq.clock import Clock
from contrailmq.errors import CorruptRecord, FilterError, RemoteProtocolError
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.filter.bloom import BloomFilter, has_bits, set_bits
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
    program = None

    def __init__(self, codes: Iterable[int]) -> None:
        self.tag_codes: frozenset[int] | None = frozenset(codes)

    def matches(self, record: memoryview) -> bool:
        """The codes alone decide."""
        return True

    def may_match(self, ext: QueueExt) -> bool:
        """Bit maps are for SQL."""
        return True


class SqlMatcher:
    """Wants what an SQL expression is true for.

    Without ``positions`` every record is looked at: a pull that brings its own expression is not
    in any bit map.
    """

    __slots__ = ("_bitmap_size", "_filter", "_positions", "_since_ms", "program", "tag_codes")
    record_matters = True

    def __init__(
        self,
        sql: SqlFilter,
        *,
        positions: Iterable[int] = (),
        bitmap_size: int = 0,
        since_ms: int = 0,
    ) -> None:
        self.tag_codes: frozenset[int] | None = None
        self._filter = sql
        self.program: SqlProgram | None = sql.program()
        self._positions = tuple(positions)
        self._bitmap_size = bitmap_size
        self._since_ms = since_ms

    def matches(self, record: memoryview | bytes) -> bool:
        """Whether the expression is true for a record's properties."""
        try:
            return self._filter.matches_raw(decode_record(record).properties_bytes)
        except (CorruptRecord, RemoteProtocolError):
            return False

    def may_match(self, ext: QueueExt) -> bool:
        """Whether the bit map of a record names this subscription; without one, maybe."""
        if not self._positions or len(ext.bitmap) != self._bitmap_size:
            return True
        if ext.store_ms <= self._since_ms:
            return True  # nobody asked on behalf of this subscription then
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
        self._topics_of: dict[str, dict[str, None]] = {}  # by group
        self._count = 0
        self.revision = 0

    @property
    def bit_count(self) -> int:
        """Bits of one bit map."""
        return self._bloom.bit_count

    def compile(self, expression: str) -> SqlMatcher:
        """The matcher of an expression that is in no bit map; raises FilterError."""
        return SqlMatcher(compile_sql(expression))

    def compile_for(self, group: str, topic: str, expression: str, *, born_ms: int) -> SqlMatcher:
        """The matcher of a subscription that is in the bit maps since it was born."""
        return SqlMatcher(
            compile_sql(expression),
            positions=self.positions(group, topic),
            bitmap_size=self._bloom.size,
            since_ms=born_ms,
        )

    def positions(self, group: str, topic: str) -> list[int]:
        """The bits of a subscription."""
        return self._bloom.positions(f"{group}#{topic}")

    def bitmap(self, topic: str, record: bytes) -> bytes:
        """Which subscriptions of a topic want a record (CommitLogDispatcherCalcBitMap).

        Empty where nobody subscribes with SQL: that says nothing at all.
        """
        groups = self._topics.get(topic)
        if not groups:
            return b""
        bits = bytearray(self._bloom.size)
        for entry in groups.values():
            if entry.matcher.matches(record):
                set_bits(bits, entry.positions)
        return bytes(bits)

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Take the subscriptions of a heartbeat; one that does not compile is left out."""
        wanted = {s.topic: s for s in subscriptions if not is_tag_type(s.expression_type)}
        self.retire(group, wanted)
        for subscription in wanted.values():
            if not self.renew(group, subscription):
                self.compile_new(group, subscription)

    def retire(self, group: str, wanted: Container[str]) -> None:
        """Subscriptions of a group to other topics than these are dead from now on."""
        for topic in list(self._topics_of.get(group, ())):
            entry = self._topics[topic][group]
            if topic not in wanted and not entry.is_dead:
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
                    self._topics_of[group].pop(topic)
                    if not self._topics_of[group]:
                        del self._topics_of[group]
                    self._count -= 1
                    self.revision += 1
            if not groups:
                del self._topics[topic]

    def add(self, entry: FilterEntry) -> bool:
        """Enter an entry, as read from a file; False at the bound of the table."""
        groups = self._topics.get(entry.topic, {})
        if entry.group not in groups:
            if self._count >= ENTRIES_MAX:
                return False
            self._count += 1
        self._topics.setdefault(entry.topic, groups)[entry.group] = entry
        self._topics_of.setdefault(entry.group, {})[entry.topic] = None
        self.revision += 1
        return True

    def renew(self, group: str, subscription: SubscriptionData) -> bool:
        """Whether a subscription is known already; it is alive then, and has this version."""
        known = self.find(group, subscription.topic)
        if known is None:
            return False
        if subscription.sub_version <= known.client_version:
            if known.is_dead and subscription.sub_version == known.client_version:
                known.dead_ms = 0
                self.revision += 1
            return True
        if known.expression != subscription.sub_string:
            return False
        known.client_version = subscription.sub_version
        known.dead_ms = 0
        self.revision += 1
        return True

    def compile_new(self, group: str, subscription: SubscriptionData) -> None:
        """Enter a subscription that is new or has changed."""
        topic, now_ms = subscription.topic, self._clock.now_ms()
        try:
            matcher = self.compile_for(group, topic, subscription.sub_string, born_ms=now_ms)
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
                positions=self.positions(group, topic),
            )
        )

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<ConsumerFilters entries={self._count}>"
