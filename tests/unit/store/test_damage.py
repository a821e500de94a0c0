"""Damage in the middle of a killed store costs the damaged records, and nothing behind them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from contrailmq._native.store import scan
from contrailmq.protocol.message import decode_record
from contrailmq.store.offline.check import check
from contrailmq.store.offline.reader import StoreReader
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock, simulate

SETTINGS = StoreSettings(
    root="store",
    segment_size=32768,
    queue_file_size=20 * 100,
    index_slots=50,
    index_entries=5000,
    message_size_max=4000,
)
COUNT = 600
PAGE = 4096

Work = Callable[[Store], Coroutine[Any, Any, None]]


def session(files: SimFiles, work: Work, *, dies: bool = False) -> None:
    async def scenario(rng: random.Random) -> None:
        store = Store(SETTINGS, files=files, clock=SimClock())
        await store.open()
        try:
            await work(store)
            if dies:
                left = files.read("store/abort")
                store.fence.close("killed")
                files.replace("store/abort", left or b"")
        finally:
            await store.aclose()

    simulate(1, scenario)


async def fill(store: Store) -> None:
    for number in range(COUNT):
        body = (b"%d " % number).ljust(100 + number % 200, b"x")
        store.put(NewMessage("T", number % 3, body, b"KEYS\x01k%d\x02" % number))


def read_all(store: Store) -> dict[int, tuple[int, int]]:
    """Which messages there are, by number: queue and offset."""
    found = {}
    for queue_id in range(3):
        low, high = store.bounds("T", queue_id)
        for offset in range(low, high):
            unit = store.unit("T", queue_id, offset)
            if unit is None:
                continue
            data = store.record_at(unit[0], unit[1])
            assert data is not None
            record = decode_record(data)
            assert (record.queue_id, record.queue_offset) == (queue_id, offset)
            found[int(bytes(record.body).split()[0])] = queue_id, offset
    return found


def segment_paths(files: SimFiles) -> list[str]:
    return [path for path in files.paths() if path.startswith("store/commitlog/")]


def damage(files: SimFiles, path: str, start: int, new: bytes) -> None:
    data = files.read(path)
    assert data is not None
    files.replace(path, data[:start] + new + data[start + len(new) :])


PLACES = {
    "a page of zeros": (1, PAGE * 3, bytes(PAGE)),
    "zeros from a record's first byte on": (1, 0, bytes(300)),
    "one bit of a body": (2, 90, b"\xff"),
    "a destroyed head": (1, 4, b"\0\0\0\0"),
    "the end of a segment": (1, 32768 - 2000, bytes(2000)),
    "noise over two segments": (1, 20000, random.Random(1).randbytes(12768)),
}


@pytest.mark.parametrize("what", PLACES)
def test_only_the_damaged_records_are_lost(what: str, caplog: pytest.LogCaptureFixture) -> None:
    files = SimFiles()
    session(files, fill, dies=True)
    number, start, new = PLACES[what]
    before = [files.read(path) for path in segment_paths(files)]
    damage(files, segment_paths(files)[number], start, new)
    if what == "noise over two segments":
        damage(files, segment_paths(files)[number + 1], 0, new[:3000])

    async def expect(store: Store) -> None:
        found = read_all(store)
        lost = set(range(COUNT)) - set(found)
        hit = set()
        for index, data in enumerate(before):
            assert data is not None
            at = 0
            while (size := scan.check(data, at, len(data), index * 32768, True)) > 0:
                record = decode_record(data[at : at + size])
                now = store.log.segments.find(index * 32768)
                assert now is not None
                if bytes(now.buffer[at : at + size]) != data[at : at + size]:
                    hit.add(int(bytes(record.body).split()[0]))
                at += size
        assert lost == hit
        assert 1 <= len(lost) <= 90
        for n, place in found.items():
            assert place == (n % 3, n // 3), "an offset has moved"
        assert [store.bounds("T", queue)[1] for queue in range(3)] == [200, 200, 200]
        assert store.put(NewMessage("T", 0, b"600 new")).queue_offset == 200
        assert f"messages={len(lost)} " in caplog.text

    session(files, expect)
    kept = [path for path in files.paths() if path.startswith("store/quarantine/")]
    assert kept
    if what == "one bit of a body":
        segment = before[number]
        data = files.read(kept[0])
        assert segment is not None and data is not None and len(kept) == 1
        assert data == segment[:90] + new + segment[91 : len(data)]
    with StoreReader("store", files=files, index_slots=SETTINGS.index_slots) as reader:
        report = check(reader)
        assert report.is_whole, report.findings[:5]


def test_the_last_messages_of_a_queue_are_lost_and_their_offsets_stay_taken() -> None:
    files = SimFiles()

    async def two(store: Store) -> None:
        for number in range(10):
            store.put(NewMessage("Ends", 0, b"%d" % number))
        for number in range(10):
            store.put(NewMessage("T", 0, b"%d" % number))

    session(files, two, dies=True)
    data = files.read(segment_paths(files)[0])
    assert data is not None
    at = 0
    for _ in range(8):
        at += scan.check(data, at, len(data), 0, False)
    damage(files, segment_paths(files)[0], at + 4, bytes(150))

    async def expect(store: Store) -> None:
        assert store.bounds("Ends", 0) == (0, 10)
        assert store.unit("Ends", 0, 7) is not None
        assert store.unit("Ends", 0, 8) is None
        assert store.bounds("T", 0) == (0, 10)
        assert store.put(NewMessage("Ends", 0, b"new")).queue_offset == 10

    session(files, expect)


@pytest.mark.parametrize("is_synced", [True, False])
def test_after_a_power_cut_only_what_was_synced_is_believed(is_synced: bool) -> None:
    files = SimFiles()

    async def fill_and_wait(store: Store) -> None:
        await fill(store)
        if is_synced:
            runs = asyncio.ensure_future(store.run())
            await asyncio.sleep(130)
            runs.cancel()
            await asyncio.wait([runs])

    session(files, fill_and_wait, dies=True)
    if is_synced:
        files.cut_power(random.Random(1))
    else:
        files.replace("store/abort", b"another boot")
    damage(files, segment_paths(files)[-2], PAGE, bytes(PAGE))

    async def expect(store: Store) -> None:
        found = read_all(store)
        if is_synced:
            assert COUNT - 40 < len(found) < COUNT
        else:
            assert sorted(found) == list(range(len(found))), "not a beginning of what was put"
            assert len(found) < COUNT - 100

    session(files, expect)


def test_a_gap_in_the_middle_of_a_queue_does_not_hide_its_beginning() -> None:
    files = SimFiles()

    async def scenario(store: Store) -> None:
        for number in range(5):
            store.put(NewMessage("T", 0, b"%d" % number))
        queue = store.queues.get("T", 0)
        queue.skip_to(queue.writer, 12)
        for number in range(12, 14):
            store.log.writer.store_ms = number
        queue.correct_min(0)
        assert queue.min_offset == 0
        unit = queue.unit(3)
        assert unit is not None
        queue.correct_min(unit[0])
        assert queue.min_offset == 3
        queue.correct_min(1 << 40)
        assert queue.min_offset == queue.max_offset

    session(files, scenario, dies=True)


def test_after_a_crash_the_checkpoint_moves_on_at_once() -> None:
    files = SimFiles()
    session(files, fill, dies=True)

    async def live_a_little(store: Store) -> None:
        assert store._checkpoint is not None
        before_ms = store._checkpoint.queues_ms
        runs = asyncio.ensure_future(store.run())
        await asyncio.sleep(2)
        runs.cancel()
        await asyncio.wait([runs])
        assert store._checkpoint.queues_ms > before_ms

    session(files, live_a_little, dies=True)
