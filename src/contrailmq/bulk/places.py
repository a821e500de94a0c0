"""From what a user says to offsets of queues: where a query begins and ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from contrailmq.bulk.loss import DataLoss, Losses
from contrailmq.bulk.option_values import EARLIEST_MARK, LATEST_MARK
from contrailmq.bulk.options import COMMITTED, EARLIEST, LATEST, Position
from contrailmq.errors import ConfigError
from contrailmq.protocol.queue import MessageQueue


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


def check_named(queues: Iterable[MessageQueue], places: Mapping[str, Position | None]) -> None:
    """Raise when offsets are given, by the option of this name, for a queue that is not read."""
    there = frozenset(queues)
    for option, place in places.items():
        for queue, _ in place.offsets if place is not None else ():
            if queue not in there:
                raise ConfigError(
                    f"{option} names queue {queue.queue_id} of topic {queue.topic} on broker"
                    f" {queue.broker_name}, which is not read; of that topic there are:"
                    f" {_listed(queue.topic, there)}"
                )


def resolve(
    bounds: QueueBounds,
    queues: Sequence[MessageQueue],
    place: Position,
    *,
    group: str | None,
    is_end: bool = False,
) -> dict[MessageQueue, int]:
    """The offset of each queue a position means now.

    Queues that given offsets leave out begin with their first message and end with their last.
    """
    if place.time_ms is not None:
        return bounds.offsets_at(queues, place.time_ms)
    if place.word == LATEST:
        return bounds.end_offsets(queues)
    first = bounds.first_offsets(queues)
    if place.word == EARLIEST:
        return first
    if place.word == COMMITTED and group is not None:
        return {**first, **bounds.committed(group, queues)}
    rest = bounds.end_offsets(queues) if is_end else first
    return {**rest, **_given(bounds, queues, place.offsets, first)}


def note_beyond(
    bounds: QueueBounds,
    losses: Losses,
    *,
    starts: Mapping[MessageQueue, int],
    ends: Mapping[MessageQueue, int],
) -> None:
    """Say where a query is to begin behind the end of a queue: what was there is gone."""
    beyond = [queue for queue, start in starts.items() if start > ends[queue]]
    for queue, end in bounds.end_offsets(beyond).items():  # a group may have read on meanwhile
        if starts[queue] > end:
            losses.note(DataLoss(queue, end, starts[queue], "not in the queue"))


def _listed(topic: str, queues: Iterable[MessageQueue]) -> str:
    by_broker: dict[str, list[str]] = {}
    for queue in sorted(queues):
        if queue.topic == topic:
            by_broker.setdefault(queue.broker_name, []).append(str(queue.queue_id))
    return "; ".join(f"{name} {', '.join(ids)}" for name, ids in by_broker.items()) or "none"


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
