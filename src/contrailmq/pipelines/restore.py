"""``restore``: messages of an archive back into a topic, effectively once.

The first run writes down what is to be restored (``_restores/NAME.json`` in the archive: the last
offset of every queue at that moment, and the hours there are).  Hour after hour goes through the
sink with ``delivery=effectively-once`` and is crossed off the list.  So a second run goes on where
the first one stopped, even if the archive has grown since, and one after the end does nothing.
Every plan has a name of its own, of which the ids of its messages are made: another archive, or the
same one made anew, is another restore.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from contrailmq.clock import Clock, SystemClock
from contrailmq.errors import ConfigError
from contrailmq.pipelines.folders import Folders
from contrailmq.pipelines.places import Cluster, read_archive
from contrailmq.pipelines.progress import Progress, Stop
from contrailmq.pipelines.report import Report
from contrailmq.pipelines.tables import jars
from contrailmq.pipelines.tables.lake import Table
from contrailmq.pipelines.tables.read import read_table
from contrailmq.pipelines.tables.run import root_of

_QUEUE = ["topic", "broker", "queue_id"]


@dataclass(slots=True, kw_only=True)
class _Plan:
    """What is to be restored, in how many parts, and what of it is done."""

    name: str
    partitions: int
    bounds: list[list[Any]]  # topic, broker, queue id, last offset
    hours: list[list[Any]]  # date, hour, messages, bytes
    span: list[int | None]  # from when to before when
    done: int = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing is left."""
        return self.done == len(self.hours)


def run(
    spark: SparkSession,
    path: str,
    target: Cluster,
    *,
    to: str | None = None,
    topics: Sequence[str] = (),
    where: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    again: bool = False,
    table: Table | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    clock: Clock | None = None,
) -> Report:
    """Send messages of an archive to the topic ``to``, or each to its own; see the module.

    The span of a restore that is not finished wins over the one given, and another span than that
    of a finished one is a new restore.  ``again`` forgets what was restored before: everything is
    sent once more.  ``table`` is read instead of an archive; what is written down is beside it.
    """
    progress, stop = progress or Progress("restore"), stop or Stop()
    files = Folders(spark, path if table is None else root_of(table.place))
    if to is None and not topics:
        raise ConfigError("say which topics, or into which topic")
    selection = [str(target), to or "", where or "", *sorted(topics)]
    selection += [] if table is None else [table.place]
    name = hashlib.sha256("\0".join(selection).encode()).hexdigest()[:16]
    place = f"_restores/{name}.json"
    kept = None if (text := files.read_text(place)) is None else _Plan(**json.loads(text))
    span = [since_ms, until_ms]
    if kept is not None and not kept.is_done and not again:
        span = kept.span
    frame = _messages(spark, files, table, topics=topics, span=span, where=where)
    if kept is None or again or span != kept.span:
        now_ms = (clock or SystemClock()).now_ms()
        plan = _planned(spark, frame, name=f"{files.root}/{name}/{now_ms}", span=span)
        files.write_text(place, json.dumps(asdict(plan)))
    else:
        plan = kept
    was_done = plan.done
    left = sum(hour[2] for hour in plan.hours[plan.done :])
    progress.add(0, lag=left)
    chosen = _bounded(spark, frame, plan)
    for number, (date, hour, count, size) in enumerate(plan.hours):
        if number < plan.done:
            continue
        if stop.is_requested:
            break
        part = chosen.where((F.col("date") == F.lit(date).cast("date")) & (F.col("hour") == hour))
        _send(part, target, to=to, plan=plan, query=f"{plan.name}/{date}/{hour}")
        plan.done = number + 1
        files.write_text(place, json.dumps(asdict(plan)))
        left -= count
        progress.add(count, size, lag=left)
    progress.finish()
    return Report(
        pipeline="restore",
        rows=progress.rows,
        size=progress.size,
        seconds=progress.seconds,
        is_stopped=not plan.is_done,
        facts={
            "archive": path,
            "into": to or ", ".join(topics),
            "hours": plan.done - was_done,
            "done_before": sum(hour[2] for hour in plan.hours[:was_done]),
        },
    )


def _messages(
    spark: SparkSession,
    files: Folders,
    table: Table | None,
    *,
    topics: Sequence[str],
    span: list[int | None],
    where: str | None,
) -> DataFrame:
    since_ms, until_ms = span
    if table is None:
        frame = read_archive(spark, files.root, topics=topics, since_ms=since_ms, until_ms=until_ms)
    else:
        jars.check(spark, table.kind)
        frame = read_table(spark, table, topics=topics, since_ms=since_ms, until_ms=until_ms)
    return frame.where(where) if where else frame


def _planned(spark: SparkSession, frame: DataFrame, *, name: str, span: list[int | None]) -> _Plan:
    bounds = frame.groupBy(*_QUEUE).agg(F.max("queue_offset").alias("last")).collect()
    hours = (
        frame.groupBy("date", "hour")
        .agg(F.count(F.lit(1)).alias("rows"), F.sum(F.octet_length("body")).alias("size"))
        .orderBy("date", "hour")
        .collect()
    )
    return _Plan(
        name=name,
        span=span,
        partitions=max(1, spark.sparkContext.defaultParallelism),
        bounds=[[row.topic, row.broker, row.queue_id, row["last"]] for row in bounds],
        hours=[[str(row.date), row.hour, row.rows, row.size or 0] for row in hours],
    )


def _bounded(spark: SparkSession, frame: DataFrame, plan: _Plan) -> DataFrame:
    """What was in the archive when the plan was made."""
    bounds = spark.createDataFrame(
        plan.bounds or [["", "", -1, -1]],
        "topic string, broker string, queue_id int, last long",
    )
    joined = frame.join(F.broadcast(bounds), _QUEUE)
    return joined.where("queue_offset <= last").drop("last")


def _send(part: DataFrame, target: Cluster, *, to: str | None, plan: _Plan, query: str) -> None:
    """One hour: rows in an order that is the same whenever this is done again."""
    ordered = part.repartition(plan.partitions, *_QUEUE).sortWithinPartitions(
        *_QUEUE, "queue_offset"
    )
    writer = ordered.write.format("rocketmq").mode("append").options(**target.options())
    writer = writer.option("delivery", "effectively-once").option("queryId", query)
    if to is not None:
        writer = writer.option("topic", to)
    writer.save()
