"""What has passed through the broker, counted where it happens.

Plain running sums: whoever wants rates or windows takes snapshots.  Keys are made by topics and
groups that exist, and go with them.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from contrailmq._native.lanes.times import Times
from contrailmq.broker.tables.half_tally import HalfTally
from contrailmq.broker.tables.revive_tally import ReviveTally
from contrailmq.broker.tables.timer_tally import TimerTally
from contrailmq.protocol.names import (
    HALF_TOPIC,
    LMQ_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    is_lmq,
    is_system_topic,
)

SIZE_BOUNDS: Final = (1024, 4096, 524_288, 1_048_576, 2_097_152, 4_194_304)


@dataclass(frozen=True, slots=True)
class Sum:
    """Messages and bytes so far, and in how many requests they came or went."""

    count: int
    size: int
    calls: int = 0


class MessageKind(enum.Enum):
    """What a message is, in the original's words."""

    NORMAL = "normal"
    DELAY = "delay"
    TRANSACTION = "transaction"


_KIND_OF_TOPIC: Final = {
    SCHEDULE_TOPIC: MessageKind.DELAY,
    TIMER_TOPIC: MessageKind.DELAY,
    HALF_TOPIC: MessageKind.TRANSACTION,
}


@dataclass(slots=True)
class KindSum:
    """Messages of one kind in one topic: how many, how large together, and by their size."""

    count: int = 0
    size: int = 0
    spread: list[int] = field(default_factory=lambda: [0] * (len(SIZE_BOUNDS) + 1))


