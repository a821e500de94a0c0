"""``redrive``: dead letters back to where they came from, chosen, repaired, throttled, reported.

Every message gets a unique key made of its place among the dead letters.  Before sending, a task
asks the brokers of the target topic whether they have it.  So a second run, an interrupted one or
one with another filter never sends a dead letter twice into the same topic; the dead letters
themselves stay where they are until the broker's retention removes them.

A group of messages is handed out to tasks in small parts, one after the other: the throttle counts
for the whole, and a stop takes effect after a part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from contrailmq.bulk.cluster import pause
from contrailmq.bulk.options import SinkOptions, sink_options
from contrailmq.clock import SystemClock
from contrailmq.errors import ConfigError, ContrailError, NetworkError
from contrailmq.pipelines.courier import Courier, origin_key
from contrailmq.pipelines.places import Cluster, Stores, read_messages
from contrailmq.pipelines.progress import Progress, Stop
from contrailmq.pipelines.query import find_topic
from contrailmq.pipelines.report import Report
from contrailmq.protocol.names import dlq_topic
from contrailmq.protocol.properties import PROPERTY_ORIGIN_MESSAGE_ID, PROPERTY_RETRY_TOPIC

PART_ROWS: Final = 1000
CHUNK_ROWS: Final = 200
SENT: Final = "sent"
THERE: Final = "already there"
FILTERED: Final = "filtered"
WOULD_SEND: Final = "would send"
FAILED: Final = "failed"
MARK: Final = "redriven-from"  # a property that says where a message was dead
SETTABLE: Final = ("body", "keys", "tags", "properties", "target")
_NAMES: Final = [
    "dead_topic", "broker", "queue_id", "queue_offset", "message_id", "keys", "tags", "target",
    "new_message_id", "status", "error",
]  # fmt: skip
_KINDS: Final = {"queue_id": IntegerType(), "queue_offset": LongType()}
# No DDL: a declarative pipeline may not ask its server what that means.
_REPORT: Final = StructType([StructField(name, _KINDS.get(name, StringType())) for name in _NAMES])

Transform = Callable[[DataFrame], DataFrame]


def run(
    spark: SparkSession,
    cluster: Cluster,
    *,
    groups: Sequence[str],
    source: Stores | None = None,
    where: str | None = None,
    change: Mapping[str, str] | None = None,
    transform: Transform | None = None,
    to: str | None = None,
    rate: float | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Report:
    """Send the dead letters of groups again; ``messages`` of the report has a row for each.

    ``where`` is a SQL condition on the columns of a message, ``change`` SQL expressions for
    ``SETTABLE`` columns, ``transform`` a function over the DataFrame, which has to keep the
    columns it does not know.  The target is ``to``, or the topic the message first had.
    ``rate`` is in messages a second.  ``source`` reads the dead letters from store directories.
    """
    if not groups:
        raise ConfigError("say whose dead letters: at least one group")
    wrong = sorted(set(change or {}) - set(SETTABLE))
    if wrong:
        raise ConfigError(f"cannot set {', '.join(wrong)}; there are {', '.join(SETTABLE)}")
    progress, stop = progress or Progress("redrive"), stop or Stop()
    place = source or cluster
    without = _without_letters(spark, place, groups)
    if len(without) == len(groups):
        return Report(pipeline="redrive", facts={"no_dead_letters_of": ", ".join(without)})
    dead = _dead(spark, place, [group for group in groups if group not in without], rate)
    chosen, others = _divide(dead, where)
    prepared = _prepared(chosen, change=change or {}, transform=transform, to=to)
    send = _Send(sink_options({**cluster.options(), "group": "redrive"}), rate, dry_run)
    report = Report(pipeline="redrive")
    total = prepared.count()
    progress.add(0, lag=total)
    for row in prepared.mapInArrow(send, _REPORT).toLocalIterator():
        report.messages.append(row.asDict())
        progress.add(1, lag=total - len(report.messages))
        if stop.is_requested and len(report.messages) < total:
            report.is_stopped = True
            break
    report.rows = len(report.messages)
    if others is not None and not report.is_stopped:
        report.messages += [row.asDict() for row in others.collect()]
    progress.finish()
    report.seconds = progress.seconds
    report.facts = dict(Counter(str(message["status"]) for message in report.messages))
    if without:
        report.facts["no_dead_letters_of"] = ", ".join(without)
    return report


def redriven(
    spark: SparkSession,
    cluster: Cluster,
    *,
    groups: Sequence[str],
    where: str | None = None,
    change: Mapping[str, str] | None = None,
    to: str | None = None,
    rate: float | None = None,
    dry_run: bool = False,
) -> DataFrame:
    """The report as a DataFrame, a row a message: evaluated, it sends; twice, nothing twice.

    For declarative pipelines; options as of ``run``.
    """
    chosen, others = _divide(_dead(spark, cluster, groups, rate), where)
    prepared = _prepared(chosen, change=change or {}, transform=None, to=to)
    if rate is not None:
        prepared = prepared.coalesce(1)  # the throttle is the task's
    send = _Send(sink_options({**cluster.options(), "group": "redrive"}), rate, dry_run)
    report = prepared.mapInArrow(send, _REPORT)
    return report if others is None else report.unionByName(others)


def _without_letters(
    spark: SparkSession, place: Cluster | Stores, groups: Sequence[str]
) -> list[str]:
    """Groups that have no topic of dead letters: it is made with the first of them.

    A client of Spark Connect need not see what its server reads, so there nothing is looked up.
    """
    if getattr(spark, "sparkContext", None) is None:
        return []
    return [group for group in groups if find_topic(spark, place, dlq_topic(group)) is None]


def _dead(
    spark: SparkSession, place: Cluster | Stores, groups: Sequence[str], rate: float | None
) -> DataFrame:
    """The dead letters of groups, in partitions that are small for a slow rate."""
    return read_messages(
        spark, place, topics=[dlq_topic(group) for group in groups],
        maxRecordsPerPartition=PART_ROWS if rate is None else max(1, min(PART_ROWS, int(rate * 2))),
        pushDown="false",
    )  # fmt: skip


def _divide(dead: DataFrame, where: str | None) -> tuple[DataFrame, DataFrame | None]:
    """The letters that are wanted, and report rows for the others."""
    if not where:
        return dead, None
    condition = F.coalesce(F.expr(where), F.lit(False))
    others = dead.where(~condition).select(
        F.col("topic").alias("dead_topic"),
        "broker", "queue_id", "queue_offset", _original_id().alias("message_id"), "keys", "tags",
        F.lit(None).cast("string").alias("target"),
        F.lit(None).cast("string").alias("new_message_id"),
        F.lit(FILTERED).alias("status"), F.lit(None).cast("string").alias("error"),
    )  # fmt: skip
    return dead.where(condition), others


def _original_id() -> Any:
    origin = F.col("properties").getItem(PROPERTY_ORIGIN_MESSAGE_ID)
    return F.coalesce(F.col("unique_key"), origin, F.col("message_id"))


def _prepared(
    dead: DataFrame, *, change: Mapping[str, str], transform: Transform | None, to: str | None
) -> DataFrame:
    """Rows for the sender: the report's columns of a letter and those of the new message."""
    first_topic = F.col("properties").getItem(PROPERTY_RETRY_TOPIC)
    place = F.concat_ws("/", "topic", "broker", "queue_id", "queue_offset")
    marked = F.map_concat(
        F.map_filter("properties", lambda name, _: name != MARK), F.create_map(F.lit(MARK), place)
    )
    frame = dead.withColumns(
        {
            "new_message_id": origin_key("redrive"),
            "message_id": _original_id(),
            "properties": marked,
            "target": F.lit(to) if to is not None else first_topic,
        }
    )
    if transform is not None:
        frame = transform(frame)
    if change:
        frame = frame.withColumns({name: F.expr(text) for name, text in change.items()})
    return frame.select(
        F.col("topic").alias("dead_topic"), "broker", "queue_id", "queue_offset", "message_id",
        "keys", "tags", "target", "new_message_id",
        F.col("body").cast("binary").alias("body"), "properties",
    )  # fmt: skip


