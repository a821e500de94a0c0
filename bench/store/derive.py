"""Deriving queues and index from the log, on one core: one JSON line a case.

    python -m bench store.derive [rounds] [directory]

The log is written first, without deriving; then all of it is derived at once, into real
files.  ``entries`` counts consume-queue units.  Cases: one queue or 64, with no
keys, with a unique key, with a unique key and a key (two index entries).
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time

from bench.store.append import BATCH, HOST, anonymous_mb, inner_batch, schedule
from contrailmq.clock import SystemClock
from contrailmq.store.files import OsFiles
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store

COUNT = 1_000_000
UNIQUE = b"UNIQ_KEY\x017F0000010A2B18B4AAC2%012d\x02TAGS\x01TagA\x02"
BOTH = UNIQUE + b"KEYS\x01order-%d\x02"
CASES = {
    "1 queue, tag": (1, b"TAGS\x01TagA\x02"),
    "64 queues, tag": (64, b"TAGS\x01TagA\x02"),
    "64 queues, tag and unique key": (64, UNIQUE),
    "64 queues, tag, unique key and key": (64, BOTH),
}


async def run(name: str, root: str) -> dict[str, object]:
    """Write the log, derive it, measure the second."""
    queue_count, text = CASES[name]
    settings = StoreSettings(root=f"{root}/store")
    store = Store(settings, files=OsFiles(), clock=SystemClock())
    await store.open()
    writer = store.log.writer
    origin = store.writing.origin(HOST, HOST, b"")
    queues = [store.writing.queue("TopicTest", number) for number in range(queue_count)]
    for number in range(COUNT // BATCH):
        # Every message has keys of its own: the index is as scattered as a real one.
        inner = inner_batch(128, text, BATCH * number)
        writer.store_ms = store.clock.now_ms()
        queue = queues[number % queue_count]
        while writer.append_batch(queue, origin, inner, 0, len(inner), 0, 1, 0) <= 0:
            store.log.roll()
    store.log.settle()
    end = store.max_offset
    store.log.set_readable(end)
    begin, (ran, waited) = time.perf_counter(), schedule()
    store.derivation.run(end)
    elapsed = time.perf_counter() - begin
    ran, waited = schedule()[0] - ran, schedule()[1] - waited
    await store.aclose()
    return {
        "case": name,
        "entries_per_s": round(COUNT / elapsed),
        "entries_per_ran_s": round(COUNT / ran),
        "log_mb_per_s": round(end / elapsed / 1e6),
        "waited_s": round(waited, 2),
        "anonymous_mb": anonymous_mb(),
    }


def main() -> None:
    """The median of some rounds of every case."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for name in CASES:
        results = []
        for _ in range(rounds):
            root = tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else None)
            try:
                results.append(asyncio.run(run(name, root)))
            finally:
                shutil.rmtree(root)
        middle = statistics.median_low(int(str(r["entries_per_ran_s"])) for r in results)
        print(json.dumps(next(r for r in results if r["entries_per_ran_s"] == middle)), flush=True)


if __name__ == "__main__":
    main()
