"""The store's own calls: what is refused, what a pull gets, what is found by time and key."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import shutil
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from contrailmq._native.store import scan
from contrailmq.clock import SystemClock
from contrailmq.errors import (
    DiskFull,
    MessageTooLarge,
    StoreClosed,
    StoreError,
    StoreLocked,
    StoreRefusal,
)
from contrailmq.settings import parse_properties, read
from contrailmq.store.files import OsFiles
from contrailmq.store.settings import BrokerRole, StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import GetStatus, NewMessage, QueueExt
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock, simulate
from testkit.golden import store_directories

SETTINGS = StoreSettings(
    root="store",
    segment_size=65536,
    queue_file_size=400,
    index_slots=50,
    index_entries=500,
    message_size_max=30000,
)


class Filter:
    """A consumer's filter."""

    def __init__(
        self,
        tag_codes: frozenset[int] | None = None,
        *,
        accepts: Callable[[memoryview], bool] | None = None,
        passes: Callable[[QueueExt], bool] = lambda ext: True,
    ) -> None:
        self.tag_codes = tag_codes
        self.record_matters = accepts is not None
        self.program = None
        self._accepts = accepts
        self._passes = passes

    def matches(self, record: memoryview) -> bool:
        assert self._accepts is not None
        return self._accepts(record)

    def may_match(self, ext: QueueExt) -> bool:
        return self._passes(ext)


def with_store(
    body: Callable[[Store], Coroutine[Any, Any, None]],
    settings: StoreSettings = SETTINGS,
    files: SimFiles | None = None,
) -> None:
    """Run a test over a fresh store in virtual time."""
    kept = files or SimFiles()

    async def scenario(rng: random.Random) -> None:
        store = Store(settings, files=kept, clock=SimClock())
        await store.open()
        try:
            await body(store)
        finally:
            await store.aclose()

    simulate(1, scenario)


def message(number: int = 0, size: int = 100, tag: str = "a", queue_id: int = 0) -> NewMessage:
    return NewMessage(
        "T", queue_id, (b"%d " % number).ljust(size, b"x"), f"TAGS\x01{tag}\x02".encode()
    )


def numbers(records: bytes | bytearray) -> list[int]:
    """The numbers of the messages in a pull's buffer."""
    found, at = [], 0
    while at < len(records):
        fields = scan.fields(records, at)
        found.append(int(bytes(records[fields[5] : fields[5] + fields[6]]).split()[0]))
        at += fields[0]
    return found


def test_what_breaks_a_limit_is_refused_before_a_byte_is_written() -> None:
    async def body(store: Store) -> None:
        bad: list[tuple[type[Exception], NewMessage]] = [
            (MessageTooLarge, message(size=30001)),
            (StoreRefusal, NewMessage("T", 0, b"x", b"p" * 32768)),
            (StoreRefusal, NewMessage("", 0, b"x")),
            (StoreRefusal, NewMessage("t" * 256, 0, b"x")),
            (StoreRefusal, NewMessage("a/b", 0, b"x")),
            (StoreRefusal, NewMessage("..", 0, b"x")),
            (StoreRefusal, NewMessage("T", -1, b"x")),
            (StoreRefusal, NewMessage("T", 1 << 31, b"x")),
            (StoreRefusal, NewMessage("T", 0, b"x", born_host=b"\x7f\0\0\1")),
        ]
        for error, refused in bad:
            with pytest.raises(error):
                store.put(refused)
        for inner in (b"", b"x" * 30001, struct.pack(">iiiii", 22, 0, 0, 0, 1) + b"ab"):
            with pytest.raises(StoreRefusal):
                store.put_batch(message(), inner)
        with pytest.raises(StoreRefusal, match="transaction"):
            store.put_batch(dataclasses.replace(message(), sys_flag=4), b"x" * 30)
        assert store.max_offset == 0
        assert store.put(NewMessage("t" * 255, 0, b"x")).queue_offset == 0

    with_store(body)


