"""Queue locks: granted, refused, refreshed, given back, outlived."""

from __future__ import annotations

import pytest

from contrailmq.broker.tables.locks import LOCK_LIFE_MS, QueueLocks
from contrailmq.errors import SystemBusy
from contrailmq.protocol.queue import MessageQueue


class ManualClock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


Q0, Q1 = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)


def test_a_queue_has_one_owner_until_its_lock_has_lived_sixty_seconds() -> None:
    clock = ManualClock()
    locks = QueueLocks(clock)
    assert locks.lock("g", "one", [Q0, Q1]) == [Q0, Q1]
    assert locks.lock("g", "two", [Q0, Q1]) == []
    clock.ms += LOCK_LIFE_MS
    assert locks.lock("g", "two", [Q0]) == []
    clock.ms += 1
    assert locks.lock("g", "two", [Q0]) == [Q0]
    assert locks.find_owner("g", Q0) == "two"
    assert locks.find_owner("g", Q1) is None


def test_the_owner_refreshes_its_lock() -> None:
    clock = ManualClock()
    locks = QueueLocks(clock)
    locks.lock("g", "one", [Q0])
    clock.ms += LOCK_LIFE_MS
    assert locks.lock("g", "one", [Q0]) == [Q0]
    clock.ms += LOCK_LIFE_MS
    assert locks.lock("g", "two", [Q0]) == []


def test_only_the_owner_gives_a_lock_back() -> None:
    locks = QueueLocks(ManualClock())
    locks.lock("g", "one", [Q0])
    locks.unlock("g", "two", [Q0])
    assert locks.lock("g", "two", [Q0]) == []
    locks.unlock("g", "one", [Q0])
    assert len(locks) == 0
    assert locks.lock("g", "two", [Q0]) == [Q0]


def test_groups_do_not_hinder_each_other() -> None:
    clock = ManualClock()
    locks = QueueLocks(clock)
    assert locks.lock("g", "one", [Q0]) == [Q0]
    assert locks.lock("h", "two", [Q0]) == [Q0]
    assert locks.is_group_locking("g")
    locks.forget_group("g")
    assert not locks.is_group_locking("g")
    assert locks.is_group_locking("h")
    clock.ms += LOCK_LIFE_MS + 1
    assert not locks.is_group_locking("h")


def test_the_bound_is_named_and_expired_locks_make_room() -> None:
    clock = ManualClock()
    locks = QueueLocks(clock, locks_max=1)
    locks.lock("g", "one", [Q0])
    with pytest.raises(SystemBusy, match="at most 1"):
        locks.lock("g", "one", [Q1])
    clock.ms += LOCK_LIFE_MS + 1
    assert locks.lock("h", "two", [Q1]) == [Q1]
    assert len(locks) == 1
