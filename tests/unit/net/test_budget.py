"""All connections share one budget of memory: those that hold most are closed first."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from contrailmq.net.budget import LOOK_S, REST_S, SMALL_SIZE, MemoryBudget
from contrailmq.testing.sim import simulate

MIB = 1024 * 1024


class Holder:
    """A connection that holds something."""

    def __init__(self, name: str, size: int) -> None:
        self.peer = name
        self.held_size = size
        self.reason = ""

    def overrun(self, reason: str) -> None:
        self.reason = reason
        self.held_size = 0


def test_the_worst_offenders_are_closed_and_named(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rng: random.Random) -> None:
        budget = MemoryBudget(40 * MIB)
        small = [Holder(f"small{number}", MIB) for number in range(20)]
        large = [Holder(f"large{number}", 10 * MIB - 8 + number) for number in range(3)]
        for holder in (*small, *large[:2]):
            budget.stir(holder)
        await asyncio.sleep(0)
        assert not any(holder.reason for holder in (*small, *large))
        budget.stir(large[2])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [bool(holder.reason) for holder in large] == [False, True, True]
        assert not any(holder.reason for holder in small)
        assert "it holds 10485754 bytes" in large[2].reason
        assert "count=2 largest=10485754 peer=large2" in caplog.text
        assert budget.held_size == 30 * MIB - 8
        large[0].held_size = 0
        for holder in small:
            holder.held_size = SMALL_SIZE
        await asyncio.sleep(3 * LOOK_S)
        assert budget.held_size == 0
        for holder in small:
            holder.held_size = 3 * MIB  # grown between two looks
            budget.stir(holder)
        await asyncio.sleep(3 * LOOK_S)
        assert budget.held_size == 30 * MIB
        assert sum(bool(holder.reason) for holder in small) == 10
        budget.close()

    with caplog.at_level(logging.WARNING):
        simulate(1, scenario)


def test_what_does_not_change_is_looked_at_rarely_and_growth_at_once() -> None:
    async def scenario(rng: random.Random) -> None:
        loop = asyncio.get_running_loop()
        budget = MemoryBudget(40 * MIB)
        still, other = Holder("still", MIB), Holder("other", MIB)
        budget.stir(still)
        budget.stir(other)
        await asyncio.sleep(2 * REST_S)
        before = loop.turns  # type: ignore[attr-defined]
        await asyncio.sleep(10 * REST_S)
        assert loop.turns - before <= 12  # type: ignore[attr-defined]
        other.held_size = 2 * MIB
        budget.stir(other)
        other.held_size = 0  # closed just after
        await asyncio.sleep(2 * LOOK_S)
        assert budget.held_size == MIB
        await asyncio.sleep(2 * REST_S)
        still.held_size = 41 * MIB
        budget.stir(still)
        await asyncio.sleep(LOOK_S / 10)
        assert still.reason
        assert budget.held_size == 0
        budget.close()

    simulate(1, scenario)
