"""A primary and a replica over a simulated network: catching up, waits, what is refused."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from contrailmq.ha.primary import AnyReplicas, Primary
from contrailmq.ha.replica import Replica
from contrailmq.ha.settings import HaSettings
from contrailmq.lifecycle import running
from contrailmq.store.certainty import Outcome, ReplicaFault
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage
from contrailmq.testing.files import SimFiles
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import SimClock, simulate

SETTINGS = HaSettings(frame_size=1000)
PORT = 10912


def store_settings(root: str) -> StoreSettings:
    return StoreSettings(
        root=root, segment_size=16384, queue_file_size=400, index_slots=50, index_entries=500,
        message_size_max=6000,
    )  # fmt: skip


class Pair:
    """Two stores, a primary and a replica."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.network = SimNetwork(rng)
        self.files = SimFiles()
        self.first = Store(store_settings("first"), files=self.files, clock=SimClock())
        self.second = Store(store_settings("second"), files=self.files, clock=SimClock())
        quorum = AnyReplicas(1, behind_max=20_000)
        self.primary = Primary(self.first, SETTINGS, quorum=quorum)
        self.replica = Replica(
            self.second, SETTINGS, network=self.network.host("10.0.0.2"), clock=SimClock()
        )

    def put(self, count: int) -> int:
        end = 0
        for number in range(count):
            body = self.rng.randbytes(self.rng.choice((10, 300, 3000)))
            end = self.first.put(NewMessage("topic", number % 2, body)).end_offset
        return end

    async def caught_up(self) -> None:
        async with asyncio.timeout(60):
            while self.second.max_offset != self.first.max_offset:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def assert_equal(self) -> None:
        for base, segment in self.second.log.segments.opened():
            other = self.first.log.segments.find(base)
            assert other is not None
            assert bytes(segment.buffer) == bytes(other.buffer), base


def with_pair(body: Callable[[Pair], Coroutine[Any, Any, None]], seed: int = 1) -> None:
    async def scenario(rng: random.Random) -> None:
        pair = Pair(rng)
        await pair.first.open()
        await pair.second.open()
        try:
            pair.second.stand_by("a replica")
            await pair.primary.listen(pair.network.host("10.0.0.1"), "10.0.0.1", PORT)
            pair.primary.serve()
            pair.first.replicas = pair.primary
            async with running(pair.replica.run(), name="replica"):
                await body(pair)
        finally:
            await pair.primary.aclose()
            await pair.first.aclose()
            await pair.second.aclose()

    simulate(seed, scenario)


@pytest.mark.parametrize("seed", range(5))
def test_a_replica_catches_up_and_stays(seed: int) -> None:
    async def body(pair: Pair) -> None:
        pair.put(30)
        pair.replica.follow(f"10.0.0.1:{PORT}")
        await pair.caught_up()
        # An empty replica gets the last file only, as in the original.
        assert pair.second.min_offset == pair.first.max_offset // 16384 * 16384
        for _ in range(20):
            pair.put(pair.rng.randrange(8))
            await asyncio.sleep(pair.rng.random())
            if pair.rng.random() < 0.2:
                pair.network.reset("10.0.0.1", "10.0.0.2")
        await pair.caught_up()
        pair.assert_equal()

    with_pair(body, seed)


def outcome_of(pair: Pair, end: int) -> asyncio.Future[Outcome]:
    found = pair.first.wait_flushed(end)
    assert found is not None
    return found


def test_a_send_waits_for_its_replica() -> None:
    async def body(pair: Pair) -> None:
        assert await outcome_of(pair, pair.put(1)) is ReplicaFault.NOT_AVAILABLE
        pair.replica.follow(f"10.0.0.1:{PORT}")
        await pair.caught_up()
        waiting = outcome_of(pair, pair.put(1))
        assert not waiting.done()
        assert await waiting is True
        pair.network.stall("10.0.0.2")
        began = asyncio.get_running_loop().time()
        assert await outcome_of(pair, pair.put(1)) is ReplicaFault.TIMEOUT
        assert asyncio.get_running_loop().time() - began == pytest.approx(3.0)
        pair.put(30)  # further behind than haSlaveFallbehindMax
        assert await outcome_of(pair, pair.put(1)) is ReplicaFault.NOT_AVAILABLE
        pair.network.heal()
        await pair.caught_up()
        assert await outcome_of(pair, pair.put(1)) is True

    with_pair(body)


def test_a_replica_ahead_of_its_primary_is_let_go_and_never_counts() -> None:
    """Java takes its report for an acknowledgement of everything."""

    async def body(pair: Pair) -> None:
        pair.second.stand_by(None)
        for _ in range(5):
            pair.second.put(NewMessage("topic", 0, b"only here"))
        pair.second.stand_by("a replica")
        end = pair.put(1)
        pair.replica.follow(f"10.0.0.1:{PORT}")
        for _ in range(20):
            await asyncio.sleep(0.2)
            assert await outcome_of(pair, end) is ReplicaFault.NOT_AVAILABLE
        assert pair.second.max_offset > pair.first.max_offset

    with_pair(body)


def test_heartbeats_keep_a_quiet_connection() -> None:
    async def body(pair: Pair) -> None:
        pair.put(3)
        pair.replica.follow(f"10.0.0.1:{PORT}")
        await pair.caught_up()
        (link,) = pair.primary.links
        await asyncio.sleep(100)
        assert list(pair.primary.links) == [link]
        pair.network.cut("10.0.0.1", "10.0.0.2")
        await asyncio.sleep(40)  # the replica notices the silence
        assert not pair.replica.is_linked
        pair.network.heal()
        pair.put(2)
        await pair.caught_up()

    with_pair(body)


def is_told(pair: Pair) -> bool:
    return pair.first.follower.on_appended is not None


def test_without_replicas_appends_tell_nobody() -> None:
    async def body(pair: Pair) -> None:
        assert not is_told(pair)
        pair.replica.follow(f"10.0.0.1:{PORT}")
        pair.put(1)
        await pair.caught_up()
        assert is_told(pair)
        pair.replica.follow("")
        await asyncio.sleep(1)
        assert not pair.primary.links
        assert not is_told(pair)

    with_pair(body)
