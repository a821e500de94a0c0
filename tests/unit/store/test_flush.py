"""Flushing, in virtual time: who waits, who is told what, and what a failed fsync does."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from contrailmq.errors import StoreClosed
from contrailmq.protocol.message import decode_records
from contrailmq.store.settings import FlushDiskType, StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import Appended, GetStatus, NewMessage
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock, SimLoop, simulate

SETTINGS = StoreSettings(
    root="store",
    segment_size=65536,
    queue_file_size=2000,
    index_slots=50,
    index_entries=500,
    message_size_max=30000,
)
SYNC = dataclasses.replace(SETTINGS, flush_disk_type=FlushDiskType.SYNC)
BUFFER = dataclasses.replace(SETTINGS, write_buffer_enable=True, write_buffer_count=2)


@asynccontextmanager
async def running(settings: StoreSettings, files: SimFiles) -> AsyncIterator[Store]:
    """A store with its services."""
    store = Store(settings, files=files, clock=SimClock())
    await store.open()
    service = asyncio.ensure_future(store.run())
    try:
        yield store
    finally:
        service.cancel()
        with suppress(asyncio.CancelledError, StoreClosed):
            await service
        await store.aclose()


def put(store: Store, number: int = 0, size: int = 100) -> Appended:
    body = (b"%d " % number).ljust(size, b"x")
    return store.put(NewMessage("T", 0, body, b"KEYS\x01k\x02"))


def test_a_synchronous_send_waits_for_the_disk_and_readers_follow_it() -> None:
    async def scenario(rng: random.Random) -> None:
        async with running(SYNC, SimFiles()) as store:
            seen: list[tuple[str, int, int]] = []
            store.on_readable = lambda *event: seen.append(event)
            appended = put(store)
            assert store.bounds("T", 0) == (0, 0)
            assert store.get("T", 0, 0, count=1).status is not GetStatus.FOUND
            assert store.record_at(appended.offset) is None
            waiting = store.wait_flushed(appended.end_offset)
            assert waiting is not None
            assert await waiting is True
            assert store.flushed_offset >= appended.end_offset
            assert store.get("T", 0, 0, count=1).status is GetStatus.FOUND
            assert seen == [("T", 0, 1)]
            done = store.wait_flushed(appended.end_offset)
            assert done is not None
            assert done.done()

    simulate(1, scenario)


@pytest.mark.parametrize("seed", range(20))
def test_all_who_wait_share_a_flush_and_none_is_told_too_early(seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        async with running(SYNC, files) as store:

            async def send(number: int) -> None:
                await asyncio.sleep(rng.uniform(0, 0.02))
                appended = put(store, number, rng.randrange(20, 3000))
                waiting = store.wait_flushed(appended.end_offset)
                assert waiting is not None
                assert await waiting
                assert store.flushed_offset >= appended.end_offset

            before = files.sync_count
            async with asyncio.TaskGroup() as group:
                for number in range(60):
                    group.create_task(send(number))
            assert files.sync_count - before < 60

    simulate(seed, scenario)


@pytest.mark.parametrize("seed", range(30))
def test_what_was_acknowledged_survives_a_power_cut(seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        store = Store(SYNC, files=files, clock=SimClock())
        await store.open()
        service = asyncio.ensure_future(store.run())
        acknowledged: list[Appended] = []

        async def send(number: int) -> None:
            await asyncio.sleep(rng.uniform(0, 0.02))
            appended = put(store, number, rng.randrange(20, 8000))
            waiting = store.wait_flushed(appended.end_offset)
            assert waiting is not None
            if await waiting:
                acknowledged.append(appended)

        sends = [asyncio.ensure_future(send(number)) for number in range(60)]
        await asyncio.sleep(rng.uniform(0.003, 0.02))
        files.cut_power(rng)
        certain = list(acknowledged)
        for task in (*sends, service):
            task.cancel()
        await asyncio.gather(*sends, service, return_exceptions=True)
        store.fence.close("its machine has no power")
        await store.aclose()
        again = Store(SYNC, files=files, clock=SimClock())
        await again.open()
        for appended in certain:
            record = again.record_at(appended.offset)
            assert record is not None
            assert len(record) == appended.size
        await again.aclose()

    simulate(seed, scenario)


def test_without_synchronous_flush_there_is_nothing_to_wait_for() -> None:
    async def scenario(rng: random.Random) -> None:
        async with running(SETTINGS, SimFiles()) as store:
            appended = put(store)
            assert store.wait_flushed(appended.end_offset) is None
            assert store.get("T", 0, 0, count=1).status is GetStatus.FOUND
            assert store.flushed_offset == 0
            await asyncio.sleep(1)
            assert store.flushed_offset == 0  # less than four pages
            for number in range(5):
                put(store, number, 5000)
            await asyncio.sleep(1)
            assert store.flushed_offset == store.max_offset
            put(store)
            await asyncio.sleep(12)  # the thorough interval
            assert store.flushed_offset == store.max_offset

    simulate(1, scenario)


class SlowLoop(SimLoop):
    """A disk that takes seven seconds for everything."""

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        future = self.create_future()
        self.call_later(7, self._run_call, future, func, args)
        return future


def test_a_slow_disk_is_a_timeout_not_a_failure() -> None:
    async def scenario() -> None:
        async with running(SYNC, SimFiles()) as store:
            first = put(store)
            waiting = store.wait_flushed(first.end_offset)
            await asyncio.sleep(1)
            second = put(store)
            later = store.wait_flushed(second.end_offset)
            assert waiting is not None
            assert later is not None
            loop = asyncio.get_running_loop()
            assert await waiting is False
            assert loop.time() == pytest.approx(5.0)
            assert await later is False
            assert loop.time() == pytest.approx(6.0)
            await asyncio.sleep(20)
            assert store.flushed_offset == second.end_offset
            assert store.writeable_reason() is None

    loop = SlowLoop(random.Random(1))
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("seed", range(20))
def test_a_failed_fsync_fails_the_waiting_and_is_final(seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        store = Store(SYNC, files=files, clock=SimClock())
        await store.open()
        service = asyncio.ensure_future(store.run())
        acknowledged = []
        files.fail("sync", "commitlog", after=rng.randrange(3))
        with pytest.raises(StoreClosed, match="failed"):
            for number in range(10):
                appended = put(store, number)
                waiting = store.wait_flushed(appended.end_offset)
                assert waiting is not None
                await waiting
                acknowledged.append(appended)
        with pytest.raises(StoreClosed, match="failed"):
            await service
        with pytest.raises(StoreClosed, match="flush of the log failed"):
            put(store)
        assert "failed" in str(store.writeable_reason())
        last = acknowledged[-1].end_offset if acknowledged else 0
        assert store.flushed_offset == last
        waiting = store.wait_flushed(last + 1)
        assert waiting is not None
        with pytest.raises(StoreClosed):
            await waiting
        await store.aclose()
        assert files.exists("store/abort")
        files.cut_power(rng)
        again = Store(SYNC, files=files, clock=SimClock())
        await again.open()
        for appended in acknowledged:
            record = again.record_at(appended.offset)
            assert record is not None
            assert len(record) == appended.size
        await again.aclose()

    simulate(seed, scenario)


def test_a_cancelled_service_flushes_once_more() -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        store = Store(SETTINGS, files=files, clock=SimClock())
        await store.open()
        service = asyncio.ensure_future(store.run())
        await asyncio.sleep(1)
        put(store)
        service.cancel()
        with pytest.raises(asyncio.CancelledError):
            await service
        assert store.flushed_offset == store.max_offset
        await store.aclose()

    simulate(1, scenario)


def test_an_error_in_a_last_flush_outranks_the_cancellation() -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        store = Store(SETTINGS, files=files, clock=SimClock())
        await store.open()
        service = asyncio.ensure_future(store.run())
        await asyncio.sleep(1)
        put(store)
        files.fail("sync", "commitlog")
        service.cancel()
        with pytest.raises(StoreClosed):
            await service
        await store.aclose()
        assert files.exists("store/abort")

    simulate(1, scenario)


def test_the_write_buffer_is_read_when_it_is_committed() -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        files.fail("short", "commitlog")
        async with running(BUFFER, files) as store:
            appended = put(store)
            assert store.record_at(appended.offset) is None
            assert store.bounds("T", 0) == (0, 0)
            await asyncio.sleep(0.5)
            assert store.bounds("T", 0) == (0, 1)
            record = store.record_at(appended.offset)
            assert record is not None
            assert len(record) == appended.size
            assert store.flushed_offset == 0
            await asyncio.sleep(11)
            assert store.flushed_offset == store.max_offset

    simulate(1, scenario)


def test_when_every_write_buffer_is_used_the_sender_commits() -> None:
    async def scenario(rng: random.Random) -> None:
        async with running(BUFFER, SimFiles()) as store:
            for number in range(30):
                put(store, number, 20000)  # three a segment, no time for the service
                assert store.log.buffers_in_use() <= 2
            await asyncio.sleep(1)
            assert store.bounds("T", 0) == (0, 30)

    simulate(1, scenario)


def test_a_failed_commit_is_final_too() -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        async with running(BUFFER, files) as store:
            put(store)
            files.fail("write", "commitlog")
            await asyncio.sleep(1)
            with pytest.raises(StoreClosed, match="commit of the write buffer failed"):
                put(store)

    simulate(1, scenario)


@pytest.mark.parametrize("settings", [SETTINGS, SYNC], ids=["async", "sync"])
def test_a_failed_write_to_the_log_is_final_and_ends_the_service(settings: StoreSettings) -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        store = Store(settings, files=files, clock=SimClock())
        await store.open()
        service = asyncio.ensure_future(store.run())
        kept = put(store, 1, size=5000)
        flushed = store.wait_flushed(kept.end_offset)
        assert flushed is None or await flushed
        files.fail("write", "commitlog")
        with pytest.raises(StoreClosed, match="write to the log failed"):
            put(store, 2, size=5000)
        with pytest.raises(StoreClosed):
            put(store, 3)
        with pytest.raises(StoreClosed, match="write to the log failed"):
            await asyncio.wait_for(service, 60)
        await store.aclose()
        files.kill()
        async with running(settings, files) as again:
            assert again.max_offset == kept.end_offset
            assert again.bounds("T", 0) == (0, 1)

    simulate(1, scenario)


def test_a_write_that_stops_half_way_is_gone_on_with() -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        async with running(SETTINGS, files) as store:
            files.fail("short", "commitlog")
            files.fail("short", "commitlog")  # the rest of it, too
            put(store, 1, size=9000)
            (record,) = decode_records(store.get("T", 0, 0, count=1).records)
            assert bytes(record.body) == b"1 ".ljust(9000, b"x")

    simulate(1, scenario)


def test_the_checkpoint_follows_the_flushes() -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        async with running(SETTINGS, files) as store:
            appended = put(store)
            await asyncio.sleep(65)
            data = files.read("store/checkpoint")
            assert data is not None
            assert len(data) == 4096
            assert int.from_bytes(data[:8], "big") == appended.store_ms
            assert int.from_bytes(data[8:16], "big") == appended.store_ms

    simulate(1, scenario)


def test_a_deleted_topic_does_not_disturb_a_flush() -> None:
    async def scenario(rng: random.Random) -> None:
        async with running(SETTINGS, SimFiles()) as store:
            put(store)
            assert store.delete_topic("T") == 1
            assert store.bounds("T", 0) == (0, 0)
            await asyncio.sleep(65)
            assert store.writeable_reason() is None
            assert put(store).queue_offset == 0

    simulate(1, scenario)


@pytest.mark.parametrize("seed", range(5))
def test_a_segment_made_in_a_hurry_has_a_certain_name(seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        store = Store(SETTINGS, files=files, clock=SimClock())
        await store.open()  # no service runs, so no segment is ready before it is needed
        appended = [put(store, number, 20000) for number in range(10)]
        assert store.max_offset > 2 * SETTINGS.segment_size
        await store._flush.flush()
        files.cut_power(rng)
        store.fence.close("its machine has no power")
        await store.aclose()
        again = Store(SETTINGS, files=files, clock=SimClock())
        await again.open()
        for one in appended:
            record = again.record_at(one.offset)
            assert record is not None
            assert len(record) == one.size
        await again.aclose()

    simulate(seed, scenario)
