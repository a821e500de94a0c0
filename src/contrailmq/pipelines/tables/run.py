"""``table``: topics into Delta or Iceberg tables, on and on or once, exactly once.

One streaming query reads the topics; each micro-batch goes into the table, or with ``{topic}`` in
its place into one table per topic, made when the first message of the topic comes.  Bodies that do
not decode go to the table of the same name with ``_quarantine`` after it.  See ``lake`` for what
makes it exactly once and ``bodies`` for what becomes of bodies.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.options import source_options
from contrailmq.clock import Clock, SystemClock
from contrailmq.errors import ConfigError, ContrailError
from contrailmq.pipelines.places import Cluster, Stores, stream_messages
from contrailmq.pipelines.progress import Progress, Stop
from contrailmq.pipelines.report import Report
from contrailmq.pipelines.streams import reached, watch
from contrailmq.pipelines.tables import jars
from contrailmq.pipelines.tables.bodies import AvroBodies, JsonBodies, RawBodies
from contrailmq.pipelines.tables.lake import Table, is_path, plain_name
from contrailmq.protocol.queue import MessageQueue

log = logging.getLogger(__name__)

BATCH_ROWS: Final = 500_000
MAINTAIN_BATCHES: Final = 100
TOPIC: Final = "{topic}"
QUARANTINE: Final = "_quarantine"
Bodies = RawBodies | JsonBodies | AvroBodies


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a table is and how it is written."""

    kind: str
    out: str
    name: str
    checkpoint: str
    partition: tuple[str, ...] | None = None  # None: by the day of the store time
    upsert: tuple[str, ...] = ()
    maintain: bool = False
    keep_days: int = 7

    def table(self, topic: str) -> Table:
        """The table of a topic; without ``{topic}`` one for all."""
        return Table(self.kind, self.out.replace(TOPIC, plain_name(topic)))


def layout(
    kind: str,
    out: str,
    *,
    name: str | None = None,
    checkpoint: str | None = None,
    partition: Sequence[str] | None = None,
    upsert: Sequence[str] = (),
    maintain: bool = False,
    keep_days: int = 7,
) -> Layout:
    """Check what a user says of a table, and fill in what is not said."""
    if kind not in jars.FORMATS:
        raise ConfigError(f"format {kind!r}: expected {' or '.join(jars.FORMATS)}")
    own = plain_name(out.rstrip("/").rsplit("/", 1)[-1].replace(TOPIC, "all"))
    name = plain_name(name) if name else own
    if checkpoint is None:
        if not is_path(out):
            raise ConfigError(
                f"table {out!r} is a name in a catalog: give --checkpoint, a folder that every run"
                " of this table finds again"
            )
        checkpoint = f"{root_of(out)}/_checkpoint/{name}"
    return Layout(
        kind=kind,
        out=out,
        name=name,
        checkpoint=checkpoint,
        partition=None if partition is None else tuple(partition),
        upsert=tuple(upsert),
        maintain=maintain,
        keep_days=keep_days,
    )


def root_of(out: str) -> str:
    """The folder that tables given by path are in."""
    return out.rstrip("/").rsplit("/", 1)[0] or "/"


