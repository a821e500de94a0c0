"""Many queues are flushed several at a time: all of them, and no failure goes unnoticed."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from contrailmq.errors import StoreClosed
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


def test_a_clean_stop_makes_every_queue_certain() -> None:
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


@pytest.mark.parametrize("after", [0, 1, SYNC_THREADS, QUEUES - 1])
def test_one_that_fails_fences_the_store(after: int) -> None:
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
