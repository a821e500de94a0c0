"""What compiled loops ask of their owners, as types that mypy checks on both sides.

A compiled loop does the common case by itself and calls its host for the rest.  These Protocols
are the whole list of such calls: if a loop needs another one, it is added here first, and every
host that lacks it fails the type check.  Nothing here is compiled; a call costs what it did.
"""

from __future__ import annotations

from typing import Any, Protocol

from contrailmq._native.lanes.decided import LanePlan, LaneQueue, LaneTopic
from contrailmq._native.store.log import Origin
from contrailmq._native.store.queues import QueueWriter

Bytes = bytes | bytearray | memoryview


class LanePeer(Protocol):
    """What a lane needs of a connection.

    ``lane_state`` is None until the connection has sent something, and then its ``Origin``.
    ``visitor`` is the ``Visitor`` of a connection that access control has let in.
    """

    lane_state: Any
    visitor: Any

    @property
    def peer_host(self) -> bytes:
        """The peer as a record stores it."""
        ...

    def answer(self, reply: Bytes, /) -> None:
        """Write an answer that comes later than its read."""
        ...


class Revised(Protocol):
    """A number that changes whenever an earlier decision of the broker may be wrong."""

    value: int


class QueueTable(Protocol):
    """The store's queues; the number changes whenever one is removed."""

    removals: int


class SendHost(Protocol):
    """The owner of a ``SendLane``; asked only for what is rare."""

    def decide_anew(self) -> None:
        """Drop every decision: the broker's tables or the store's queues have changed."""
        ...

    def decide(self, topic: bytes, /) -> LaneTopic | None:
        """Return what the lane may assume about a topic; None leaves it to the handler."""
        ...

    def queue(self, topic: bytes, queue_id: int, /) -> QueueWriter:
        """Return the queue a message goes to."""
        ...

    def origin(self, peer: LanePeer, /) -> Origin:
        """Return what all records of a connection share, and keep it in ``lane_state``."""
        ...

    def other(
        self, buffer: bytearray, start: int, end: int, peer: LanePeer, out: list[Bytes], /
    ) -> int:
        """Serve frames other than single sends; returns the position of the first one left."""
        ...

    def release(self) -> None:
        """Let go of the buffer of the last read: it may be resized now."""
        ...


class BatchHost(SendHost, Protocol):
    """The owner of a ``BatchLane``."""

    def batch_origin(self, text: bytes, born_host: bytes, /) -> Origin | None:
        """Return what follows the properties of each message of a batch; None: not for the lane.

        ``text`` holds the properties of the batch itself, without its unique key.
        """
        ...

    def unique_key(self) -> bytes:
        """Return a key for the answer to a batch that has none."""
        ...


class HeldHost(Protocol):
    """The owner of the answers that wait for the disk."""

    def held(self) -> None:
        """Take the group at the end of this turn: its first answer is held."""
        ...

    def steer(self) -> None:
        """Open or close the lanes: the size of what is held has passed the bound."""
        ...


class GateHost(Protocol):
    """The owner of a ``Gate``; asked once for each account and topic, or consumer."""

    def may_send(self, account: Any, topic: LaneTopic, /) -> bool:
        """Return whether an account may put messages into a topic."""
        ...

    def may_pull(self, account: Any, plan: LanePlan, /) -> bool:
        """Return whether an account may read what a plan reads."""
        ...


class PullHost(Protocol):
    """The owner of a ``PullLane``; asked once per consumer, per queue and per file."""

    def decide_pull(self, key: bytes, /) -> LanePlan | None:
        """Return the plan of a consumer; None leaves it to the handler."""
        ...

    def lane_queue(self, topic: str, queue_id: int, /) -> LaneQueue | None:
        """Return a queue of a plan; None if nothing was ever put into it."""
        ...

    def attach(self, queue: LaneQueue, offset: int, /) -> bool:
        """Let the lane read the file that holds a queue offset; False if there is none."""
        ...

    def read_on(self) -> None:
        """Load what a consumer of old messages will want next."""
        ...

    def tally(self, plan: LanePlan, queue_id: int, /) -> list[int]:
        """Return the pair in which messages and bytes handed out are counted."""
        ...

    def pulls_of(self, plan: LanePlan, /) -> dict[int, int]:
        """Return the table in which the lane notes how far a group has pulled."""
        ...

    def commit(self, plan: LanePlan, queue_id: int, offset: int, /) -> None:
        """Commit the offset that came with a pull."""
        ...


class PullCounters(Protocol):
    """What the pull lane counts for the whole broker."""

    got_missed: int
    got_found: int
    got_total: int