def run(
    spark: SparkSession,
    source: Cluster | Stores,
    where: Layout,
    *,
    topics: Sequence[str] = (),
    topics_pattern: str | None = None,
    bodies: Bodies | None = None,
    starting: str = "earliest",
    group: str | None = None,
    every_s: float | None = None,
    batch_rows: int = BATCH_ROWS,
    progress: Progress | None = None,
    stop: Stop | None = None,
    clock: Clock | None = None,
) -> Report:
    """Write what is there and was not yet written; with ``every_s`` go on until stopped.

    The offsets of ``group`` (``table_NAME`` unless given) follow, so that the lag of the table is
    seen like that of any consumer.
    """
    if isinstance(source, Cluster) and bool(topics) == bool(topics_pattern):
        raise ConfigError("say which topics: names, or a pattern")
    if isinstance(source, Stores) and topics_pattern:
        raise ConfigError("store directories are read by names of topics, or whole")
    jars.check(spark, where.kind, body="avro" if isinstance(bodies, AvroBodies) else "raw")
    progress, stop = progress or Progress("table"), stop or Stop()
    group = group or f"table_{where.name}"
    options: dict[str, Any] = {
        "startingOffsets": starting,
        "maxOffsetsPerTrigger": batch_rows,
        **({"topicsPattern": topics_pattern} if topics_pattern else {"topics": ",".join(topics)}),
        **({"group": group} if isinstance(source, Cluster) else {}),
    }
    writer = BatchWriter(where, bodies or RawBodies(), progress=progress, clock=clock)
    stream = stream_messages(spark, source, **options).writeStream.foreachBatch(writer.write)
    stream = stream.option("checkpointLocation", where.checkpoint)
    if every_s is None:
        stream = stream.trigger(availableNow=True)
    else:
        stream = stream.trigger(processingTime=f"{int(every_s * 1000)} milliseconds")
    query = stream.start()
    watch(query, progress, stop)
    if isinstance(source, Cluster):
        _tell(source, options, group, reached(query))
    if where.maintain and not stop.is_requested:
        writer.maintain(spark)
    progress.finish()
    facts: dict[str, Any] = {"format": where.kind, "tables": dict(sorted(writer.rows.items()))}
    if writer.bad:
        facts["quarantine"] = writer.bad
    if writer.added:
        facts["new_columns"] = ", ".join(writer.added)
    if where.maintain:
        facts["files_merged"] = writer.merged
    facts.update({"batches": writer.batches, "group": group, "checkpoint": where.checkpoint})
    return Report(
        pipeline="table",
        rows=progress.rows,
        size=progress.size,
        seconds=progress.seconds,
        is_stopped=stop.is_requested,
        facts=facts,
    )


