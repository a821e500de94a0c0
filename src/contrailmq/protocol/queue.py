"""The identity of one queue of one topic on one broker."""

from __future__ import annotations

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """A queue's identity; ordered by topic, broker name and queue id, as Java orders it."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        """The text of MessageQueue.toString, which tools print and parse."""
        return (
            f"MessageQueue [topic={self.topic}, brokerName={self.broker_name}, "
            f"queueId={self.queue_id}]"
        )