@dataclass(frozen=True)
class _Send:
    """What a task does with its letters."""

    options: SinkOptions
    rate: float | None
    dry_run: bool

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        chunk = CHUNK_ROWS if self.rate is None else max(1, min(CHUNK_ROWS, int(self.rate / 10)))
        clock = SystemClock()
        began_ms, done = clock.monotonic_ms(), 0
        with closing(Courier(self.options, clock=clock)) as courier:
            for batch in batches:
                for start in range(0, batch.num_rows, chunk):
                    part = batch.slice(start, chunk)
                    if self.rate is not None:
                        due_ms = began_ms + done / self.rate * 1000
                        pause(max(0.0, due_ms - clock.monotonic_ms()) / 1000)
                    yield self._report(part, self._deliver(courier, part))
                    done += part.num_rows
            if self.rate is not None and not self.dry_run:
                due_ms = began_ms + done / self.rate * 1000
                pause(max(0.0, due_ms - clock.monotonic_ms()) / 1000)

    def _deliver(self, courier: Courier, part: Any) -> list[tuple[str, str | None]]:
        """Status and error of each row."""
        outcome: list[tuple[str, str | None]] = [(FAILED, "no target topic")] * part.num_rows
        targets = part.column("target").to_pylist()
        keys = part.column("new_message_id").to_pylist()
        for target in sorted({name for name in targets if name}):
            rows = [row for row, name in enumerate(targets) if name == target]
            try:
                there = courier.written(target, [keys[row] for row in rows])
            except NetworkError:
                raise
            except ContrailError as error:
                for row in rows:
                    outcome[row] = (FAILED, str(error))
                continue
            fresh = [row for row in rows if keys[row] not in there]
            for row in rows:
                outcome[row] = (THERE, None)
            for row, result in zip(fresh, self._send(courier, part, target, fresh), strict=True):
                outcome[row] = result
        return outcome

    def _send(
        self, courier: Courier, part: Any, target: str, rows: list[int]
    ) -> list[tuple[str, str | None]]:
        if self.dry_run:
            return [(WOULD_SEND, None)] * len(rows)
        if not rows:
            return []
        messages = pa.RecordBatch.from_pydict(
            {
                "body": part.column("body"),
                "keys": part.column("keys"),
                "tags": part.column("tags"),
                "properties": part.column("properties"),
                "unique_key": part.column("new_message_id"),
            }
        )
        try:
            courier.send(messages.take(pa.array(rows)), topic=target)
        except NetworkError:
            raise
        except ContrailError as error:
            if len(rows) == 1:
                return [(FAILED, str(error))]
            keys = {row: part.column("new_message_id")[row].as_py() for row in rows}
            there = courier.written(target, list(keys.values()))
            return [
                (SENT, None) if keys[row] in there else self._send(courier, part, target, [row])[0]
                for row in rows
            ]
        return [(SENT, None)] * len(rows)

    def _report(self, part: Any, outcome: list[tuple[str, str | None]]) -> Any:
        arrays = [part.column(name) for name in _NAMES[:-2]]
        arrays.append(pa.array([status for status, _ in outcome], pa.string()))
        arrays.append(pa.array([error for _, error in outcome], pa.string()))
        return pa.RecordBatch.from_arrays(arrays, names=_NAMES)
