"""The in-sync set of a primary in controller mode: who must have a message before it counts.

A change is asked of the controller and counts when it is granted.  Until then both sets count: an
acknowledgement needs every member of their union.  So a primary that has lost its controller
cannot drop a silent replica, and acknowledges nothing that a later primary lacks.
"""

from __future__ import annotations

from typing import Final

from contrailmq.ha.link import Link
from contrailmq.ha.settings import HaSettings

NOTHING: Final = -1


class InSyncSet:
    """The set, as the quorum of a ``Primary``. Owned by the loop."""

    def __init__(self, settings: HaSettings) -> None:
        self._settings = settings
        self.own_id = 0
        self.granted: frozenset[int] = frozenset()
        self.asked: frozenset[int] = frozenset()
        self.epoch = 0

    def grant(self, members: frozenset[int], epoch: int) -> None:
        """This is the set now."""
        self.granted = self.asked = members
        self.epoch = epoch

    def ask(self, members: frozenset[int]) -> None:
        """This set is asked for; until it is granted or refused both count."""
        self.asked = members

    def refused(self) -> None:
        """It was not granted."""
        self.asked = self.granted

    def certain_offset(self, links: list[Link], end: int) -> int:
        """Up to where enough replicas have everything."""
        reached = acknowledged(links)
        if self._settings.all_acknowledge:
            others = (self.granted | self.asked) - {self.own_id}
            return min((reached.get(member, NOTHING) for member in others), default=end)
        needed = max(self._settings.in_sync_replicas, 1) - 1
        if needed == 0:
            return end
        offsets = sorted(reached.values(), reverse=True)
        return offsets[needed - 1] if len(offsets) >= needed else NOTHING

    def is_available(self, links: list[Link], end: int) -> bool:
        """Always: who is away leaves the set, or the wait ends."""
        return True

    def confirmed(self, links: list[Link], end: int) -> int:
        """Up to where readers may see the log; negative when it stays as it was."""
        others = (self.granted | self.asked) - {self.own_id}
        if not others or not self._settings.all_acknowledge:
            return end
        reached = acknowledged(links)
        return min(end, *(reached.get(member, NOTHING) for member in others))

    def wanted(
        self, links: list[Link], *, confirmed: int, epoch_start: int, end: int, now: float
    ) -> frozenset[int]:
        """The set as it should be: who is connected and has caught up.

        A member that has everything stays, however long ago it said so.
        """
        found = {self.own_id}
        patience_s = self._settings.not_caught_up_ms / 1000
        for link in links:
            if link.hello is None or link.hello.is_learner or link.acknowledged < 0:
                continue
            member = link.hello.broker_id
            if member in self.granted:
                if now - link.caught_up_at <= patience_s or link.acknowledged >= end:
                    found.add(member)
            elif link.acknowledged >= max(confirmed, epoch_start):
                found.add(member)
        return frozenset(found)


def acknowledged(links: list[Link]) -> dict[int, int]:
    """What each replica has, by its id."""
    found: dict[int, int] = {}
    for link in links:
        if link.hello is not None and not link.hello.is_learner:
            member = link.hello.broker_id
            found[member] = max(found.get(member, NOTHING), link.acknowledged)
    return found
