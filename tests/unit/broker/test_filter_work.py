"""New SQL subscriptions are compiled in slices; others are served in between."""

from __future__ import annotations

import asyncio
import random

import pytest

from contrailmq.broker.services import filter_work
from contrailmq.broker.services.filter_work import PAUSE_S, FilterWork
from contrailmq.broker.tables.filters import ConsumerFilters
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.testing.sim import simulate


class SlowClock:
    """A clock that moves by a few milliseconds each time it is asked."""

    ms = 0

    def now_ms(self) -> int:
        return 1_000_000

    def monotonic_ms(self) -> int:
        self.ms += 4
        return self.ms


def beat(count: int, *, version: int = 1, text: str = "a = 1") -> list[SubscriptionData]:
    return [
        SubscriptionData(
            topic=f"T{number}", sub_string=text, sub_version=version, expression_type="SQL92"
        )
        for number in range(count)
    ]


def test_a_heartbeat_is_compiled_in_slices() -> None:
    async def scenario(rng: random.Random) -> None:
        clock = SlowClock()
        filters = ConsumerFilters(clock)
        work = FilterWork(filters, clock)
        work.register("g", beat(20))
        assert len(filters) == 3, "12 ms are over"
        assert len(work) == 17
        await asyncio.sleep(1.5 * PAUSE_S)
        assert len(filters) == 6
        work.register("g", beat(20))  # the next heartbeat brings the same
        assert len(filters) + len(work) == 20
        await asyncio.sleep(10 * PAUSE_S)
        assert (len(filters), len(work)) == (20, 0)
        work.register("g", beat(20, version=2))
        assert len(work) == 0, "only the version is new"
        work.register("g", beat(20, version=3, text="a = 2"))
        assert len(work) == 17
        work.register("g", beat(1, version=3, text="a = 2"))
        assert sum(entry.is_dead for entry in filters.entries()) == 19
        work.close()
        assert len(work) == 0

    simulate(1, scenario)


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_work, "WAITING_MAX", 10)

    async def scenario(rng: random.Random) -> None:
        clock = SlowClock()
        filters = ConsumerFilters(clock)
        work = FilterWork(filters, clock)
        work.register("g", beat(100))
        assert len(filters) + len(work) == 10
        work.register("g", beat(100))
        assert len(filters) + len(work) == 13
        await asyncio.sleep(20 * PAUSE_S)
        for _ in range(10):
            work.register("g", beat(100))
            await asyncio.sleep(20 * PAUSE_S)
        assert len(filters) == 100, "heartbeat after heartbeat"
        work.close()

    simulate(1, scenario)
