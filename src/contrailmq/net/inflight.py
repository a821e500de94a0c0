"""Requests of one peer whose answers are still to come, counted per lane.

A request is in flight from the moment its handler returned without an answer until the answer is
there.  At the bound of its lane a request is refused before its handler sees it; the remark names
the bound.  Lanes do not count against each other.
"""

from __future__ import annotations

from contrailmq.net.settings import Lane
from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.command import Command


class InFlight:
    """The count of each lane, and the requests held until ``reply``."""

    __slots__ = ("_counts", "_held", "_limits", "total")

    def __init__(self, limits: tuple[int, int, int]) -> None:
        self._limits = limits
        self._counts = [0, 0, 0]
        self._held: dict[int, Lane] = {}
        self.total = 0

    def refusal(self, request: Command, lane: Lane) -> Command | None:
        """The answer to a request for which its lane has no room, None if there is room."""
        count, limit = self._counts[lane], self._limits[lane]
        if count < limit:
            return None
        return request.refuse(
            ResponseCode.SYSTEM_BUSY,
            f"[OVERLOAD]system busy: {count} {lane.name.lower()} requests of this connection "
            f"are in flight, at most {limit}",
        )

    def take_off(self, lane: Lane) -> None:
        """A handler will answer later."""
        self._counts[lane] += 1
        self.total += 1

    def land(self, lane: Lane) -> None:
        """The answer is there."""
        self._counts[lane] -= 1
        self.total -= 1

    def hold(self, opaque: int, lane: Lane) -> None:
        """A handler returned None: somebody will call ``reply`` with this opaque."""
        if opaque not in self._held:  # a peer may use a number twice; it counts once
            self._held[opaque] = lane
            self.take_off(lane)

    def release(self, opaque: int) -> bool:
        """``reply`` was called; False if no request with this opaque is held."""
        lane = self._held.pop(opaque, None)
        if lane is None:
            return False
        self.land(lane)
        return True
