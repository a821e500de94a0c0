"""Controller mode between two stores: handshake, cuts, epochs, what is confirmed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from contrailmq.ha.auto_replica import AutoReplica
from contrailmq.ha.epochs import EpochList
from contrailmq.ha.in_sync import InSyncSet
from contrailmq.ha.primary import Primary
from contrailmq.ha.settings import HaSettings
from contrailmq.lifecycle import running
from contrailmq.store.certainty import ReplicaFault
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage
from contrailmq.testing.files import SimFiles
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import SimClock, simulate

SETTINGS = HaSettings(frame_size=1000)
PORT = 10912


class Member:
    """One broker's store, able to be primary or replica."""

    def __init__(self, number: int, network: SimNetwork) -> None:
        self.number = number
        self.host = f"10.0.0.{number}"
        files = SimFiles()
        settings = StoreSettings(
            root="store", segment_size=16384, queue_file_size=400, index_slots=50,
            index_entries=500, message_size_max=6000,
        )  # fmt: skip
        self.store = Store(settings, files=files, clock=SimClock())
        self.epochs = EpochList(files, "store/epochFileCheckpoint")
        self.in_sync = InSyncSet(SETTINGS)
        self.in_sync.own_id = number
        self.network = network.host(self.host)
        self.primary = Primary(
            self.store, SETTINGS, quorum=self.in_sync, epochs=self.epochs, in_sync=self.in_sync
        )
        self.replica = AutoReplica(
            self.store, SETTINGS, self.epochs, network=self.network, clock=SimClock()
        )
        self.replica.broker_id = number

    def lead(self, epoch: int, members: frozenset[int]) -> None:
        self.epochs.append(epoch, self.store.max_offset)
        self.in_sync.grant(members, epoch)
        self.store.bind(self.store.max_offset)
        self.store.replicas = self.primary
        self.primary.serve()
        self.store.stand_by(None)

    def stop_leading(self) -> None:
        self.store.stand_by("a replica")
        self.store.replicas = None
        self.primary.stop("no longer primary")

    def put(self, count: int, text: str) -> int:
        end = 0
        for number in range(count):
            body = text.encode() * (number * 7 % 50 + 1)
            end = self.store.put(NewMessage("topic", number % 2, body)).end_offset
        return end


def with_group(
    body: Callable[[Member, Member, SimNetwork], Coroutine[Any, Any, None]], seed: int = 1
) -> None:
    async def scenario(rng: random.Random) -> None:
        network = SimNetwork(rng)
        first, second = Member(1, network), Member(2, network)
        for member in (first, second):
            await member.store.open()
            member.store.stand_by("nobody leads yet")
            await member.primary.listen(member.network, member.host, PORT)
        try:
            async with (
                running(first.replica.run(), name="first"),
                running(second.replica.run(), name="second"),
            ):
                await body(first, second, network)
        finally:
            for member in (first, second):
                await member.primary.aclose()
                await member.store.aclose()

    simulate(seed, scenario)


async def equal(first: Member, second: Member) -> None:
    async with asyncio.timeout(60):
        while (  # noqa: ASYNC110
            second.store.max_offset != first.store.max_offset
            or second.store.bound != first.store.bound
        ):
            await asyncio.sleep(0.01)
    for base, segment in second.store.log.segments.opened():
        other = first.store.log.segments.find(base)
        assert other is not None
        assert bytes(segment.buffer) == bytes(other.buffer), base
    assert second.epochs.entries == first.epochs.entries
    assert second.store.bounds("topic", 0) == first.store.bounds("topic", 0)


def follow(replica: Member, primary: Member) -> None:
    replica.store.bind(min(replica.store.confirmed_at_start, replica.store.max_offset))
    replica.replica.follow(f"{primary.host}:{PORT}")


@pytest.mark.parametrize("seed", range(5))
def test_an_old_primary_cuts_what_the_new_one_never_had(seed: int) -> None:
    async def body(first: Member, second: Member, network: SimNetwork) -> None:
        first.lead(1, frozenset({1}))
        first.put(40, "both")
        follow(second, first)
        await equal(first, second)
        first.in_sync.grant(frozenset({1, 2}), 2)
        confirmed = first.store.bound
        network.cut("10.0.0.1", "10.0.0.2")
        lost_end = first.put(20, "only here")
        waiting = first.store.wait_flushed(lost_end)
        assert waiting is not None
        assert await waiting is ReplicaFault.TIMEOUT
        assert first.store.bound == confirmed  # not readable
        # The second is elected.
        await second.replica.stop_following()
        second.lead(2, frozenset({2}))
        second.put(5, "new")
        first.stop_leading()
        network.heal()
        follow(first, second)
        await equal(second, first)
        second.put(30, "more")
        await equal(second, first)
        record = first.store.record_at(second.epochs.entries[1].start)
        assert record is not None
        assert b"new" in record

    with_group(body, seed)


def test_a_send_needs_every_member_of_the_set() -> None:
    async def body(first: Member, second: Member, network: SimNetwork) -> None:
        first.lead(1, frozenset({1}))
        alone = first.store.wait_flushed(first.put(1, "alone"))
        assert alone is not None
        assert alone.done()  # the set is this broker
        assert first.store.bounds("topic", 0) == (0, 1)
        follow(second, first)
        await equal(first, second)
        first.in_sync.grant(frozenset({1, 2}), 2)
        both = first.store.wait_flushed(first.put(1, "both"))
        assert both is not None
        assert not both.done()
        assert first.store.bounds("topic", 0) == (0, 1)  # nor is it readable
        assert await both is True
        assert first.store.bounds("topic", 0) == (0, 2)
        await equal(first, second)
        # A set that is asked for counts beside the one that was granted.
        network.stall("10.0.0.2")
        first.in_sync.ask(frozenset({1}))
        waiting = first.store.wait_flushed(first.put(1, "asked"))
        assert waiting is not None
        await asyncio.sleep(1)
        assert not waiting.done()
        first.in_sync.grant(frozenset({1}), 3)
        first.primary.update_confirmed()
        first.primary.settle()
        assert await waiting is True

    with_group(body)


def test_who_has_caught_up_is_wanted_in_the_set() -> None:
    async def body(first: Member, second: Member, network: SimNetwork) -> None:
        def wanted() -> frozenset[int]:
            return first.in_sync.wanted(
                list(first.primary.links),
                confirmed=first.store.bound or 0,
                epoch_start=first.epochs.last_start,
                end=first.store.max_offset,
                now=asyncio.get_running_loop().time(),
            )

        first.lead(1, frozenset({1}))
        first.put(10, "before")
        assert wanted() == {1}
        follow(second, first)
        await equal(first, second)
        assert wanted() == {1, 2}
        first.in_sync.grant(frozenset({1, 2}), 2)
        network.stall("10.0.0.2")
        first.put(1, "it does not get this")
        await asyncio.sleep(10)
        assert wanted() == {1, 2}  # for a while
        await asyncio.sleep(6)
        assert wanted() == {1}

    with_group(body)
