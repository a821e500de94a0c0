"""Appending to the store, on one core: one JSON line a case.

    python -m bench store.append [seconds a case] [directory]

``append``: records into the log alone, batches of 100 as one compiled call, the way a send lane
appends a whole socket read.  ``put_batch``: the same through the store, with queues and index.
``put``: one message a call, all of it.  Bodies of 128 bytes unless the case says otherwise; each
message has a tag, a key and a unique key.  The flush and the preparation of segments run as they do
in a broker.

``per_ran_s`` counts only the time the loop's thread ran, not the threads that flush and prepare
segments; ``process_s`` is the processor time of all of them.  ``waited_s`` is how long the loop's
thread was ready and had no processor, ``stalled_s`` how long the kernel kept it waiting for
something else.  ``anonymous_mb`` is what the process then has of anonymous memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from contrailmq.clock import SystemClock
from contrailmq.store.files import OsFiles
from contrailmq.store.settings import FlushDiskType, StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage

BATCH = 100
HOST = bytes.fromhex("7f00000100002a9f")
PROPERTIES = b"UNIQ_KEY\x017F0000010A2B18B4AAC2%012d\x02KEYS\x01order-%08d\x02TAGS\x01TagA\x02"
VARIANTS = 200  # batches with keys of their own, taken in turn: 40,000 different index slots


def inner_batch(body_size: int, properties: bytes, first: int = 0) -> bytes:
    """A batch body; every ``%`` of the properties gets the message's own number."""
    parts = []
    for number in range(first, first + BATCH):
        text = properties % ((number,) * properties.count(b"%"))
        size = 20 + body_size + 2 + len(text)
        parts.append(struct.pack(">iiiii", size, 0, 0, 0, body_size))
        parts.append(b"x" * body_size + struct.pack(">h", len(text)) + text)
    return b"".join(parts)


def append_case(store: Store, body_size: int) -> Callable[[int], int]:
    """Into the log alone; derivation is told to skip what was written."""
    inner = inner_batch(body_size, PROPERTIES)
    queue = store.writing.queue("TopicTest", 0)
    origin = store.writing.origin(HOST, HOST, b"")
    writer = store.log.writer

    def step(number: int) -> int:
        writer.store_ms = store.clock.now_ms()
        if writer.append_batch(queue, origin, inner, 0, len(inner), 0, 1, 0) <= 0:
            store.writing.on_roll()
            return 0
        store.log.settle()
        return BATCH

    return step


def batch_case(store: Store, body_size: int) -> Callable[[int], int]:
    """Batches through the store, over eight queues."""
    inners = [inner_batch(body_size, PROPERTIES, BATCH * turn) for turn in range(VARIANTS)]
    messages = [NewMessage("TopicTest", queue, b"", b"", born_ms=1) for queue in range(8)]

    def step(number: int) -> int:
        store.put_batch(messages[number % 8], inners[number % VARIANTS])
        return BATCH

    return step


def put_case(store: Store, body_size: int) -> Callable[[int], int]:
    """One message a call, over eight queues."""
    messages = [
        NewMessage("TopicTest", n % 8, b"x" * body_size, PROPERTIES % (n, n), born_ms=1)
        for n in range(8 * VARIANTS)
    ]

    def step(number: int) -> int:
        first = number % VARIANTS * 8
        for message in messages[first : first + 8]:
            store.put(message)
        return 8

    return step


CASES = {
    "append": (append_case, 128, {}),
    "append 1 KB": (append_case, 1024, {}),
    "put_batch": (batch_case, 128, {}),
    "put_batch, no index": (batch_case, 128, {"index_enable": False}),
    "put_batch, write buffer": (batch_case, 128, {"write_buffer_enable": True}),
    "put": (put_case, 128, {}),
    "put, no index": (put_case, 128, {"index_enable": False}),
    "put, sync flush": (put_case, 128, {"flush_disk_type": FlushDiskType.SYNC}),
}


async def run(name: str, seconds: float, root: str) -> dict[str, object]:
    """One case."""
    make, body_size, changes = CASES[name]
    settings = StoreSettings(root=f"{root}/store", **changes)
    store = Store(settings, files=OsFiles(), clock=SystemClock())
    await store.open()
    service = asyncio.create_task(store.run())
    step = make(store, body_size)
    await asyncio.sleep(0.3)
    count = number = 0
    begin, (ran, waited), used = time.perf_counter(), schedule(), time.process_time()
    while (elapsed := time.perf_counter() - begin) < seconds:
        for _ in range(20):
            count += step(number)
            number += 1
        await asyncio.sleep(0)
    ran, waited = schedule()[0] - ran, schedule()[1] - waited
    used = time.process_time() - used
    size = store.max_offset
    service.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await service
    store.derivation.derived_offset = store.max_offset
    await store.aclose()
    return {
        "case": name,
        "per_s": round(count / elapsed),
        "per_ran_s": round(count / ran),
        "mb_per_s": round(size / elapsed / 1e6),
        "seconds": round(elapsed, 2),
        "ran_s": round(ran, 2),
        "process_s": round(used, 2),
        "waited_s": round(waited, 2),
        "stalled_s": round(elapsed - ran - waited, 2),
        "anonymous_mb": anonymous_mb(),
    }


def schedule() -> tuple[float, float]:
    """Seconds this thread has run, and waited for a processor."""
    ran, waited, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return int(ran) / 1e9, int(waited) / 1e9


def anonymous_mb() -> float:
    """Anonymous memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return round(int(line.split()[1]) / 1024, 1)
    return -1


def main() -> None:
    """Run every case in a directory of its own."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    for name in CASES:
        root = tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else None)
        try:
            print(json.dumps(asyncio.run(run(name, seconds, root))), flush=True)
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
