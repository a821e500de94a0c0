"""The log takes blocks in steps ahead of its writer: a small store is small, a full disk safe."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from contrailmq._native.store import scan
from contrailmq.clock import SystemClock
from contrailmq.errors import DiskFull
from contrailmq.lifecycle import running
from contrailmq.store import blocks
from contrailmq.store.files import OsFiles
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import GetStatus, NewMessage
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock, simulate

STEP = 1 << 16
SIZE = 16 * STEP
SETTINGS = StoreSettings(
    root="store",
    segment_size=SIZE,
    queue_file_size=400,
    index_slots=50,
    index_entries=500,
    message_size_max=8000,
)


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "STEP", STEP)


def message(number: int, size: int = 4000) -> NewMessage:
    return NewMessage(
        topic="T", queue_id=0, body=number.to_bytes(4, "big") * (size // 4), born_ms=1
    )


def bodies(store: Store) -> list[int]:
    found: list[int] = []
    while (got := store.get("T", 0, len(found), count=32)).status is GetStatus.FOUND:
        at = 0
        while at < len(got.records):
            fields = scan.fields(got.records, at)
            body = bytes(got.records[fields[5] : fields[5] + fields[6]])
            assert body == body[:4] * (len(body) // 4)
            found.append(int.from_bytes(body[:4], "big"))
            at += fields[0]
    return found


def test_a_fresh_store_with_default_segments_takes_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # real steps

    async def body() -> None:
        store = Store(StoreSettings(root=str(tmp_path)), files=OsFiles(), clock=SystemClock())
        await store.open()
        try:
            store.put(message(0))
        finally:
            await store.aclose()

    asyncio.run(body())
    logs = list((tmp_path / "commitlog").iterdir())
    assert [path.stat().st_size for path in logs] == [1 << 30]  # Java wants the whole length
    everything = [path.stat().st_blocks * 512 for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(everything) < 100 << 20


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_disk_that_fills_inside_a_segment_loses_nothing(is_killed: bool) -> None:
    files, stored = SimFiles(capacity=SIZE // 2), 0

    async def fill(rng: random.Random) -> None:
        nonlocal stored
        store = Store(SETTINGS, files=files, clock=SimClock())
        await store.open()
        with pytest.raises(DiskFull, match="no room"):
            for stored in range(1000):
                store.put(message(stored))
        assert len(bodies(store)) == stored
        if is_killed:
            files.kill()
        else:
            await store.aclose()

    simulate(1, fill)
    assert 40 < stored < SIZE // 4000
    assert len(files.entries("store/commitlog")) == 1

    async def go_on(rng: random.Random) -> None:
        files.capacity = 1 << 30
        store = Store(SETTINGS, files=files, clock=SimClock())
        await store.open()
        for number in range(stored, 400):
            store.put(message(number))
            if number % 50 == 0:
                await asyncio.sleep(0.01)  # virtual: the thread may come first, too
        assert bodies(store) == list(range(400))
        await store.aclose()

    simulate(2, go_on)
    assert len(files.entries("store/commitlog")) >= 2


def test_the_next_segment_is_made_when_the_tail_is_nearly_full() -> None:
    files = SimFiles()

    async def body(rng: random.Random) -> None:
        store = Store(SETTINGS, files=files, clock=SimClock())
        await store.open()
        made: list[tuple[int, int]] = []
        async with running(store.run(), name="store"):
            for number in range(260):
                store.put(message(number))
                await asyncio.sleep(0.001)
                made.append((store.log.end_offset, len(files.entries("store/commitlog"))))
        await store.aclose()
        first = next(end for end, count in made if count == 2)
        assert SIZE - 4 * STEP < first < SIZE

    simulate(3, body)


def test_bytes_of_another_log_get_blocks_too() -> None:
    files = SimFiles()

    async def body(rng: random.Random) -> None:
        store = Store(SETTINGS, files=files, clock=SimClock())
        await store.open()
        for number in range(3):
            store.put(message(number))
        data = os.urandom(SIZE - store.log.end_offset)
        start = store.log.end_offset
        store.log.take(memoryview(data))
        assert store.log.end_offset == SIZE
        tail = store.log.segments.find(start)
        assert tail is not None
        assert bytes(tail.buffer[start:SIZE]) == data
        assert store.log.writer.ready == SIZE
        store.log.cut(start)
        await store.aclose()

    simulate(4, body)
