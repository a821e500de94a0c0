"""``audit``: what went through a cluster, how far its groups are, what failed, how long it took.

Tables (``audit_tables``, and ``lag`` from the brokers) go to ``OUT/NAME`` as Parquet, replaced by
the next run; ``OUT/report.html`` shows them with charts and needs no other file.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from contrailmq.admin.client import AdminClient
from contrailmq.client.access import Credentials
from contrailmq.client.settings import ClientSettings
from contrailmq.clock import Clock, SystemClock
from contrailmq.errors import BrokerError, ConfigError
from contrailmq.pipelines.audit import tables
from contrailmq.pipelines.audit.page import page
from contrailmq.pipelines.folders import Folders
from contrailmq.pipelines.places import Cluster, Place, Stores, read_messages
from contrailmq.pipelines.progress import Progress, Stop
from contrailmq.pipelines.report import Report
from contrailmq.protocol.names import (
    REPLY_TOPIC_SUFFIX,
    TRACE_TOPIC,
    is_retry_or_dlq,
    is_system_group,
    is_system_topic,
)
from contrailmq.protocol.queue import MessageQueue
from contrailmq.store.offline.reader import StoreReader

PAGE_ROWS_MAX: Final = 5000
# No DDL: a declarative pipeline may not ask its server what that means.
LAG: Final = StructType(
    [
        StructField("group", StringType()),
        StructField("topic", StringType()),
        StructField("broker", StringType()),
        StructField("queue_id", IntegerType()),
        StructField("end_offset", LongType()),
        StructField("committed", LongType()),
        StructField("lag", LongType()),
        StructField("last_consumed", TimestampType()),
    ]
)


def run(
    spark: SparkSession,
    source: Cluster | Stores,
    out: str | Path,
    *,
    topics: Sequence[str] = (),
    since_ms: int | None = None,
    until_ms: int | None = None,
    trace_topic: str = TRACE_TOPIC,
    progress: Progress | None = None,
    stop: Stop | None = None,
    clock: Clock | None = None,
) -> Report:
    """Audit topics, all by default, over a span of store times; of directories without lag."""
    clock = clock or SystemClock()
    progress, stop = progress or Progress("audit"), stop or Stop()
    found = asyncio.run(_inventory(source)) if isinstance(source, Cluster) else _offline(source)
    names, lag = found
    wanted = [name for name in names if _is_audited(name, topics)]
    if not wanted:
        raise ConfigError(f"no topic to audit in {source}")
    frames = _Frames(spark, source, names, span=(since_ms, until_ms))
    slim = frames.slim(wanted).persist(StorageLevel.MEMORY_AND_DISK)
    makers: dict[str, Callable[[], DataFrame | None]] = {
        "traffic": lambda: tables.traffic(slim),
        "queues": lambda: tables.queues(slim),
        "keys": lambda: tables.keys(slim),
        "failures": lambda: frames.failures([name for name in wanted if is_retry_or_dlq(name)]),
        "delays": lambda: frames.delays(trace_topic),
        "lag": lambda: spark.createDataFrame(lag, LAG),
    }
    rows: dict[str, list[dict[str, Any]]] = {}
    try:
        progress.add(0, lag=len(makers))
        for number, (name, make) in enumerate(makers.items()):
            if stop.is_requested:
                break
            rows[name] = _written(spark, make(), f"{out}/{name}")
            progress.add(1, lag=len(makers) - number - 1)
    finally:
        slim.unpersist()
    progress.finish()
    report = Report(pipeline="audit", seconds=progress.seconds, is_stopped=stop.is_requested)
    report.rows = sum(row["messages"] for row in rows.get("traffic", []))
    report.size = sum(row["bytes"] for row in rows.get("traffic", []))
    report.facts = {"topics": len(wanted), "tables": str(out)}
    if not report.is_stopped:
        text = page(rows, source=str(source), now_ms=clock.now_ms(), span=(since_ms, until_ms))
        report.facts["report"] = _put_page(spark, str(out), text)
    return report


def _put_page(spark: SparkSession, out: str, text: str) -> str:
    """Write the page beside its tables, on a disk here or on a file system Spark knows."""
    if "://" in out:
        Folders(spark, out).write_text("report.html", text)
        return f"{out.rstrip('/')}/report.html"
    place = Path(out) / "report.html"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    return str(place)


def group_lag(spark: SparkSession, cluster: Cluster) -> DataFrame:
    """How far each group of a cluster is now: the table ``lag``, for declarative pipelines."""
    _, lag = asyncio.run(_inventory(cluster))
    return spark.createDataFrame(lag, LAG)


class _Frames:
    """What an audit reads."""

    def __init__(
        self, spark: SparkSession, source: Place, names: Sequence[str], *,
        span: tuple[int | None, int | None],
    ) -> None:  # fmt: skip
        self._spark = spark
        self._source = source
        self._names = names
        self._span = span

    def slim(self, topics: Sequence[str]) -> DataFrame:
        return tables.slim(self._read(topics, tables.SLIM_COLUMNS))

    def failures(self, topics: Sequence[str]) -> DataFrame | None:
        if not topics:
            return None
        return tables.failures(self._read(topics, tables.FAILURE_COLUMNS))

    def delays(self, topic: str) -> DataFrame | None:
        if topic not in self._names:
            return None
        return tables.delays(self._read([topic], ["body"]))

    def _read(self, topics: Sequence[str], columns: Sequence[str]) -> DataFrame:
        since_ms, until_ms = self._span
        return read_messages(
            self._spark, self._source, topics=topics, columns=columns, since_ms=since_ms,
            until_ms=until_ms, failOnDataLoss="false",
        )  # fmt: skip


def _written(spark: SparkSession, frame: DataFrame | None, path: str) -> list[dict[str, Any]]:
    """Write a table and read back what the page shows."""
    if frame is None:
        return []
    frame.coalesce(1).write.mode("overwrite").parquet(path)
    kept = spark.read.parquet(path).limit(PAGE_ROWS_MAX)
    moments = [name for name, kind in kept.dtypes if kind == "timestamp"]
    shown = kept.withColumns({name: F.unix_millis(name) for name in moments}) if moments else kept
    return [row.asDict() for row in shown.collect()]


def _is_audited(name: str, topics: Sequence[str]) -> bool:
    if is_system_topic(name) or name.endswith(REPLY_TOPIC_SUFFIX):
        return False
    return not topics or name in topics or is_retry_or_dlq(name)


async def _inventory(cluster: Cluster) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The topics that have a queue somewhere, and how far each group is."""
    settings = ClientSettings(tls=cluster.tls)
    if cluster.access_key is not None and cluster.secret_key is not None:
        credentials = Credentials(access_key=cluster.access_key, secret_key=cluster.secret_key)
        settings = ClientSettings(credentials=credentials, tls=cluster.tls)
    async with AdminClient(cluster.name_servers, settings=settings) as admin:
        own = {*await admin.masters(), *(await admin.cluster_info()).cluster_addr_table}
        names = [name for name in await admin.topics.names() if name not in own]
        lag: list[tuple[Any, ...]] = []
        for group in await admin.groups.names():
            if is_system_group(group):
                continue
            try:
                stats = await admin.offsets.stats(group)
            except BrokerError:
                continue  # it has never committed an offset
            lag += [_lag_row(group, q, one) for q, one in stats.offset_table.items()]
    return sorted(names), lag


def _lag_row(group: str, queue: MessageQueue, one: Any) -> tuple[Any, ...]:
    consumed = _moment(one.last_timestamp)
    return (
        group, queue.topic, queue.broker_name, queue.queue_id, one.broker_offset,
        one.consumer_offset, one.broker_offset - one.consumer_offset, consumed,
    )  # fmt: skip


def _moment(ms: int) -> Any:
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC) if ms > 0 else None


def _offline(stores: Stores) -> tuple[list[str], list[tuple[Any, ...]]]:
    names: set[str] = set()
    for path in stores.paths:
        with StoreReader(path) as reader:
            names.update(reader.topics())
    return sorted(names), []
