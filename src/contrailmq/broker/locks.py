"""Queue locks of ordered consumption: one client of a group owns a queue for a while.

A lock is granted if the queue is free, if the same client owns it, or if its owner has not
refreshed it for ``life_ms``.  Locks live in memory only; a client that finds itself without one
stops consuming that queue (RebalanceLockManager).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from contrailmq.clock import Clock
from contrailmq.errors import SystemBusy
from contrailmq.protocol.queue import MessageQueue

LOCK_LIFE_MS: Final = 60_000  # rocketmq.broker.rebalance.lockMaxLiveTime
LOCKS_MAX: Final = 1_000_000


class QueueLocks:
    """Who may consume which queue in order."""

    def __init__(
        self, clock: Clock, *, life_ms: int = LOCK_LIFE_MS, locks_max: int = LOCKS_MAX
    ) -> None:
        self._clock = clock
        self._life_ms = life_ms
        self._locks_max = locks_max
        self._count = 0
        self._groups: dict[str, dict[MessageQueue, tuple[str, int]]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue]
    ) -> list[MessageQueue]:
        """Take or refresh locks; returns the queues the client owns now."""
        now_ms = self._clock.monotonic_ms()
        held = self._groups.setdefault(group, {})
        owned: list[MessageQueue] = []
        for queue in queues:
            entry = held.get(queue)
            if entry is None:
                if self._count >= self._locks_max:
                    self._drop_expired(now_ms)
                if self._count >= self._locks_max:
                    raise SystemBusy(
                        f"{self._count} queue locks are held, at most {self._locks_max}"
                    )
                self._count += 1
            elif entry[0] != client_id and now_ms - entry[1] <= self._life_ms:
                continue
            held[queue] = (client_id, now_ms)
            owned.append(queue)
        if not held:
            del self._groups[group]
        return owned

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give locks back; those of other clients stay."""
        held = self._groups.get(group)
        if held is None:
            return
        for queue in queues:
            entry = held.get(queue)
            if entry is not None and entry[0] == client_id:
                del held[queue]
                self._count -= 1
        if not held:
            self._groups.pop(group, None)

    def find_owner(self, group: str, queue: MessageQueue) -> str | None:
        """The client that may consume the queue now, or None."""
        entry = self._groups.get(group, {}).get(queue)
        if entry is None or self._clock.monotonic_ms() - entry[1] > self._life_ms:
            return None
        return entry[0]

    def is_group_locking(self, group: str) -> bool:
        """Whether the group holds any unexpired lock, that is, consumes in order."""
        now_ms = self._clock.monotonic_ms()
        held = self._groups.get(group, {})
        return any(now_ms - since_ms <= self._life_ms for _, since_ms in held.values())

    def forget_group(self, group: str) -> None:
        """Drop every lock of a deleted group."""
        self._count -= len(self._groups.pop(group, {}))

    def _drop_expired(self, now_ms: int) -> None:
        for held in self._groups.values():
            for queue, (_, since_ms) in list(held.items()):
                if now_ms - since_ms > self._life_ms:
                    del held[queue]
                    self._count -= 1

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<QueueLocks groups={len(self._groups)} locks={self._count}>"
