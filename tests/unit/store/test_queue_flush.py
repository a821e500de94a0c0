"""Many queues are flushed several at a time: all of them, and no failure goes unnoticed."""

from __future__ import annotations

import asyncio
import errno
import random
from contextlib import suppress
from pathlib import Path

import pytest

from contrailmq.errors import StoreClosed
from contrailmq.store import flush
from contrailmq.store.files import OsFiles
from contrailmq.store.flush import SYNC_MANY, SYNC_THREADS, Fence, blocking
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock, simulate

SETTINGS = StoreSettings(
    root="store",
    segment_size=65536,
    queue_file_size=2000,
    index_slots=50,
    index_entries=500,
    message_size_max=30000,
)
QUEUES = SYNC_MANY + 2 * SYNC_THREADS + 1


def fill(store: Store) -> None:
    for number in range(2 * QUEUES):
        store.put(NewMessage("T", number % QUEUES, b"%d" % number))


def queue_files(files: SimFiles) -> dict[str, bytes | None]:
    return {path: files.read(path) for path in files.paths() if "consumequeue" in path}


async def opened(files: SimFiles) -> Store:
    store = Store(SETTINGS, files=files, clock=SimClock())
    await store.open()
    return store


@pytest.mark.parametrize("whole_disk", [False, True])
def test_a_clean_stop_makes_every_queue_certain(
    whole_disk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if whole_disk:
        monkeypatch.setattr(flush, "SYNC_DISKS", QUEUES)

    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        store = await opened(files)
        fill(store)
        await store.aclose()
        before = queue_files(files)
        assert len(before) == QUEUES
        files.cut_power(rng, written=0.0)
        assert queue_files(files) == before
        again = await opened(files)
        assert {again.bounds("T", number) for number in range(QUEUES)} == {(0, 2)}
        await again.aclose()

    simulate(1, scenario)


def test_the_disks_of_files_are_synced(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    path.write_bytes(b"x")
    assert OsFiles().sync_disks([str(path), str(tmp_path), str(tmp_path / "gone")])
    assert OsFiles().sync_disks([])
    OsFiles().sync_files([str(path), str(tmp_path / "gone")])


@pytest.mark.parametrize("whole_disk", [False, True])
@pytest.mark.parametrize("after", [0, 1, SYNC_THREADS, QUEUES - 1])
def test_one_that_fails_fences_the_store(
    after: int, whole_disk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if whole_disk:
        monkeypatch.setattr(flush, "SYNC_DISKS", QUEUES)

    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        store = await opened(files)
        fill(store)
        files.fail("sync", "consumequeue", after=after)
        with pytest.raises(StoreClosed, match="flush of queues failed"):
            await store.aclose()
        assert files.read("store/abort"), "recovery is told"

    simulate(1, scenario)


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("failing", [None, 0, 1, 2])
def test_work_is_awaited_to_its_end_and_its_error_outranks_a_cancellation(
    is_cancelled: bool, failing: int | None
) -> None:
    async def scenario(rng: random.Random) -> None:
        fence, done = Fence(), list[int]()

        def work(number: int) -> None:
            done.append(number)
            if number == failing:
                raise OSError(5, "broken")

        async def run() -> None:
            works = [lambda number=number: work(number) for number in range(3)]
            await blocking(None, *works, fence=fence, what="a test")

        task = asyncio.ensure_future(run())
        await asyncio.sleep(0)
        if is_cancelled:
            task.cancel()
        with suppress(StoreClosed, asyncio.CancelledError):
            await task
        assert sorted(done) == [0, 1, 2]
        assert (fence.reason is None) == (failing is None)
        if failing is None:
            assert task.cancelled() == is_cancelled
        else:
            assert isinstance(task.exception(), StoreClosed)

    simulate(1, scenario)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_lack_of_descriptors_is_no_failure_of_the_disk(is_cancelled: bool) -> None:
    async def scenario(rng: random.Random) -> None:
        fence = Fence()
        marks: list[str] = []
        fence.leave_mark = lambda: marks.append("mark")
        tries = {"first": 0, "second": 0}

        def work(name: str, short: int) -> None:
            tries[name] += 1
            if tries[name] <= short:
                raise OSError(errno.EMFILE, "Too many open files")

        flushing = asyncio.ensure_future(
            blocking(
                None,
                lambda: work("first", 3),
                lambda: work("second", 0),
                fence=fence,
                what="flush of queues",
            )
        )
        await asyncio.sleep(0.3)
        if is_cancelled:
            flushing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await flushing
        else:
            await flushing
        assert tries == {"first": 4, "second": 1}
        assert fence.reason is None
        assert marks == []

    simulate(1, scenario)
