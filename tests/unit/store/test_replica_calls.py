"""What replication asks of a store: raw stretches, cuts while it serves, a bound on reading."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from contrailmq.errors import StoreClosed, StoreError
from contrailmq.lifecycle import running
from contrailmq.store.settings import FlushDiskType, StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import GetStatus, NewMessage
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock, simulate

PRIMARY = StoreSettings(
    root="primary",
    segment_size=16384,
    queue_file_size=400,
    index_slots=50,
    index_entries=100,
    message_size_max=6000,
)
REPLICA = dataclasses.replace(PRIMARY, root="replica")
Pair = Callable[[Store, Store, SimFiles], Coroutine[Any, Any, None]]


def with_pair(body: Pair, *, replica: StoreSettings = REPLICA) -> SimFiles:
    files = SimFiles()

    async def main(rng: random.Random) -> None:
        first = Store(PRIMARY, files=files, clock=SimClock())
        second = Store(replica, files=files, clock=SimClock())
        await first.open()
        await second.open()
        try:
            async with running(first.run(), name="first"), running(second.run(), name="second"):
                second.stand_by("a replica")
                await body(first, second, files)
        finally:
            await first.aclose()
            await second.aclose()

    simulate(1, main)
    return files


def put_many(store: Store, count: int, *, rng: random.Random, label: str = "k") -> list[int]:
    ends = []
    for number in range(count):
        body = rng.randbytes(rng.choice((10, 200, 3000)))
        properties = f"KEYS\x01{label}{number}\x02TAGS\x01t{number % 3}\x02".encode()
        appended = store.put(NewMessage("topic", number % 3, body, properties))
        ends.append(appended.end_offset)
    return ends


def log_bytes(store: Store, start: int, end: int) -> bytes:
    out = bytearray()
    while start < end:
        base = store.log.segments.base_of(start)
        segment = store.log.segments.find(start)
        assert segment is not None
        stop = min(end, base + segment.size)
        out += segment.buffer[start - base : stop - base]
        start = stop
    return bytes(out)


def copy(source: Store, target: Store, rng: random.Random, end: int | None = None) -> None:
    """Send what the target lacks in pieces of any size."""
    source.log.settle()
    end = source.max_offset if end is None else end
    while target.max_offset < end:
        start = target.max_offset
        stop = min(end, start + rng.choice((1, 3, 7, 50, 1000, 20000)))
        target.take(memoryview(log_bytes(source, start, stop)))


def units(store: Store) -> dict[tuple[str, int], list[object]]:
    return {
        (queue.topic, queue.queue_id): [
            queue.unit(offset) for offset in range(queue.min_offset, queue.max_offset)
        ]
        for queue in store.queues
    }


@pytest.mark.parametrize("flush", [FlushDiskType.ASYNC, FlushDiskType.SYNC])
@pytest.mark.parametrize("seed", range(5))
def test_a_replica_is_its_primary_byte_for_byte(seed: int, flush: FlushDiskType) -> None:
    async def body(first: Store, second: Store, files: SimFiles) -> None:
        rng = random.Random(seed)
        for _ in range(4):
            put_many(first, 20, rng=rng)
            copy(first, second, rng)
        await second._flush.flush()
        assert second.max_offset == first.max_offset
        whole = log_bytes(first, 0, first.max_offset)
        assert log_bytes(second, 0, second.max_offset) == whole
        assert units(second) == units(first)
        found = second.query_key("topic", "k7", count=9, begin_ms=0, end_ms=1 << 60)
        assert found.offsets
        assert (
            found.offsets
            == first.query_key("topic", "k7", count=9, begin_ms=0, end_ms=1 << 60).offsets
        )

    with_pair(body, replica=dataclasses.replace(REPLICA, flush_disk_type=flush))


def test_a_part_of_a_record_waits_for_its_rest() -> None:
    async def body(first: Store, second: Store, files: SimFiles) -> None:
        ends = put_many(first, 3, rng=random.Random(1))
        copy(first, second, random.Random(1), end=ends[1] + 9)
        assert second.max_offset == ends[1] + 9
        assert second.whole_end() == ends[1]
        assert second.bounds("topic", 1)[1] == 1
        assert second.bounds("topic", 2)[1] == 0
        with pytest.raises(StoreError, match="derived up to"):
            second.stand_by(None)
        await second.cut(second.whole_end())
        second.stand_by(None)
        put_many(second, 1, rng=random.Random(2))
        assert second.bounds("topic", 0)[1] == 2

    with_pair(body)


def test_a_standby_takes_no_messages() -> None:
    async def body(first: Store, second: Store, files: SimFiles) -> None:
        with pytest.raises(StoreClosed, match="a replica"):
            put_many(second, 1, rng=random.Random(1))
        assert not second.is_ready
        second.stand_by(None)
        assert second.is_ready
        put_many(second, 1, rng=random.Random(1))

    with_pair(body)


@pytest.mark.parametrize("seed", range(10))
def test_cut_back_and_on_with_another_log(seed: int) -> None:
    """A replica that cuts itself and follows another primary is equal to that one, kill or not."""

    async def body(first: Store, second: Store, files: SimFiles) -> None:
        rng = random.Random(seed)
        ends = put_many(first, 40, rng=rng)
        shared = rng.choice(ends)
        copy(first, second, rng, end=shared)
        second.stand_by(None)
        put_many(second, rng.choice((1, 10, 60)), rng=rng, label="lost")  # its own tail
        second.stand_by("a replica again")
        await second.cut(shared)
        assert second.max_offset == shared
        assert not any(
            offset >= shared
            for offset in second.query_key(
                "topic", "lost0", count=9, begin_ms=0, end_ms=1 << 60
            ).offsets
        )
        copy(first, second, rng)
        put_many(first, 30, rng=rng)
        copy(first, second, rng)
        assert log_bytes(second, 0, second.max_offset) == log_bytes(first, 0, first.max_offset)
        assert units(second) == units(first)
        files.cut_power(random.Random(seed))

    files = with_pair_until_power_off(body)

    async def again(rng: random.Random) -> None:
        second = Store(REPLICA, files=files, clock=SimClock())
        await second.open()
        # What the disk has is a beginning of what both had, and nothing of the tail that was cut.
        found = second.query_key("topic", "lost0", count=99, begin_ms=0, end_ms=1 << 60).offsets
        for offset in found:
            record = second.record_at(offset)
            assert record is None or b"lost" not in record
        for queue in second.queues:
            for offset in range(queue.min_offset, queue.max_offset):
                unit = queue.unit(offset)
                assert unit is not None
                record = second.record_at(unit[0], unit[1])
                assert record is not None
                assert b"KEYS\x01lost" not in record
        await second.aclose()

    simulate(1, again)


def with_pair_until_power_off(body: Pair) -> SimFiles:
    files = SimFiles()

    async def main(rng: random.Random) -> None:
        first = Store(PRIMARY, files=files, clock=SimClock())
        second = Store(REPLICA, files=files, clock=SimClock())
        await first.open()
        await second.open()
        second.stand_by("a replica")
        await body(first, second, files)

    simulate(1, main)
    return files


def test_a_cut_needs_a_place_in_the_log() -> None:
    async def body(first: Store, second: Store, files: SimFiles) -> None:
        put_many(first, 3, rng=random.Random(1))
        with pytest.raises(StoreError, match="cannot cut at"):
            await first.cut(first.max_offset + 1)
        await first.cut(0)
        assert first.max_offset == 0
        assert first.bounds("topic", 0) == (0, 0)
        put_many(first, 3, rng=random.Random(1))
        assert first.bounds("topic", 0) == (0, 1)

    with_pair(body)


def test_an_empty_log_begins_where_its_primary_says() -> None:
    async def body(first: Store, second: Store, files: SimFiles) -> None:
        put_many(first, 60, rng=random.Random(1))
        first.log.settle()
        start = first.max_offset - first.max_offset % PRIMARY.segment_size
        second.begin_at(start)
        assert (second.min_offset, second.max_offset) == (start, start)
        copy(first, second, random.Random(1))
        assert log_bytes(second, start, second.max_offset) == log_bytes(
            first, start, first.max_offset
        )
        second.begin_at(0)  # it has records: nothing happens
        assert second.min_offset == start

    with_pair(body)


def test_readers_see_what_is_confirmed() -> None:
    async def body(first: Store, second: Store, files: SimFiles) -> None:
        first.bind(0)
        ends = put_many(first, 6, rng=random.Random(1))
        first.log.settle()
        assert first.get("topic", 0, 0, count=9).status is GetStatus.NO_MESSAGE_IN_QUEUE
        first.confirm(ends[3] + 5)
        assert first.bounds("topic", 0)[1] == 2
        assert first.bounds("topic", 1)[1] == 1
        assert first.record_at(ends[3]) is None
        first.confirm(ends[1])  # it never falls
        assert first.bounds("topic", 0)[1] == 2
        first.confirm(ends[5])
        assert first.bounds("topic", 2)[1] == 2
        first.bind(None)
        put_many(first, 3, rng=random.Random(1))
        assert first.bounds("topic", 2)[1] == 3

    with_pair(body)


def test_under_synchronous_flush_a_replica_settles_before_it_takes_messages() -> None:
    async def body(first: Store, second: Store, files: SimFiles) -> None:
        put_many(first, 9, rng=random.Random(1))
        copy(first, second, random.Random(1))
        second.bind(second.max_offset)
        await second.settle()
        second.stand_by(None)
        assert second.bounds("topic", 0)[1] == 3
        put_many(second, 3, rng=random.Random(2))
        await second.settle()
        second.confirm(second.max_offset)
        assert second.bounds("topic", 0)[1] == 4

    with_pair(body, replica=dataclasses.replace(REPLICA, flush_disk_type=FlushDiskType.SYNC))
