"""Which queue the next message goes to.

Three ways: round robin that avoids the broker that just failed and, if asked, brokers the fault
log warns of; the hash of a key, so that equal keys share a queue; a function of the caller's own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from contrailmq.client.producer.faults import FaultLog
from contrailmq.client.routes import PublishRoute
from contrailmq.clock import Clock
from contrailmq.protocol.ids import java_hash
from contrailmq.protocol.queue import MessageQueue

Selector = Callable[[Sequence[MessageQueue]], MessageQueue]


class RoundRobin:
    """One counter per topic, from a random start, over the queues of the current route."""

    def __init__(
        self, *, rng: random.Random, clock: Clock, faults: FaultLog, avoid_faults: bool
    ) -> None:
        self._rng = rng
        self._clock = clock
        self._faults = faults
        self._avoid_faults = avoid_faults
        self._counters: dict[str, int] = {}

    def choose(self, route: PublishRoute, *, last_broker: str | None = None) -> MessageQueue:
        """The next queue; after a failure preferably one of another broker."""
        queues = route.queues
        counter = self._counters.get(route.topic)
        if counter is None:
            counter = self._rng.randrange(1 << 20)
        if self._avoid_faults:
            chosen, counter = self._healthy(queues, counter, last_broker)
        else:
            chosen, counter = _next_of_other(queues, counter, last_broker)
        self._counters[route.topic] = counter
        return chosen

    def _healthy(
        self, queues: Sequence[MessageQueue], counter: int, last_broker: str | None
    ) -> tuple[MessageQueue, int]:
        now_ms = self._clock.now_ms()
        size = len(queues)
        for step in range(1, size + 1):  # available, and another broker than the last
            queue = queues[(counter + step) % size]
            name = queue.broker_name
            if name != last_broker and self._faults.is_available(name, now_ms):
                return queue, counter + step
        for step in range(1, size + 1):  # at least reachable
            queue = queues[(counter + step) % size]
            if queue.broker_name != last_broker and self._faults.is_reachable(queue.broker_name):
                return queue, counter + step
        return _next_of_other(queues, counter, last_broker)


def by_key(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """The queue of a key: the same as Java's hash selector as long as the queues are the same."""
    return queues[key_index(key, len(queues))]


def key_index(key: str, count: int) -> int:
    """Which of so many queues is a key's."""
    # SelectMessageQueueByHash: the remainder keeps its sign in Java, then its absolute value.
    return abs(java_hash(key)) % count


def _next_of_other(
    queues: Sequence[MessageQueue], counter: int, last_broker: str | None
) -> tuple[MessageQueue, int]:
    size = len(queues)
    if last_broker is not None:
        for step in range(1, size + 1):
            queue = queues[(counter + step) % size]
            if queue.broker_name != last_broker:
                return queue, counter + step
    counter += 1
    return queues[counter % size], counter
