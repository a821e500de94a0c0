"""Synchronous flush of records that compiled code appends: they are written with the flush."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from contextlib import suppress

import pytest

from contrailmq.errors import StoreClosed
from contrailmq.store.settings import FlushDiskType, StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import Appended, GetStatus, NewMessage
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock, simulate

SETTINGS = StoreSettings(
    root="store",
    segment_size=65536,
    queue_file_size=2000,
    index_slots=50,
    index_entries=500,
    message_size_max=30000,
    flush_disk_type=FlushDiskType.SYNC,
)
FIRST = "store/commitlog/" + "0" * 20


def message(number: int, size: int = 100) -> NewMessage:
    return NewMessage("T", number % 3, (b"%d " % number).ljust(size, b"x"), b"KEYS\x01k\x02")


def append(store: Store, number: int, size: int = 100) -> Appended:
    """As the fast lane does it: nobody is told but who flushes."""
    store.check_writable()
    appended = store.writing.put(message(number, size))
    store.follower.appended()
    return appended


def written(files: SimFiles) -> int:
    """Bytes of the first segment that are not zero, up to the last."""
    return len((files.read(FIRST) or b"").rstrip(b"\0"))


def test_a_turn_of_appends_is_written_and_synced_together() -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        store = Store(SETTINGS, files=files, clock=SimClock())
        await store.open()
        service = asyncio.ensure_future(store.run())
        await asyncio.sleep(0.1)
        waits = [store.wait_flushed(append(store, number).end_offset) for number in range(50)]
        assert written(files) == 0, "nothing is written record by record"
        assert store.bounds("T", 0) == (0, 0)
        assert all([await wait for wait in waits if wait is not None])
        assert written(files) == store.max_offset == store.flushed_offset
        assert store.get("T", 0, 0, count=32).status is GetStatus.FOUND
        service.cancel()
        with suppress(asyncio.CancelledError):
            await service
        await store.aclose()

    simulate(1, scenario)


def test_who_does_not_wait_for_the_disk_is_safe_from_a_kill() -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        store = Store(SETTINGS, files=files, clock=SimClock())
        await store.open()
        append(store, 1)
        assert written(files) == 0
        appended = store.put(message(2))  # WAIT=false: it is answered now
        assert written(files) == appended.end_offset
        files.kill()
        again = Store(SETTINGS, files=files, clock=SimClock())
        await again.open()
        assert again.max_offset == appended.end_offset
        await again.aclose()

    simulate(1, scenario)


def test_what_was_appended_is_written_by_a_clean_stop() -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        store = Store(SETTINGS, files=files, clock=SimClock())
        await store.open()
        for number in range(600):  # more than a segment, more than a stage of it
            last = append(store, number)
        await store.aclose()
        assert not files.exists("store/abort")
        files.cut_power(rng, written=0.0)
        again = Store(SETTINGS, files=files, clock=SimClock())
        await again.open()
        assert again.max_offset == last.end_offset
        assert [again.bounds("T", queue_id) for queue_id in range(3)] == [(0, 200)] * 3
        await again.aclose()

    simulate(1, scenario)


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_failure_is_final_and_nothing_is_written_behind_it(operation: str) -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        store = Store(SETTINGS, files=files, clock=SimClock())
        await store.open()
        service = asyncio.ensure_future(store.run())
        kept = append(store, 1)
        wait = store.wait_flushed(kept.end_offset)
        assert wait is not None
        assert await wait
        files.fail(operation, "commitlog")
        lost = append(store, 2)
        wait = store.wait_flushed(lost.end_offset)
        assert wait is not None
        with pytest.raises(StoreClosed):
            await wait
        with pytest.raises(StoreClosed):
            await service
        with pytest.raises(StoreClosed):
            append(store, 3)
        await store.aclose()
        assert files.exists("store/abort")
        assert store.flushed_offset == kept.end_offset
        assert written(files) == (kept if operation == "write" else lost).end_offset

    simulate(1, scenario)


@pytest.mark.parametrize("seed", range(25))
def test_what_the_disk_was_certain_of_survives_a_power_cut(seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        settings = dataclasses.replace(SETTINGS, segment_size=rng.choice([32768, 65536]))
        certain: list[tuple[Appended, bytes]] = []
        number = 0
        for _ in range(3):
            store = Store(settings, files=files, clock=SimClock())
            await store.open()
            for appended, body in certain:
                record = store.record_at(appended.offset)
                assert record is not None
                assert body in bytes(record)
            service = asyncio.ensure_future(store.run())

            async def work(store: Store, number: int) -> None:
                size = rng.choice([20, 100, 100, 3000])
                if rng.random() < 0.2:
                    appended = store.put(message(number, size))
                else:
                    appended = append(store, number, size)
                wait = store.wait_flushed(appended.end_offset)
                assert wait is not None
                if await wait:
                    certain.append((appended, b"%d " % number))

            tasks = []
            for _ in range(rng.randrange(40)):
                tasks.append(asyncio.ensure_future(work(store, number)))
                number += 1
                if rng.random() < 0.3:
                    await asyncio.sleep(rng.choice([0, 0.0005, 0.01]))
            files.cut_power(rng)
            before = len(certain)
            service.cancel()
            for task in (service, *tasks):
                task.cancel()
            await asyncio.gather(service, *tasks, return_exceptions=True)
            del certain[before:]  # told after the cut
            store._release()
        assert number

    simulate(seed, scenario)
