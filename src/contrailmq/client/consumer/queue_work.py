"""The queues a push consumer works on, and the line in which their messages wait for hands.

``QueueWork`` is one assigned queue: cached messages and its state.  ``Inbox`` is the line of queues
that have messages to hand out.  Concurrent consumers take from a queue while others still work on
its earlier messages; ordered ones take from a queue only when it is not *busy*.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from contrailmq.client.message import Origin, ReceivedMessage
from contrailmq.client.process_queue import ProcessQueue
from contrailmq.client.settings import ConsumerSettings
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.queue import MessageQueue

TURN_S: Final = 0.010  # how long messages are handed out before others may run
TURN: Final = 64  # messages of one queue before the next queue has its turn


class QueueWork(Origin):
    """One queue that is ours: what is cached of it and what is going on with it."""

    __slots__ = (
        "busy",
        "cache",
        "damaged",
        "dropped",
        "fruitless",
        "idle",
        "in_line",
        "last_lock_ms",
        "last_pull_ms",
        "last_settled_ms",
        "locked_until",
        "paused",
        "room",
        "stalled",
        "subscription",
        "suspended",
        "turn",
    )

    def __init__(
        self,
        queue: MessageQueue,
        *,
        group: str,
        namespace: str,
        subscription: SubscriptionData,
        offset: int,
    ) -> None:
        super().__init__(queue, group, namespace)
        self.subscription = subscription
        self.cache: ProcessQueue[ReceivedMessage] = ProcessQueue(offset)
        self.room = asyncio.Event()  # set when a stalled pull may go on
        self.stalled = False
        self.dropped = False  # another member's now, or replaced after its offset was moved
        self.in_line = False
        self.busy = False  # ordered only: a message of it is in somebody's hands
        self.idle = asyncio.Event()
        self.idle.set()
        self.suspended = False
        self.paused = False
        self.turn = 0
        self.fruitless = 0  # pulls one after another that led nowhere
        self.damaged = 0  # answers one after another that began with no record
        self.locked_until = 0.0
        self.last_lock_ms = self.last_pull_ms = self.last_settled_ms = 0

    def is_full(self, settings: ConsumerSettings, *, ordered: bool, low: bool = False) -> bool:
        """Whether pulling has to wait; ``low`` asks for the mark at which it goes on."""
        if self.paused:
            return True
        share = 2 if low else 1
        cache = self.cache
        if cache.count >= settings.queue_count_max // share:
            return cache.count > 0
        if cache.size >= settings.queue_size_max // share:
            return cache.count > 0
        return not ordered and cache.span >= settings.queue_span_max

    def settle(self, message: ReceivedMessage, settings: ConsumerSettings) -> None:
        """A message of this queue is done; lets a stalled pull go on when there is room again."""
        self.cache.settle(message)
        if self.stalled:
            self.go_on(settings)

    def settle_all(self, messages: list[ReceivedMessage], settings: ConsumerSettings) -> None:
        """Messages of this queue that were handed out together are done."""
        self.cache.settle_all(messages)
        self.go_on(settings)

    def go_on(self, settings: ConsumerSettings) -> None:
        """Let a stalled pull go on if there is room again."""
        if self.stalled and not self.is_full(settings, ordered=self.busy, low=True):
            self.stalled = False
            self.room.set()

    @property
    def is_held_back(self) -> bool:
        """Whether nothing is handed out for now."""
        return self.suspended or self.paused

    def begin(self) -> None:
        """Ordered only: nobody else may take from this queue now."""
        self.busy = True
        self.idle.clear()

    def finish(self) -> None:
        """Ordered only: the next message may be taken."""
        self.busy = False
        self.idle.set()

    def __repr__(self) -> str:
        return f"<QueueWork {self.queue} {self.cache} busy={self.busy} dropped={self.dropped}>"


class Inbox:
    """Queues with messages to hand out, and the hands that wait for them."""

    def __init__(self, *, ordered: bool) -> None:
        self._ordered = ordered
        self._line: deque[QueueWork] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.closed = False  # nothing will be handed out any more

    def offer(self, work: QueueWork) -> None:
        """Put a queue in the line if it has something to hand out."""
        if work.in_line or work.dropped or work.is_held_back or not work.cache.waiting:
            return
        if self._ordered and work.busy:
            return
        work.in_line = True
        self._line.append(work)
        self._wake()

    def take(self, count: int) -> list[ReceivedMessage]:
        """Up to ``count`` messages of one queue, or none."""
        line = self._line
        while line:
            work = line[0]
            cache = work.cache
            ready = cache.ready
            if not ready or work.dropped or work.suspended or work.paused:
                line.popleft()
                work.in_line = False
                continue
            taken = [ready.popleft()] if count == 1 else cache.take(count)
            if self._ordered:
                line.popleft()
                work.in_line = False
                work.begin()
            elif not ready:
                line.popleft()
                work.in_line = False
                work.turn = 0
            else:
                work.turn += len(taken)
                if work.turn >= TURN:
                    self._rotate(work)
            if line and self._waiters:
                self._wake()
            return taken
        return []

    def front(self) -> QueueWork | None:
        """Concurrent only: the queue whose turn it is, or none; it stays in its place."""
        line = self._line
        while line:
            work = line[0]
            if work.cache.ready and not (work.dropped or work.suspended or work.paused):
                return work
            line.popleft()
            work.in_line = False
        return None

    def turn_left(self, work: QueueWork) -> int:
        """How many messages of the queue in front may be taken before the next has its turn."""
        return max(TURN - work.turn, 1) if len(self._line) > 1 else TURN

    def took(self, work: QueueWork, count: int) -> None:
        """So many messages of the queue in front were taken."""
        line = self._line
        if not line or line[0] is not work:
            return
        if work.cache.ready:
            work.turn += count
            if work.turn >= TURN:
                self._rotate(work)
        else:
            line.popleft()
            work.in_line = False
            work.turn = 0

    def pass_on(self) -> None:
        """Whoever took last has to wait: let another take what is left, if anything is."""
        if self._line:
            self._wake()

    async def wait(self) -> None:
        """Wait until there may be something to take, or the inbox is closed."""
        if self._line or self.closed:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._wake()  # pass on what we were woken for
            raise

    def close(self) -> None:
        """Hand out nothing more and wake all who wait."""
        self.closed = True
        self._line.clear()
        waiters, self._waiters = self._waiters, deque()
        for future in waiters:
            if not future.done():
                future.set_result(None)

    def _rotate(self, work: QueueWork) -> None:
        if len(self._line) > 1:
            work.turn = 0
            self._line.rotate(-1)

    def _wake(self) -> None:
        while self._waiters:
            future = self._waiters.popleft()
            if not future.done():
                future.set_result(None)
                return
