"""Sends that wait for replicas: one queue in the order of the log, one timer.

Whoever waits is called back in the turn in which enough replicas have reported, with None; or with
the fault when that took longer than ``slaveTimeout``, or no replica is near enough to wait for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from contrailmq.store.certainty import ReplicaFault

Done = Callable[[ReplicaFault | None], None]


class _Waiter(NamedTuple):
    end_offset: int
    done: Done
    deadline: float


class ReplicaWaits:
    """The sends that wait. ``timeout_s`` is how long each may."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._waiters: deque[_Waiter] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.timeouts = 0

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, end_offset: int, done: Done) -> None:
        """Wait until ``settle`` is called with this offset or a greater one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        self._waiters.append(_Waiter(end_offset, done, deadline))
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire)

    def settle(self, certain_offset: int) -> None:
        """Enough replicas have everything before this offset."""
        waiters = self._waiters
        while waiters and waiters[0].end_offset <= certain_offset:
            waiters.popleft().done(None)
        if not waiters:
            self._stop_timer()

    def fail_all(self, fault: ReplicaFault) -> None:
        """Nothing is waited for any more."""
        self._stop_timer()
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            waiter.done(fault)

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._waiters and self._waiters[0].deadline <= loop.time():
            self.timeouts += 1
            self._waiters.popleft().done(ReplicaFault.TIMEOUT)
        if self._waiters and self._timer is None:
            self._timer = loop.call_at(self._waiters[0].deadline, self._expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
