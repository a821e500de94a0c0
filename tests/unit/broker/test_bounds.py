"""Tables a stranger can fill are bounded in count and in bytes, and forget who has gone."""

from __future__ import annotations

from typing import Any

import pytest

from contrailmq.broker.tables import groups as groups_module
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.locks import QueueLocks
from contrailmq.broker.tables.producers import ProducerTable
from contrailmq.broker.tables.revision import Revision
from contrailmq.errors import InvalidParameter, SystemBusy
from contrailmq.protocol.queue import MessageQueue


class ManualClock:
    """A clock that moves when told."""

    ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class Peer:
    """A connection, as far as the table looks at it."""

    closed = False


def test_every_client_id_of_a_connection_is_forgotten_with_it() -> None:
    table = ProducerTable(ManualClock())
    peer: Any = Peer()
    for number in range(10):
        table.register(peer, f"id-{number}", f"group-{number}")
    assert table.find_client("id-3") is peer
    table.drop(peer)
    assert len(table) == 0
    assert [table.find_client(f"id-{number}") for number in range(10)] == [None] * 10


def test_locks_are_bounded_by_their_characters() -> None:
    clock = ManualClock()
    locks = QueueLocks(clock, life_ms=1000, size_max=4 * 40)
    queues = [MessageQueue("t" * 10, "b" * 10, number) for number in range(10)]
    with pytest.raises(SystemBusy, match="4 queue locks of 160 characters are held"):
        locks.lock("g" * 10, "c" * 10, queues)
    assert len(locks) == 4
    clock.ms += 2000
    assert locks.lock("h" * 10, "c" * 10, queues[:4]) == queues[:4]
    assert len(locks) == 4, "those that had expired are gone"
    locks.unlock("h" * 10, "c" * 10, queues)
    assert len(locks) == 0
    assert locks.lock("g" * 10, "c" * 10, queues[4:8]) == queues[4:8]
    locks.forget_group("g" * 10)
    assert locks.lock("k" * 10, "c" * 10, queues[4:8]) == queues[4:8]


def test_forbidden_topics_are_bounded_and_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "FORBIDDEN_MAX", 3)
    table = GroupTable(ManualClock(), Revision())
    for name in ("x" * 256, "a/b", ""):
        with pytest.raises(InvalidParameter):
            table.forbid(name, "T", 1)
        with pytest.raises(InvalidParameter):
            table.forbid("G", name, 1)
    for number in range(3):
        table.forbid(f"G{number}", "T", 1)
    with pytest.raises(SystemBusy, match="3 topics are forbidden, at most 3"):
        table.forbid("G", "T", 1)
    table.forbid("G1", "T", 0)
    table.forbid("G", "T", 1)
    assert table.forbidden("G", "T") == 1
