"""What rows a query can use at all, as ranges of queues and as a broker's filter."""

from __future__ import annotations

from msgspec import Struct

from contrailmq.protocol.queue import MessageQueue


class Narrowing(Struct, frozen=True):
    """What rows a query can use at all; None means no limit."""

    topics: frozenset[str] | None = None
    brokers: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    first_offset: int | None = None
    end_offset: int | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
    tags: frozenset[str] | None = None

    def has(self, queue: MessageQueue) -> bool:
        """Whether a queue can have such rows."""
        return (
            (self.topics is None or queue.topic in self.topics)
            and (self.brokers is None or queue.broker_name in self.brokers)
            and (self.queue_ids is None or queue.queue_id in self.queue_ids)
        )

    def clip(self, start: int, end: int) -> tuple[int, int]:
        """The part of a range of offsets that can have such rows."""
        if self.first_offset is not None:
            start = max(start, self.first_offset)
        if self.end_offset is not None:
            end = min(end, self.end_offset)
        return start, max(start, end)

    def tag_expression(self) -> str | None:
        """The tags as a broker's filter; None when they do not narrow or cannot be written so."""
        if self.tags is None or not self.tags:
            return None
        if any(not tag.strip() or "||" in tag or tag.strip() != tag for tag in self.tags):
            return None
        return " || ".join(sorted(self.tags))
