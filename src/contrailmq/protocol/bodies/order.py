"""``consumerOrderInfo.json``: what ordered pops have given out (ConsumerOrderInfoManager)."""

from __future__ import annotations

from typing import Final

import msgspec

from contrailmq.protocol.bodies.body import Body, Int, Long

COMMITTED_NOT: Final = -2


class OrderInfo(Body):
    """The messages of the last ordered pop of one queue."""

    attempt_id: str | None = msgspec.field(name="a", default=None)
    settled: Long = msgspec.field(name="cm", default=0)
    invisible_ms: Long | None = msgspec.field(name="i", default=None)
    used_ms: Long = msgspec.field(name="l", default=0)
    offset_list: list[Long] = msgspec.field(name="o", default_factory=list)
    times: dict[Long, Int] | None = msgspec.field(name="oc", default=None)
    visible_ms: dict[Long, Long] | None = msgspec.field(name="ot", default=None)
    pop_ms: Long = msgspec.field(name="popTime", default=0)

    def offsets(self) -> list[int]:
        """The queue offsets; in the list all but the first are distances from the first."""
        if not self.offset_list:
            return []
        first = self.offset_list[0]
        return [first, *(first + distance for distance in self.offset_list[1:])]

    def free_at_ms(self) -> int:
        """When nothing of it is hidden any more; 0 when all is settled."""
        latest = 0
        for index, offset in enumerate(self.offsets()):
            if not self.settled >> index & 1:
                at = (self.visible_ms or {}).get(offset)
                latest = max(latest, self.pop_ms + (self.invisible_ms or 0) if at is None else at)
        return latest

    def next_offset(self) -> int:
        """The first offset that is not settled, or the one behind the last."""
        offsets = self.offsets()
        for index, offset in enumerate(offsets):
            if not self.settled >> index & 1:
                return offset
        return offsets[-1] + 1 if offsets else COMMITTED_NOT


class OrderInfos(Body):
    """The whole file: ``topic@group`` to queue to entry."""

    table: dict[str, dict[Int, OrderInfo]] = {}
