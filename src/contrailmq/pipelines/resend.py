"""What a task does to send messages again, each at its moment, and none that is there already.

A message of the moment ``base_ms`` is due at ``wall_ms``, one that was stored ``d`` later ``d /
speed`` later; with an infinite speed everything is due at once.  Messages are sent in groups, each
of which brokers have before the next one goes out.  So a task that was run before, by an executor
that was lost, has sent some of its first ``CHUNK_ROWS`` messages or none at all: it asks for these,
and for all others only if one of them is there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from contrailmq.bulk.cluster import pause
from contrailmq.bulk.options import SinkOptions, sink_options
from contrailmq.clock import SystemClock
from contrailmq.pipelines.courier import Courier, origin_key
from contrailmq.pipelines.places import Cluster

CHUNK_ROWS: Final = 1000
COLUMNS: Final = (
    "topic", "broker", "queue_id", "queue_offset", "message_id", "store_time", "body", "keys",
    "tags", "properties",
)  # fmt: skip
# No DDL: a declarative pipeline may not ask its server what that means.
RESULT: Final = StructType(
    [StructField(name, LongType()) for name in ("sent", "there", "size", "late_ms")]
)


def resent(
    frame: DataFrame,
    target: Cluster,
    *,
    to: str,
    name: str,
    speed: float = math.inf,
    base_ms: int = 0,
    wall_ms: int = 0,
) -> DataFrame:
    """A row a task with what it sent, was there, bytes and lateness: evaluated, it sends ``frame``.

    For declarative pipelines, where nobody keeps notes: it may be evaluated again and again.  What
    was sent under the same ``name`` is found by its unique key and not sent twice.
    """
    options = sink_options({**target.options(), "group": "resend"})
    send = Resend(
        options=options, topic=to, speed=speed, base_ms=base_ms, wall_ms=wall_ms, check=True
    )
    chosen = frame.select(*COLUMNS).withColumn("unique_key", origin_key(f"{name}/{to}"))
    return in_time(chosen).mapInArrow(send, RESULT).where(F.col("sent") + F.col("there") > 0)


def in_time(frame: DataFrame, tasks: int | None = None) -> DataFrame:
    """Rows as ``Resend`` wants them: queues divided among tasks, in the order of time."""
    queue = ("broker", "queue_id")
    parted = frame.repartition(*queue) if tasks is None else frame.repartition(tasks, *queue)
    return parted.sortWithinPartitions("store_time", *queue, "queue_offset")


def nothing(batches: Iterator[Any]) -> Iterator[Any]:
    """What a task does that is only to be started: it has loaded this module by then."""
    for _ in batches:
        yield from ()


@dataclass(frozen=True, kw_only=True)
class Resend:
    """Sends its rows, which come in order of time; ``check``: some may have been sent before."""

    options: SinkOptions
    topic: str
    speed: float = math.inf
    base_ms: int = 0
    wall_ms: int = 0
    check: bool

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        clock = SystemClock()
        sent = there = size = late_ms = 0
        check = self.check
        with closing(Courier(self.options, clock=clock)) as courier:
            for number, batch in enumerate(batches):
                # A task that was run before, and lost, has sent some of its first messages.
                if number == 0 and not check:
                    head = batch.slice(0, CHUNK_ROWS)
                    check = self._unsent(courier, head).num_rows < head.num_rows
                if check:
                    fresh = self._unsent(courier, batch)
                    there += batch.num_rows - fresh.num_rows
                    batch = fresh
                times = np.asarray(batch.column("store_time").cast(pa.int64())) / 1000
                due = self.wall_ms + (times - self.base_ms) / self.speed
                at = 0
                while at < batch.num_rows:
                    pause(max(0.0, due[at] - clock.now_ms()) / 1000)
                    now_ms = clock.now_ms()
                    end = min(int(np.searchsorted(due, now_ms, "right")), at + CHUNK_ROWS)
                    end = max(end, at + 1)
                    part = batch.slice(at, end - at)
                    courier.send(part, topic=self.topic)
                    if math.isfinite(self.speed):
                        late_ms = max(late_ms, int(clock.now_ms() - due[at]))
                    sent += part.num_rows
                    size += sum(map(len, part.column("body").to_pylist()))
                    at = end
        columns = [pa.array([value], pa.int64()) for value in (sent, there, size, late_ms)]
        yield pa.RecordBatch.from_arrays(columns, names=RESULT.names)

    def _unsent(self, courier: Courier, batch: Any) -> Any:
        keys = batch.column("unique_key").to_pylist()
        there: set[str] = set()
        for start in range(0, len(keys), CHUNK_ROWS):
            there |= courier.written(self.topic, keys[start : start + CHUNK_ROWS])
        return batch.filter(pa.array([key not in there for key in keys], pa.bool_()))
