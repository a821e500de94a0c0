"""Whole replica groups in virtual time: invariants at every step, and a judged history.

``CONTRAIL_GROUP_SEEDS=0-10000`` sets the seeds of the long run.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import pytest

from contrailmq.broker.services.group_role import GroupRole
from contrailmq.controller import groups as rules
from contrailmq.controller.etcd import Change, Condition, EtcdLedger
from contrailmq.ha.epochs import EpochList
from contrailmq.ha.in_sync import InSyncSet
from testkit.group_world import campaign
from testkit.history import History, Send, check

FIRST, _, LAST = os.environ.get("CONTRAIL_GROUP_SEEDS", "100-300").partition("-")
CHUNK = 25
CHUNKS = range(int(FIRST), int(LAST), CHUNK)
PLANTED = 60  # a planted fault is found within so many seeds; the first that finds it is known


@pytest.mark.parametrize("seed", range(4))
def test_groups_keep_their_promises(seed: int) -> None:
    group = campaign(seed)
    assert len(group.history.acknowledged()) > 20
    assert group.history.reads


@pytest.mark.slow
@pytest.mark.parametrize("first", CHUNKS)
def test_many_groups_keep_their_promises(first: int) -> None:
    acknowledged = elections = 0
    for seed in range(first, min(first + CHUNK, CHUNKS.stop)):
        group = campaign(seed)
        acknowledged += len(group.history.acknowledged())
        elections += len(group.epochs)
    print(f"seeds {first}: {acknowledged} acknowledged, {elections} elections")


def ack_before_replication(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InSyncSet, "certain_offset", lambda self, links, end: end)
    patch.setattr(InSyncSet, "confirmed", lambda self, links, end: end)


def no_cut_on_rejoin(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EpochList, "common_end", lambda self, mine, others, end: mine)


def set_shrunk_without_grant(patch: pytest.MonkeyPatch) -> None:
    wanted_set = GroupRole.wanted_set

    def wanted(self: GroupRole) -> frozenset[int] | None:
        found = wanted_set(self)
        if found is not None:
            self._in_sync.grant(found, self._in_sync.epoch)
            self.primary.update_confirmed()
            self.primary.settle()
        return found

    patch.setattr(GroupRole, "wanted_set", wanted)


def election_outside_the_set(patch: pytest.MonkeyPatch) -> None:
    elect = rules.elect

    def unclean(group: rules.Group, lives: rules.Lives, **more: Any) -> rules.Group:
        return elect(group, lives, **{**more, "unclean": True})

    patch.setattr(rules, "elect", unclean)


def an_epoch_that_moves(patch: pytest.MonkeyPatch) -> None:
    """A primary that restarts within its epoch notes that it begins later, as the original does."""
    append = EpochList.append
    become = GroupRole.become_primary

    async def moved(self: GroupRole, epoch: int, *more: Any) -> None:
        entries = [entry for entry in self._epochs.entries if entry.epoch < epoch]
        self._epochs.entries = entries
        append(self._epochs, epoch, self._store.max_offset)
        await become(self, epoch, *more)

    patch.setattr(GroupRole, "become_primary", moved)


def an_unfenced_ledger(patch: pytest.MonkeyPatch) -> None:
    """Changes without the condition that this controller leads, at whatever revision."""
    swap = EtcdLedger.swap

    async def unfenced(self: EtcdLedger, name: str, *states: Any) -> bool:
        transact = self._values.transact

        async def blind(conditions: tuple[Condition, ...], change: Change) -> Any:
            return await transact((), change)

        self._values.transact = blind  # type: ignore[method-assign, assignment]
        try:
            return await swap(self, name, *states)
        finally:
            self._values.transact = transact  # type: ignore[method-assign]

    patch.setattr(EtcdLedger, "swap", unfenced)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "first"),
    [
        (ack_before_replication, 2),
        (no_cut_on_rejoin, 5),
        (set_shrunk_without_grant, 5),
        (election_outside_the_set, 17),
        (an_epoch_that_moves, 2),
        (an_unfenced_ledger, 18),
    ],
)
def test_a_planted_fault_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    logging.disable(logging.CRITICAL)
    try:
        plant(monkeypatch)
        for seed in range(first, first + PLANTED):
            try:
                campaign(seed)
            except (AssertionError, TimeoutError) as error:
                print(f"found by seed {seed}: {error}")
                return
        pytest.fail(f"not found by {PLANTED} seeds")
    finally:
        logging.disable(logging.NOTSET)


def history(*sends: Send, reads: dict[tuple[int, int], bytes] | None = None) -> History:
    return History(list(sends), reads or {})


A, B = Send(b"a", 0, 1.0, 2.0, 0), Send(b"b", 0, 3.0, 4.0, 1)
LOG = {(0, 0): b"a", (0, 1): b"b"}


def test_a_right_history_has_no_faults() -> None:
    lost = Send(b"c", 0, 5.0)  # without an answer: it may be there, or not
    reads = {(0, 0): b"a", (0, 2): b"c"}
    assert check(history(A, B, lost), LOG) == []
    assert check(history(A, B, lost, reads=reads), {**LOG, (0, 2): b"c"}) == []


@pytest.mark.parametrize(
    ("found", "log", "fault"),
    [
        (history(A, B), {(0, 0): b"a"}, "was acknowledged, None is there"),
        (history(A, B), {(0, 0): b"b", (0, 1): b"a"}, "b'a' was acknowledged, b'b' is there"),
        (history(A, Send(b"b", 0, 3.0, 4.0, 0)), LOG, "were acknowledged there"),
        (history(A, B, reads={(0, 2): b"x"}), {**LOG, (0, 2): b"x"}, "never sent"),
        (history(A, B, Send(b"c", 0, 1.0), reads={(0, 2): b"c"}), LOG, "was read, None is there"),
        (history(A, B), {**LOG, (0, 2): b"a"}, "is there 2 times"),
        (
            history(Send(b"a", 0, 3.0, 4.0, 0), Send(b"b", 0, 1.0, 2.0, 1)),
            LOG,
            "ended at 2.000 and is after 0/0",
        ),
    ],
)
def test_a_wrong_history_is_found(
    found: History, log: dict[tuple[int, int], bytes], fault: str
) -> None:
    assert any(fault in text for text in check(found, log))


def test_a_place_that_changes_is_found() -> None:
    found = history(A, B)
    found.read(0, 0, b"a")
    found.read(0, 0, b"b")
    assert any("0/0 was b'a' and is b'b'" in text for text in check(found, LOG))
