"""Pulls gathered from the log, on one core: one JSON line a case.

    python -m bench store.gather [seconds a case] [directory]

A million records with bodies of 128 bytes; pulls of 32 through ``Store.get``, one after another
through the queues.  In "scattered" the records of 64 queues alternate one by one, so that each is
copied by itself; in "runs" each queue's records lie in batches of 100.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator

from bench.store.append import PROPERTIES, anonymous_mb, inner_batch, schedule
from contrailmq.clock import SystemClock
from contrailmq.store.files import OsFiles
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import GetStatus, NewMessage, QueueExt

QUEUES = 64
COUNT = 1_000_000


class TagMatcher:
    """One tag, which all messages have."""

    tag_codes = frozenset({2598919})
    record_matters = False
    program = None

    def matches(self, record: memoryview) -> bool:
        """Not asked."""
        return True

    def may_match(self, ext: QueueExt) -> bool:
        """Not asked."""
        return True


def fill(store: Store, *, scattered: bool) -> None:
    """Write the records."""
    messages = [NewMessage("TopicTest", queue, b"", b"", born_ms=1) for queue in range(QUEUES)]
    inner = inner_batch(128, PROPERTIES)
    one = inner[: len(inner) // 100]
    if scattered:
        for number in range(COUNT):
            store.put_batch(messages[number % QUEUES], one)
    else:
        for number in range(COUNT // 100):
            store.put_batch(messages[number % QUEUES], inner)


def pulls(store: Store, matcher: TagMatcher | None, count: int) -> Iterator[int]:
    """Records of one pull after another."""
    while True:
        for queue in range(QUEUES):
            offset = 0
            while True:
                result = store.get("TopicTest", queue, offset, count=count, matcher=matcher)
                if result.status is not GetStatus.FOUND:
                    break
                offset = result.next_offset
                yield result.count


async def run(seconds: float, root: str, *, scattered: bool) -> None:
    """All cases over one store."""
    store = Store(StoreSettings(root=f"{root}/store"), files=OsFiles(), clock=SystemClock())
    await store.open()
    fill(store, scattered=scattered)
    await store._flush.flush()
    shape = "scattered" if scattered else "runs"
    for label, matcher in (("", None), (", tag filter", TagMatcher())):
        steps = pulls(store, matcher, 32)
        count = calls = 0
        begin, (ran, waited) = time.perf_counter(), schedule()
        while (elapsed := time.perf_counter() - begin) < seconds:
            for _ in range(100):
                count += next(steps)
                calls += 1
        ran, waited = schedule()[0] - ran, schedule()[1] - waited
        result = {
            "case": f"pull 32, {shape}{label}",
            "records_per_s": round(count / elapsed),
            "records_per_ran_s": round(count / ran),
            "pulls_per_ran_s": round(calls / ran),
            "waited_s": round(waited, 2),
            "anonymous_mb": anonymous_mb(),
        }
        print(json.dumps(result), flush=True)
    await store.aclose()


def main() -> None:
    """Both shapes of the log."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    for scattered in (False, True):
        root = tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else None)
        try:
            asyncio.run(run(seconds, root, scattered=scattered))
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