def test_a_topic_of_128_bytes_needs_the_second_version() -> None:
    async def body(store: Store) -> None:
        with pytest.raises(StoreRefusal, match="at most 127"):
            store.put(NewMessage("t" * 128, 0, b"x"))

    with_store(body, dataclasses.replace(SETTINGS, long_topics=False))


def test_a_segment_that_is_smaller_than_a_message_sets_the_limit() -> None:
    async def body(store: Store) -> None:
        with pytest.raises(MessageTooLarge):
            store.put(message(size=4096))
        store.put(message(size=3000))
        store.put(message(size=3000))
        assert store.max_offset > 4096

    with_store(body, dataclasses.replace(SETTINGS, segment_size=4096))


def test_statuses_and_next_offsets_of_a_pull() -> None:
    async def body(store: Store) -> None:
        got = store.get("T", 0, 5, count=1)
        assert (got.status, got.next_offset) == (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0)
        store.writing.queue("T", 0)
        got = store.get("T", 0, 5, count=1)
        assert (got.status, got.next_offset) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0)
        for number in range(3):
            store.put(message(number))
        for offset, status, after in (
            (3, GetStatus.OFFSET_OVERFLOW_ONE, 3),
            (4, GetStatus.OFFSET_OVERFLOW_BADLY, 3),
            (-1, GetStatus.OFFSET_TOO_SMALL, 0),
            (1, GetStatus.FOUND, 3),
        ):
            got = store.get("T", 0, offset, count=10)
            assert (got.status, got.next_offset) == (status, after)
            assert (got.min_offset, got.max_offset) == (0, 3)
        got = store.get("T", 0, 0, count=10, matcher=Filter(frozenset({12345})))
        assert (got.status, got.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 3)
        assert got.records == b""

    with_store(body)


def test_a_replica_does_not_correct_offsets() -> None:
    async def body(store: Store) -> None:
        store.put(message())
        assert store.get("T", 0, 9, count=1).next_offset == 9

    with_store(body, dataclasses.replace(SETTINGS, broker_role=BrokerRole.SLAVE))


def test_a_pull_ends_at_its_limits_and_at_the_end_of_a_queue_file() -> None:
    async def body(store: Store) -> None:
        for number in range(100):
            store.put(message(number, size=1000))
        got = store.get("T", 0, 0, count=7)
        assert numbers(got.records) == list(range(7))
        assert store.get("T", 0, 0, count=1000).next_offset == 20  # units of a file
        assert numbers(store.get("T", 0, 15, count=1000).records) == [15, 16, 17, 18, 19]

    with_store(body)


def test_a_pull_takes_32_messages_or_256_kilobytes_and_less_from_disk() -> None:
    settings = dataclasses.replace(SETTINGS, queue_file_size=6000, segment_size=1 << 20)

    async def body(store: Store) -> None:
        for number in range(40):
            store.put(message(number))
        assert store.get("T", 0, 0, count=1000).count == 32
        assert not store.get("T", 0, 0, count=1000).suggest_slave
        for number in range(15):
            store.put(message(number, size=30000, queue_id=1))
        assert store.get("T", 1, 0, count=1000).count == 8  # 262144 bytes
        got = store.get("T", 0, 0, count=1000)  # now more than 40 % of memory behind
        assert (got.count, got.suggest_slave) == (8, True)

    with_store(body, settings, SimFiles(memory_size=1_000_000))


def test_filters_see_tags_then_records() -> None:
    async def body(store: Store) -> None:
        for number in range(20):
            store.put(message(number, tag="ab"[number % 2]))
        odd = frozenset({ord("b")})
        got = store.get("T", 0, 0, count=32, matcher=Filter(odd))
        assert numbers(got.records) == list(range(1, 20, 2))
        assert got.next_offset == 20
        asked = []

        def accepts(record: memoryview) -> bool:
            [number] = numbers(bytes(record))
            asked.append(number)
            return number > 10

        got = store.get("T", 0, 0, count=3, matcher=Filter(odd, accepts=accepts))
        assert numbers(got.records) == [11, 13, 15]
        assert asked == [1, 3, 5, 7, 9, 11, 13, 15]
        assert got.next_offset == 16

    with_store(body)


