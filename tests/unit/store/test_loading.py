"""Old messages are loaded by threads; whoever waits for the same part waits for one load."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from contrailmq.clock import SystemClock
from contrailmq.store.files import OsFiles
from contrailmq.store.loading import STEP
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import GetStatus, NewMessage


def test_a_load_is_shared_and_known(tmp_path: Path) -> None:
    settings = StoreSettings(root=str(tmp_path), segment_size=4 * STEP)

    async def scenario() -> None:
        store = Store(settings, files=OsFiles(), clock=SystemClock())
        await store.open()
        for _ in range(3000):
            store.put(NewMessage("T", 0, b"x" * 1000))
        assert store.loading("T", 0, 0, count=32) is None  # just written: it is there
        first, second = store._loading.load(0), store._loading.load(0)
        assert first is second is not None
        other = store._loading.load(STEP)
        assert other is not None
        assert other is not first
        await asyncio.gather(first, other)
        assert store._loading.load(8 * STEP) is None
        again = store._loading.load(0)
        assert again is not None
        assert again is not first
        await again
        result = store.get("T", 0, 2000, count=32)
        assert (result.status, result.count) == (GetStatus.FOUND, 32)
        assert any(thread.name.startswith("store-read") for thread in threading.enumerate())
        await store.aclose()
        assert not any(thread.name.startswith("store-read") for thread in threading.enumerate())

    asyncio.run(scenario())


def test_a_mapping_is_loaded_in_any_range(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    segment = OsFiles().create(path, 100_000)
    segment.buffer[50_000] = 7
    for start, end in ((0, 4096), (1, 99_999), (50_000, 200_000), (9, 9), (100_000, 100_001)):
        segment.load(start, end)
    assert segment.buffer[50_000] == 7
    segment.close()
    segment.load(0, 4096)  # closed meanwhile: nothing to do
