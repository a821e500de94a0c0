"""Offsets of a stream as Spark keeps them in its checkpoint, and how a stream moves on.

Theory of operation.  Spark asks for the initial offset more than once and again when the first
batch is replayed, so "latest" or "committed" must not be resolved there.  The initial offset is
therefore a symbol, ``{"v": 1, "start": "latest"}``; the first end offset has both ends in it::

    {"v": 1, "from": {topic: {broker: {queue id: offset}}}, "to": {...}}

and later ones the new ``to``, with ``from`` for queues that have appeared since.  A batch is
``to`` of its start, or where that has no such queue ``from`` of its end, to ``to`` of its end: the
same rows whenever it is replayed.  ``tasks`` of its end is into how many parts it was cut, so that
it is cut the same way when it is replayed elsewhere, with other cores.  The first trigger makes a
batch even of no rows, so that the place where the stream begins is written down at once.

Before Spark 4.2 an end may have to be found without knowing the start.  It then has ``first``, too:
where the queues begin that a stream with a known start has not seen, while ``from`` is where they
begin if the stream is new.

Queues that appear later begin at their first message.  Queues that disappear keep their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from contrailmq.bulk.loss import DataLoss, Losses
from contrailmq.bulk.options import COMMITTED, EARLIEST, Position
from contrailmq.bulk.places import QueueBounds, resolve
from contrailmq.bulk.planning import Offsets, QueueRange
from contrailmq.errors import ConfigError, SystemBusy
from contrailmq.protocol.queue import MessageQueue

VERSION: Final = 1
_EARLIEST: Final = Position(word=EARLIEST)

Offset = dict[str, Any]
Limit = Callable[[Offsets, Offsets], Offsets]


def symbol(place: Position) -> Offset:
    """The initial offset: what the user said, not what it means."""
    return {"v": VERSION, "start": str(place)}


def offset_of(to: Offsets, begun: Offsets | None = None) -> Offset:
    """An offset to write down; ``begun`` is where queues that are new in it begin."""
    found: Offset = {"v": VERSION}
    if begun:
        found["from"] = nested(begun)
    found["to"] = nested(to)
    return found


def reached(offset: Offset) -> dict[MessageQueue, int]:
    """How far each queue has been read at an offset; empty for a symbol."""
    return flat(_checked(offset).get("to", {}))


def ranges(start: Offset, end: Offset) -> list[QueueRange]:
    """What the batch between two offsets reads, sorted by queue."""
    before, begun = reached(start), flat(_checked(end).get("from", {}))
    if "to" in start:
        begun = {**begun, **flat(end.get("first", {}))}
    found = []
    for queue, until in sorted(reached(end).items()):
        since = before.get(queue, begun.get(queue, until))
        if since < until:
            found.append(QueueRange(queue, since, until))
    return found


def floating(end: Offset, first: Offsets) -> Offset:
    """An end offset for whatever start: queues that the start has not begin at their ``first``."""
    return {**end, "first": nested(first)}


def cut(end: Offset, tasks: int) -> Offset:
    """An end offset that says into how many parts its batch is cut."""
    return {**end, "tasks": tasks}


def find_tasks(end: Offset) -> int | None:
    """Into how many parts the batch before an end offset was cut, if that was written down."""
    found = _checked(end).get("tasks")
    return None if found is None else int(found)


class Advance:
    """Finds the next end offset of a stream."""

    def __init__(self, place: Position, *, group: str | None, losses: Losses) -> None:
        self._place = place
        self._group = group
        self._losses = losses
        self.ends: dict[MessageQueue, int] = {}  # what was there when last looked
        self._begun: dict[MessageQueue, int] = {}

    def next(
        self,
        start: Offset,
        bounds: QueueBounds,
        queues: Sequence[MessageQueue],
        *,
        limit: Limit,
        target: Offsets | None = None,
        is_blind: bool = False,
    ) -> Offset:
        """The end of the next batch; ``start`` itself when there is nothing new.

        Nothing behind ``target`` is read, nor more than ``limit`` allows.  ``is_blind``: a start
        that is a symbol may be that of a stream that is somewhere already.
        """
        before = reached(start)
        is_first = "to" not in start
        new = [queue for queue in queues if queue not in before]
        begun = self._begin(bounds, new, is_first=is_first, is_blind=is_blind)
        starts = {**begun, **before}
        ends = self._ends(bounds, queues, target, before)
        for queue, end in ends.items():
            self._check(queue, end, before.get(queue, 0))
        ends = {queue: end for queue, end in ends.items() if queue in starts}
        waiting = {q: end for q, end in ends.items() if end > starts[q]}
        allowed = limit({q: starts[q] for q in waiting}, waiting) if waiting else {}
        shrunk = {q: end for q, end in ends.items() if end < starts[q]}
        if not allowed and not is_first and not shrunk:
            return start
        return offset_of({**starts, **allowed, **shrunk}, begun)

    def _begin(
        self,
        bounds: QueueBounds,
        new: Sequence[MessageQueue],
        *,
        is_first: bool,
        is_blind: bool,
    ) -> dict[MessageQueue, int]:
        """Where new queues begin; asked once, for the answer to "latest" changes."""
        unknown = [queue for queue in new if queue not in self._begun]
        if unknown:
            place = self._place if is_first else _EARLIEST
            first = bounds.first_offsets(unknown)
            found = resolve(bounds, unknown, place, group=self._group)
            ends = bounds.end_offsets(unknown) if is_first else found
            for queue in unknown:
                at = found[queue]
                if is_blind:  # what is missing is noticed when it is read
                    pass
                elif at < first[queue] and (place.offsets or place.word == COMMITTED):
                    self._losses.note_deleted(queue, at, first[queue])
                elif at > ends[queue]:
                    self._losses.note(DataLoss(queue, ends[queue], at, "not in the queue"))
                self._begun[queue] = max(min(at, ends[queue]), first[queue])
        return {queue: self._begun[queue] for queue in new}

    def _check(self, queue: MessageQueue, end: int, reached_to: int) -> None:
        """A queue that ends too early: a loss, unless it may be a broker that still recovers."""
        if end >= reached_to:
            self._losses.forget(queue)
            return
        loss = DataLoss(queue, end, reached_to, "not in the queue any more")
        if not self._losses.is_certain(loss):
            raise SystemBusy(f"{loss}, or not yet again")
        self._losses.note(loss)

    def _ends(
        self,
        bounds: QueueBounds,
        queues: Sequence[MessageQueue],
        target: Offsets | None,
        before: Offsets,
    ) -> dict[MessageQueue, int]:
        if target is not None:
            self.ends = {queue: target[queue] for queue in queues if queue in target}
            low = [queue for queue, end in self.ends.items() if end < before.get(queue, 0)]
            if low:  # the target was set while a broker recovered
                self.ends.update(bounds.end_offsets(low))
        else:
            self.ends = bounds.end_offsets(queues)
        return self.ends


def _checked(offset: Offset) -> Offset:
    if offset.get("v") != VERSION:
        raise ConfigError(
            f"offset {str(offset)[:200]} in the checkpoint is not of this source, or of a newer one"
        )
    return offset


def nested(offsets: Mapping[MessageQueue, int]) -> dict[str, dict[str, dict[str, int]]]:
    """Numbers of queues by topic, broker and queue id."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for queue, offset in sorted(offsets.items()):
        by_broker = found.setdefault(queue.topic, {})
        by_broker.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offset
    return found


def flat(by_topic: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[MessageQueue, int]:
    """The numbers of queues that ``nested`` wrote."""
    return {
        MessageQueue(topic, broker, int(queue_id)): int(offset)
        for topic, brokers in by_topic.items()
        for broker, offsets in brokers.items()
        for queue_id, offset in offsets.items()
    }
