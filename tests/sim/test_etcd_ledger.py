"""Several controllers over one etcd: one leads, and one that led changes nothing any more."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from contrailmq.controller.etcd import EtcdLedger, split_ledger
from contrailmq.controller.groups import Group, Member
from contrailmq.errors import ConfigError
from contrailmq.testing.sim import simulate
from testkit.etcd import SimEtcd, SimValues


class Node:
    """A ledger, and what it told."""

    def __init__(self, etcd: SimEtcd, number: int, rng: random.Random) -> None:
        self.values = SimValues(etcd, random.Random(rng.getrandbits(64)))
        self.ledger = EtcdLedger(self.values, prefix="c")
        self.address = f"10.0.3.{number}:9878"
        self.groups: dict[str, Group] = {}

    def tell(self, groups: dict[str, Group]) -> None:
        self.groups = groups

    async def run(self) -> None:
        await self.ledger.follow(self.address, self.tell)


@asynccontextmanager
async def nodes(rng: random.Random, count: int) -> AsyncIterator[tuple[SimEtcd, list[Node]]]:
    etcd = SimEtcd()
    found = [Node(etcd, number, rng) for number in range(1, count + 1)]
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(node.run()) for node in found]
        yield etcd, found
        for task in running:
            task.cancel()


async def until(check: Callable[[], object], limit_s: float = 30) -> None:
    async with asyncio.timeout(limit_s):
        while not check():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def leaders(found: list[Node]) -> list[Node]:
    return [node for node in found if node.ledger.leads()]


@pytest.mark.parametrize("seed", range(5))
def test_one_leads_and_the_others_know_it(seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        async with nodes(rng, 3) as (_, found):
            await until(lambda: leaders(found) and all(node.ledger.leader() for node in found))
            (leader,) = leaders(found)
            assert {node.ledger.leader() for node in found} == {leader.address}
            group = Group("c", "g", {1: Member("a:1", "a:1;1")})
            assert await leader.ledger.swap("g", None, group)
            assert not await leader.ledger.swap("g", None, group)  # that is not its state
            for node in found:
                if node is not leader:
                    assert not await node.ledger.swap("g", None, group)
            left = [node for node in found if node is not leader]
            await until(
                lambda: all(node.groups == {"g": group} for node in found if node != leader)
            )
            await until(lambda: all(len(node.ledger.controllers()) == 3 for node in found))
            await leader.ledger.aclose()
            await until(lambda: leaders(left), 2)

    simulate(seed, scenario)


@pytest.mark.parametrize("late_s", [0.0, 12.0])
@pytest.mark.parametrize("seed", range(10))
def test_a_leader_that_was_cut_off_changes_nothing(seed: int, late_s: float) -> None:
    async def scenario(rng: random.Random) -> None:
        async with nodes(rng, 3) as (etcd, found):
            await until(lambda: leaders(found))
            old = leaders(found)[0]
            first = Group("c", "g", epoch=1)
            assert await old.ledger.swap("g", None, first)
            old.values.is_cut, old.values.late_s = True, late_s
            stale = Group("c", "g", epoch=99)
            writes = asyncio.ensure_future(old.ledger.swap("g", first, stale))
            others = [node for node in found if node is not old]
            await until(lambda: leaders(others), 10)
            assert len(leaders(found)) == 1  # two never think that they lead
            assert not await writes
            new = leaders(others)[0]
            known = new.groups["g"]
            after = Group("c", "g", epoch=known.epoch + 1)
            made = await new.ledger.swap("g", known, after)
            await asyncio.sleep(late_s + 1)
            old.values.is_cut = False
            await until(old.ledger.leader, 10)
            if known == first:  # the late write did not come before the new leader
                assert made
                assert all(
                    node.groups["g"] == after for node in found if node not in leaders(found)
                )
            times = [at for at, key in etcd.changes if key == "c/groups/g"]
            assert len(times) == 2 + (known == stale)

    simulate(seed, scenario)


def test_what_is_no_ledger_is_refused() -> None:
    assert split_ledger("etcd://a:1,b:2/x/y") == ([("a", 1), ("b", 2)], "x/y")
    assert split_ledger("etcd://[::1]:1") == ([("::1", 1)], "contrail")
    with pytest.raises(ConfigError, match="'b' is no host:port"):
        split_ledger("etcd://a:1,b")
