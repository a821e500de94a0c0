"""What a send waits for beside the disk: its replicas.

Both waits run side by side.  A fault of the replicas outranks one of the disk, as in the original;
a store that stopped outranks both.  A message whose wait ends with a fault is stored all the same.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

from contrailmq.errors import StoreClosed


class ReplicaFault(enum.Enum):
    """Why a message is stored and not certain to be on its replicas."""

    TIMEOUT = "the replicas were not certain in time"
    NOT_AVAILABLE = "no replica is there and near enough"


Outcome = bool | ReplicaFault | StoreClosed
Done = Callable[[Outcome], None]


class Replicas(Protocol):
    """Who knows how far the replicas are."""

    def when_replicated(
        self, end_offset: int, done: Callable[[ReplicaFault | StoreClosed | None], None]
    ) -> None:
        """Call back once enough replicas have everything before ``end_offset``, or will not."""
        ...


class BothWaits:
    """The two waits of one group of sends; calls back once, when both have ended."""

    __slots__ = ("_disk", "_done", "_left", "_replicas")

    def __init__(self, done: Done) -> None:
        self._done = done
        self._left = 2
        self._disk: Outcome = True
        self._replicas: ReplicaFault | StoreClosed | None = None

    def flushed(self, outcome: Outcome) -> None:
        """The disk is certain, or is not."""
        self._disk = outcome
        self._end()

    def replicated(self, fault: ReplicaFault | StoreClosed | None) -> None:
        """Enough replicas have it, or they have not."""
        self._replicas = fault
        self._end()

    def _end(self) -> None:
        self._left -= 1
        if self._left:
            return
        if isinstance(self._disk, StoreClosed) or self._replicas is None:
            self._done(self._disk)
        else:
            self._done(self._replicas)
