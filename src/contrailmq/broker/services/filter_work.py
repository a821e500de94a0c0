"""SQL subscriptions of heartbeats are compiled a little at a time.

One heartbeat may bring thousands of expressions, and compiling one takes up to 20 ms.  What is new
waits here and is compiled in slices of ``SLICE_MS``; between two slices everyone else is served.
A pull that comes before its expression is compiled is refused, as one without a heartbeat is, and
clients try again.  At a bound further subscriptions are left out: the next heartbeat brings them
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from contrailmq.broker.tables.filters import ConsumerFilters, is_tag_type
from contrailmq.clock import Clock
from contrailmq.protocol.bodies.heartbeat import SubscriptionData

SLICE_MS: Final = 10
PAUSE_S: Final = 0.04  # a fifth of the loop's time at most
WAITING_MAX: Final = 20_000
WAITING_SIZE_MAX: Final = 16 * 1024 * 1024


class FilterWork:
    """The expressions that wait to be compiled. Owned by the loop."""

    def __init__(self, filters: ConsumerFilters, clock: Clock) -> None:
        self._filters = filters
        self._clock = clock
        self._waiting: dict[tuple[str, str], SubscriptionData] = {}
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Take the subscriptions of a heartbeat; new ones are compiled now if time allows."""
        wanted = {s.topic: s for s in subscriptions if not is_tag_type(s.expression_type)}
        self._filters.retire(group, wanted)
        for subscription in wanted.values():
            if not self._filters.renew(group, subscription):
                self._wait(group, subscription)
        if self._timer is None:
            self._work()

    def close(self) -> None:
        """Compile nothing more."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self, group: str, subscription: SubscriptionData) -> None:
        key, size = (group, subscription.topic), len(subscription.sub_string)
        before = self._waiting.pop(key, None)
        if before is not None:
            self._size -= len(before.sub_string)
        if len(self._waiting) < WAITING_MAX and self._size + size <= WAITING_SIZE_MAX:
            self._waiting[key] = subscription
            self._size += size

    def _work(self) -> None:
        self._timer = None
        end_ms = self._clock.monotonic_ms() + SLICE_MS
        while self._waiting:
            (group, topic), subscription = next(iter(self._waiting.items()))
            del self._waiting[group, topic]
            self._size -= len(subscription.sub_string)
            self._filters.compile_new(group, subscription)
            if self._waiting and self._clock.monotonic_ms() >= end_ms:
                self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self._work)
                break