def test_the_extension_keeps_tags_and_bit_maps() -> None:
    settings = dataclasses.replace(SETTINGS, queue_ext_enable=True, queue_ext_file_size=100)
    files = SimFiles()

    async def body(store: Store) -> None:
        store.derivation.bitmap_of = lambda topic, record: bytes([len(record) % 2])
        for number in range(20):
            store.put(message(number, size=50 + number % 2, tag="ab"[number % 2]))
        got = store.get("T", 0, 0, count=32, matcher=Filter(frozenset({ord("a")})))
        assert numbers(got.records) == list(range(0, 20, 2))
        parity = numbers(store.get("T", 0, 0, count=1).records)[0]
        size = store.put(message(0, size=50)).size
        passing = Filter(passes=lambda ext: ext.bitmap == bytes([size % 2]))
        got = store.get("T", 0, 0, count=32, matcher=passing)
        assert numbers(got.records) == list(range(parity, 20, 2))

    with_store(body, settings, files)

    async def again(store: Store) -> None:
        got = store.get("T", 0, 0, count=32, matcher=Filter(frozenset({ord("b")})))
        assert numbers(got.records) == list(range(1, 20, 2))

    with_store(again, settings, files)


def test_times_are_found_exactly_first_and_last() -> None:
    async def body(store: Store) -> None:
        start = store.clock.now_ms()
        assert store.offset_by_time("T", 0, start) == 0
        assert store.store_time("T", 0, 0) == -1
        assert store.earliest_time() == -1
        for number in range(30):
            store.put(message(number))
            if number % 3 == 2:
                await asyncio.sleep(0.010)
        times = [store.store_time("T", 0, number) for number in range(30)]
        assert times[0] == start
        assert store.earliest_time() == store.earliest_time("T", 0) == start
        for ms in range(start - 2, start + 110):
            assert store.offset_by_time("T", 0, ms) == sum(time < ms for time in times)
            upper = max(sum(time <= ms for time in times) - 1, 0)
            assert store.offset_by_time("T", 0, ms, upper=True) == upper
        assert store.offset_by_time("no such topic", 0, start) == 0

    with_store(body)


def test_keys_are_found_within_a_time() -> None:
    async def body(store: Store) -> None:
        placed = []
        for number in range(1200):
            keys = f"KEYS\x01every  k{number % 300}\x02UNIQ_KEY\x01u{number}\x02".encode()
            placed.append(store.put(NewMessage("T", 0, b"x", keys)))
            await asyncio.sleep(0.01)
        assert store.indexes is not None
        assert len(store.indexes.indexes) > 3

        def find(key: str, begin_ms: int = 0, end_ms: int = 1 << 60, count: int = 64) -> list[int]:
            found = store.query_key("T", key, count=count, begin_ms=begin_ms, end_ms=end_ms)
            assert found.last_update_offset == placed[-1].offset
            return found.offsets

        for number in range(0, 1200, 111):
            assert placed[number].offset in find(f"u{number}")
        assert find("k7") == [placed[number].offset for number in (7, 307, 607, 907)]
        assert find("every") == [put.offset for put in placed[-64:]]
        assert find("every", count=3) == [put.offset for put in placed[-3:]]
        early = find("every", end_ms=placed[100].store_ms)
        assert len(early) == 64
        assert max(early) <= placed[200].offset  # the index keeps seconds
        assert placed[1150].offset in find("u1150", begin_ms=placed[1150].store_ms)
        assert find("u10", begin_ms=placed[1150].store_ms) == []

    with_store(body)


