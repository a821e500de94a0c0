"""What consumers promise, one promise at a time, against a broker of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Generator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from contrailmq import (
    ConsumerSettings,
    LitePullConsumer,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    blocking,
)
from contrailmq.client.consumer.delivery import going_on
from contrailmq.client.consumer.member import CLUSTERING, Member
from contrailmq.client.consumer.puller import Puller, PullWish
from contrailmq.client.consumer.queue_work import Inbox, QueueWork
from contrailmq.client.consumer.subscription import start_position
from contrailmq.client.offset_store import NOT_FOUND
from contrailmq.errors import ClientError
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.queue import MessageQueue
from contrailmq.testing.cluster import ClusterThread, LocalCluster
from testkit.client_scenarios import until

QUEUE = MessageQueue("T", "b", 0)
# The first uvloop of a process opens a pipe that libuv keeps for its signals.
blocking.LoopThread().close()


@asynccontextmanager
async def filled(count: int) -> AsyncIterator[tuple[str, Producer, MessageQueue]]:
    """A cluster with so many numbered messages in one queue."""
    async with (
        LocalCluster() as cluster,
        Producer("p", name_servers=cluster.name_servers) as producer,
    ):
        queue = (await producer.queues("T"))[0]
        for number in range(count):
            await producer.send(Message("T", b"%d" % number), queue=queue)
        yield cluster.name_servers, producer, queue


def test_lite_pulls_pause_seek_and_iterate() -> None:
    async def main() -> None:
        async with (
            filled(10) as (servers, producer, queue),
            LitePullConsumer("g", name_servers=servers, start_from="first") as consumer,
        ):
            await consumer.assign([queue])
            seen = []
            async for message in consumer:
                seen.append(message.offset)
                if len(seen) == 4:
                    break
            assert seen == [0, 1, 2, 3]
            consumer.pause([queue])
            assert await consumer.poll(0.05) == []
            consumer.resume([queue])
            assert [m.offset for m in await consumer.poll(10.0, count=2)] == [4, 5]
            await consumer.seek_to_first(queue)
            first = (await consumer.poll(10.0, count=1))[0]
            assert first.offset == 0
            assert await consumer.offset_at(queue, first.store_ms) == 0
            await consumer.seek_to_last(queue)
            assert await consumer.poll(0.05) == []
            await producer.send(Message("T", b"new"), queue=queue)
            assert [m.body for m in await consumer.poll(10.0)] == [b"new"]
            with pytest.raises(ClientError, match="outside of"):
                await consumer.seek(queue, 12)
            await consumer.assign([])
            with pytest.raises(ClientError, match="not assigned"):
                consumer.position(queue)

    asyncio.run(main())


def test_offsets_are_committed_while_a_consumer_runs() -> None:
    async def main() -> None:
        async with filled(5) as (servers, _, queue):
            settings = ConsumerSettings(commit_interval_s=0.05)
            async with (
                PushConsumer(
                    "g", topics="T", name_servers=servers, start_from="first", settings=settings,
                    handler=lambda message: None,
                ),
                PullConsumer("g", name_servers=servers) as look,
            ):  # fmt: skip
                await look.queues("T")
                async with asyncio.timeout(20):
                    while await look.committed(queue) != 5:  # noqa: ASYNC110
                        await asyncio.sleep(0.02)

    asyncio.run(main())


def test_an_assignment_is_waited_for_until_it_is_whole() -> None:
    async def main() -> None:
        async with (
            filled(0) as (servers, producer, _),
            PushConsumer("g", topics="Late", name_servers=servers) as consumer,
        ):
            assigned = asyncio.create_task(consumer.wait_assigned())
            await producer.send(Message("Late", b"make the topic"))
            assert [queue.queue_id for queue in await assigned] == [0, 1, 2, 3]
            assert await consumer.wait_assigned(0.0) == consumer.assignment

    asyncio.run(main())


def test_a_pull_commits_only_what_no_later_commit_can_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    wishes: list[PullWish] = []
    pull = Puller.pull

    async def noted(self: Puller, queue: MessageQueue, wish: PullWish, **more: Any) -> Any:
        if queue.topic == "T":
            wishes.append(wish)
        return await pull(self, queue, wish, **more)

    async def main() -> None:
        async with filled(0) as (servers, producer, queue):
            async with PushConsumer(
                "g", topics="T", name_servers=servers, start_from="first"
            ) as consumer:
                loop = aiter(consumer)
                for number in range(3):  # each is in hand while the pull for the next is sent
                    await producer.send(Message("T", b"%d" % number), queue=queue)
                    assert (await anext(loop)).body == b"%d" % number
                    await until(lambda: max(w.offset for w in wishes) > number)  # noqa: B023
            async with PullConsumer("g", name_servers=servers) as look:
                await look.queues("T")
                assert await look.committed(queue) == 3

    monkeypatch.setattr(Puller, "pull", noted)
    asyncio.run(main())
    assert {wish.commit_offset for wish in wishes if wish.commit_offset != wish.offset} == {-1}


@pytest.mark.parametrize("ordered", [False, True])
def test_so_many_handlers_at_a_time_and_no_more(ordered: bool) -> None:
    async def main() -> None:
        now = most = done = 0

        async def handle(messages: list[ReceivedMessage]) -> None:
            nonlocal now, most, done
            assert 1 <= len(messages) <= 2
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.01)
            now -= 1
            done += len(messages)

        async with (
            filled(40) as (servers, _, _),
            PushConsumer(
                "g", topics="T", name_servers=servers, start_from="first", batch_handler=handle,
                workers=3, batch=2, ordered=ordered,
            ),
        ):  # fmt: skip
            await until(lambda: done == 40)
        assert most == (1 if ordered else 3)  # all of them are in one queue

    asyncio.run(main())


@pytest.mark.parametrize(
    ("start", "topic", "wanted"),
    [
        ("first", "T", 0),
        ("last", "T", 77),
        (1700000000000, "T", 33),
        ("first", "%RETRY%g", 0),
        ("last", "%RETRY%g", 0),
        (1700000000000, "%RETRY%g", 77),
    ],
)
def test_where_a_group_without_an_offset_begins(start: Any, topic: str, wanted: int) -> None:
    """The table of Java's RebalancePushImpl.computePullFromWhere."""

    class Calls:
        async def max_offset(self, queue: MessageQueue) -> int:
            return 77

        async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
            assert timestamp_ms == start
            return 33

    async def answer(offset: int) -> int:
        stored = SimpleNamespace(read=lambda queue: _value(offset))
        member = Member(
            SimpleNamespace(), "g", subscriptions={}, settings=ConsumerSettings(),
            strategy=SimpleNamespace(), start=start_position(start), model=CLUSTERING,
            consume_type="", calls=Calls(),
        )  # type: ignore[arg-type]  # fmt: skip
        member.attach(SimpleNamespace(), stored)  # type: ignore[arg-type]
        return await member.start_offset(MessageQueue(topic, "b", 0))

    assert asyncio.run(answer(NOT_FOUND)) == wanted
    assert asyncio.run(answer(12)) == 12