class Counters:
    """Sums per topic, queue and group; owned by the event loop."""

    __slots__ = (
        "_acked",
        "_dead",
        "_got",
        "_hidden",
        "_kinds",
        "_popped",
        "_put",
        "_put_size",
        "_put_total",
        "_sent_back",
        "_waited",
        "batch_times",
        "before_read",
        "got_found",
        "got_missed",
        "got_total",
        "has_lights",
        "put_failed",
        "put_times",
        "revives",
        "send_times",
        "timers",
        "transactions",
        "wait_ms_max",
    )

    def __init__(self) -> None:
        self._put: dict[tuple[str, int], list[int]] = {}
        self._got: dict[tuple[str, str, int], list[int]] = {}
        self._sent_back: dict[tuple[str, str], int] = {}
        self._waited: dict[tuple[str, str, int], list[int]] = {}
        self._kinds: dict[tuple[str, MessageKind], KindSum] = {}
        self._dead: dict[tuple[str, str], int] = {}
        self._popped: set[tuple[str, str]] = set()
        self._acked: dict[tuple[str, str], int] = {}
        self._hidden: dict[tuple[str, str], int] = {}
        self._put_total = 0
        self._put_size = 0
        # Whoever counts elsewhere hands its counts over here.
        self.before_read: Callable[[], None] = lambda: None
        self.transactions = HalfTally()
        self.timers = TimerTally()
        self.revives = ReviveTally()
        # How long sends took until their answers may leave, by the path they took.
        self.put_times = Times()  # handlers
        self.send_times = Times()  # the lane of single sends
        self.batch_times = Times()  # the lane of batches
        self.got_total = 0
        self.got_found = 0  # pulls that got messages
        self.got_missed = 0  # pulls that got none
        self.put_failed = 0  # messages and batches the store refused
        self.has_lights = False  # names %LMQ%… count together: there may be very many
        self.wait_ms_max = 0  # the longest a pull waited for the disk

    def put(
        self, topic: str, queue_id: int, *, count: int, size: int, is_delayed: bool = False
    ) -> None:
        """Messages of one request were stored; ``is_delayed``: after they had waited."""
        kind = MessageKind.DELAY if is_delayed else _KIND_OF_TOPIC.get(topic, MessageKind.NORMAL)
        self._add_put(topic, queue_id, count=count, size=size, calls=1)
        known = self._kind(topic, kind)
        known.count += count
        known.size += size
        known.spread[bisect_left(SIZE_BOUNDS, size // count if count else 0)] += count

    def put_timed(self, topic: str, queue_id: int, *, count: int, size: int) -> None:
        """Messages with a time of their own were delivered."""
        self.put(topic, queue_id, count=count, size=size, is_delayed=True)
        self.timers.note_delivery(topic, count)

    def put_run(self, topic: str, queue_id: int, *, count: int, size: int, calls: int) -> None:
        """Ordinary messages of some requests were stored; ``put_sizes`` tells how large."""
        self._add_put(topic, queue_id, count=count, size=size, calls=calls)
        known = self._kind(topic, MessageKind.NORMAL)
        known.count += count
        known.size += size

    def put_sizes(self, topic: str, spread: Sequence[int]) -> None:
        """How many messages of ``put_run`` were at most each of ``SIZE_BOUNDS``, and larger."""
        known = self._kind(topic, MessageKind.NORMAL).spread
        for step, count in enumerate(spread):
            known[step] += count

    def _kind(self, topic: str, kind: MessageKind) -> KindSum:
        known = self._kinds.get((topic, kind))
        if known is None:
            known = self._kinds[topic, kind] = KindSum()
        return known

    def _add_put(self, topic: str, queue_id: int, *, count: int, size: int, calls: int) -> None:
        self._put_total += count
        self._put_size += size
        entry = self._put.get((topic, queue_id))
        if entry is None:
            self._put[topic, queue_id] = [count, size, calls]
        else:
            entry[0] += count
            entry[1] += size
            entry[2] += calls

    def got(self, group: str, topic: str, queue_id: int, *, count: int, size: int) -> None:
        """Messages were handed to a group."""
        if self.has_lights:
            group, topic = _folded(group), _folded(topic)
        self.got_total += count
        self.got_found += 1
        entry = self._got.get((topic, group, queue_id))
        if entry is None:
            self._got[topic, group, queue_id] = [count, size, 1]
        else:
            entry[0] += count
            entry[1] += size
            entry[2] += 1

    def tally(self, group: str, topic: str, queue_id: int) -> list[int]:
        """Messages, bytes and pulls of a group and a queue: sums to be added to in place."""
        if self.has_lights:
            group, topic = _folded(group), _folded(topic)
        return self._got.setdefault((topic, group, queue_id), [0, 0, 0])

    def note_pop(self, group: str, topic: str) -> None:
        """A group pops from a topic."""
        if self.has_lights:
            group, topic = _folded(group), _folded(topic)
        self._popped.add((topic, group))

    def is_popped(self, group: str, topic: str) -> bool:
        """Whether the group has popped from the topic."""
        if self.has_lights:
            group, topic = _folded(group), _folded(topic)
        return (topic, group) in self._popped

    def dead(self, group: str, topic: str) -> None:
        """A message of a topic went to the group's dead letters."""
        self._dead[topic, group] = self._dead.get((topic, group), 0) + 1

    def waited(self, group: str, topic: str, queue_id: int, *, milliseconds: int) -> None:
        """A pull waited for messages that had left memory."""
        if self.has_lights:
            group, topic = _folded(group), _folded(topic)
        self.wait_ms_max = max(self.wait_ms_max, milliseconds)
        entry = self._waited.setdefault((topic, group, queue_id), [0, 0])
        entry[0] += 1
        entry[1] += milliseconds

    def sent_back(self, group: str, topic: str) -> None:
        """A group gave a message back."""
        if self.has_lights:
            group, topic = _folded(group), _folded(topic)
        self._sent_back[topic, group] = self._sent_back.get((topic, group), 0) + 1

    def note_acks(self, group: str, topic: str, count: int) -> None:
        """A group settled messages it had popped."""
        if self.has_lights:
            group, topic = _folded(group), _folded(topic)
        self._acked[topic, group] = self._acked.get((topic, group), 0) + count

    def note_check_points(self, group: str, topic: str, count: int) -> None:
        """A group changed how long messages it had popped are hidden."""
        if self.has_lights:
            group, topic = _folded(group), _folded(topic)
        self._hidden[topic, group] = self._hidden.get((topic, group), 0) + count

    @property
    def put_total(self) -> int:
        """Messages stored."""
        self.before_read()
        return self._put_total

    @property
    def put_size(self) -> int:
        """Bytes of the messages stored."""
        self.before_read()
        return self._put_size

    def of_users(self) -> tuple[int, int]:
        """Messages stored and handed out, without those in topics the broker keeps for itself."""
        put, got = self.put_by_queue(), self._got
        own_put = sum(entry.count for key, entry in put.items() if is_system_topic(key[0]))
        own_got = sum(entry[0] for key, entry in got.items() if is_system_topic(key[0]))
        return self._put_total - own_put, self.got_total - own_got

    def put_by_queue(self) -> dict[tuple[str, int], Sum]:
        """(topic, queue) -> what was stored."""
        self.before_read()
        return {key: Sum(*entry) for key, entry in self._put.items()}

    def got_by_queue(self) -> dict[tuple[str, str, int], Sum]:
        """(topic, group, queue) -> what was handed out."""
        return {key: Sum(*entry) for key, entry in self._got.items()}

    def got_sums(self) -> list[tuple[tuple[str, str, int], list[int]]]:
        """The same with the sums themselves, which go on: to be read at once."""
        return list(self._got.items())

    def waited_by_queue(self) -> dict[tuple[str, str, int], Sum]:
        """(topic, group, queue) -> pulls that waited for the disk, and their milliseconds."""
        return {key: Sum(*entry) for key, entry in self._waited.items()}

    def sent_back_by_group(self) -> dict[tuple[str, str], int]:
        """(topic, group) -> what was given back."""
        return dict(self._sent_back)

    def acked_by_group(self) -> dict[tuple[str, str], int]:
        """(topic, group) -> popped messages that were settled."""
        return dict(self._acked)

    def hidden_by_group(self) -> dict[tuple[str, str], int]:
        """(topic, group) -> changes of the invisible time."""
        return dict(self._hidden)

    def dead_by_group(self) -> dict[tuple[str, str], int]:
        """(topic, group) -> messages that became dead letters."""
        return dict(self._dead)

    def put_by_kind(self) -> dict[tuple[str, MessageKind], KindSum]:
        """(topic, kind) -> what was stored."""
        self.before_read()
        return dict(self._kinds)

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted."""
        self.transactions.forget(topic)
        self.timers.forget(topic)
        self.revives.forget(topic=topic)
        for key in [key for key in self._put if key[0] == topic]:
            del self._put[key]
        for known in [known for known in self._kinds if known[0] == topic]:
            del self._kinds[known]
        self._popped = {pair for pair in self._popped if pair[0] != topic}
        for table in (self._got, self._waited):
            for place in [place for place in table if place[0] == topic]:
                del table[place]
        for counts in (self._sent_back, self._acked, self._hidden, self._dead):
            for pair in [pair for pair in counts if pair[0] == topic]:
                del counts[pair]

    def forget_group(self, group: str) -> None:
        """A group was deleted."""
        self.revives.forget(group=group)
        self._popped = {pair for pair in self._popped if pair[1] != group}
        for table in (self._got, self._waited):
            for place in [place for place in table if place[1] == group]:
                del table[place]
        for counts in (self._sent_back, self._acked, self._hidden, self._dead):
            for pair in [pair for pair in counts if pair[1] == group]:
                del counts[pair]


def _folded(name: str) -> str:
    return LMQ_PREFIX if is_lmq(name) else name
