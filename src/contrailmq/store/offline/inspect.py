"""A store directory in numbers: its topics and queues, its log, its groups."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from contrailmq.store.offline.plan import QueueKey
from contrailmq.store.offline.reader import StoreReader


class QueueFacts(NamedTuple):
    """One queue: its bounds, and when its first and last message were stored (-1: empty)."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    first_ms: int
    last_ms: int

    @property
    def messages(self) -> int:
        """How many messages it has."""
        return self.max_offset - self.min_offset


class TopicFacts(NamedTuple):
    """One topic: all of its queues together."""

    topic: str
    queues: int
    messages: int
    first_ms: int
    last_ms: int


class GroupFacts(NamedTuple):
    """A consumer group on a topic: how much it has not consumed yet."""

    group: str
    topic: str
    queues: int
    behind: int


class LogFiles(NamedTuple):
    """The log: files, offsets, and when its first and last record were stored (-1: empty)."""

    segments: int
    segment_size: int
    min_offset: int
    max_offset: int
    first_ms: int
    last_ms: int


def queue_facts(reader: StoreReader, topic: str | None = None) -> list[QueueFacts]:
    """Every queue, or those of a topic."""
    return [_queue(reader, key) for key in reader.queues(topic)]


def topic_facts(reader: StoreReader) -> list[TopicFacts]:
    """Every topic that has a queue."""
    table: dict[str, list[QueueFacts]] = defaultdict(list)
    for queue in queue_facts(reader):
        table[queue.topic].append(queue)
    return [
        TopicFacts(
            topic,
            len(queues),
            sum(queue.messages for queue in queues),
            min((queue.first_ms for queue in queues if queue.first_ms >= 0), default=-1),
            max(queue.last_ms for queue in queues),
        )
        for topic, queues in table.items()
    ]


def group_facts(reader: StoreReader) -> list[GroupFacts]:
    """Every group that committed an offset, by ``consumerOffset.json``."""
    config = reader.config("consumerOffset.json")
    table = config.get("offsetTable") if isinstance(config, dict) else None
    found = []
    for name, offsets in sorted((table or {}).items()):
        topic, _, group = str(name).partition("@")
        queues = set(reader.queues(topic))
        behind = 0
        for queue_id, offset in _numbers(offsets):
            if (topic, queue_id) in queues:
                low, high = reader.bounds(topic, queue_id)
                behind += max(0, high - max(low, offset))
        found.append(GroupFacts(group, topic, len(offsets), behind))
    return found


def log_files(reader: StoreReader) -> LogFiles:
    """The log as a whole."""
    log = reader.log
    first_ms = log.store_ms(log.min_offset) if log.segments else -1
    last_ms = max((queue.last_ms for queue in queue_facts(reader)), default=-1)
    return LogFiles(
        len(log.segments), log.segment_size, log.min_offset, reader.max_offset, first_ms, last_ms
    )


def state(reader: StoreReader) -> str:
    """In one word what the directory's broker is doing: running, killed or stopped."""
    if reader.is_live:
        return "running"
    return "killed" if reader.was_killed else "stopped"


def _queue(reader: StoreReader, key: QueueKey) -> QueueFacts:
    low, high = reader.bounds(*key)
    if low >= high:
        return QueueFacts(*key, low, high, -1, -1)
    return QueueFacts(*key, low, high, reader.store_ms(*key, low), reader.store_ms(*key, high - 1))


def _numbers(offsets: Any) -> list[tuple[int, int]]:
    if not isinstance(offsets, dict):
        return []
    return [(int(queue_id), int(offset)) for queue_id, offset in offsets.items()]
