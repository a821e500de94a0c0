"""Our store over a copy of every directory Java wrote: recovery ends where Java's does."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from contrailmq.clock import SystemClock
from contrailmq.protocol.message import decode_records
from contrailmq.settings import parse_properties, read
from contrailmq.store.files import OsFiles
from contrailmq.store.offline.check import check
from contrailmq.store.offline.dump import row
from contrailmq.store.offline.reader import StoreReader
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import GetStatus
from testkit.golden import StoreDirectory, store_directories

DIRECTORIES = store_directories()


@pytest.fixture(params=DIRECTORIES, ids=lambda directory: directory.name)
def golden(request: pytest.FixtureRequest) -> StoreDirectory:
    found: StoreDirectory = request.param
    return found


@pytest.fixture
def copy(golden: StoreDirectory, tmp_path: Path) -> Path:
    target = tmp_path / "store"
    shutil.copytree(golden.path, target)
    return target


def _settings(golden: StoreDirectory, root: Path) -> StoreSettings:
    properties = parse_properties(golden.conf.read_text())
    properties.pop("storePathCommitLog", None)
    return read(StoreSettings, {**properties, "storePathRootDir": str(root)})


def _with_store(settings: StoreSettings, work: Callable[[Store], Awaitable[None]]) -> None:
    async def session() -> None:
        store = Store(settings, files=OsFiles(), clock=SystemClock())
        await store.open()
        try:
            await work(store)
        finally:
            await store.aclose()

    asyncio.run(session())


def _open_and_drop(settings: StoreSettings) -> None:
    """Recover, then vanish as a killed process does: nothing is flushed, abort stays."""

    async def session() -> None:
        store = Store(settings, files=OsFiles(), clock=SystemClock())
        await store.open()
        store.fence.close("this process is about to be killed")
        await store.aclose()

    asyncio.run(session())


def _expect(golden: StoreDirectory, store: Store) -> None:
    batch_topics = {path.name for path in (Path(store.layout.root) / "batchconsumequeue").glob("*")}
    queues = [queue for queue in golden.rows("queue") if queue["topic"] not in batch_topics]
    messages = list(golden.rows("message"))
    for queue in queues:
        key = (queue["topic"], queue["queueId"])
        assert store.bounds(*key) == (queue["minOffset"], queue["maxOffset"]), key
        found, offset = [], queue["minOffset"]
        while offset < queue["maxOffset"]:
            result = store.get(*key, offset, count=32)
            assert result.status is GetStatus.FOUND, (key, offset)
            found += [row(record) for record in decode_records(result.records, check_crc=True)]
            assert result.next_offset > offset
            offset = result.next_offset
        assert found == [m for m in messages if (m["topic"], m["queueId"]) == key]
    for query in golden.rows("queryKey"):
        answer = store.query_key(
            query["topic"], query["key"], count=query["maxNum"], begin_ms=0, end_ms=1 << 62
        )
        assert list(answer.offsets) == query["commitLogOffsets"], query["key"]
    ends = [m["commitLogOffset"] + m["storeSize"] for m in messages]
    assert store.max_offset >= max(ends)


def test_opens_and_reads_what_java_reads(golden: StoreDirectory, copy: Path) -> None:
    async def work(store: Store) -> None:
        _expect(golden, store)

    _with_store(_settings(golden, copy), work)
    with StoreReader(copy) as reader:
        report = check(reader)
        assert report.is_whole, report.findings
        assert not reader.was_killed


def test_the_same_after_a_crash(golden: StoreDirectory, copy: Path) -> None:
    (copy / "abort").touch()

    async def work(store: Store) -> None:
        _expect(golden, store)

    _with_store(_settings(golden, copy), work)


@pytest.mark.parametrize("lost", ["consumequeue", "index", "checkpoint", "half of the queues"])
def test_what_is_derived_can_be_lost(golden: StoreDirectory, copy: Path, lost: str) -> None:
    """Queues are made anew without a crash; the index only when there was one."""
    if lost == "half of the queues":
        for queue in sorted((copy / "consumequeue").glob("*/*"))[::2]:
            shutil.rmtree(queue)
    elif lost == "checkpoint":
        (copy / lost).unlink()
        (copy / "abort").touch()
    else:
        shutil.rmtree(copy / lost)
    if lost == "index":
        (copy / "abort").touch()

    async def work(store: Store) -> None:
        _expect(golden, store)

    _with_store(_settings(golden, copy), work)


@pytest.mark.parametrize("killed", [False, True])
def test_short_queues_are_made_whole(golden: StoreDirectory, copy: Path, killed: bool) -> None:
    for file in sorted((copy / "consumequeue").glob("*/*/*"))[::3]:
        data = bytearray(file.read_bytes())
        data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
        file.write_bytes(data)

    async def work(store: Store) -> None:
        _expect(golden, store)

    if killed:
        (copy / "abort").touch()
        (copy / "checkpoint").write_bytes(bytes(4096))
    _with_store(_settings(golden, copy), work)


@pytest.mark.parametrize("killed", [False, True])
def test_queues_lost_after_we_had_the_directory(
    golden: StoreDirectory, copy: Path, killed: bool
) -> None:
    async def work(store: Store) -> None:
        _expect(golden, store)

    settings = _settings(golden, copy)
    _with_store(settings, work)
    for queue in sorted((copy / "consumequeue").glob("*/*"))[1::2]:
        shutil.rmtree(queue)
    if killed:
        (copy / "abort").touch()
    _with_store(settings, work)


@pytest.mark.parametrize("killed", [False, True])
def test_recovering_twice_is_recovering_once(
    golden: StoreDirectory, copy: Path, killed: bool
) -> None:
    settings = _settings(golden, copy)
    if killed:
        (copy / "abort").touch()
    _open_and_drop(settings)
    once = _bytes_of(copy)
    for _ in range(2):
        _open_and_drop(settings)
        assert _bytes_of(copy) == once


def _bytes_of(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
