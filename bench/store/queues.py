"""What very many queues cost: making them, sends to old ones, memory, mappings, a restart.

One message is put into each of ``--queues`` queues, then ``--sends`` into old ones in random
order, then the store is closed and opened again, and once more after a kill.

    python -m bench store.queues [--queues 100000] [--sends 100000] [--directory DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

from contrailmq.clock import SystemClock
from contrailmq.store.files import OsFiles
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage

QUEUES_A_TOPIC = 1000


def _memory() -> str:
    facts = dict(
        line.split(":", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
        if ":" in line
    )
    maps = Path("/proc/self/maps").read_text().count("\n")
    anonymous, tables = facts["RssAnon"].split()[0], facts["VmPTE"].split()[0]
    return (
        f"{int(anonymous) / 1024:,.0f} MiB anonymous, {int(tables) / 1024:,.0f} MiB page tables, "
        f"{maps:,} mappings"
    )


def _disk_size(root: str) -> int:
    whole = 0
    for folder, _, names in os.walk(f"{root}/consumequeue"):
        for path in (folder, *(f"{folder}/{name}" for name in names)):
            whole += 512 * Path(path).stat().st_blocks
    return whole


def _put(store: Store, queue: int) -> None:
    topic = f"TopicBench{queue // QUEUES_A_TOPIC}"
    store.put(NewMessage(topic=topic, queue_id=queue % QUEUES_A_TOPIC, body=b"x" * 128))


async def _fill(store: Store, numbers: list[int], what: str) -> None:
    took: list[float] = []
    begun = time.perf_counter()
    for count, number in enumerate(numbers):
        before = time.perf_counter()
        _put(store, number)
        took.append(time.perf_counter() - before)
        if count % 100 == 99:
            await asyncio.sleep(0)
    whole = time.perf_counter() - begun
    took.sort()
    print(
        f"{what}: {len(numbers):,} in {whole:.1f} s, each {1e6 * sum(took) / len(took):.0f} us, "
        f"p99 {1e6 * took[len(took) * 99 // 100]:.0f} us, max {1e3 * took[-1]:.1f} ms; {_memory()}"
    )


async def _open(settings: StoreSettings, what: str) -> Store:
    store = Store(settings, files=OsFiles(), clock=SystemClock())
    begun = time.perf_counter()
    await store.open()
    print(f"{what}: {time.perf_counter() - begun:.2f} s; {_memory()}", flush=True)
    return store


async def _close(store: Store, what: str) -> None:
    begun = time.perf_counter()
    await store.aclose()
    print(f"{what}: {time.perf_counter() - begun:.2f} s", flush=True)


async def _run(root: str, args: argparse.Namespace) -> None:
    settings = StoreSettings(root=root, segment_size=256 << 20)
    rng = random.Random(7)
    store = await _open(settings, "open, empty")
    service = asyncio.ensure_future(store.run())
    await _fill(store, list(range(args.queues)), "new queues")
    await _fill(store, rng.choices(range(args.queues), k=args.sends), "sends to old queues")
    few = rng.choices(range(args.queues), k=100)
    await _fill(store, rng.choices(few, k=args.sends), "sends to 100 of them")
    service.cancel()
    await asyncio.gather(service, return_exceptions=True)
    await _close(store, "close")
    print(f"disk of the queues: {_disk_size(root) / (1 << 20):,.0f} MiB")
    store = await _open(settings, "open after a stop")
    await _fill(store, rng.choices(range(args.queues), k=1000), "first sends")
    store._release()  # as a kill does: the abort file is left behind
    store = await _open(settings, "open after a kill")
    await _close(store, "close")


def main() -> None:
    """Make the directory, fill it, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=100_000)
    parser.add_argument("--sends", type=int, default=100_000)
    parser.add_argument("--directory")
    args = parser.parse_args()
    root = tempfile.mkdtemp(prefix="contrail-bench-", dir=args.directory)
    try:
        asyncio.run(_run(root, args))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
