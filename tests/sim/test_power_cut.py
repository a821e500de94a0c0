"""A store that loses power, fails to sync and runs full, in virtual time.

Every seed chooses its own settings, messages and faults. After every crash:

* what was acknowledged under synchronous flush is there;
* what is there is a beginning of what was put, nothing else and nothing altered;
* queue offsets are dense and every unit points at the record that carries it (``check``);
* every key finds its message;
* recovering once more changes no byte.

``CONTRAIL_SEEDS=2000`` runs more of them; a failure names its seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from dataclasses import dataclass, field

import pytest

from contrailmq.errors import DiskFull, StoreClosed, StoreError, StoreRefusal
from contrailmq.protocol.message import decode_record
from contrailmq.protocol.properties import encode_properties
from contrailmq.store.offline.check import check
from contrailmq.store.offline.reader import StoreReader
from contrailmq.store.settings import FlushDiskType, StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock, SimLoop, simulate

SEEDS_QUICK = 25
SEEDS = int(os.environ.get("CONTRAIL_SEEDS", "200"))
ROOT = "/sim/store"
LIVES = 3


@pytest.mark.parametrize("seed", range(SEEDS_QUICK))
def test_a_store_survives(seed: int) -> None:
    simulate(seed, lambda rng: _World(rng).live())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS_QUICK, max(SEEDS, SEEDS_QUICK)))
def test_a_store_survives_more(seed: int) -> None:
    simulate(seed, lambda rng: _World(rng).live())


def test_a_seed_is_the_same_every_time() -> None:
    def trace() -> list[str]:
        world: list[_World] = []

        async def scenario(rng: random.Random) -> None:
            world.append(_World(rng))
            await world[0].live()

        simulate(7, scenario)
        return [put.text for put in world[0].history]

    assert trace() == trace()


@dataclass
class _Put:
    """A message that was put: what it was, where it went."""

    text: str
    topic: str
    queue_id: int
    offset: int
    queue_offset: int
    is_acknowledged: bool = False


@dataclass
class _World:
    rng: random.Random
    files: SimFiles = field(default_factory=SimFiles)
    history: list[_Put] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        rng = self.rng
        self.clock = SimClock()
        self.files.now_ms = self.clock.now_ms
        self.is_sync = rng.random() < 0.6
        self.settings = StoreSettings(
            root=ROOT,
            segment_size=rng.choice([16, 32, 64]) * 1024,
            queue_file_size=rng.choice([400, 2000, 8000]),
            index_slots=rng.choice([5, 100]),
            index_entries=rng.choice([20, 400]),
            index_safe=rng.random() < 0.3,
            queue_ext_enable=rng.random() < 0.3,
            queue_ext_file_size=rng.choice([300, 4096]),
            message_size_max=12_000,
            flush_disk_type=FlushDiskType.SYNC if self.is_sync else FlushDiskType.ASYNC,
            flush_interval_ms=rng.choice([5, 50, 500]),
            flush_least_pages=rng.choice([0, 4]),
            queue_flush_interval_ms=rng.choice([5, 100, 1000]),
            queue_flush_thorough_ms=rng.choice([20, 500, 60_000]),
            write_buffer_enable=not self.is_sync and rng.random() < 0.3,
            commit_interval_ms=rng.choice([5, 200]),
        )
        if rng.random() < 0.3:  # a disk that takes its time for every sync
            loop = asyncio.get_running_loop()
            assert isinstance(loop, SimLoop)
            loop.call_mean_s = rng.choice([0.02, 0.1, 0.5])

    async def live(self) -> None:
        """Some lives, each ended by a crash; then a clean stop."""
        for _ in range(LIVES):
            store = await self._open()
            await self._work(store)
            self._crash()
        store = await self._open()
        with contextlib.suppress(StoreRefusal):
            self._put(store)
        await store.aclose()
        for put in self.history:
            put.is_acknowledged = True  # after a clean stop there is nothing to lose
        self.files.cut_power(self.rng)
        await (await self._open()).aclose()

    async def _open(self) -> Store:
        """Recover, and see that everything holds."""
        store = await self._open_once()
        self._check(store)
        once = self._bytes()
        self.files.kill()
        store = await self._open_once()
        assert self._bytes() == once, "recovering twice is not recovering once"
        return store

    async def _open_once(self) -> Store:
        store = Store(self.settings, files=self.files, clock=self.clock)
        await store.open()
        return store

    def _bytes(self) -> dict[str, bytes | None]:
        return {path: self.files.read(path) for path in self.files.paths()}

    # A life

    async def _work(self, store: Store) -> None:
        rng = self.rng
        if rng.random() < 0.3:
            self.files.fail("sync", rng.choice(["commitlog", "consumequeue", ""]), after=5)
        if rng.random() < 0.3:
            self.files.fail("reserve", rng.choice(["commitlog", "consumequeue", "index"]), after=3)
        if rng.random() < 0.3:
            self.files.fail("short", "commitlog", after=2)
        service = asyncio.ensure_future(store.run())
        producers = [
            asyncio.ensure_future(self._produce(store, rng.randrange(1, 25)))
            for _ in range(rng.randrange(1, 8))
        ]
        await asyncio.wait(producers, timeout=rng.choice([0.002, 0.05, 0.5, 5]))
        self._end = store.max_offset
        for task in (*producers, service):
            task.cancel()
        self._crash_before_the_tasks_end()
        await asyncio.gather(*producers, service, return_exceptions=True)

    async def _produce(self, store: Store, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(self.rng.expovariate(200))
            try:
                put = self._put(store)
                waiter = store.wait_flushed(self._ends[put.offset])
                if waiter is not None and await waiter:
                    put.is_acknowledged = True
            except (DiskFull, StoreRefusal):
                await asyncio.sleep(0.01)
            except (StoreClosed, StoreError):
                return

    def _put(self, store: Store) -> _Put:
        rng = self.rng
        self.count += 1
        text = f"message {self.count}"
        properties = {"UNIQ_KEY": f"unique{self.count}", "TAGS": rng.choice(["A", "B", "订单"])}
        if rng.random() < 0.5:
            properties["KEYS"] = f"key{self.count} all"
        if rng.random() < 0.1:
            properties["long"] = "x" * rng.randrange(1, 9000)
        body = text.encode() + b"." * rng.choice([0, 10, 300, rng.randrange(9000)])
        message = NewMessage(
            topic=rng.choice(["Orders", "Bills"]),
            queue_id=rng.randrange(3),
            body=body,
            properties=encode_properties(properties),
            born_ms=self.clock.now_ms(),
        )
        appended = store.put(message)
        put = _Put(text, message.topic, message.queue_id, appended.offset, appended.queue_offset)
        self.history.append(put)
        self._ends[put.offset] = appended.end_offset
        return put

    _ends: dict[int, int] = field(default_factory=dict)
    _how: str = "power"

    def _crash_before_the_tasks_end(self) -> None:
        """What the dying process still does must not reach the disk."""
        if self.rng.random() < 0.75:
            self.files.cut_power(self.rng, written=self.rng.choice([0.1, 0.5, 0.9]))
        else:
            self.files.kill()

    def _crash(self) -> None:
        """The old process's views are of a world that is gone."""

    # What must hold

    def _check(self, store: Store) -> None:
        found = self._records(store)
        texts = [put.text for put in self.history]
        assert [text for text, _ in found] == texts[: len(found)], "not a beginning of what was put"
        for put in self.history[len(found) :]:
            assert not put.is_acknowledged, f"{put.text} was acknowledged and is lost"
        self.history = self.history[: len(found)]
        with StoreReader(ROOT, files=self.files, index_slots=self.settings.index_slots) as reader:
            report = check(reader)
            assert report.is_whole, report.findings[:5]
        counts: dict[tuple[str, int], int] = {}
        for put in self.history:
            key = (put.topic, put.queue_id)
            assert put.queue_offset == counts.get(key, 0), "queue offsets are not dense"
            counts[key] = put.queue_offset + 1
            number = put.text.split()[1]
            places = store.query_key(
                put.topic, f"unique{number}", count=32, begin_ms=0, end_ms=1 << 62
            )
            assert put.offset in places.offsets, f"{put.text} is not found by its key"
        for topic in ("Orders", "Bills"):
            for queue_id in range(3):
                assert store.bounds(topic, queue_id) == (0, counts.get((topic, queue_id), 0))

    def _records(self, store: Store) -> list[tuple[str, int]]:
        found = []
        with StoreReader(ROOT, files=self.files) as reader:
            for offset, raw in reader.log_records(check_crc=True):
                if offset >= store.max_offset:
                    break
                record = decode_record(raw)
                found.append((record.body.decode().rstrip("."), offset))
        return found
