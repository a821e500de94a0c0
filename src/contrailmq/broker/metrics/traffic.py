"""What came in and went out, by topic and group: the counters of a broker as figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contrailmq.broker.tables.counters import SIZE_BOUNDS, Counters, KindSum, MessageKind
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.metrics.model import Family, Group, Kind, Labels, Point, Spread, flag, labels
from contrailmq.protocol.names import is_retry_topic, is_system_group, is_system_topic

_IN: Final = Family("rocketmq_messages_in_total", Kind.COUNTER, "Messages stored.")
_SIZE_IN: Final = Family("rocketmq_throughput_in_total", Kind.COUNTER, "Bytes of records stored.")
_SIZES: Final = Family(
    "rocketmq_message_size", Kind.HISTOGRAM, "Bytes of each record stored; of a batch the mean."
)
_OUT: Final = Family("rocketmq_messages_out_total", Kind.COUNTER, "Messages handed to groups.")
_SIZE_OUT: Final = Family(
    "rocketmq_throughput_out_total", Kind.COUNTER, "Bytes of records handed to groups."
)
_DEAD: Final = Family(
    "rocketmq_send_to_dlq_messages_total", Kind.COUNTER, "Messages that became dead letters."
)
_COMMITS: Final = Family(
    "rocketmq_commit_messages_total", Kind.COUNTER, "Messages of transactions that were committed."
)
_ROLLBACKS: Final = Family(
    "rocketmq_rollback_messages_total", Kind.COUNTER,
    "Messages of transactions that were rolled back.",
)  # fmt: skip
_FINISH: Final = Family(
    "rocketmq_finish_message_latency", Kind.HISTOGRAM,
    "Seconds from a half message to its commit; the original names them milliseconds.",
    "milliseconds",
)  # fmt: skip
_HALVES: Final = Family(
    "rocketmq_half_messages", Kind.GAUGE,
    "Half messages of this run of the broker that have no end yet.",
)  # fmt: skip
FIFO: Final = "fifo"
PULLED: Final = "@"  # before a group, so that none is taken for a kind of message
KNOWN_MIN: Final = 1000


class Traffic:
    """Tells the counters of a broker."""

    def __init__(self, counters: Counters, topics: TopicTable) -> None:
        self._counters = counters
        self._topics = topics
        self._known: dict[tuple[str, str], Labels] = {}  # making them takes longest

    def source(self) -> Iterator[Group]:
        """All families; a topic that was deleted is gone from them at once."""
        kinds: dict[Labels, KindSum] = {}
        yield _IN, (Point(key, total.count) for key, total in self._walk_in(kinds))
        yield _SIZE_IN, (Point(key, total.size) for key, total in kinds.items())
        spreads = (
            Spread(key, SIZE_BOUNDS, tuple(total.spread), total.size)
            for key, total in kinds.items()
        )
        yield _SIZES, spreads
        out: dict[Labels, list[int]] = {}
        yield _OUT, (Point(key, sums[0]) for key, sums in self._walk_out(out))
        yield _SIZE_OUT, (Point(key, sums[1]) for key, sums in out.items())
        yield (
            _DEAD,
            (
                Point(
                    labels(consumer_group=group, topic=topic, is_system=_system(topic, group)),
                    count,
                )
                for (topic, group), count in self._counters.dead_by_group().items()
            ),
        )
        halves = self._counters.transactions
        for family, table in (
            (_COMMITS, halves.commits),
            (_ROLLBACKS, halves.rollbacks),
            (_HALVES, halves.waiting),
        ):
            yield family, [Point(labels(topic=topic), count) for topic, count in table.items()]
        yield (
            _FINISH,
            [times.spread(labels(topic=topic)) for topic, times in halves.finish_s.items()],
        )

    def _walk_in(self, found: dict[Labels, KindSum]) -> Iterator[tuple[Labels, KindSum]]:
        """Name the sums, one by one as they are read."""
        kinds = self._counters.put_by_kind()
        self._bound(len(kinds))
        for (topic, kind), total in kinds.items():
            key = self._in_labels(topic, kind)
            found[key] = total
            yield key, total

    def _walk_out(self, found: dict[Labels, list[int]]) -> Iterator[tuple[Labels, list[int]]]:
        """Add up the queues of each topic and group, then tell them."""
        sums_of = self._counters.got_sums()
        self._bound(len(sums_of))
        for (topic, group, _), got in sums_of:
            sums = found.setdefault(self._out_labels(topic, group), [0, 0])
            sums[0] += got[0]
            sums[1] += got[1]
        yield from found.items()

    def _bound(self, count: int) -> None:
        if len(self._known) > KNOWN_MIN + 8 * count:
            self._known.clear()  # of topics that are gone; the others are back at once

    def _in_labels(self, topic: str, kind: MessageKind) -> Labels:
        name = kind.value
        if kind is MessageKind.NORMAL:
            config = self._topics.find(topic)
            if config is not None and config.attributes.get("message.type") == "FIFO":
                name = FIFO
        known = self._known.get((topic, name))
        if known is None:
            known = labels(topic=topic, message_type=name, is_system=_system(topic))
            self._known[topic, name] = known
        return known

    def _out_labels(self, topic: str, group: str) -> Labels:
        """Pulls have no ``is_retry`` in the original; pops name the topic before the retry."""
        if not self._counters.is_popped(group, topic):
            known = self._known.get((topic, PULLED + group))
            if known is None:
                known = labels(topic=topic, consumer_group=group, is_system=_system(topic, group))
                self._known[topic, PULLED + group] = known
            return known
        is_retry = is_retry_topic(topic)
        shown = real_topic(topic, group) if is_retry else topic
        return labels(
            topic=shown, consumer_group=group, is_retry=flag(is_retry),
            is_system=_system(shown, group),
        )  # fmt: skip


def real_topic(topic: str, group: str) -> str:
    """The topic whose retries a topic of POP holds: ``%RETRY%group_topic`` or ``…+topic``."""
    rest = topic[len("%RETRY%") + len(group) :]
    return rest[1:] if rest[:1] in ("_", "+") else topic


def _system(topic: str, group: str = "") -> str:
    return flag(is_system_topic(topic) or bool(group and is_system_group(group)))
