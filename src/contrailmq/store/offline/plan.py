"""Divide the messages of a store directory among workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

QueueKey = tuple[str, int]
_SAMPLES: Final = 16


class Split(NamedTuple):
    """A part of a queue for one worker: queue offsets ``start`` to before ``end``.

    ``size`` is an estimate of its bytes.
    """

    topic: str
    queue_id: int
    start: int
    end: int
    size: int


class Queues(Protocol):
    """What a plan is made from."""

    def queues(self, topic: str | None = None) -> list[QueueKey]:
        """Every queue."""
        ...

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the one after the last."""
        ...

    def is_batch(self, topic: str, queue_id: int) -> bool:
        """Whether the queue's units are whole batches."""
        ...

    def offset_by_time(self, topic: str, queue_id: int, store_ms: int) -> int:
        """The first queue offset stored at a time or later."""
        ...

    def places(
        self, topic: str, queue_id: int, *, start: int, end: int
    ) -> Iterator[tuple[int, int, int]]:
        """Queue offset, log offset and size of every record of a range."""
        ...


def plan(
    queues: Queues,
    topics: Sequence[str] | None,
    *,
    splits: int,
    starts: Mapping[QueueKey, int],
    ends: Mapping[QueueKey, int],
    begin_ms: int | None,
    end_ms: int | None,
) -> list[Split]:
    """About ``splits`` parts of like length; the parts of one queue follow each other."""
    wanted = None if topics is None else set(topics)
    ranges: list[tuple[QueueKey, int, int]] = []
    for key in queues.queues():
        if wanted is not None and key[0] not in wanted:
            continue
        low, high = queues.bounds(*key)
        low, high = max(low, starts.get(key, low)), min(high, ends.get(key, high))
        if begin_ms is not None:
            low = max(low, queues.offset_by_time(*key, begin_ms))
        if end_ms is not None:
            high = min(high, queues.offset_by_time(*key, end_ms))
        if low < high:
            ranges.append((key, low, high))
    total = sum(high - low for _, low, high in ranges)
    share = max(1, -(-total // max(1, splits)))
    return [part for key, low, high in ranges for part in _cut(queues, key, (low, high), share)]


def _cut(queues: Queues, key: QueueKey, bounds: tuple[int, int], share: int) -> Iterator[Split]:
    low, high = bounds
    # A batch queue is not cut: a border might fall into the middle of a batch.
    parts = 1 if queues.is_batch(*key) else max(1, round((high - low) / share))
    for part in range(parts):
        start = low + (high - low) * part // parts
        end = low + (high - low) * (part + 1) // parts
        yield Split(*key, start, end, _estimate(queues, key, start, end))


def _estimate(queues: Queues, key: QueueKey, start: int, end: int) -> int:
    step = max(1, (end - start) // _SAMPLES)
    sizes = [
        size
        for at in range(start, end, step)
        for _, _, size in queues.places(*key, start=at, end=at + 1)
    ]
    return sum(sizes) * (end - start) // len(sizes) if sizes else 0
