"""The thread that syncs: real files, both builds, and what happens when a sync fails."""

from __future__ import annotations

import asyncio
import errno
import os
import struct
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import pytest

from contrailmq.clock import SystemClock
from contrailmq.errors import StoreClosed
from contrailmq.store.files import OsFiles
from contrailmq.store.settings import FlushDiskType, StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.syncing import Syncer
from contrailmq.store.types import NewMessage
from testkit.builds import BUILDS, native_module


@pytest.fixture(params=BUILDS)
def native(request: pytest.FixtureRequest) -> ModuleType:
    return native_module("store.syncer", pure=request.param == "pure")


def _order(*descriptors: int) -> bytearray:
    return bytearray(
        struct.pack(f"{3 + len(descriptors)}i", len(descriptors), -7, -7, *descriptors)
    )


def _serve(native: ModuleType, order: bytearray) -> tuple[int, int, int]:
    """Give one order, wait until it is carried out, stop the loop."""
    wake_fd, done_fd = os.eventfd(0), os.eventfd(0)
    thread = threading.Thread(target=native.serve, args=(wake_fd, done_fd, order))
    thread.start()
    try:
        os.eventfd_write(wake_fd, 1)
        assert os.eventfd_read(done_fd) == 1
        outcome = struct.unpack_from("3i", order)
    finally:
        struct.pack_into("i", order, 0, -1)
        os.eventfd_write(wake_fd, 1)
        thread.join(10)
        os.close(wake_fd)
        os.close(done_fd)
    assert not thread.is_alive()
    return outcome[0], outcome[1], outcome[2]


def test_files_are_synced(native: ModuleType, tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as one, (tmp_path / "b").open("wb") as two:
        assert _serve(native, _order(one.fileno(), two.fileno()))[:2] == (2, 0)


def test_an_error_names_its_file(native: ModuleType, tmp_path: Path) -> None:
    reading, writing = os.pipe()  # cannot be synced
    try:
        with (tmp_path / "a").open("wb") as good:
            assert _serve(native, _order(good.fileno(), reading)) == (2, errno.EINVAL, 1)
    finally:
        os.close(reading)
        os.close(writing)


def test_an_order_too_short_is_refused(native: ModuleType) -> None:
    with pytest.raises(ValueError, match="no order"):
        native.serve(0, 0, bytearray(4))


def test_the_syncer_calls_back_and_ends_its_thread(tmp_path: Path) -> None:
    async def scenario() -> None:
        segment = OsFiles().create(str(tmp_path / "log"), 8192)
        syncer = Syncer(None)
        loop = asyncio.get_running_loop()
        for _ in range(3):
            outcome: asyncio.Future[Exception | None] = loop.create_future()
            syncer.begin([segment], outcome.set_result)
            assert syncer.is_busy
            assert await asyncio.wait_for(outcome, 60) is None
            assert not syncer.is_busy
        assert "store sync" in {thread.name for thread in threading.enumerate()}
        syncer.close()
        assert "store sync" not in {thread.name for thread in threading.enumerate()}
        segment.close()

    asyncio.run(scenario())


@asynccontextmanager
async def _running(root: Path) -> AsyncIterator[tuple[Store, asyncio.Task[None]]]:
    settings = StoreSettings(
        root=str(root), segment_size=65536, queue_file_size=2000, index_slots=50, index_entries=500,
        message_size_max=30000, flush_disk_type=FlushDiskType.SYNC,
    )  # fmt: skip
    store = Store(settings, files=OsFiles(), clock=SystemClock())
    await store.open()
    service = asyncio.ensure_future(store.run())
    try:
        yield store, service
    finally:
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)
        await store.aclose()


def test_many_sends_on_a_real_disk_cross_segments_and_all_are_certain(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _running(tmp_path) as (store, _):
            for number in range(60):
                appended = store.put(NewMessage("T", 0, b"x" * (number * 97), b""))
                waiting = store.wait_flushed(appended.end_offset)
                assert waiting is not None
                assert await asyncio.wait_for(waiting, 60)
                assert store.bounds("T", 0) == (0, number + 1)
            assert store.max_offset > 2 * 65536

    asyncio.run(scenario())


def test_a_sync_that_fails_for_real_fences_the_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _running(tmp_path) as (store, service):
            first = store.put(NewMessage("T", 0, b"one", b""))
            waiting = store.wait_flushed(first.end_offset)
            assert waiting is not None
            assert await asyncio.wait_for(waiting, 60)
            tail = store.log.tail
            assert tail is not None
            reading, writing = os.pipe()
            os.dup2(reading, tail.descriptor)  # the descriptor is no file any more
            os.close(reading)
            os.close(writing)
            second = store.put(NewMessage("T", 0, b"two", b""))
            waiting = store.wait_flushed(second.end_offset)
            assert waiting is not None
            with pytest.raises(StoreClosed, match="flush of the log failed"):
                await asyncio.wait_for(waiting, 60)
            with pytest.raises(StoreClosed, match="Invalid argument"):
                await service
            with pytest.raises(StoreClosed):
                store.put(NewMessage("T", 0, b"three", b""))
            assert store.flushed_offset == first.end_offset

    asyncio.run(scenario())
    assert (tmp_path / "abort").read_bytes() != b""
