"""How fast a store recovers after a crash: megabytes of log a second, on one core.

Writes a log of records with 128-byte bodies, pretends that the process was killed before anything
was vouched for, and opens the store: every record is checked with its checksum, and queues and
index are derived again.

    python -m bench store.recovery [--megabytes 1024] [--body 128] [--directory /dev/shm]
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

TARGET_MB_S = 500
QUEUES = 16


async def _write(settings: StoreSettings, size: int, body_size: int) -> int:
    store = Store(settings, files=OsFiles(), clock=SystemClock())
    await store.open()
    messages = [
        NewMessage(
            topic=f"TopicBench{queue // 4}",
            queue_id=queue % 4,
            body=bytes([65 + queue]) * body_size,
            properties=b"UNIQ_KEY\x017F0000017FDD4E0E2F2A4A682B14%04X\x02TAGS\x01TagA\x02" % queue,
            born_ms=1,
        )
        for queue in range(QUEUES)
    ]
    count = 0
    while store.max_offset < size:
        for message in messages:
            store.put(message)
        count += len(messages)
        if count % 65536 == 0:
            await asyncio.sleep(0)
    await store.aclose()
    return count


async def _recover(settings: StoreSettings) -> tuple[float, int]:
    store = Store(settings, files=OsFiles(), clock=SystemClock())
    begun = time.perf_counter()
    await store.open()
    took = time.perf_counter() - begun
    end = store.max_offset
    await store.aclose()
    return took, end


def main() -> None:
    """Write, crash, recover, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--body", type=int, default=128)
    parser.add_argument("--no-index", action="store_true")
    parser.add_argument("--directory")
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="contrail-bench-", dir=args.directory))
    try:
        settings = StoreSettings(root=str(root / "store"), index_enable=not args.no_index)
        count = asyncio.run(_write(settings, args.megabytes << 20, args.body))
        (root / "store" / "abort").touch()
        (root / "store" / "checkpoint").write_bytes(bytes(4096))
        shutil.rmtree(root / "store" / "consumequeue")
        shutil.rmtree(root / "store" / "index", ignore_errors=True)
        took, end = asyncio.run(_recover(settings))
        print(
            f"recovered {end / 1e6:,.0f} MB of log, {count:,} records, in {took:.2f} s: "
            f"{end / 1e6 / took:,.0f} MB/s, {count / took / 1e6:.2f} M records/s "
            f"(target {TARGET_MB_S} MB/s)"
        )
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
