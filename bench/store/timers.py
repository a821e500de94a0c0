"""Timers: start with many pending, memory, and how late messages are: one JSON line.

    python -m bench store.timers [--pending 10000000] [--rate 20000] [--seconds 10]

Puts ``--pending`` timer messages that are due in one to three days into a new store and its wheel,
stops in good order, and opens it again: ``start_s`` is the store, ``timers_start_s`` the timers,
``grown_mib`` the memory of this process that opening and one turn of the timers took (what is
mapped from files is not counted).  Then ``--rate`` messages a second come due for ``--seconds``,
evenly spread, beside those that wait; how late each was is its store time less its due time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from contrailmq.broker.services.timers import Timers
from contrailmq.clock import SystemClock
from contrailmq.lifecycle import running
from contrailmq.protocol.batch import BatchMessage, encode_batch
from contrailmq.protocol.message import decode_record
from contrailmq.store.files import OsFiles
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.timers.timers import TIMER_TOPIC, StoreTimers
from contrailmq.store.types import NewMessage

BATCH = 2000
DAY_MS = 86_400_000
LEAD_MS = 3000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pending", type=int, default=10_000_000)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--seconds", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="contrail-") as directory:
        settings = StoreSettings(root=directory, index_enable=False)
        filled_s = asyncio.run(fill(settings, options.pending))
        result = asyncio.run(measure(settings, options.rate, options.seconds))
    print(json.dumps({**vars(options), "filled_s": round(filled_s, 1), **result}))


def put(store: Store, due: list[int]) -> None:
    """Put messages with these due times as the broker stores them."""
    inner = encode_batch(
        BatchMessage(
            b"x" * 32,
            f"TIMER_DELIVER_MS\x01{ms}\x02UNIQ_KEY\x01{number:032X}\x02"
            f"TIMER_OUT_MS\x01{(ms - 1) // 1000 * 1000}\x02REAL_TOPIC\x01T\x02"
            f"REAL_QID\x01{number % 4}\x02".encode(),
        )
        for number, ms in enumerate(due)
    )
    store.put_batch(NewMessage(TIMER_TOPIC, 0, b"", born_ms=due[0]), inner)


async def fill(settings: StoreSettings, count: int) -> float:
    """Put all that wait into the wheel."""
    clock = SystemClock()
    began = time.perf_counter()
    store = Store(settings, files=OsFiles(), clock=clock)
    await store.open()
    async with running(store.run(), name="store"):
        timers = StoreTimers(store)
        timers.open(clock.now_ms())
        first = clock.now_ms() + DAY_MS
        for start in range(0, count, BATCH):
            step = max(2 * DAY_MS // max(count, 1), 1)
            put(store, [first + step * number for number in range(start, start + BATCH)])
            while timers.behind():
                timers.step(clock.now_ms())
            await asyncio.sleep(0)
        await timers.flush()
        timers.close()
    await store.aclose()
    return time.perf_counter() - began


async def measure(settings: StoreSettings, rate: int, seconds: int) -> dict[str, object]:
    clock = SystemClock()
    before = anonymous_kib()
    began = time.perf_counter()
    store = Store(settings, files=OsFiles(), clock=clock)
    await store.open()
    opened = time.perf_counter()
    wheel = StoreTimers(store)
    wheel.open(clock.now_ms())
    wheel.step(clock.now_ms())
    started = time.perf_counter()
    grown = anonymous_kib() - before
    total = wheel.total()
    service = Timers(wheel, clock=clock, flush_ms=1000)
    async with running(store.run(), name="store"), running(service.run(), name="timers"):
        first = clock.now_ms() + LEAD_MS
        due = [first + 1000 * number // rate for number in range(rate * seconds)]
        for start in range(0, len(due), BATCH):
            put(store, due[start : start + BATCH])
            service.wake()
            await asyncio.sleep(0)
        await asyncio.sleep((due[-1] - clock.now_ms()) / 1000 + 1.5)
        late = sorted(lateness(store))
        expected = len(due)
    await service.finish()
    await store.aclose()
    return {
        "waiting": total,
        "start_s": round(opened - began, 3),
        "timers_start_s": round(started - opened, 3),
        "grown_mib": round(grown / 1024, 1),
        "delivered": len(late),
        "lost": expected - len(late),
        "early": sum(ms < 0 for ms in late),
        "late_ms": {name: late[int(len(late) * part)] for name, part in PARTS.items()},
    }


PARTS = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 0.9999999}


def lateness(store: Store) -> list[int]:
    found = []
    for queue_id in range(4):
        first, end = store.bounds("T", queue_id)
        for offset in range(first, end):
            unit = store.unit("T", queue_id, offset)
            data = store.record_at(unit[0], unit[1]) if unit is not None else None
            if data is not None:
                record = decode_record(data)
                found.append(record.store_ms - int(record.properties["TIMER_DELIVER_MS"]))
    return found


def anonymous_kib() -> int:
    """Memory of this process that no file backs."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1])
    return 0


if __name__ == "__main__":
    main()
