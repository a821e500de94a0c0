"""Pops and notifications that wait: woken one at a time, answered on time.

Theory of operation.  A waiter belongs to a group, a topic, and one queue or all of them (-1).  When
a queue of the topic grows, one waiter of each group is woken that wants all queues, and one that
wants this queue; a pop that leaves messages behind wakes the next (``wake_one``).  So a message
costs one try per group, not one per waiter.  Messages that come back lie in the group's retry
topics; their growth wakes waiters of the topic itself, which the original's default does not do.

``topics`` has every topic whose growth matters here; the store looks into it before it calls.
Waiters are tried in callbacks of the loop, never inside ``wake``: a burst of sends wakes once.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
from collections.abc import Callable
from typing import Any, Final, Protocol

from contrailmq.protocol.names import pop_retry_topic, pop_retry_topic_v2

ALL_QUEUES: Final = -1
TURN_MAX: Final = 128
_TICK_S: Final = 0.0005  # uvloop's timers count whole milliseconds


class Kind(enum.Enum):
    """What a waiter waits for; each kind is woken by itself."""

    POP = "pop"
    NOTIFICATION = "notification"


class Peer(Protocol):
    """What this module needs of a connection."""

    def on_close(self, callback: Callable[[Any], None]) -> None:
        """Call back once when the connection has ended."""
        ...


Place = tuple[Kind, str, str]  # kind, topic, group


class PopWaiter:
    """One request that waits. ``retry`` says whether it is answered; ``expire`` answers it."""

    __slots__ = ("deadline", "done", "expire", "peer", "place", "queue_id", "retry", "serial")

    def __init__(
        self, place: Place, queue_id: int, peer: Peer, *,
        retry: Callable[[], bool], expire: Callable[[], None],
    ) -> None:  # fmt: skip
        self.place = place
        self.queue_id = max(queue_id, ALL_QUEUES)
        self.peer = peer
        self.retry = retry
        self.expire = expire
        self.deadline = 0.0
        self.serial = 0
        self.done = False

    def __lt__(self, other: PopWaiter) -> bool:
        return (self.deadline, self.serial) < (other.deadline, other.serial)


Queues = dict[int, dict[int, PopWaiter]]


class PopPolls:
    """All waiting pops and notifications of a broker. Owned by the event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, waiters_max: int, waiters_max_per_key: int
    ) -> None:
        self._loop = loop
        self._waiters_max = waiters_max
        self._waiters_max_per_key = waiters_max_per_key
        self._places: dict[Place, Queues] = {}
        self._peers: dict[Peer, dict[int, PopWaiter]] = {}
        self._deadlines: list[PopWaiter] = []
        self._timer: asyncio.TimerHandle | None = None
        self._grown: dict[tuple[str, int], None] = {}
        self._woken: dict[tuple[Place, int], None] = {}
        self._serial = 0
        self._count = 0
        self._closed = False
        self._always: dict[str, None] = {}
        self.topics: dict[str, dict[Place, Queues]] = {}

    def listen(self, topic: str) -> None:
        """Have the store report a topic whether or not a request waits on it."""
        self._always[topic] = None
        self.topics.setdefault(topic, {})

    def hold(self, waiter: PopWaiter, *, timeout_s: float) -> bool:
        """Keep a request until something comes or its time is over; False when too many wait."""
        if self._closed or self._count >= self._waiters_max:
            return False
        queues = self._places.get(waiter.place)
        if queues is None:
            queues = self._places[waiter.place] = {}
            for name in _names(waiter.place):
                self.topics.setdefault(name, {})[waiter.place] = queues
        same = queues.setdefault(waiter.queue_id, {})
        if len(same) > self._waiters_max_per_key:
            return False
        held = self._peers.get(waiter.peer)
        if held is None:
            held = self._peers[waiter.peer] = {}
            waiter.peer.on_close(self._drop)
        self._serial += 1
        waiter.serial = self._serial
        waiter.deadline = self._loop.time() + timeout_s
        held[waiter.serial] = same[waiter.serial] = waiter
        self._count += 1
        heapq.heappush(self._deadlines, waiter)
        if self._deadlines[0] is waiter:
            self._arm()
        return True

    def wake(self, topic: str, queue_id: int) -> None:
        """A queue of a topic, or of a retry topic, grew. Never re-enters the caller."""
        if topic in self.topics:
            self._soon()
            self._grown[topic, queue_id] = None

    def wake_one(self, topic: str, group: str, queue_id: int) -> None:
        """There is more for a group: let one more waiter of the same queue try."""
        place = (Kind.POP, topic, group)
        if place in self._places:
            self._soon()
            self._woken[place, max(queue_id, ALL_QUEUES)] = None

    def wake_free(self, topic: str, group: str, queue_id: int) -> None:
        """A queue is not blocked any more: waiters for all queues go before those for it."""
        for kind in Kind:
            queues = self._places.get((kind, topic, group))
            if queues:
                self._soon()
                chosen = ALL_QUEUES if ALL_QUEUES in queues else queue_id
                self._woken[(kind, topic, group), chosen] = None

    def waiting(self, topic: str, group: str, queue_id: int) -> int:
        """How many pops wait with exactly these."""
        queues = self._places.get((Kind.POP, topic, group), {})
        return len(queues.get(max(queue_id, ALL_QUEUES), ()))

    def close(self) -> None:
        """Answer all waiters now: the broker stops."""
        self._closed = True
        for waiter in sorted(self._deadlines):
            if not waiter.done:
                self._finish(waiter)
                waiter.expire()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _soon(self) -> None:
        if not self._grown and not self._woken:
            self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        grown, self._grown = self._grown, {}
        woken = self._woken
        for topic, queue_id in grown:
            for place, queues in self.topics.get(topic, {}).items():
                if place[1] == topic:
                    woken[place, ALL_QUEUES] = None
                    woken[place, queue_id] = None
                elif queues:
                    first = ALL_QUEUES if ALL_QUEUES in queues else next(iter(queues))
                    woken[place, first] = None
        tries = list(woken)[:TURN_MAX]
        for key in tries:
            del woken[key]
        if woken:
            self._loop.call_soon(self._serve)
        for place, queue_id in tries:
            self._try(place, queue_id)

    def _try(self, place: Place, queue_id: int) -> None:
        for waiter in self._places.get(place, {}).get(queue_id, {}).values():
            if waiter.retry():
                self._finish(waiter)
            return  # one for each growth

    def _serve_deadlines(self) -> None:
        self._timer = None
        now = self._loop.time() + _TICK_S
        heap = self._deadlines
        while heap and (heap[0].done or heap[0].deadline <= now):
            waiter = heapq.heappop(heap)
            if not waiter.done:
                self._finish(waiter)
                waiter.expire()
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._deadlines and not self._closed:
            self._timer = self._loop.call_at(self._deadlines[0].deadline, self._serve_deadlines)

    def _finish(self, waiter: PopWaiter) -> None:
        if waiter.done:
            return
        waiter.done = True
        self._count -= 1
        queues = self._places[waiter.place]
        same = queues[waiter.queue_id]
        del same[waiter.serial]
        if not same:
            del queues[waiter.queue_id]
        if not queues:
            self._forget(waiter.place)
        held = self._peers.get(waiter.peer)
        if held is not None:
            held.pop(waiter.serial, None)
        if len(self._deadlines) > 64 and len(self._deadlines) > 4 * self._count:
            # Answered waiters stay in the heap until their time; do not let them pile up.
            self._deadlines = [other for other in self._deadlines if not other.done]
            heapq.heapify(self._deadlines)

    def _forget(self, place: Place) -> None:
        del self._places[place]
        for name in _names(place):
            places = self.topics[name]
            del places[place]
            if not places and name not in self._always:
                del self.topics[name]

    def _drop(self, peer: Peer) -> None:
        for waiter in list(self._peers.pop(peer, {}).values()):
            self._finish(waiter)

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<PopPolls waiting={self._count} places={len(self._places)}>"


def _names(place: Place) -> tuple[str, str, str]:
    """The topics whose messages a waiter may get."""
    _, topic, group = place
    return topic, pop_retry_topic(topic, group), pop_retry_topic_v2(topic, group)
