"""The messages of one queue between the pull and their acknowledgement.

Theory of operation.  Pulled messages come in rising offsets.  Each is *waiting* (not handed out),
*out* (with a worker) or *settled* (acknowledged, or sent back to the broker).  What may be
committed is the smallest offset that is not settled, or, when nothing is left, the offset the next
pull begins at: a restart then repeats, but never skips.  Flow control reads three numbers: how
many are cached, how many bytes, and how far the cached offsets span.

A queue whose offset is moved gets a new ``ProcessQueue``; late settlements of the old one then
hit nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar


class Cached(Protocol):
    """What the queue needs to know of a message; both are its record's."""

    queue_offset: int
    store_size: int


M = TypeVar("M", bound=Cached)


class ProcessQueue(Generic[M]):
    """Cached messages of one queue, and the offset that may be committed.

    ``ready`` are those not handed out yet, oldest first; ``size`` the bytes of all not settled.
    ``order`` are the offsets of those not settled and of those settled (also in ``settled``) before
    an older one: the compiled ``Hand`` works on them too.
    """

    __slots__ = ("_next", "order", "ready", "settled", "size")

    def __init__(self, next_offset: int) -> None:
        self.ready: deque[M] = deque()
        self.order: deque[int] = deque()
        self.settled: set[int] = set()
        self._next = next_offset
        self.size = 0

    @property
    def count(self) -> int:
        """Messages not settled."""
        return len(self.order) - len(self.settled)

    @property
    def span(self) -> int:
        """Distance between the first and the last cached offset."""
        return self.order[-1] - self.order[0] if self.order else 0

    @property
    def waiting(self) -> int:
        """Messages not handed out yet."""
        return len(self.ready)

    @property
    def out(self) -> int:
        """Messages handed out and not settled."""
        return self.count - len(self.ready)

    @property
    def next_offset(self) -> int:
        """Where the next pull begins."""
        return self._next

    @property
    def bounds(self) -> tuple[int, int]:
        """First and last cached offset; zeros when nothing is cached."""
        return (self.order[0], self.order[-1]) if self.order else (0, 0)

    def add(self, messages: Sequence[M], next_offset: int) -> None:
        """Cache pulled messages; their offsets rise and follow those already here."""
        if messages:
            self.ready.extend(messages)
            self.order.extend([message.queue_offset for message in messages])
            self.size += sum([message.store_size for message in messages])
        self._next = next_offset

    def take(self, count: int) -> list[M]:
        """Hand out up to ``count`` messages, oldest first."""
        waiting = self.ready
        if count == 1 and waiting:
            return [waiting.popleft()]
        if count >= len(waiting):
            taken = list(waiting)
            waiting.clear()
            return taken
        return [waiting.popleft() for _ in range(count)]

    def put_back(self, messages: Sequence[M]) -> None:
        """Take back messages that were handed out; they are the next to be handed out again."""
        self.ready.extendleft(reversed(messages))

    def drop_waiting(self) -> None:
        """Hand out nothing more; what waits stays unsettled, so it is not committed."""
        self.ready.clear()

    def settle(self, message: M) -> None:
        """A message needs no more work here; settling twice does nothing."""
        offset = message.queue_offset
        order = self.order
        if not order or offset < order[0]:
            return
        settled = self.settled
        if offset != order[0]:
            if offset not in settled:
                settled.add(offset)
                self.size -= message.store_size
            return
        self.size -= message.store_size
        order.popleft()
        while settled and order[0] in settled:
            settled.remove(order.popleft())

    def settle_all(self, messages: Sequence[M]) -> None:
        """Settle messages handed out together; quick when they are the oldest here."""
        order, count = self.order, len(messages)
        if (
            not self.settled
            and count <= len(order)
            and messages[0].queue_offset == order[0]
            and messages[-1].queue_offset == order[count - 1]
        ):
            # Offsets rise on both sides, so these are exactly the first ``count``.
            popleft = order.popleft
            for _ in range(count):
                popleft()
            self.size -= sum([message.store_size for message in messages])
            return
        for message in messages:
            self.settle(message)

    def commit_offset(self) -> int:
        """The offset a restart should begin at."""
        return self.order[0] if self.order else self._next

    def __repr__(self) -> str:
        return (
            f"<ProcessQueue count={self.count} waiting={self.waiting} bytes={self.size}"
            f" commit={self.commit_offset()} next={self._next}>"
        )
