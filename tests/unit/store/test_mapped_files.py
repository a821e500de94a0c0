"""However many queues there are, few of their files are mapped, and none of them notices."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from contrailmq.clock import SystemClock
from contrailmq.store.files import OsFiles
from contrailmq.store.mapped_files import LIMIT_MIN, MappedFiles
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import GetStatus, NewMessage
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock, simulate

QUEUES = 200
SIZES = {
    "segment_size": 1 << 20,
    "queue_file_size": 2000,
    "index_slots": 50,
    "index_entries": 5000,
    "message_size_max": 30000,
}


class Owner:
    """Files of one owner; some are busy once."""

    def __init__(self, maps: MappedFiles) -> None:
        self.maps = maps
        self.busy: set[int] = set()
        self.gone: list[int] = []

    def is_busy(self, base: int) -> bool:
        was_busy = base in self.busy
        self.busy.discard(base)
        return was_busy

    def let_go(self, base: int) -> None:
        self.gone.append(base)
        self.maps.remove(self, base)


def test_the_file_not_used_for_longest_goes() -> None:
    maps = MappedFiles(LIMIT_MIN)
    owner = Owner(maps)
    for base in range(LIMIT_MIN):
        maps.add(owner, base)
    assert owner.gone == []
    maps.touch(owner, 0)
    owner.busy = {1, 2}
    maps.add(owner, 100)
    assert owner.gone == [3]
    assert len(maps) == LIMIT_MIN
    maps.add(owner, 101)
    assert owner.gone == [3, 4]


def test_the_file_just_mapped_stays_when_all_others_are_busy() -> None:
    maps = MappedFiles(LIMIT_MIN)
    owner = Owner(maps)
    for base in range(LIMIT_MIN):
        maps.add(owner, base)
        owner.busy.add(base)
    maps.add(owner, 100)
    assert len(owner.gone) == 1
    assert 100 not in owner.gone


def maps_of(root: Path) -> int:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum(f"{root}/consumequeue" in line for line in lines)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux says what is mapped")
def test_many_queues_cost_few_mappings(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = StoreSettings(root=str(tmp_path), queue_maps_max=20, **SIZES)
        store = Store(settings, files=OsFiles(), clock=SystemClock())
        await store.open()
        for number in range(3 * QUEUES):
            store.put(NewMessage("T", number % QUEUES, b"%d" % number))
        assert 0 < maps_of(tmp_path) <= 20
        check(store, 3)
        assert maps_of(tmp_path) <= 20
        await store.aclose()
        again = Store(settings, files=OsFiles(), clock=SystemClock())
        await again.open()
        check(again, 3)
        assert 0 < maps_of(tmp_path) <= 20
        await again.aclose()
        assert maps_of(tmp_path) == 0

    asyncio.run(scenario())


def check(store: Store, count: int) -> None:
    for queue in range(QUEUES):
        assert store.bounds("T", queue) == (0, count)
        found = store.get("T", queue, 0, count=32, matcher=None)
        assert found.status is GetStatus.FOUND
        assert found.count == count


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_sends_reads_and_power_cuts(seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        files = SimFiles()
        files.mappings = 2 * LIMIT_MIN
        settings = StoreSettings(root="store", **SIZES)
        counts = [0] * QUEUES
        for _ in range(4):
            store = Store(settings, files=files, clock=SimClock())
            await store.open()
            for _ in range(1500):
                queue = rng.randrange(QUEUES) if rng.random() < 0.5 else rng.randrange(10)
                store.put(NewMessage("T", queue, b"x"))
                counts[queue] += 1
                assert len(store.queues.maps) <= LIMIT_MIN
                queue = rng.randrange(QUEUES)
                assert store.bounds("T", queue) == (0, counts[queue])
                if counts[queue]:
                    offset = rng.randrange(counts[queue])
                    found = store.get("T", queue, offset, count=1, matcher=None)
                    assert found.status is GetStatus.FOUND
            await store.aclose()
            files.cut_power(rng, written=0.0)

    simulate(seed, scenario)