class BatchWriter:
    """Writes micro-batches into their tables."""

    def __init__(
        self, where: Layout, bodies: Bodies, *, progress: Progress, clock: Clock | None = None
    ) -> None:
        self._where = where
        self._bodies = bodies
        self._progress = progress
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._tables: dict[str, Table] = {}
        self.rows: dict[str, int] = {}
        self.bad: dict[str, int] = {}
        self.added: list[str] = []
        self.batches = 0
        self.merged = 0

    def write(self, frame: DataFrame, batch: int) -> None:
        """Write one micro-batch; the same again changes nothing."""
        frame.persist()
        try:
            counted = frame.groupBy("topic").agg(
                F.count(F.lit(1)).alias("rows"), F.sum(F.octet_length("body")).alias("size")
            )
            found = {row.topic: (row.rows, row.size or 0) for row in counted.collect()}
            if not found:
                return
            self.batches += 1
            parts: dict[str, list[str]] = {}
            for topic in sorted(found):
                table = self._where.table(topic)
                self._tables[table.place] = table
                parts.setdefault(table.place, []).append(topic)
            for place, topics in parts.items():
                part = frame if len(parts) == 1 else frame.where(F.col("topic").isin(topics))
                rows = sum(found[topic][0] for topic in topics)
                self._write_table(self._tables[place], part, batch, rows)
            for rows, size in found.values():
                self._progress.add(rows, size)
        finally:
            frame.unpersist()
        if self._where.maintain and self.batches % MAINTAIN_BATCHES == 0:
            self.maintain(frame.sparkSession)

    def maintain(self, spark: SparkSession) -> None:
        """Merge small files and forget old versions of the tables that were written."""
        for table in list(self._tables.values()):
            if table.find_schema(spark) is None:
                continue
            done = table.maintain(
                spark, keep_days=self._where.keep_days, now_ms=self._clock.now_ms()
            )
            self.merged += done["merged"]

    def _write_table(self, table: Table, frame: DataFrame, batch: int, count: int) -> None:
        spark = frame.sparkSession
        known = table.find_schema(spark)
        good, bad = self._bodies.decode(self._living(frame), known)
        if bad is not None:
            count -= self._quarantine(table, bad, batch)
        if self._where.upsert:
            self._merge(table, good, frame)
            return
        partition = self._partition(good)
        good = self._with_day(good)
        schema = table.ensure(spark, good.schema, partition)
        self._note_added(known, schema.fieldNames())
        rows = good.select(*(_column(good, field) for field in schema.fields))
        if table.append(rows, name=self._where.name, batch=batch):
            self.rows[table.place] = self.rows.get(table.place, 0) + count

    def _living(self, frame: DataFrame) -> DataFrame:
        """The messages with something to decode; an empty body deletes where keys are merged."""
        return frame.where(~_is_empty()) if self._where.upsert else frame

    def _merge(self, table: Table, good: DataFrame, frame: DataFrame) -> None:
        spark = frame.sparkSession
        prefix = "" if isinstance(self._bodies, RawBodies) else "_"
        keys = list(self._where.upsert)
        missing = [key for key in keys if key not in good.columns]
        if missing:
            raise ConfigError(
                f"--upsert {','.join(keys)}: no column {', '.join(missing)}; there are"
                f" {', '.join(good.columns)}"
            )
        partition = self._partition(good) if self._where.partition is not None else []
        schema = table.ensure(spark, good.schema, partition)
        rows = good.select(*(_column(good, field) for field in schema.fields))
        rows = rows.withColumn("_deleted", F.lit(False))
        deleted = frame.where(_is_empty())
        source = {f"{prefix}{name}": F.col(name) for name in frame.columns}
        by_message = [key for key in keys if key in source]
        if len(by_message) == len(keys):
            gone = [source.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in schema]
            rows = rows.unionByName(deleted.select(*gone, F.lit(True).alias("_deleted")))
        rows = rows.where(" AND ".join(f"`{key}` IS NOT NULL" for key in keys))
        order = [f"{prefix}{name}" for name in ("store_time", "queue_offset")]
        table.merge(rows, keys=keys, order=order)
        self.rows[table.place] = table.count(spark)

    def _quarantine(self, table: Table, bad: DataFrame, batch: int) -> int:
        """Keep what does not decode. Returns how many messages that were."""
        count = int(bad.count())
        if not count:
            return 0
        beside = table.beside(QUARANTINE)
        self._tables[beside.place] = beside
        schema = beside.ensure(bad.sparkSession, bad.schema, [])
        rows = bad.select(*(_column(bad, field) for field in schema.fields))
        if beside.append(rows, name=self._where.name, batch=batch):
            self.bad[beside.place] = self.bad.get(beside.place, 0) + count
        return count

    def _partition(self, good: DataFrame) -> list[str]:
        if self._where.partition is not None:
            return list(self._where.partition)
        stored = _stored(good)
        return [f"days({stored})"] if self._where.kind == jars.ICEBERG else [_day(good)]

    def _with_day(self, good: DataFrame) -> DataFrame:
        """Delta divides by columns alone, so the day is one."""
        if self._where.kind == jars.ICEBERG or self._where.partition is not None:
            return good
        return good.withColumn(_day(good), F.to_date(_stored(good)))

    def _note_added(self, known: Any, names: Sequence[str]) -> None:
        if known is not None:
            self.added += [name for name in names if name not in known.fieldNames()]


def _is_empty() -> Column:
    """Whether a body is empty; clients send at least one byte, so blanks and ``null`` are, too."""
    return F.trim(F.col("body").cast("string")).isin("", "null")


def _stored(good: DataFrame) -> str:
    return "store_time" if "store_time" in good.columns else "_store_time"


def _day(good: DataFrame) -> str:
    return "day" if "store_time" in good.columns else "_day"


def _column(frame: DataFrame, field: Any) -> Any:
    """A column of a table out of a batch that may not have it."""
    if field.name in frame.columns:
        return F.col(f"`{field.name}`").cast(field.dataType).alias(field.name)
    return F.lit(None).cast(field.dataType).alias(field.name)


def _tell(
    source: Cluster, options: dict[str, Any], group: str, offsets: dict[MessageQueue, int]
) -> None:
    """Commit where the table is; Spark tells a source of its last batch only in the next one."""
    if not offsets:
        return
    access = source_options({**source.options(), **{n: str(v) for n, v in options.items()}}).access
    try:
        with closing(Brokers(access)) as brokers:
            brokers.commit(group, offsets)
    except ContrailError as error:
        log.warning("group offset not committed group=%s error=%s", group, error)
