"""A pull that steps over something that is no record says so."""

from __future__ import annotations

import asyncio
import random

import pytest

from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock, simulate

SETTINGS = StoreSettings(root="store", segment_size=65536, queue_file_size=2000)


@pytest.mark.parametrize("what", ["the head of a record", "a unit of the queue", "nothing"])
def test_pulls_do_not_step_over_records_in_silence(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(rng: random.Random) -> None:
        store = Store(SETTINGS, files=SimFiles(), clock=SimClock())
        await store.open()
        runs = asyncio.ensure_future(store.run())
        for number in range(5):
            store.put(NewMessage("T", 0, b"%d" % number))
        store.log.settle()
        unit = store.unit("T", 0, 2)
        assert unit is not None
        if what == "the head of a record":
            segment = store.log.segments.find(unit[0])
            assert segment is not None
            segment.buffer[unit[0] : unit[0] + 40] = bytes(40)
        elif what == "a unit of the queue":
            found = store.queues.get("T", 0).segments.find(40)
            assert found is not None
            found.buffer[40:48] = (unit[0] + 3).to_bytes(8, "big")
        for _ in range(3):
            result = store.get("T", 0, 0, count=32)
        assert result.next_offset == 5
        await asyncio.sleep(5)
        lines = [r for r in caplog.records if "stepped over" in r.message]
        assert len(lines) == (0 if what == "nothing" else 1)
        if lines:
            assert "times=3" in lines[0].message
        runs.cancel()
        await asyncio.wait([runs])
        await store.aclose()

    simulate(1, scenario)
