"""A process that writes into a store until it is killed, and notes what was acknowledged.

    python store_writer.py DIRECTORY NOTES ROUND

Every acknowledged message is one synced line of the notes: number, topic, queue, queue offset, log
offset.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys

from contrailmq.clock import SystemClock
from contrailmq.protocol.properties import encode_properties
from contrailmq.store.files import OsFiles
from contrailmq.store.settings import FlushDiskType, StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage


def settings_of(directory: str) -> StoreSettings:
    """Small files, so that every border is crossed often."""
    return StoreSettings(
        root=directory,
        segment_size=256 * 1024,
        queue_file_size=2000,
        index_slots=100,
        index_entries=1000,
        message_size_max=20_000,
        flush_disk_type=FlushDiskType.SYNC,
        queue_flush_interval_ms=20,
        queue_flush_thorough_ms=100,
    )


async def _write(directory: str, notes: int, number: int) -> None:
    rng = random.Random(number)
    store = Store(settings_of(directory), files=OsFiles(), clock=SystemClock())
    await store.open()
    async with asyncio.TaskGroup() as group:
        group.create_task(store.run())
        for producer in range(8):
            group.create_task(_produce(store, notes, f"{number}-{producer}", rng))


async def _produce(store: Store, notes: int, name: str, rng: random.Random) -> None:
    count = 0
    while True:
        count += 1
        text = f"{name}-{count}"
        appended = store.put(
            NewMessage(
                topic=rng.choice(["Orders", "Bills"]),
                queue_id=rng.randrange(4),
                body=text.encode() + b"." * rng.choice([0, 100, rng.randrange(8000)]),
                properties=encode_properties({"UNIQ_KEY": text, "TAGS": "T"}),
            )
        )
        waiter = store.wait_flushed(appended.end_offset)
        if waiter is not None and not await waiter:
            continue
        os.write(notes, f"{text} {appended.queue_offset} {appended.offset}\n".encode())


def main() -> None:
    """Write until killed."""
    directory, notes, number = sys.argv[1:]
    fd = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_DSYNC)
    asyncio.run(_write(directory, fd, int(number)))


if __name__ == "__main__":
    main()
