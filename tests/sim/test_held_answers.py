"""Under synchronous flush the lane's answers wait for the disk: all of them, whatever it says."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from contrailmq.broker.app import Broker
from contrailmq.broker.lanes import send as broker_lane
from contrailmq.errors import StoreClosed
from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.frame import FrameDecoder
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimLoop
from testkit.broker_world import BROKER_IP, World, live, run, send

FIELDS = {
    "a": "producers", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000",
    "h": "0", "i": "UNIQ_KEY\x017F0001\x02WAIT\x01true\x02", "j": "0", "k": "false", "m": "false",
}  # fmt: skip
CONF = {"namesrvAddr": "", "storePathRootDir": "/store", "flushDiskType": "SYNC_FLUSH"}
PEERS, SENDS = 6, 5


class SlowLoop(SimLoop):
    """A loop whose threads take seven seconds once ``is_slow`` is set."""

    is_slow = False

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        if not self.is_slow:
            return super().run_in_executor(executor, func, *args)
        future = self.create_future()
        self.call_later(7, self._run_call, future, func, args)
        return future


async def flood(world: World, broker: Broker) -> list[Command]:
    """Many connections send at once, each several requests; what they are answered."""
    clients = [world.client() for _ in range(PEERS)]
    opened = [await client.__aenter__() for client in clients]
    address = f"{BROKER_IP}:{broker.port}"
    try:
        return await asyncio.gather(
            *(
                client.call(
                    address,
                    Command(310, fields=dict(FIELDS, e=str(number % 4)), body=b"%d" % number),
                    timeout_s=60,
                )
                for client in opened
                for number in range(SENDS)
            )
        )
    finally:
        for client in clients:
            await client.__aexit__(None, None, None)


def count_held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the groups of answers that waited together."""
    sizes: list[int] = []
    release = broker_lane.BrokerLane._release

    def counted(self: Any, group: list[Any], outcome: Any) -> None:
        sizes.append(len(list(FrameDecoder().feed(b"".join(group[1::2])))))
        release(self, group, outcome)

    monkeypatch.setattr(broker_lane.BrokerLane, "_release", counted)
    return sizes


@pytest.mark.parametrize("size_max", [broker_lane.HELD_SIZE_MAX, 500])
def test_all_are_answered_and_what_is_answered_is_on_disk(
    tmp_path: Path, size_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_lane, "HELD_SIZE_MAX", size_max)
    sizes = count_held(monkeypatch)

    async def scenario(world: World) -> None:
        files = SimFiles()
        async with world.broker(files=files, **CONF) as broker:
            async with world.client() as client:
                await send(client, "T", b"first")
            answers = await flood(world, broker)
            assert {answer.code for answer in answers} == {0}
            found = sorted(
                (int(answer.fields["queueId"]), int(answer.fields["queueOffset"]))
                for answer in answers
            )
            assert len(set(found)) == PEERS * SENDS
            files.cut_power(random.Random(3), written=0.0)
            data = files.read("/store/commitlog/" + "0" * 20)
            assert data is not None
            assert data[: broker.parts.store.max_offset].count(b"UNIQ_KEY\x017F0001") == len(found)

    run(1, tmp_path, scenario)
    if size_max > 1000:
        assert sum(sizes) >= PEERS * SENDS
        assert max(sizes) > 1, "answers wait together"
    else:
        assert 0 < sum(sizes) < PEERS * SENDS, "beyond the bound the ordinary path takes them"


def test_a_slow_disk_is_said_to_be_late(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sizes = count_held(monkeypatch)
    loop = SlowLoop(random.Random(1))

    async def scenario() -> None:
        world = World(random.Random(1), tmp_path)
        async with world.broker(files=SimFiles(), **CONF) as broker:
            async with world.client() as client:
                await send(client, "T", b"first")
            assert int(broker.parts.runtime.table()["putMessageEntireTimeMax"]) < 1000
            loop.is_slow = True
            answers = await flood(world, broker)
            assert {answer.code for answer in answers} == {ResponseCode.FLUSH_DISK_TIMEOUT}
            assert len({answer.fields["msgId"] for answer in answers}) == PEERS * SENDS
            await asyncio.sleep(20)
            assert broker.parts.store.flushed_offset == broker.parts.store.max_offset
            limit_ms = broker.parts.store.settings.sync_flush_timeout_ms
            longest = int(broker.parts.runtime.table()["putMessageEntireTimeMax"])
            assert limit_ms <= longest <= limit_ms + 100
            loop.is_slow = False
            assert {answer.code for answer in await flood(world, broker)} == {0}

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scenario())
    assert sum(sizes) >= 2 * PEERS * SENDS


@pytest.mark.parametrize("operation", ["sync", "write"])
def test_nobody_is_told_that_a_message_is_safe_when_the_disk_failed(
    tmp_path: Path, operation: str
) -> None:
    async def scenario(world: World) -> None:
        files = SimFiles()
        started = asyncio.Event()
        broker = world.broker(files=files, **CONF)
        task = asyncio.ensure_future(live(broker, started))
        await started.wait()
        async with world.client() as client:
            await send(client, "T", b"first")
        files.fail(operation, "commitlog")
        answers = await asyncio.wait_for(flood_or_nothing(world, broker), 100)
        assert 0 not in {answer.code for answer in answers}
        assert not broker.parts.store.is_ready
        with pytest.raises((StoreClosed, BaseExceptionGroup)):
            await asyncio.wait_for(task, 100)

    run(1, tmp_path, scenario)


async def flood_or_nothing(world: World, broker: Broker) -> list[Command]:
    """The same; a connection that ends instead is no answer."""
    try:
        return await flood(world, broker)
    except OSError:
        return []
    except Exception as error:
        if type(error).__module__ != "contrailmq.errors":
            raise
        return []
