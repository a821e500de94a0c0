"""Who reads what: ranges of queue offsets, cut and packed into the partitions of a job.

All queues together are laid end to end and cut into parts of like size, so that a partition may
hold several small queues and a big queue may be in several partitions; within a queue the order
of partitions is the order of offsets.  A task costs tens of milliseconds whatever it reads, so few
rows make few partitions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from contrailmq.protocol.queue import MessageQueue

ROWS_PER_TASK_MIN: Final = 20_000
ROWS_PER_TASK_MAX: Final = 10_000_000

Offsets = Mapping[MessageQueue, int]


class QueueRange(NamedTuple):
    """Offsets ``start`` to before ``end`` of one queue."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets it has."""
        return self.end - self.start


def partition_count(
    total: int, *, min_partitions: int | None, max_records: int | None, cores: int | None = None
) -> int:
    """How many tasks for ``total`` rows: by default as many as cores, fewer for few rows."""
    if min_partitions is not None:
        count = min(min_partitions, max(1, total))
    else:
        count = min(cores or os.cpu_count() or 1, max(1, -(-total // ROWS_PER_TASK_MIN)))
    return max(count, -(-total // (max_records or ROWS_PER_TASK_MAX)))


def pack(ranges: Sequence[QueueRange], count: int) -> list[list[QueueRange]]:
    """Cut and pack ranges into ``count`` parts of like size; empty parts are left out."""
    ranges = [part for part in ranges if part.size > 0]
    total = sum(part.size for part in ranges)
    parts: list[list[QueueRange]] = []
    current: list[QueueRange] = []
    passed = 0
    for queue, start, end in ranges:
        while start < end:
            border = total * (len(parts) + 1) // count
            until = min(end, start + border - passed)
            if until > start:
                current.append(QueueRange(queue, start, until))
                passed += until - start
                start = until
            if passed >= border:
                parts.append(current)
                current = []
    if current:
        parts.append(current)
    return [part for part in parts if part]


def limited(starts: Offsets, ends: Offsets, rows: int) -> dict[MessageQueue, int]:
    """New ends so that at most ``rows`` rows are read, shared by what each queue has waiting.

    Every queue with something waiting gets at least one row while rows last, so that a small
    queue is not starved by a big one.
    """
    waiting = {queue: max(0, end - starts[queue]) for queue, end in ends.items()}
    total = sum(waiting.values())
    if total <= rows:
        return dict(ends)
    shares = dict.fromkeys(waiting, 0)
    for queue in sorted(queue for queue, size in waiting.items() if size)[:rows]:
        shares[queue] = 1
    rest = rows - sum(shares.values())
    more = {queue: size - shares[queue] for queue, size in waiting.items()}
    total = sum(more.values())
    for queue, size in more.items():
        shares[queue] += rest * size // total
    left = rows - sum(shares.values())
    for queue in sorted(more):
        if left and shares[queue] < waiting[queue]:
            shares[queue] += 1
            left -= 1
    return {queue: starts[queue] + shares[queue] for queue in ends}


def limited_size(
    starts: Offsets, ends: Offsets, sizes: Mapping[MessageQueue, float], *, size_max: int
) -> dict[MessageQueue, int]:
    """New ends so that about ``size_max`` bytes are read, at messages of about these sizes.

    At least one row is read: a message larger than the limit must not stop a stream.
    """
    total = sum((end - starts[queue]) * sizes.get(queue, 0.0) for queue, end in ends.items())
    if total <= size_max:
        return dict(ends)
    rows = sum(end - starts[queue] for queue, end in ends.items())
    return limited(starts, ends, max(1, int(rows * size_max / total)))