def test_listeners_hear_of_each_queue_once_a_batch() -> None:
    async def body(store: Store) -> None:
        heard: list[tuple[str, int, int]] = []
        store.on_readable = lambda *event: heard.append(event)
        one = struct.pack(">iiiii", 23, 0, 0, 0, 1) + b"x\0\0"
        done = store.put_batch(message(queue_id=3), one * 50)
        assert heard == [("T", 3, 50)]
        assert len(done.offsets) == 50
        assert done.queue_offset == 0
        store.put(message(queue_id=1))
        assert heard[1:] == [("T", 1, 1)]

    with_store(body)


def test_a_full_disk_refuses_and_service_returns_with_room() -> None:
    files = SimFiles(capacity=220_000)

    async def body(store: Store) -> None:
        with pytest.raises(DiskFull, match="no room"):
            for number in range(100):
                store.put(message(number, size=20000))
        stored = store.bounds("T", 0)[1]
        assert stored > 3
        files.capacity = 1 << 30
        store.put(message(stored, size=20000))
        everything: list[int] = []
        while (got := store.get("T", 0, len(everything), count=32)).status is GetStatus.FOUND:
            everything += numbers(got.records)
        assert everything == list(range(stored + 1))

    with_store(body, files=files)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_store_opens_on_a_full_disk(is_killed: bool) -> None:
    """What is there is served, and the log goes on where it ended once there is room."""
    files, stored = SimFiles(capacity=220_000), 0

    async def fill(rng: random.Random) -> None:
        nonlocal stored
        store = Store(SETTINGS, files=files, clock=SimClock())
        await store.open()
        with pytest.raises(DiskFull, match="no room"):
            for number in range(100):
                store.put(message(number, size=20000))
        stored = store.bounds("T", 0)[1]
        if is_killed:
            files.kill()
        else:
            await store.aclose()

    simulate(1, fill)
    last = max(files.entries("store/commitlog"))
    assert files.usage("store").free < last.size  # the next segment has a name, and no room

    def all_of(store: Store) -> list[int]:
        found: list[int] = []
        while (got := store.get("T", 0, len(found), count=32)).status is GetStatus.FOUND:
            found += numbers(got.records)
        return found

    async def read(store: Store) -> None:
        assert all_of(store) == list(range(stored))
        with pytest.raises(DiskFull):
            store.put(message(stored, size=20000))

    async def go_on(store: Store) -> None:
        store.put(message(stored, size=20000))
        assert all_of(store) == list(range(stored + 1))

    with_store(read, files=files)
    files.capacity = 1 << 30
    with_store(go_on, files=files)
    assert last.name in [entry.name for entry in files.entries("store/commitlog")]


def test_a_queue_without_room_catches_up_when_there_is_some() -> None:
    files = SimFiles()

    async def body(store: Store) -> None:
        store.put(message(0))
        for number in range(1, 20):
            store.put(message(number))
        for _ in range(2):
            files.fail("reserve", "consumequeue/T/0")
        assert store.put(message(20)).queue_offset == 20  # in the log, not yet in its queue
        assert store.bounds("T", 0) == (0, 20)
        with pytest.raises(DiskFull):
            store.put(message(99))  # nothing more while queues are behind
        assert store.put(message(21)).queue_offset == 21
        assert store.bounds("T", 0) == (0, 22)
        assert numbers(store.get("T", 0, 20, count=32).records) == [20, 21]

    with_store(body, files=files)


def test_records_are_found_by_their_place_only() -> None:
    async def body(store: Store) -> None:
        placed = [store.put(message(number)) for number in range(3)]
        for put in placed:
            assert numbers(store.record_at(put.offset) or b"") == [placed.index(put)]
            assert store.record_at(put.offset, put.size) == store.record_at(put.offset)
            for wrong in (put.offset + 1, put.offset - 1, -5, 1 << 40):
                assert store.record_at(wrong) is None
            assert store.record_at(put.offset, put.size + 1) is None
        assert store.record_at(placed[-1].end_offset) is None

    with_store(body)


