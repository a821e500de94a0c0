"""How long a clean store takes to open: 10 GB of log, 10,000 queues.

The files are made sparse: a log whose last segment has real records, and queues that each have one
unit. Opening maps every segment, finds the end of every queue and of the log.

    python -m bench store.open [--queues 10000] [--segments 10] [--directory /dev/shm]
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from pathlib import Path

from contrailmq.clock import SystemClock
from contrailmq.store.files import OsFiles
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage

TARGET_S = 2.0
QUEUES_A_TOPIC = 100
SEGMENT = 1 << 30


async def _write(settings: StoreSettings, queues: int, segments: int) -> None:
    store = Store(settings, files=OsFiles(), clock=SystemClock())
    await store.open()
    store.log.start((segments - 1) * SEGMENT)
    store.derivation.start(store.log.end_offset)
    for queue in range(queues):
        topic = f"TopicBench{queue // QUEUES_A_TOPIC}"
        store.put(NewMessage(topic=topic, queue_id=queue % QUEUES_A_TOPIC, body=b"x" * 128))
        if queue % 1000 == 0:
            await asyncio.sleep(0)
    await store.aclose()


async def _open(settings: StoreSettings) -> float:
    store = Store(settings, files=OsFiles(), clock=SystemClock())
    begun = time.perf_counter()
    await store.open()
    took = time.perf_counter() - begun
    await store.aclose()
    return took


def main() -> None:
    """Make the directory, open it, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--segments", type=int, default=10)
    parser.add_argument("--directory")
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="contrail-bench-", dir=args.directory))
    try:
        settings = StoreSettings(root=str(root))
        asyncio.run(_write(settings, args.queues, args.segments))
        for number in range(args.segments - 1):
            path = root / "commitlog" / f"{number * SEGMENT:020d}"
            with path.open("wb") as file:
                file.truncate(SEGMENT)
        took = min(asyncio.run(_open(settings)) for _ in range(3))
        print(
            f"opened {args.segments * SEGMENT / 1e9:.1f} GB of log with {args.queues:,} queues in "
            f"{took:.2f} s (target {TARGET_S} s)"
        )
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
