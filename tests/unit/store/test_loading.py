"""Old messages are loaded by a thread; whoever waits for the same part waits for one load."""

from __future__ import annotations

import asyncio
import ctypes
import mmap
import os
import struct
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType

import pytest

from contrailmq.clock import SystemClock
from contrailmq.store.files import OsFiles, Segment
from contrailmq.store.load_thread import ROOM, LoadThread
from contrailmq.store.loading import AHEAD, STEP
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import GetStatus, Matcher, NewMessage, QueueExt
from contrailmq.testing.files import SimFiles
from testkit.builds import BUILDS, native_module

WAIT_S = 10.0


class Reluctant:
    """A filter no compiled loop knows: every third message."""

    tag_codes = program = None
    record_matters = True

    def matches(self, record: memoryview) -> bool:
        return int.from_bytes(record[20:28], "big") % 3 == 0

    def may_match(self, ext: QueueExt) -> bool:
        return True


def with_store(
    path: Path, scenario: Callable[[Store], Awaitable[None]], *, segment_size: int = 16 * STEP
) -> None:
    """Run a scenario on a real store with ten blocks of messages, and a bit, in two queues."""

    async def run() -> None:
        settings = StoreSettings(root=str(path), segment_size=segment_size)
        store = Store(settings, files=OsFiles(), clock=SystemClock())
        await store.open()
        try:
            number = 0
            while store.max_offset < 10 * STEP + 9000:
                store.put(NewMessage("T", number % 2, b"%d" % number * 2000))
                number += 1
            await scenario(store)
        finally:
            await store.aclose()
        assert not any(thread.name.startswith("store-read") for thread in threading.enumerate())

    asyncio.run(run())


