"""Messages that were to be read and are gone: which, from where, and what happens then."""

from __future__ import annotations

import logging
from typing import NamedTuple

from contrailmq.clock import Clock, SystemClock
from contrailmq.errors import StoreError
from contrailmq.protocol.queue import MessageQueue

log = logging.getLogger(__name__)


class DataLoss(NamedTuple):
    """A range of a queue that cannot be read any more."""

    queue: MessageQueue
    start: int
    end: int
    reason: str

    def __str__(self) -> str:
        queue = self.queue
        return (
            f"topic {queue.topic} broker {queue.broker_name} queue {queue.queue_id}:"
            f" offsets {self.start} to {self.end - 1} ({self.end - self.start} messages)"
            f" {self.reason}"
        )


class MessagesLost(StoreError):
    """Messages a query was to read are gone; the text names queue and range."""


class Losses:
    """What to do about losses: fail, or log and go on behind them."""

    def __init__(self, *, fail: bool, wait_s: float = 5.0, clock: Clock | None = None) -> None:
        self.fail = fail
        self._wait_ms = int(wait_s * 1000)
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._seen: dict[MessageQueue, int] = {}

    def note(self, loss: DataLoss) -> None:
        """Raise MessagesLost, or write it to the log."""
        if self.fail:
            raise MessagesLost(
                f"{loss}; to continue after the gap, start again with failOnDataLoss=false"
            )
        log.warning("messages lost loss=%s", loss)

    def note_deleted(self, queue: MessageQueue, start: int, first: int) -> None:
        """The offsets from ``start`` to before ``first`` are not in the queue any more."""
        self.note(DataLoss(queue, start, first, "deleted by the broker"))

    def forget(self, queue: MessageQueue) -> None:
        """A queue has again what it had."""
        self._seen.pop(queue, None)

    def is_certain(self, loss: DataLoss) -> bool:
        """Whether a queue that ends too early has had time enough to recover."""
        now_ms = self._clock.monotonic_ms()
        return now_ms - self._seen.setdefault(loss.queue, now_ms) >= self._wait_ms
