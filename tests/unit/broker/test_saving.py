"""A table that changes often is written together, all of it, soon, and never costs all the time."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from contrailmq.broker.config.saving import REST, REST_S_MAX, Saving
from contrailmq.testing.sim import SimLoop, simulate


class Disk:
    """Files as a dictionary."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def replace(self, path: str, data: bytes, *, backup: bool = False) -> None:
        self.files[path] = data


class Table:
    """A value whose text takes a while to make, in the loop's time."""

    def __init__(self, cost_s: float) -> None:
        self.value = 0
        self.made: list[float] = []
        self._cost_s = cost_s

    def encode(self) -> bytes:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        self.made.append(loop.time())
        loop._now += self._cost_s
        return str(self.value).encode()


@pytest.mark.parametrize("cost_s", [0.0, 0.002, 0.5])
def test_many_changes_cost_a_share_of_the_time(cost_s: float) -> None:
    table, disk = Table(cost_s), Disk()

    async def change_often(rng: random.Random) -> None:
        saving = Saving(disk, "config")
        saving.add("t.json", table.encode, revision=lambda: table.value)
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(saving.run())
            began = loop.time()
            while loop.time() < began + 5:
                table.value += 1
                saving.changed()
                await asyncio.sleep(0.01)
            await saving.saved()
            assert disk.files["config/t.json"] == str(table.value).encode()
            assert loop.time() < began + 5.1 + REST_S_MAX + 3 * cost_s
            running.cancel()

    simulate(1, change_often)
    rest_s = min(REST * cost_s, REST_S_MAX)
    gaps = [later - before for before, later in itertools.pairwise(table.made)]
    assert min(gaps[:-1], default=rest_s + cost_s) >= cost_s + rest_s - 1e-9
    assert len(table.made) > 2
