"""The messages of one queue between the pull and their acknowledgement.

Theory of operation.  Pulled messages come in rising offsets.  Each is *waiting* (not handed out),
*out* (with a worker) or *settled* (acknowledged, or sent back to the broker).  What may be
committed is the smallest offset that is not settled, or, when nothing is left, the offset after
the last one seen: a restart then repeats, but never skips.  Flow control reads three numbers:
how many are cached, how many bytes, and how far the cached offsets span.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar


class Cached(Protocol):
    """What the queue needs to know of a message."""

    @property
    def offset(self) -> int:
        """Its offset in the queue."""
        ...

    @property
    def size(self) -> int:
        """The bytes it is counted with."""
        ...


M = TypeVar("M", bound=Cached)


class ProcessQueue(Generic[M]):
    """Cached messages of one queue, and the offset that may be committed."""

    def __init__(self) -> None:
        self._waiting: deque[M] = deque()
        self._order: deque[int] = deque()
        self._settled: set[int] = set()
        self._sizes = 0
        self._next = -1
        self.dropped = False  # the queue belongs to another member now: settle, but do not commit
        self.locked = False
        self.locked_at_ms = 0
        self.last_pull_ms = 0
        self.last_settled_ms = 0

    @property
    def count(self) -> int:
        """Messages not settled."""
        return len(self._order) - len(self._settled)

    @property
    def size(self) -> int:
        """Bytes of the messages not settled."""
        return self._sizes

    @property
    def span(self) -> int:
        """Distance between the first and the last cached offset."""
        return self._order[-1] - self._order[0] if self._order else 0

    @property
    def waiting(self) -> int:
        """Messages not handed out yet."""
        return len(self._waiting)

    @property
    def bounds(self) -> tuple[int, int]:
        """First and last cached offset; zeros when nothing is cached."""
        return (self._order[0], self._order[-1]) if self._order else (0, 0)

    def add(self, messages: Sequence[M]) -> None:
        """Cache pulled messages; their offsets rise and follow those already here."""
        if not messages:
            return
        self._waiting.extend(messages)
        self._order.extend([message.offset for message in messages])
        self._sizes += sum([message.size for message in messages])
        self._next = messages[-1].offset + 1

    def take(self, count: int) -> list[M]:
        """Hand out up to ``count`` messages, oldest first."""
        waiting = self._waiting
        if count >= len(waiting):
            taken = list(waiting)
            waiting.clear()
            return taken
        return [waiting.popleft() for _ in range(count)]

    def put_back(self, messages: Sequence[M]) -> None:
        """Take back messages that were handed out; they are the next to be handed out again."""
        self._waiting.extendleft(reversed(messages))

    def settle(self, message: M) -> None:
        """A message needs no more work here; settling twice does nothing."""
        offset = message.offset
        order, settled = self._order, self._settled
        if not order or offset < order[0] or offset in settled:
            return
        self._sizes -= message.size
        if offset != order[0]:
            settled.add(offset)
            return
        order.popleft()
        while order and order[0] in settled:
            settled.remove(order.popleft())

    def commit_offset(self) -> int:
        """The offset a restart should begin at; -1 when no message was ever here."""
        return self._order[0] if self._order else self._next

    def clear(self) -> None:
        """Forget everything; used when the queue is taken away or its offset is reset."""
        self._waiting.clear()
        self._order.clear()
        self._settled.clear()
        self._sizes = 0
        self._next = -1

    def __repr__(self) -> str:
        return (
            f"<ProcessQueue count={self.count} waiting={self.waiting} bytes={self._sizes}"
            f" commit={self.commit_offset()} dropped={self.dropped} locked={self.locked}>"
        )
