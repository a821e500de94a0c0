"""Several iterators of batches as one, each in a thread of its own, with bounded memory.

A thread stops when ``HELD_PER_PART`` batches wait for the caller.  What is done for each record
holds Python's lock, so threads gain where one waits for a broker or a disk, and while the caller
works on the batch before.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from contrailmq.bulk.planning import QueueRange

HELD_PER_PART: Final = 2
LOOK_S: Final = 0.1  # how often a thread looks whether it has to stop
END_S: Final = 30.0

Make = Callable[[Sequence[QueueRange]], Iterator[Any]]


def divide(ranges: Sequence[QueueRange], cores: int | None) -> list[list[QueueRange]]:
    """Whole queues for each thread, so that a queue's messages stay in order."""
    count = min(cores or os.cpu_count() or 1, len(ranges))
    parts: list[list[QueueRange]] = [[] for _ in range(count)]
    for found in sorted(ranges, key=lambda found: found.size, reverse=True):
        min(parts, key=lambda part: sum(own.size for own in part)).append(found)
    return parts


def batches(parts: Sequence[Sequence[QueueRange]], make: Make) -> Iterator[Any]:
    """The batches of all parts as they come; those without rows are left out."""
    if len(parts) <= 1:
        for part in parts:
            yield from (batch for batch in make(part) if batch.num_rows)
        return
    held: queue.Queue[Any] = queue.Queue(HELD_PER_PART * len(parts))
    stop = threading.Event()
    threads = [
        threading.Thread(
            target=_fill, args=(held, stop, part, make), name=f"contrail-arrow-{index}", daemon=True
        )
        for index, part in enumerate(parts)
    ]
    try:
        for thread in threads:
            thread.start()
        left = len(threads)
        while left:
            found = held.get()
            if isinstance(found, BaseException):
                raise found
            if found is None:
                left -= 1
            else:
                yield found
    finally:
        stop.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join(END_S)


def _fill(
    held: queue.Queue[Any], stop: threading.Event, part: Sequence[QueueRange], make: Make
) -> None:
    """Read one part; ends with None, or with the error that ended it."""
    last: BaseException | None = None
    found = make(part)
    try:
        for batch in found:
            if batch.num_rows and not _put(held, stop, batch):
                return
    except BaseException as error:
        last = error
    _put(held, stop, last)


def _put(held: queue.Queue[Any], stop: threading.Event, what: Any) -> bool:
    while not stop.is_set():
        try:
            held.put(what, timeout=LOOK_S)
            return True
        except queue.Full:
            continue
    return False
