"""The read-only reader beside a store that is being written."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from contrailmq.clock import SystemClock
from contrailmq.errors import CorruptRecord
from contrailmq.protocol.message import decode_record
from contrailmq.protocol.properties import encode_properties
from contrailmq.store.files import OsFiles
from contrailmq.store.offline.reader import StoreReader
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage


def _settings(root: Path) -> StoreSettings:
    return StoreSettings(
        root=str(root),
        segment_size=16 * 1024,
        queue_file_size=400,
        index_slots=50,
        index_entries=500,
        message_size_max=8000,
    )


def _message(number: int, *, queue_id: int = 0) -> NewMessage:
    return NewMessage(
        topic="Live",
        queue_id=queue_id,
        body=f"body {number}".encode(),
        properties=encode_properties({"UNIQ_KEY": f"u{number}", "KEYS": "all", "TAGS": "T"}),
    )


def _session(root: Path, work: object) -> None:
    async def session() -> None:
        store = Store(_settings(root), files=OsFiles(), clock=SystemClock())
        await store.open()
        try:
            await work(store)  # type: ignore[operator]
        finally:
            await store.aclose()

    asyncio.run(session())


def test_a_reader_follows_a_live_store(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        store.put(_message(0))
        with StoreReader(tmp_path) as reader:
            assert reader.is_live
            seen: list[bytes] = []
            for number in range(1, 200):
                store.put(_message(number, queue_id=0))
                if number % 7 == 0:
                    reader.refresh()
                    assert reader.bounds("Live", 0) == (0, number + 1)
                    seen += [r.body for r in reader.records("Live", 0, start=len(seen))]
                    assert seen == [f"body {n}".encode() for n in range(number + 1)]
                    assert reader.query_key("Live", f"u{number}") == [
                        store.query_key(
                            "Live", f"u{number}", count=1, begin_ms=0, end_ms=1 << 62
                        ).offsets[0]
                    ]

    _session(tmp_path, work)
    with StoreReader(tmp_path) as reader:
        assert not reader.is_live


def test_a_picture_stands_still_until_refreshed(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        store.put(_message(0))
        with StoreReader(tmp_path) as reader:
            assert reader.bounds("Live", 0) == (0, 1)
            store.put(_message(1))
            assert reader.bounds("Live", 0) == (0, 1)
            reader.refresh()
            assert reader.bounds("Live", 0) == (0, 2)

    _session(tmp_path, work)


def test_a_view_outlives_its_deleted_segment(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        for number in range(400):
            store.put(_message(number))

    _session(tmp_path, work)
    with StoreReader(tmp_path) as reader:
        first = next(raw for _, raw in reader.log_records())
        sorted((tmp_path / "commitlog").iterdir())[0].unlink()
        assert decode_record(first).body == b"body 0"
        reader.refresh()
        low, high = reader.bounds("Live", 0)
        assert low > 0
        assert [r.queue_offset for r in reader.records("Live", 0)] == list(range(low, high))


def test_a_unit_that_points_at_no_record_is_an_error(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        for number in range(5):
            store.put(_message(number))

    _session(tmp_path, work)
    file = sorted((tmp_path / "commitlog").iterdir())[0]
    data = bytearray(file.read_bytes())
    size = int.from_bytes(data[:4], "big")
    data[size + 4] ^= 0xFF
    file.write_bytes(data)
    with StoreReader(tmp_path) as reader, pytest.raises(CorruptRecord, match="queue 0 offset 1"):
        list(reader.records("Live", 0))


def test_what_the_queues_do_not_have_yet_is_read_from_the_log(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        for number in range(30):
            store.put(_message(number, queue_id=number % 3))

    _session(tmp_path, work)
    for file in (tmp_path / "consumequeue/Live/1").iterdir():
        file.write_bytes(bytes(file.stat().st_size))
    (tmp_path / "abort").touch()
    (tmp_path / "checkpoint").write_bytes(bytes(4096))
    with StoreReader(tmp_path) as reader:
        assert reader.bounds("Live", 1) == (0, 10)
        assert [r.body for r in reader.records("Live", 1)] == [
            f"body {number}".encode() for number in range(1, 30, 3)
        ]


def test_plans_by_time_and_offset(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        for number in range(100):
            store.put(_message(number, queue_id=number % 4))

    _session(tmp_path, work)
    with StoreReader(tmp_path) as reader:
        splits = reader.plan(["Live"], splits=10, starts={("Live", 0): 5}, ends={("Live", 1): 7})
        covered = {
            queue: sum(s.end - s.start for s in splits if s.queue_id == queue) for queue in range(4)
        }
        assert covered == {0: 20, 1: 7, 2: 25, 3: 25}
        assert 8 <= len(splits) <= 12
        assert reader.plan(["Other"], splits=3) == []
        assert reader.plan(["Live"], splits=3, begin_ms=1 << 60) == []
