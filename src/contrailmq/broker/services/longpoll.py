"""Pulls that wait for a message: woken by the append, answered on time, never polled.

Theory of operation.  A waiter is a pull that found nothing.  It lies in the list of its queue and
in one heap of deadlines that is served by a single timer.  The store calls ``wake`` for a queue
that grew; a queue nobody waits on costs one dictionary look-up.  Queues that somebody waits on are
gathered, and answered in callbacks of the same turn of the loop, so that a burst of sends wakes a
consumer once; after ``TURN_MAX`` of them the loop sees to others before it goes on.  What they read
is kept for the length of a callback (``memo``): all who wait for the same get the same.  ``retry``
re-runs the pull: it returns False while nothing matches the filter, and then the waiter keeps lying
where it is, its scan having advanced.  ``expire`` answers at the deadline.  A closed connection
takes its waiters with it.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Protocol

from contrailmq.errors import SystemBusy

log = logging.getLogger(__name__)

WAITERS_MAX: Final = 100_000  # pullThreadPoolQueueCapacity
WAITERS_MAX_PER_PEER: Final = 20_000
TURN_MAX: Final = 128
_TICK_S: Final = 0.0005  # uvloop's timers count whole milliseconds


class Peer(Protocol):
    """What this module needs of a connection."""

    def on_close(self, callback: Callable[[Any], None]) -> None:
        """Call back once when the connection has ended."""
        ...


class Waiter:
    """One held pull."""

    __slots__ = ("deadline", "done", "expire", "key", "peer", "retry", "serial")

    def __init__(
        self,
        key: tuple[str, int],
        peer: Peer,
        *,
        retry: Callable[[], bool],
        expire: Callable[[], None],
    ) -> None:
        self.key = key
        self.peer = peer
        self.retry = retry
        self.expire = expire
        self.deadline = 0.0
        self.serial = 0
        self.done = False

    def __lt__(self, other: Waiter) -> bool:
        return (self.deadline, self.serial) < (other.deadline, other.serial)


class LongPolls:
    """All held pulls of a broker. Owned by the event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        waiters_max: int = WAITERS_MAX,
        waiters_max_per_peer: int = WAITERS_MAX_PER_PEER,
    ) -> None:
        self._loop = loop
        self._waiters_max = waiters_max
        self._waiters_max_per_peer = waiters_max_per_peer
        self._queues: dict[tuple[str, int], dict[int, Waiter]] = {}
        self._peers: dict[Peer, dict[int, Waiter]] = {}
        self._deadlines: list[Waiter] = []
        self._timer: asyncio.TimerHandle | None = None
        self._grown: dict[tuple[str, int], None] = {}
        self._woken: OrderedDict[int, Waiter] = OrderedDict()  # of queues that grew: to be tried
        self.memo: dict[Any, Any] = {}  # what tries of one callback may share; nothing else changes
        self._serial = 0
        self._count = 0
        self._closed = False

    def hold(self, waiter: Waiter, *, timeout_s: float) -> None:
        """Keep a pull until its queue grows or its time is over.

        At a bound the pull is refused, and the text says which bound it was; the client waits a
        while by itself then.
        """
        if self._closed:
            raise SystemBusy("the broker is stopping")
        held = self._peers.get(waiter.peer)
        if self._count >= self._waiters_max:
            raise SystemBusy(f"{self._count} pulls are waiting, at most {self._waiters_max}")
        if held is None:
            held = self._peers[waiter.peer] = {}
            waiter.peer.on_close(self._drop)
        elif len(held) >= self._waiters_max_per_peer:
            raise SystemBusy(
                f"{len(held)} pulls of this connection are waiting, "
                f"at most {self._waiters_max_per_peer}"
            )
        self._serial += 1
        waiter.serial = self._serial
        waiter.deadline = self._loop.time() + timeout_s
        held[waiter.serial] = waiter
        self._queues.setdefault(waiter.key, {})[waiter.serial] = waiter
        self._count += 1
        heapq.heappush(self._deadlines, waiter)
        if self._deadlines[0] is waiter:
            self._arm()

    @property
    def awaited(self) -> dict[tuple[str, int], dict[int, Waiter]]:
        """The queues somebody waits on; always the same object, for those who look often."""
        return self._queues

    def wake(self, topic: str, queue_id: int, offset: int) -> None:
        """A queue grew to ``offset``. Cheap when nobody waits; never re-enters the caller."""
        key = (topic, queue_id)
        if key in self._queues:
            if not self._grown:
                self._loop.call_soon(self._serve_grown)
            self._grown[key] = None

    def wake_all(self, topic: str) -> None:
        """Re-run every pull held for a topic: its offsets were reset, or it was deleted."""
        for key in list(self._queues):
            if key[0] == topic:
                self.wake(key[0], key[1], 0)

    def close(self) -> None:
        """Answer everybody now: the broker stops."""
        self._closed = True
        for waiter in sorted(self._deadlines):
            if not waiter.done:
                self._finish(waiter)
                waiter.expire()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def waiting(self, topic: str, queue_id: int) -> int:
        """How many pulls wait on a queue."""
        return len(self._queues.get((topic, queue_id), ()))

    def _serve_grown(self) -> None:
        grown, self._grown = self._grown, {}
        is_serving = bool(self._woken)
        for key in grown:
            self._woken.update(self._queues.get(key, {}))
        if not is_serving:
            self._serve_woken()

    def _serve_woken(self) -> None:
        try:
            for _ in range(min(TURN_MAX, len(self._woken))):
                _, waiter = self._woken.popitem(last=False)
                if not waiter.done and waiter.retry():
                    self._finish(waiter)
        finally:
            self.memo.clear()
            if self._woken:
                self._loop.call_soon(self._serve_woken)

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

    def _finish(self, waiter: Waiter) -> None:
        if waiter.done:  # answering it may have closed its connection, which finishes it too
            return
        waiter.done = True
        self._count -= 1
        queue = self._queues[waiter.key]
        del queue[waiter.serial]
        if not queue:
            del self._queues[waiter.key]
        held = self._peers.get(waiter.peer)
        if held is not None:
            held.pop(waiter.serial, None)
        if len(self._deadlines) > 64 and len(self._deadlines) > 4 * self._count:
            # Answered waiters stay in the heap until their time; do not let them pile up.
            self._deadlines = [other for other in self._deadlines if not other.done]
            heapq.heapify(self._deadlines)

    def _drop(self, peer: Peer) -> None:
        for waiter in list(self._peers.pop(peer, {}).values()):
            if not waiter.done:
                self._finish(waiter)

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<LongPolls waiting={self._count} queues={len(self._queues)}>"