async def _value(offset: int) -> int:
    return offset


def test_pulling_waits_at_a_count_a_size_and_a_span() -> None:
    settings = ConsumerSettings(queue_count_max=4, queue_size_max=1000, queue_span_max=50)

    def full(*parts: tuple[int, int], ordered: bool = False, low: bool = False) -> bool:
        work = QueueWork(
            QUEUE, group="g", namespace="", subscription=SubscriptionData(topic="T"), offset=0
        )
        cached: Any = [SimpleNamespace(queue_offset=o, store_size=size) for o, size in parts]
        work.cache.add(cached, 100)
        return work.is_full(settings, ordered=ordered, low=low)

    assert not full()
    assert not full((0, 1), (1, 1), (2, 1))
    assert full((0, 1), (1, 1), (2, 1), low=True)  # it goes on at half
    assert full((0, 1), (1, 1), (2, 1), (3, 1))
    assert full((0, 5000))  # one may be larger than all
    assert full((0, 999), (1, 1))
    assert full((0, 1), (50, 1))
    assert not full((0, 1), (50, 1), ordered=True)  # an ordered queue waits for its own first


def test_a_blocking_client_works_within_a_running_loop() -> None:
    """As in a notebook, whose cells run in a loop."""
    cluster = ClusterThread()

    async def cell() -> int:
        with blocking.Producer("p", name_servers=cluster.name_servers) as producer:
            return producer.send(blocking.Message("T", b"x")).offset

    try:
        assert asyncio.run(cell()) == 0
    finally:
        cluster.close()


@pytest.mark.parametrize("run", [1, 7, 1000])
def test_runs_of_a_queue_keep_the_turns_of_single_messages(run: int) -> None:
    """Two equal lines of queues, with some held back and dropped on the way, give the same."""

    def line() -> tuple[Inbox, list[QueueWork]]:
        inbox, works = Inbox(ordered=False), []
        for number, count in enumerate((200, 1, 70, 130)):
            work = QueueWork(
                MessageQueue("T", "b", number), group="g", namespace="", offset=0,
                subscription=SubscriptionData(topic="T"),
            )  # fmt: skip
            cached: Any = [SimpleNamespace(queue_offset=o, store_size=1) for o in range(count)]
            work.cache.add(cached, count)
            inbox.offer(work)
            works.append(work)
        return inbox, works

    def hold_back(works: list[QueueWork], step: int) -> None:
        # At the ends of turns, where nobody is in the middle of a run.
        works[2].paused = 64 + 1 + 64 + 64 <= step < 200 + 1 + 64 + 64
        works[3].dropped = step >= 64 + 1 + 64 + 64 + 64

    def one_by_one(inbox: Inbox, works: list[QueueWork]) -> list[int]:
        order: list[int] = []
        for _ in range(600):
            hold_back(works, len(order))
            before = [work.cache.waiting for work in works]
            if inbox.take(1):
                after = [work.cache.waiting for work in works]
                order += [number for number in range(4) if after[number] != before[number]]
            for work in works:
                inbox.offer(work)
        return order

    def in_runs(inbox: Inbox, works: list[QueueWork]) -> list[int]:
        order: list[int] = []
        for _ in range(600):
            hold_back(works, len(order))
            work = inbox.front()
            if work is not None:
                taken = work.cache.take(min(run, inbox.turn_left(work)))
                inbox.took(work, len(taken))
                order += [works.index(work)] * len(taken)
            for work in works:
                inbox.offer(work)
        return order

    taken = one_by_one(*line())
    assert len(taken) == 200 + 1 + 70 + 64
    assert in_runs(*line()) == taken