def drive_out(store: Store) -> None:
    """Have the kernel forget the log and the queues, where it can be made to."""
    segments = [segment for _, segment in store.log.segments.opened()]
    for queue in store.queues:
        segments += [segment for _, segment in queue.segments.opened()]
    libc = ctypes.CDLL(None)
    for segment in segments:
        assert segment.address
        segment.sync()
        address, size = ctypes.c_void_p(segment.address), ctypes.c_size_t(segment.size)
        libc.madvise(address, size, mmap.MADV_DONTNEED)
        descriptor = os.open(segment.path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    for _ in range(2):
        store.log.gatherer.age()
    if not store.log.gatherer.must_load(0, STEP):
        pytest.skip("this build cannot ask, or this file system has no disk")


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What was loaded: path, start, end."""
    found: list[tuple[str, int, int]] = []
    load = LoadThread.load

    def note(self: LoadThread, segment: Segment, start: int, end: int) -> asyncio.Future[None]:
        found.append((segment.path, start, end))
        return load(self, segment, start, end)

    monkeypatch.setattr(LoadThread, "load", note)
    return found


async def idle(store: Store) -> None:
    """Until nothing is being loaded."""
    while store._loading.under_way:
        await asyncio.wait_for(asyncio.wait(store._loading.under_way), WAIT_S)


def test_a_load_is_shared_and_known(tmp_path: Path) -> None:
    async def scenario(store: Store) -> None:
        assert store.loading("T", 0, 0, count=32) is None  # just written: it is there
        first, second = store._loading.load(0), store._loading.load(STEP - 1)
        assert first is not None
        assert first is second
        other = store._loading.load(STEP)
        assert other is not None
        assert other is not first
        await asyncio.wait_for(asyncio.gather(first, other), WAIT_S)
        assert store._loading.load(11 * STEP) is None  # nothing was written there
        assert store._loading.load(16 * STEP) is None  # no such segment
        again = store._loading.load(0)
        assert again is not None
        assert again is not first
        await asyncio.wait_for(again, WAIT_S)
        result = store.get("T", 0, 200, count=32)
        assert (result.status, result.count) == (GetStatus.FOUND, 32)

    with_store(tmp_path, scenario)


@pytest.mark.parametrize("matcher", [None, Reluctant()])
def test_a_pull_waits_for_units_and_messages_and_finds_the_same(
    tmp_path: Path, matcher: Matcher | None
) -> None:
    async def scenario(store: Store) -> None:
        queues = {queue.queue_id: queue for queue in store.queues}
        before = store.get("T", 1, 300, count=32, matcher=matcher)
        drive_out(store)
        waits = 0
        while wait := store.loading("T", 1, 300, count=32, matcher=matcher):
            waits += 1
            await asyncio.wait_for(asyncio.shield(wait), WAIT_S)
        assert waits == 2  # the units first
        found = store.get("T", 1, 300, count=32, matcher=matcher)
        assert 0 < found.count <= before.count
        assert bytes(before.records[: len(found.records)]) == bytes(found.records)
        assert queues[1].unit(300) is not None

    with_store(tmp_path, scenario)


@pytest.mark.parametrize("segment_size", [16 * STEP, 3 * STEP + 12288])
def test_what_follows_is_loaded_while_a_reader_goes_on(
    tmp_path: Path, loads: list[tuple[str, int, int]], segment_size: int
) -> None:
    """Blocks come into memory ahead of the reader, each once, and none behind the log's end."""

    async def scenario(store: Store) -> None:
        drive_out(store)
        segments, gatherer = store.log.segments, store.log.gatherer
        blocks = [
            (segments.path(base), start, min(start + STEP, segment_size, store.max_offset - base))
            for base in segments.offsets
            for start in range(0, min(segment_size, store.max_offset - base), STEP)
        ]
        assert len(blocks) > AHEAD + 6
        assert store._loading.load(0) is not None
        await idle(store)
        assert loads == blocks[: AHEAD + 1]

        def come_to(number: int) -> None:
            path, start, _ = blocks[number]
            gatherer.touched = int(path.rpartition("/")[2]) + start
            store.read_on()
            assert gatherer.touched == -1

        come_to(2)
        come_to(1)
        await idle(store)
        assert loads == blocks[: AHEAD + 3]
        for number in range(3, len(blocks)):
            come_to(number)
            await idle(store)
        assert loads == blocks

    with_store(tmp_path, scenario, segment_size=segment_size)


def test_a_reader_who_goes_on_waits_once(tmp_path: Path, loads: list[tuple[str, int, int]]) -> None:
    """From beginning to end only the first pull of each kind has to wait."""

    async def scenario(store: Store) -> None:
        expected = [store.get("T", 0, offset, count=8).records for offset in range(0, 400, 8)]
        drive_out(store)
        waits = 0
        for number, records in enumerate(expected):
            while wait := store.loading("T", 0, 8 * number, count=8):
                waits += 1
                await asyncio.wait_for(asyncio.shield(wait), WAIT_S)
            await idle(store)
            found = store.get("T", 0, 8 * number, count=8).records
            assert bytes(records[: len(found)]) == bytes(found)
        assert waits == 2
        assert len(loads) == len(set(loads)) > AHEAD + 1

    with_store(tmp_path, scenario)


def test_a_mapping_is_loaded_in_any_range(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    segment = OsFiles().create(path, 100_000)
    segment.buffer[50_000] = 7
    for start, end in ((0, 4096), (1, 99_999), (50_000, 200_000), (9, 9), (100_000, 100_001)):
        segment.load(start, end)
    assert segment.buffer[50_000] == 7
    segment.close()
    segment.load(0, 4096)  # closed meanwhile: nothing to do
    assert segment.address == 0


def test_a_thread_has_room_for_any_number_of_orders(tmp_path: Path) -> None:
    async def scenario() -> None:
        segment = OsFiles().create(str(tmp_path / "file"), 3 * ROOM * 4096)
        simulated = SimFiles().create("/f", 4096)
        thread = LoadThread()
        orders = [thread.load(segment, n * 4096, n * 4096 + 4096) for n in range(3 * ROOM)]
        orders += [thread.load(segment, 5, 5), thread.load(simulated, 0, 4096)]
        await asyncio.wait_for(asyncio.gather(*orders), WAIT_S)
        left = [thread.load(segment, 0, segment.size) for _ in range(ROOM)]
        segment.close()
        left.append(thread.load(segment, 0, 4096))
        thread.close()
        await asyncio.wait_for(asyncio.gather(*left), WAIT_S)
        thread.close()

    asyncio.run(scenario())
    assert not any(thread.name.startswith("store-read") for thread in threading.enumerate())


@pytest.fixture(params=BUILDS)
def native(request: pytest.FixtureRequest) -> ModuleType:
    return native_module("store.loader", pure=request.param == "pure")


def test_orders_are_carried_out_in_turn(native: ModuleType, tmp_path: Path) -> None:
    segment = OsFiles().create(str(tmp_path / "file"), 64 * 4096)
    room, wake_fd, done_fd = 3, os.eventfd(0), os.eventfd(0)
    orders = bytearray(8 * (1 + 2 * room))
    words = memoryview(orders).cast("q")
    thread = threading.Thread(target=native.serve, args=(wake_fd, done_fd, orders))
    thread.start()
    given = 0
    try:
        for turn in range(20):
            count = turn % room + 1
            for _ in range(count):
                at = 1 + 2 * (given % room)
                given += 1
                words[at], words[at + 1] = segment.address + 4096 * turn, 4096
            os.eventfd_write(wake_fd, count)
            done = 0
            while done < count:
                done += os.eventfd_read(done_fd)
            assert done == count
        words[1:] = memoryview(struct.pack("6q", 4096, 4096, 4096, 1, 4096, 0)).cast("B").cast("q")
        os.eventfd_write(wake_fd, 1)
        assert os.eventfd_read(done_fd) == 1  # memory that is not ours: nothing happens
    finally:
        words[0] = -1
        os.eventfd_write(wake_fd, 1)
        thread.join(WAIT_S)
        os.close(wake_fd)
        os.close(done_fd)
    segment.close()
    assert not thread.is_alive()
    with pytest.raises(ValueError, match="no room"):
        native.serve(0, 0, bytearray(16))
