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
SIZE_MAX: Final = 64 * 1024 * 1024  # characters of all names and client ids together


class QueueLocks:
    """Who may consume which queue in order."""

    def __init__(
        self,
        clock: Clock,
        *,
        life_ms: int = LOCK_LIFE_MS,
        locks_max: int = LOCKS_MAX,
        size_max: int = SIZE_MAX,
    ) -> None:
        self._clock = clock
        self._life_ms = life_ms
        self._locks_max = locks_max
        self._size_max = size_max
        self._count = 0
        self._size = 0
        self._groups: dict[str, dict[MessageQueue, tuple[str, int]]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue]
    ) -> list[MessageQueue]:
        """Take or refresh locks; returns the queues the client owns now."""
        now_ms = self._clock.monotonic_ms()
        held = self._groups.setdefault(group, {})
        owned: list[MessageQueue] = []
        try:
            for queue in queues:
                entry = held.get(queue)
                if entry is None:
                    self._take_room(_size_of(group, queue, client_id), now_ms)
                elif entry[0] != client_id:
                    if now_ms - entry[1] <= self._life_ms:
                        continue
                    self._size += len(client_id) - len(entry[0])
                held[queue] = (client_id, now_ms)
                owned.append(queue)
        finally:
            if not held:
                del self._groups[group]
            else:
                self._groups[group] = held  # taken out meanwhile, if all of it had expired
        return owned

    def _take_room(self, size: int, now_ms: int) -> None:
        for is_last in (False, True):
            if self._count < self._locks_max and self._size + size <= self._size_max:
                break
            if is_last:
                raise SystemBusy(
                    f"{self._count} queue locks of {self._size} characters are held, at most "
                    f"{self._locks_max} and {self._size_max}"
                )
            self._drop_expired(now_ms)
        self._count += 1
        self._size += size

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
                self._size -= _size_of(group, queue, client_id)
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
        for queue, (client_id, _) in self._groups.pop(group, {}).items():
            self._count -= 1
            self._size -= _size_of(group, queue, client_id)

    def _drop_expired(self, now_ms: int) -> None:
        for group, held in list(self._groups.items()):
            for queue, (client_id, since_ms) in list(held.items()):
                if now_ms - since_ms > self._life_ms:
                    del held[queue]
                    self._count -= 1
                    self._size -= _size_of(group, queue, client_id)
            if not held:
                del self._groups[group]

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<QueueLocks groups={len(self._groups)} locks={self._count}>"


def _size_of(group: str, queue: MessageQueue, client_id: str) -> int:
    return len(group) + len(queue.topic) + len(queue.broker_name) + len(client_id)