def test_a_store_is_opened_by_one_at_a_time(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, root=str(tmp_path / "store"))

    async def scenario() -> None:
        first = Store(settings, files=OsFiles(), clock=SystemClock())
        second = Store(settings, files=OsFiles(), clock=SystemClock())
        with pytest.raises(StoreClosed, match="not open"):
            first.put(message())
        await first.open()
        with pytest.raises(StoreLocked):
            await second.open()
        first.put(message())
        assert (tmp_path / "store" / "abort").exists()
        await first.aclose()
        assert not (tmp_path / "store" / "abort").exists()
        assert (tmp_path / "store" / "lock").read_bytes() == b"lock"
        with pytest.raises(StoreClosed, match="closed"):
            first.put(message())
        await second.open()
        assert second.bounds("T", 0) == (0, 1)
        await second.aclose()
        await second.aclose()

    asyncio.run(scenario())


def test_a_segment_of_another_size_is_an_error_and_nothing_stays_open(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, root=str(tmp_path))
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / ("0" * 20)).write_bytes(bytes(100))

    async def scenario() -> None:
        store = Store(settings, files=OsFiles(), clock=SystemClock())
        with pytest.raises(StoreError, match="has 100 bytes"):
            await store.open()
        (tmp_path / "commitlog" / ("0" * 20)).unlink()
        await store.open()
        await store.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize("directory", store_directories(), ids=lambda found: found.name)
def test_java_stores_read_as_java_reads_them(directory: Any, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(directory.path, root)
    settings = read(StoreSettings, parse_properties(directory.conf.read_text()))
    settings = dataclasses.replace(settings, root=str(root), commit_log_path="")

    async def scenario() -> None:
        store = Store(settings, files=OsFiles(), clock=SystemClock())
        await store.open()
        batches = {path.parent.name for path in root.glob("batchconsumequeue/*/*")}
        checked = 0
        for row in directory.rows():
            if row["topic"] in batches:
                continue
            checked += 1
            if row["kind"] == "queue":
                expected = (row["minOffset"], row["maxOffset"])
                assert store.bounds(row["topic"], row["queueId"]) == expected
            elif row["kind"] == "message":
                got = store.get(row["topic"], row["queueId"], row["queueOffset"], count=1)
                assert got.status is GetStatus.FOUND
                place, size = row["commitLogOffset"], row["storeSize"]
                assert got.records == store.record_at(place, size)
            elif row["kind"] == "queryKey":
                found = store.query_key(
                    row["topic"], row["key"], count=row["maxNum"], begin_ms=0, end_ms=1 << 62
                )
                assert found.offsets == (row["commitLogOffsets"] if row["code"] == 0 else [])
            elif directory.name.startswith("v52"):
                found_offset = store.offset_by_time(row["topic"], row["queueId"], row["timestamp"])
                assert found_offset == row["offset"]
        assert checked > 100
        await store.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize("lost", [True, False])
def test_a_topic_made_again_keeps_its_second_life_through_a_crash(lost: bool) -> None:
    files = SimFiles()

    async def first(store: Store) -> None:
        for number in range(30):
            store.put(message(number))
        store.delete_topic("T")
        for number in range(100, 110):
            store.put(message(number))
        assert numbers(store.get("T", 0, 0, count=32).records) == list(range(100, 110))

    with_store(first, files=files)
    files.replace("store/abort", b"")  # as if it had been killed
    if lost:
        for path in [path for path in files.paths() if "consumequeue" in path]:
            files.remove(path)

    async def second(store: Store) -> None:
        assert store.bounds("T", 0) == (0, 10)
        assert numbers(store.get("T", 0, 0, count=32).records) == list(range(100, 110))
        assert store.put(message(110)).queue_offset == 10

    with_store(second, files=files)
