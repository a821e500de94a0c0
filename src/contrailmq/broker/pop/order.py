"""Ordered pops: which messages of a queue are out, and whether the queue is blocked by them.

The table of ``consumerOrderInfo.json`` (ConsumerOrderInfoManager).  A queue of a group is blocked
while a message of the last ordered pop is neither settled nor visible again, except for a request
with the same attempt id, which gets the same messages once more.  The committed offset is the first
one that is not settled; so after a block ends by time, everything from there on is given out
again.  An entry ends with its topic, group or queue, or when it was not used for a day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from contrailmq.clock import Clock
from contrailmq.errors import SystemBusy
from contrailmq.protocol.bodies.order import COMMITTED_NOT, OrderInfo, OrderInfos

ENTRIES_MAX: Final = 100_000
UNUSED_MS: Final = 24 * 3600 * 1000  # CLEAN_SPAN_FROM_LAST
ILLEGAL: Final = -1


class OrderTable:
    """Ordered pops by ``topic@group`` and queue. Bounded by ``entries_max`` queues."""

    def __init__(self, clock: Clock, *, entries_max: int = ENTRIES_MAX) -> None:
        self._clock = clock
        self._entries_max = entries_max
        self._table: dict[str, dict[int, OrderInfo]] = {}
        self._count = 0
        self.revision = 0

    def is_blocked(
        self, group: str, topic: str, queue_id: int, *, attempt_id: str | None, invisible_ms: int
    ) -> bool:
        """Whether an ordered pop has to leave this queue alone now."""
        info = self.find(group, topic, queue_id)
        if info is None or (info.attempt_id is not None and info.attempt_id == attempt_id):
            return False
        if not info.invisible_ms or info.invisible_ms <= 0:
            info.invisible_ms = invisible_ms
        return self._clock.now_ms() < info.free_at_ms()

    def popped(
        self, group: str, topic: str, queue_id: int, *,
        offsets: Sequence[int], pop_ms: int, invisible_ms: int, attempt_id: str | None,
    ) -> list[tuple[int, int]]:  # fmt: skip
        """Note what an ordered pop gave out; how often each was given out before."""
        queues = self._table.setdefault(f"{topic}@{group}", {})
        old = queues.get(queue_id)
        if old is None:
            if self._count >= self._entries_max:
                raise SystemBusy(f"{self._count} queues are popped in order, at most that many")
            self._count += 1
        times: dict[int, int] = {}
        if old is not None:
            if old.attempt_id is not None and old.attempt_id == attempt_id:
                times = dict(old.times or {})
            else:
                before = old.times or {}
                known = set(old.offsets())
                times = {o: before.get(o, 0) + 1 for o in offsets if o in known}
        queues[queue_id] = OrderInfo(
            attempt_id=attempt_id,
            invisible_ms=invisible_ms,
            used_ms=self._clock.now_ms(),
            offset_list=[offsets[0], *(offset - offsets[0] for offset in offsets[1:])],
            times=times or None,
            pop_ms=pop_ms,
        )
        self.revision += 1
        return list(times.items())

    def settle(self, group: str, topic: str, queue_id: int, *, offset: int, pop_ms: int) -> int:
        """Settle one message; the offset to commit, COMMITTED_NOT or ILLEGAL (commitAndNext)."""
        info = self.find(group, topic, queue_id)
        if info is None:
            return offset + 1
        offsets = info.offsets()
        if not offsets:
            return ILLEGAL
        if info.pop_ms != pop_ms:
            return COMMITTED_NOT
        if offset not in offsets:
            return ILLEGAL
        info.settled |= 1 << offsets.index(offset)
        self.revision += 1
        return info.next_offset()

    def hide(
        self, group: str, topic: str, queue_id: int, *, offset: int, pop_ms: int, visible_ms: int
    ) -> None:
        """Say when a message that is out becomes visible again."""
        info = self.find(group, topic, queue_id)
        if info is not None and info.pop_ms == pop_ms:
            info.visible_ms = {**(info.visible_ms or {}), offset: visible_ms}
            self.revision += 1

    def clear(self, group: str, topic: str, queue_id: int) -> None:
        """Forget what is out of a queue: its offset was reset."""
        if self._table.get(f"{topic}@{group}", {}).pop(queue_id, None) is not None:
            self._count -= 1
            self.revision += 1

    def find(self, group: str, topic: str, queue_id: int) -> OrderInfo | None:
        """What is out of a queue, or None."""
        return self._table.get(f"{topic}@{group}", {}).get(queue_id)

    def entries(self) -> Iterator[tuple[str, str, int, OrderInfo]]:
        """Topic, group, queue and entry of everything that is out."""
        for pair, queues in self._table.items():
            topic, _, group = pair.partition("@")
            for queue_id, info in queues.items():
                yield topic, group, queue_id, info

    def of_group(self, group: str, topic: str) -> Iterator[tuple[str, str, int, OrderInfo]]:
        """The same for one topic of a group."""
        for queue_id, info in self._table.get(f"{topic}@{group}", {}).items():
            yield topic, group, queue_id, info

    def clean(self, queue_count: Callable[[str, str], int]) -> None:
        """Drop what has no topic, group or queue any more, and what was not used for a day.

        ``queue_count`` gives the queues of a topic for a group; 0 when one of both is gone.
        """
        limit_ms = self._clock.now_ms() - UNUSED_MS
        for topic, group, queue_id, info in list(self.entries()):
            if queue_id >= queue_count(topic, group) or info.used_ms < limit_ms:
                self.clear(group, topic, queue_id)
        self._table = {pair: queues for pair, queues in self._table.items() if queues}

    def saved(self) -> OrderInfos:
        """The table as the file has it."""
        return OrderInfos(table=self._table)

    def load(self, found: OrderInfos) -> None:
        """Take over a file of ours or of the original."""
        self._table = {pair: dict(queues) for pair, queues in found.table.items()}
        self._count = sum(map(len, self._table.values()))
