"""From what a user says to offsets of queues: where a query begins and ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from contrailmq.protocol.queue import MessageQueue
from contrailmq.spark.options import (
    COMMITTED,
    EARLIEST,
    EARLIEST_MARK,
    LATEST,
    LATEST_MARK,
    Position,
)


class QueueBounds(Protocol):
    """Who knows the offsets of queues: a cluster, or store directories."""

    def first_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The first offset of each."""
        ...

    def end_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The offset after the last of each."""
        ...

    def offsets_at(self, queues: Sequence[MessageQueue], ms: int) -> dict[MessageQueue, int]:
        """The first offset stored at a time or later."""
        ...

    def committed(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """Where a group stands, where it stands anywhere."""
        ...


def resolve(
    bounds: QueueBounds, queues: Sequence[MessageQueue], place: Position, *, group: str | None
) -> dict[MessageQueue, int]:
    """The offset of each queue a position means now."""
    if place.time_ms is not None:
        return bounds.offsets_at(queues, place.time_ms)
    if place.word == LATEST:
        return bounds.end_offsets(queues)
    first = bounds.first_offsets(queues)
    if place.word == EARLIEST:
        return first
    if place.word == COMMITTED and group is not None:
        return {**first, **bounds.committed(group, queues)}
    return {**first, **_given(bounds, queues, place.offsets, first)}


def _given(
    bounds: QueueBounds,
    queues: Sequence[MessageQueue],
    offsets: Sequence[tuple[MessageQueue, int]],
    first: Mapping[MessageQueue, int],
) -> dict[MessageQueue, int]:
    wanted = {queue: offset for queue, offset in offsets if queue in first}
    ends = bounds.end_offsets(queues) if LATEST_MARK in wanted.values() else {}
    marks = {EARLIEST_MARK: first, LATEST_MARK: ends}
    return {queue: marks[at][queue] if at in marks else at for queue, at in wanted.items()}