@pytest.mark.parametrize("waits", ["always", "now and then", "never"])
def test_so_many_single_handlers_at_a_time_and_no_more(waits: str) -> None:
    async def main() -> None:
        now = most = 0
        done: list[int] = []

        async def handle(message: ReceivedMessage) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            if waits == "always" or (waits == "now and then" and message.offset % 7 == 0):
                await asyncio.sleep(0.01)
            now -= 1
            done.append(message.offset)

        async with filled(60) as (servers, _, queue):
            async with PushConsumer(
                "g", topics="T", name_servers=servers, start_from="first", handler=handle,
                workers=3,
            ):  # fmt: skip
                await until(lambda: len(done) == 60)
            async with PullConsumer("g", name_servers=servers) as look:
                await look.queues("T")
                assert await look.committed(queue) == 60
        assert sorted(done) == list(range(60))
        assert most == (1 if waits == "never" else 3)

    asyncio.run(main())


@pytest.mark.parametrize("ordered", [False, True])
def test_two_loops_share_one_queue(ordered: bool) -> None:
    """One that dawdles keeps its own message only; retries, sizes and offsets are right after."""

    async def main() -> None:
        async with filled(200) as (servers, _, queue):
            seen: dict[str, list[int]] = {"quick": [], "slow": []}
            async with PushConsumer(
                "g", topics="T", name_servers=servers, start_from="first", ordered=ordered,
                settings=ConsumerSettings(retries_max=3),
            ) as consumer:  # fmt: skip

                async def loop(name: str) -> None:
                    async for message in consumer:
                        seen[name].append(message.offset)
                        if name == "slow":
                            await asyncio.sleep(0.02)
                        if sum(map(len, seen.values())) >= 200:
                            return

                async with asyncio.TaskGroup() as group:
                    slow = group.create_task(loop("slow"))
                    quick = group.create_task(loop("quick"))
                    await asyncio.wait((slow, quick), return_when=asyncio.FIRST_COMPLETED)
                    slow.cancel()
                    quick.cancel()
            assert sorted(seen["quick"] + seen["slow"]) == list(range(200))
            assert seen["slow"]
            assert ordered or len(seen["quick"]) > len(seen["slow"])
            async with PullConsumer("g", name_servers=servers) as look:
                await look.queues("T")
                assert await look.committed(queue) == 200

    asyncio.run(main())


def test_a_loop_tells_what_it_consumed() -> None:
    async def main() -> None:
        async with filled(100) as (servers, _, queue):
            async with PushConsumer(
                "g", topics="T", name_servers=servers, start_from="first"
            ) as consumer:
                loop = consumer.__aiter__()
                assert loop.held_since() is None
                for offset in range(100):
                    assert (await anext(loop)).offset == offset
                    assert loop.held_since() is not None
                settling = consumer._engine.settling
                assert settling is not None
                (held,) = loop.release()
                assert (held.offset, loop.held_since(), loop.release()) == (99, None, [])
                assert settling.tallies["T"].ok == 99
                assert consumer._engine.works()[queue].cache.size == held.size
                settling.done([held])
                assert consumer._engine.works()[queue].cache.size == 0
            async with PullConsumer("g", name_servers=servers) as look:
                await look.queues("T")
                assert await look.committed(queue) == 100

    asyncio.run(main())


class _Later:
    """Something a handler may answer with that is no coroutine."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from asyncio.sleep(0.001).__await__()


def test_a_coroutine_that_was_begun_by_hand_goes_on() -> None:
    """As if it had been awaited: what it is sent, thrown, and that it may be closed."""
    told: list[str] = []

    async def inner(times: int, *, minds: bool = True) -> None:
        try:
            for _ in range(times):
                await asyncio.sleep(0)
                await _Later()
        except asyncio.CancelledError:
            told.append("cancelled")
            if minds:
                raise
        finally:
            told.append("ended")

    async def by_hand(work: Coroutine[Any, Any, None]) -> None:
        await going_on(work, work.send(None))
        told.append("over")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("here")

    async def main() -> None:
        await by_hand(inner(3))
        assert told == ["ended", "over"]
        for minds in (False, True):
            task = asyncio.ensure_future(by_hand(inner(10_000, minds=minds)))
            await asyncio.sleep(0.01)
            task.cancel()
            told.clear()
            await asyncio.gather(task, return_exceptions=True)
            assert told == ["cancelled", "ended"] + ["over"] * (not minds)
            assert task.cancelled() is minds
        with pytest.raises(ValueError, match="here"):
            await by_hand(fails())

    asyncio.run(main())
    told.clear()
    halfway = by_hand(inner(2))
    halfway.send(None)
    halfway.close()
    assert told == ["ended"]
