"""``consumerFilter.json``: SQL subscriptions as the original keeps them."""

from __future__ import annotations

import msgspec

from contrailmq.broker.tables.filters import ConsumerFilters, FilterEntry
from contrailmq.errors import FilterError
from contrailmq.protocol.bodies.body import Body, Int, Long


class BloomBits(Body):
    """Where a subscription's bits lie in a bit map (BloomFilterData)."""

    bit_num: Int = 0
    bit_pos: list[Int] = msgspec.field(default_factory=list)


class StoredFilter(Body):
    """One subscription (ConsumerFilterData)."""

    bloom_filter_data: BloomBits | None = None
    born_time: Long = 0
    client_version: Long = 0
    consumer_group: str = ""
    dead: bool | None = None
    dead_time: Long = 0
    expression: str = ""
    expression_type: str = "SQL92"
    topic: str = ""


class FiltersOfTopic(Body):
    """The subscriptions to one topic (FilterDataMapByTopic)."""

    group_filter_data: dict[str, StoredFilter] = msgspec.field(default_factory=dict)
    topic: str = ""


class StoredFilters(Body):
    """The whole file."""

    filter_data_by_topic: dict[str, FiltersOfTopic] = msgspec.field(default_factory=dict)


def encode_filters(filters: ConsumerFilters) -> bytes:
    """The text of the file."""
    topics: dict[str, FiltersOfTopic] = {}
    for entry in filters.entries():
        groups = topics.setdefault(entry.topic, FiltersOfTopic(topic=entry.topic))
        groups.group_filter_data[entry.group] = stored_filter(entry, bit_count=filters.bit_count)
    return StoredFilters(filter_data_by_topic=topics).encode(pretty=True)


def stored_filter(entry: FilterEntry, *, bit_count: int) -> StoredFilter:
    """One entry as the file has it."""
    return StoredFilter(
        bloom_filter_data=BloomBits(bit_num=bit_count, bit_pos=entry.positions),
        born_time=entry.born_ms,
        client_version=entry.client_version,
        consumer_group=entry.group,
        dead=entry.is_dead,
        dead_time=entry.dead_ms,
        expression=entry.expression,
        expression_type=entry.expression_type,
        topic=entry.topic,
    )


def decode_filters(data: bytes, filters: ConsumerFilters) -> list[FilterEntry]:
    """The entries of the file; an expression that no longer compiles is left out."""
    entries: list[FilterEntry] = []
    for topic in StoredFilters.decode(data).filter_data_by_topic.values():
        for stored in topic.group_filter_data.values():
            try:
                matcher = filters.compile_for(
                    stored.consumer_group,
                    stored.topic,
                    stored.expression,
                    born_ms=stored.born_time,
                )
            except FilterError:
                continue
            entries.append(
                FilterEntry(
                    group=stored.consumer_group,
                    topic=stored.topic,
                    expression=stored.expression,
                    expression_type=stored.expression_type,
                    client_version=stored.client_version,
                    born_ms=stored.born_time,
                    # Java starts with all consumers gone, too: they come back by heartbeat.
                    dead_ms=max(stored.dead_time, stored.born_time),
                    matcher=matcher,
                    positions=filters.positions(stored.consumer_group, stored.topic),
                )
            )
    return entries
