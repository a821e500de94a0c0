"""POP and the end of the machine: kills and power cuts in the middle of pops."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from contrailmq.net.client import RemotingClient
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock
from testkit.broker_world import BROKER_IP, Mortal, World, live, now, run, send, until_power_cut
from testkit.pop_world import Given, ack, ack_all, change, take

SLOW = pytest.mark.slow


@asynccontextmanager
async def until_killed(world: World, files: SimFiles) -> AsyncIterator[None]:
    """A broker that is killed when the block ends: what it wrote is there, nothing follows."""
    mortal, started = Mortal(files), asyncio.Event()
    task = asyncio.ensure_future(live(world.broker(files=mortal, namesrvAddr=""), started))
    await started.wait()
    try:
        yield
    finally:
        mortal.is_dead = True
        world.network.crash(BROKER_IP)
        files.kill()
        task.cancel()
        with suppress(BaseException):
            await task
        world.network.restart(BROKER_IP)


async def drain(client: RemotingClient, seconds: float) -> list[Given]:
    found: list[Given] = []
    end = now() + seconds
    while now() < end:
        found += await take(
            client, pollTime=2000, bornTime=SimClock().now_ms(), invisibleTime=300_000
        )
    return found


def bodies(messages: list[Given]) -> list[bytes]:
    return sorted(message.body for message in messages)


@pytest.mark.parametrize("pause_s", [0.05, *(pytest.param(s, marks=SLOW) for s in (1, 7, 12))])
def test_after_a_kill_what_is_settled_does_not_come_again(tmp_path: Path, pause_s: float) -> None:
    async def scenario(world: World) -> None:
        files = SimFiles()
        async with until_killed(world, files), world.client() as client:
            for number in range(12):
                await send(client, "T", b"m%02d" % number, queue_id=number % 3)
            messages = await take(client, invisibleTime=8000)
            assert len(messages) == 12
            by_body = {message.body: message for message in messages}
            done = [by_body[b"m%02d" % n] for n in range(6)]
            for message in done[:3]:
                assert (await ack(client, message)).code == 0
            assert (await ack_all(client, done[3:])).code == 0
            kept = await change(client, by_body[b"m06"], 20_000)
            await asyncio.sleep(pause_s)
            assert (await ack(client, kept)).code == 0
        async with world.broker(files=files, namesrvAddr=""), world.client() as client:
            again = await drain(client, 40)
        assert bodies(again) == [b"m%02d" % n for n in range(7, 12)]
        assert {message.record.reconsume_times for message in again} == {1}

    run(3, tmp_path, scenario)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=SLOW) for n in range(1, 6))])
def test_a_power_cut_loses_no_message_that_is_not_settled(tmp_path: Path, seed: int) -> None:
    async def scenario(world: World) -> None:
        files, rng = SimFiles(), random.Random(seed)
        settled: set[bytes] = set()
        sent: set[bytes] = set()
        async with until_power_cut(world, files, rng, namesrvAddr=""), world.client() as client:
            for number in range(20):
                body = b"m%02d" % number
                assert (await send(client, "T", body, queue_id=number % 2)).code == 0
                sent.add(body)
            await asyncio.sleep(2)  # the messages are on disk; what follows may not be
            for _ in range(rng.randrange(1, 6)):
                for message in await take(client, invisibleTime=6000, maxMsgNums=4):
                    if rng.random() < 0.5 and (await ack(client, message)).code == 0:
                        settled.add(message.body)
                await asyncio.sleep(rng.random() * 4)
        async with world.broker(files=files, namesrvAddr=""), world.client() as client:
            again = await drain(client, 40)
        assert sent - settled <= {message.body for message in again}

    run(seed, tmp_path, scenario)
