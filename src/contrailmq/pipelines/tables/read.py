"""Messages out of a table that the pipeline ``table`` wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from contrailmq.errors import ConfigError
from contrailmq.pipelines.archive import with_partitions
from contrailmq.pipelines.places import within
from contrailmq.pipelines.tables.lake import Table

COLUMNS: Final = (
    "topic", "broker", "queue_id", "queue_offset", "body", "keys", "tags", "properties",
    "store_time",
)  # fmt: skip


def read_table(
    spark: SparkSession,
    table: Table,
    *,
    topics: Sequence[str] = (),
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> DataFrame:
    """The messages of a table with ``date`` and ``hour``; it has to have their bodies."""
    schema = table.find_schema(spark)
    if schema is None:
        raise ConfigError(f"no {table.kind} table at {table.place}")
    there = set(schema.fieldNames())
    prefix = "" if "body" in there and "queue_offset" in there else "_"
    missing = [f"{prefix}{name}" for name in COLUMNS if f"{prefix}{name}" not in there]
    if missing:
        raise ConfigError(
            f"table {table.place} cannot be restored, it has no column {', '.join(missing)};"
            " a table of decoded bodies has them when it is written with --keep-body"
        )
    frame = spark.table(table.name).select(
        *(F.col(f"{prefix}{name}").alias(name) for name in COLUMNS)
    )
    if topics:
        frame = frame.where(F.col("topic").isin(list(topics)))
    return with_partitions(within(frame, since_ms, until_ms))
