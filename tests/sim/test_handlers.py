"""Handlers and loops of a push consumer in virtual time: limits, turns, errors, new members."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.sim.test_client import Sim, run, until

from contrailmq import ConsumerSettings, Message, ReceivedMessage
from contrailmq.client.consumer.delivery import Alarm
from contrailmq.errors import ContrailError

SEEDS = range(8)


def test_a_handler_that_takes_too_long_is_cut_short_and_its_message_comes_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(sim: Sim) -> None:
        seen: list[tuple[bytes, int]] = []
        cut_after: list[float] = []

        async def handle(message: ReceivedMessage) -> None:
            begun = asyncio.get_running_loop().time()
            try:
                if message.attempt == 1 and message.body == b"long":
                    await asyncio.sleep(3600)
                else:
                    await asyncio.sleep(1.5)
            except asyncio.CancelledError:
                cut_after.append(asyncio.get_running_loop().time() - begun)
                raise
            seen.append((message.body, message.attempt))

        settings = ConsumerSettings(consume_timeout_s=2.0)
        async with sim.cluster(brokers=1), sim.producer() as producer:
            for body in (b"a", b"long", b"b", b"c"):
                await producer.send(Message("T", body), key="one queue")
            async with sim.consumer(handle, settings=settings, workers=1):
                await until(lambda: len(seen) == 4, 60)
        assert seen == [(b"a", 1), (b"b", 1), (b"c", 1), (b"long", 2)]
        assert len(cut_after) == 1 and 2.0 <= cut_after[0] < 2.1

    run(1, tmp_path, scenario)
    assert "more than 2 s (consume_timeout_s)" in caplog.text


def test_an_alarm_is_not_confused_with_another_cancellation(tmp_path: Path) -> None:
    async def scenario(sim: Sim) -> None:
        outcomes: list[str] = []

        async def work() -> None:
            alarm = Alarm(1.0)
            try:
                alarm.begin()
                try:
                    await asyncio.sleep(100)
                except asyncio.CancelledError:
                    assert alarm.expired()  # ours
                    alarm.end()
                    outcomes.append("late")
                alarm.begin()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(100)  # a handler that does not mind being cut short
                alarm.end()
                await asyncio.sleep(0.1)  # and nothing of it is left
                alarm.begin()
                await asyncio.sleep(0.9)
                alarm.end()
                await asyncio.sleep(10)
                outcomes.append("in time")
                alarm.begin()
                try:
                    await asyncio.sleep(100)
                except asyncio.CancelledError:
                    assert not alarm.expired()  # ours, and somebody else's too
                    outcomes.append("cancelled")
                    raise
            finally:
                alarm.close()

        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work())
            # 1 + 1 + 0.1 + 0.9 + 10 seconds until the last wait, whose limit is one more.
            loop.call_later(14.0, task.cancel)
        assert outcomes == ["late", "in time", "cancelled"]

    run(1, tmp_path, scenario)


@pytest.mark.parametrize("form", ["handler", "loop"])
def test_cached_messages_let_other_tasks_run(form: str, tmp_path: Path) -> None:
    """Work that blocks, with messages always at hand: others get a turn every few of them."""

    async def scenario(sim: Sim) -> None:
        loop: Any = asyncio.get_running_loop()
        turns = 0
        seen: list[int] = []  # how many turns others had had at each message

        def block(message: ReceivedMessage) -> None:
            seen.append(turns)
            loop._now += 0.004  # work that waits for nothing

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.001)
                turns += 1

        async with sim.cluster(brokers=1), sim.producer() as producer:
            await producer.send_batch([Message("T", b"x") for _ in range(30)])
            async with asyncio.TaskGroup() as beside:
                ticking = beside.create_task(others())
                if form == "handler":
                    async with sim.consumer(block, workers=1):
                        await until(lambda: len(seen) == 30, 10)
                else:
                    async with sim.consumer(None) as consumer:
                        async for message in consumer:
                            block(message)
                            if len(seen) == 30:
                                break
                ticking.cancel()
        assert len(set(seen)) >= 4, seen  # 30 messages of 4 ms, turns of 10 ms

    run(1, tmp_path, scenario)


def test_an_error_that_repeats_is_told_once_in_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(sim: Sim) -> None:
        failures: collections.Counter[bytes] = collections.Counter()

        def handle(message: ReceivedMessage) -> None:
            if message.attempt == 1:
                failures[message.body[:1]] += 1
                if message.body[:1] == b"a":
                    raise ValueError(message.body)
                raise KeyError(message.body)

        async with sim.cluster(brokers=1), sim.producer() as producer, sim.consumer(handle):
            for number in range(50):
                await producer.send(Message("T", b"a%d" % number))
                await producer.send(Message("T", b"b%d" % number))
            await asyncio.sleep(11)
            await producer.send(Message("T", b"a!"))
            await asyncio.sleep(1)
        assert failures == {b"a": 51, b"b": 50}

    with caplog.at_level(logging.WARNING):
        run(1, tmp_path, scenario)
    told = [r for r in caplog.records if "consuming failed" in r.getMessage()]
    kinds = [
        (r.exc_info[0], r.getMessage().rpartition("not_shown=")[2]) for r in told if r.exc_info
    ]
    assert kinds == [(ValueError, "0"), (KeyError, "0"), (ValueError, "49")]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_member_begins_where_the_others_are(seed: int, tmp_path: Path) -> None:
    """What was consumed before it came is not delivered again, though nobody has committed yet."""

    async def scenario(sim: Sim) -> None:
        seen: collections.Counter[bytes] = collections.Counter()

        def handle(message: ReceivedMessage) -> None:
            seen[message.body] += 1

        async with sim.cluster(brokers=1), sim.producer() as producer:
            for number in range(40):
                await producer.send(Message("T", b"%d" % number))
            settings = ConsumerSettings(commit_interval_s=3600.0)
            async with sim.consumer(handle, settings=settings) as one:
                await until(lambda: len(seen) == 40, 10)
                async with sim.consumer(handle, settings=settings) as two:
                    await until(lambda: len(one.assignment) == len(two.assignment) == 2, 10)
                    await asyncio.sleep(5)
        assert set(seen.values()) == {1}, {body: n for body, n in seen.items() if n > 1}

    run(seed, tmp_path, scenario)


@pytest.mark.parametrize("avoid", [True, False])
def test_a_broker_that_failed_is_avoided_for_a_while(avoid: bool, tmp_path: Path) -> None:
    """With ``avoid_faults``, sends after a failure go elsewhere at once; without, they try."""

    async def scenario(sim: Sim) -> None:
        loop = asyncio.get_running_loop()
        async with sim.cluster(), sim.producer(avoid_faults=avoid, send_timeout_s=10.0) as producer:
            for number in range(8):
                await producer.send(Message("T", b"%d" % number))
            sim.network.stall("10.0.0.1")
            slow = 0
            for number in range(24):
                begun = loop.time()
                with contextlib.suppress(ContrailError):
                    receipt = await producer.send(Message("T", b"%d" % number), timeout_s=1.0)
                    assert receipt.queue.broker_name == "broker-2"
                slow += loop.time() - begun > 0.5
            assert slow == 1 if avoid else slow >= 6
            sim.network.heal()

    run(3, tmp_path, scenario)
