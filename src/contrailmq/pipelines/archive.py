"""``archive``: topics or store directories into partitioned Parquet, a little more on every run.

Layout: ``PATH/date=2026-11-15/hour=9/topic=orders/batch=NAME-7/part-….parquet``, by the time a
message was stored, in UTC; all columns of a message but ``topic`` are in the files.  What begins
with an underscore is not data: ``_checkpoint/NAME`` is where a run goes on, ``_compacting`` see
``compact``, ``_restores`` see ``restore``.

Exactly once.  A micro-batch is written into folders that carry its number; if it has to be written
again, after a crash or a stop, it replaces exactly these folders.  So nothing is missing and
nothing there twice, and any reader of Parquet can be used.  When a run has read what was there, it
merges small files (``compact``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from contrailmq.errors import ConfigError
from contrailmq.pipelines.compact import FILE_SIZE, compact
from contrailmq.pipelines.folders import Folders
from contrailmq.pipelines.places import Cluster, Stores, stream_messages
from contrailmq.pipelines.progress import Progress, Stop
from contrailmq.pipelines.report import Report
from contrailmq.pipelines.streams import watch

BATCH_ROWS: Final = 500_000
PARTITIONS: Final = ("date", "hour", "topic")
_DAY_US: Final = 86_400_000_000
_HOUR_US: Final = 3_600_000_000


def run(
    spark: SparkSession,
    source: Cluster | Stores,
    path: str,
    *,
    topics: Sequence[str] = (),
    topics_pattern: str | None = None,
    name: str | None = None,
    starting: str = "earliest",
    group: str | None = None,
    follow_s: float | None = None,
    batch_rows: int = BATCH_ROWS,
    file_size: int = FILE_SIZE,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Report:
    """Archive what is there and was not yet archived; with ``follow_s`` go on until stopped.

    ``name`` tells runs into one archive apart that read different things; without it, it is made
    of source and topics.  ``starting`` counts for the first run of a name only.  ``group``: its
    offset follows, so that the lag of the archive is seen like that of any consumer.
    """
    if isinstance(source, Cluster) and bool(topics) == bool(topics_pattern):
        raise ConfigError("say which topics: names, or a pattern")
    if isinstance(source, Stores) and topics_pattern:
        raise ConfigError("store directories are read by names of topics, or whole")
    progress, stop = progress or Progress("archive"), stop or Stop()
    name = _checked(name) if name else _name(source, topics, topics_pattern)
    files = Folders(spark, path)
    options: dict[str, Any] = {
        "startingOffsets": starting,
        "maxOffsetsPerTrigger": batch_rows,
        **({"topicsPattern": topics_pattern} if topics_pattern else {"topics": ",".join(topics)}),
        **({"group": group} if group and isinstance(source, Cluster) else {}),
    }
    writer = _Writer(files.root, name, progress)
    stream = stream_messages(spark, source, **options).writeStream.foreachBatch(writer.write)
    stream = stream.option("checkpointLocation", f"{files.root}/_checkpoint/{name}")
    if follow_s is None:
        stream = stream.trigger(availableNow=True)
    else:
        stream = stream.trigger(processingTime=f"{int(follow_s * 1000)} milliseconds")
    watch(stream.start(), progress, stop)
    merged = 0
    if not stop.is_requested:
        merged = compact(spark, files.root, file_size=file_size, stop=stop).rows
    progress.finish()
    return Report(
        pipeline="archive",
        rows=progress.rows,
        size=progress.size,
        seconds=progress.seconds,
        is_stopped=stop.is_requested,
        facts={"archive": path, "name": name, "batches": writer.batches, "merged": merged},
    )


def with_partitions(frame: DataFrame) -> DataFrame:
    """Add ``date`` and ``hour`` of the store time in UTC, whatever the session's time zone is."""
    micros = F.unix_micros("store_time")
    days = F.floor(micros / _DAY_US).cast("int")
    return frame.withColumns(
        {
            "date": F.date_add(F.lit("1970-01-01").cast("date"), days),
            "hour": F.pmod(F.floor(micros / _HOUR_US), F.lit(24)).cast("int"),
        }
    )


class _Writer:
    """Writes micro-batches; each into folders of its own number."""

    def __init__(self, path: str, name: str, progress: Progress) -> None:
        self._path = path
        self._name = name
        self._progress = progress
        self.batches = 0

    def write(self, frame: DataFrame, batch_id: int) -> None:
        seen = Observation()
        counted = frame.observe(
            seen, F.count(F.lit(1)).alias("rows"), F.sum(F.octet_length("body")).alias("size")
        )
        writer = (
            with_partitions(counted)
            .withColumn("batch", F.lit(f"{self._name}-{batch_id}"))
            .write.mode("overwrite")
            .option("partitionOverwriteMode", "dynamic")
        )
        writer.partitionBy(*PARTITIONS, "batch").parquet(self._path)
        rows = int(seen.get["rows"])
        if rows:
            self.batches += 1
            self._progress.add(rows, int(seen.get["size"] or 0))


def _name(source: Cluster | Stores, topics: Sequence[str], pattern: str | None) -> str:
    text = "\0".join([str(source), pattern or "", *sorted(topics)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _checked(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_]{1,40}", name):
        raise ConfigError(f"name {name!r}: letters, digits and underscores, at most 40")
    return name
