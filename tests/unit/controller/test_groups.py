"""The rules of a controller: ids, elections, the in-sync set."""

from __future__ import annotations

import random

import msgspec
import pytest

from contrailmq.controller import groups as rules
from contrailmq.controller.groups import Group, Life
from contrailmq.errors import BrokerError
from contrailmq.protocol.codes import ResponseCode

PRIORITY = 2**31 - 1


def group_of(count: int) -> Group:
    group = Group("c", "g")
    for number in range(1, count + 1):
        group = rules.apply_id(group, number, f"10.0.0.{number}:1;{number}")
    return group


def lives(*ids: int, end: int = 0) -> dict[int, Life]:
    return {number: Life(1, end, PRIORITY) for number in ids}


def led(count: int, in_sync: tuple[int, ...]) -> Group:
    group = rules.elect(group_of(count), {}, asking=1)
    return msgspec.structs.replace(group, in_sync=in_sync)


def code_of(error: pytest.ExceptionInfo[BrokerError]) -> int:
    return error.value.code


def test_ids_are_given_once() -> None:
    group = group_of(2)
    assert group.next_id == 3
    assert rules.apply_id(group, 2, "10.0.0.2:1;2") is group  # the same asks again
    for wrong in (1, 2, 4):
        with pytest.raises(BrokerError) as error:
            rules.apply_id(group, wrong, "somebody;9")
        assert code_of(error) == ResponseCode.CONTROLLER_BROKER_ID_INVALID


def test_the_first_to_ask_is_elected() -> None:
    group = rules.elect(group_of(2), lives(1, 2), asking=2)
    assert (group.primary, group.epoch, group.in_sync, group.set_epoch) == (2, 1, (2,), 1)
    assert rules.elect(group, lives(1, 2), asking=1) is group  # it lives


def test_the_longest_log_of_the_newest_epoch_is_elected() -> None:
    group = led(4, (1, 2, 3))
    alive = {2: Life(1, 900, 1), 3: Life(2, 100, PRIORITY), 4: Life(9, 9999, 0)}
    assert rules.elect(group, alive).primary == 3
    alive[2] = Life(2, 101, PRIORITY)
    assert rules.elect(group, alive).primary == 2
    alive[3] = Life(2, 101, 5)
    assert rules.elect(group, alive).primary == 3


def test_who_is_not_in_sync_is_not_elected() -> None:
    group = led(2, (1,))
    failed = rules.elect(group, lives(2))
    assert (failed.primary, failed.epoch) == (None, 2)
    assert rules.elect(failed, lives(2)) is failed
    assert rules.elect(failed, lives(1, 2)).primary == 1
    assert rules.elect(group, lives(2), unclean=True).primary == 2


def test_a_designated_broker_or_nobody() -> None:
    group = led(3, (1, 2))
    assert rules.elect(group, lives(1, 2, 3), asking=2, designated=True).primary == 2
    assert rules.elect(group, lives(1, 2, 3), asking=3, designated=True) is group


@pytest.mark.parametrize(
    ("primary", "epoch", "members", "set_epoch", "code"),
    [
        (1, 1, [1], 1, ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),
        (2, 1, [1, 2], 1, ResponseCode.CONTROLLER_INVALID_MASTER),
        (1, 2, [1, 2], 1, ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH),
        (1, 1, [1, 2], 2, ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH),
        (1, 1, [1, 9], 1, ResponseCode.CONTROLLER_INVALID_REPLICAS),
        (1, 1, [1, 3], 1, ResponseCode.CONTROLLER_BROKER_NOT_ALIVE),
        (1, 1, [2], 1, ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),
    ],
)
def test_sets_that_are_refused(
    primary: int, epoch: int, members: list[int], set_epoch: int, code: ResponseCode
) -> None:
    group = led(3, (1,))
    with pytest.raises(BrokerError) as error:
        rules.alter(
            group, primary, epoch,
            members=members, set_epoch=set_epoch, is_alive=lambda number: number != 3,
        )  # fmt: skip
    assert code_of(error) == code


@pytest.mark.parametrize("seed", range(50))
def test_epochs_grow_and_have_one_primary(seed: int) -> None:
    """Whatever happens: an epoch has one primary, and it was in sync before."""
    rng = random.Random(seed)
    group = rules.elect(group_of(3), {}, asking=1)
    primaries = {group.epoch: group.primary}
    for _ in range(200):
        before = group
        alive = {n: Life(rng.randrange(5), rng.randrange(99), PRIORITY) for n in (1, 2, 3)
                 if rng.random() < 0.6}  # fmt: skip
        if rng.random() < 0.5:
            group = rules.elect(group, alive)
        elif group.primary is not None:
            members = [group.primary, *rng.sample([1, 2, 3], rng.randrange(3))]
            try:
                group = rules.alter(
                    group, group.primary, group.epoch,
                    members=members, set_epoch=group.set_epoch, is_alive=alive.__contains__,
                )  # fmt: skip
            except BrokerError:
                continue
        assert group.epoch >= before.epoch
        assert group.set_epoch >= before.set_epoch
        assert primaries.setdefault(group.epoch, group.primary) == group.primary
        if group.primary is not None and group.primary != before.primary:
            assert group.primary in before.in_sync


def test_brokers_are_forgotten_when_they_are_dead() -> None:
    group = led(2, (1, 2))
    with pytest.raises(BrokerError) as error:
        rules.forget(group, [2], is_alive=lambda number: True, living_too=False)
    assert code_of(error) == ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    found = rules.forget(group, [2], is_alive=lambda number: False, living_too=False)
    assert found is not None
    assert (list(found.brokers), found.in_sync) == ([1], (1,))
    assert rules.forget(group, [], is_alive=lambda number: True, living_too=True) is None
