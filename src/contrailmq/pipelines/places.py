"""Where messages come from and go to: a cluster, store directories, or an archive."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, IntegerType, StringType, StructField, StructType

from contrailmq.client.access import Tls
from contrailmq.spark.columns import COLUMN_NAMES, message_schema

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Brokers, found through their name servers."""

    name_servers: str
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    tls: Tls | None = None

    def options(self) -> dict[str, str]:
        """The options of ``format("rocketmq")`` that say where and who."""
        found = {"nameServers": self.name_servers}
        if self.access_key is not None and self.secret_key is not None:
            found.update(accessKey=self.access_key, secretKey=self.secret_key)
        if self.tls is not None:
            tls = {"tlsCa": self.tls.ca, "tlsCert": self.tls.cert, "tlsKey": self.tls.key}
            found.update({name: path for name, path in tls.items() if path is not None})
            found.update(tls="true", tlsVerify=self.tls.verify)
        return found

    def __str__(self) -> str:
        return self.name_servers


def configured_cluster(spark: SparkSession) -> Cluster:
    """The cluster that the configuration of a declarative pipeline names.

    ``contrail.nameServers`` and, where needed, ``contrail.accessKey``; the secret is in the
    variable CONTRAIL_SECRET_KEY of the process that runs the tool.
    """
    account = spark.conf.get("contrail.accessKey", "")
    return Cluster(
        name_servers=str(spark.conf.get("contrail.nameServers")),
        access_key=account or None,
        secret_key=os.environ.get("CONTRAIL_SECRET_KEY") if account else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Store directories; every executor sees them under the same paths."""

    paths: tuple[str, ...]

    def options(self) -> dict[str, str]:
        """The options of ``format("rocketmq-store")`` that say where."""
        return {"path": ",".join(self.paths)}

    def __str__(self) -> str:
        return ",".join(self.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A directory of Parquet files that the pipeline ``archive`` wrote."""

    path: str

    def __str__(self) -> str:
        return self.path


Place = Cluster | Stores | Archive


def read_messages(
    spark: SparkSession,
    place: Place,
    *,
    topics: Sequence[str],
    columns: Sequence[str] = COLUMN_NAMES,
    since_ms: int | None = None,
    until_ms: int | None = None,
    **options: Any,
) -> DataFrame:
    """The messages of topics stored from ``since_ms`` to before ``until_ms``, chosen columns."""
    if isinstance(place, Archive):
        return read_archive(
            spark, place.path, topics=topics, since_ms=since_ms, until_ms=until_ms
        ).select(*columns)
    wanted = list(columns)
    needs_time = (since_ms is not None or until_ms is not None) and "store_time" not in wanted
    every = message_schema()
    schema = StructType([every[name] for name in [*wanted, *(["store_time"] * needs_time)]])
    given = {**place.options(), **_cores(spark), "topics": ",".join(topics), **options}
    if since_ms is not None:
        given["startingTimestamp"] = str(since_ms)
    if until_ms is not None:
        given["endingTimestamp"] = str(until_ms)
    frame = spark.read.format(_format(place)).schema(schema).options(**given).load()
    return within(frame, since_ms, until_ms).select(*wanted)


def stream_messages(spark: SparkSession, place: Cluster | Stores, **options: Any) -> DataFrame:
    """The messages of a place as a stream; options as of the source."""
    given = {**place.options(), **_cores(spark), **options}
    return spark.readStream.format(_format(place)).options(**given).load()


def archive_schema() -> StructType:
    """The columns of an archive's files and of the names of its folders."""
    return StructType(
        [
            *message_schema().fields,
            StructField("date", DateType()),
            StructField("hour", IntegerType()),
            StructField("batch", StringType()),
        ]
    )


def read_archive(
    spark: SparkSession,
    path: str,
    *,
    topics: Sequence[str] = (),
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> DataFrame:
    """The messages of an archive with ``date`` and ``hour``; only folders that matter are read."""
    frame = spark.read.schema(archive_schema()).parquet(path)
    if topics:
        frame = frame.where(F.col("topic").isin(list(topics)))
    if since_ms is not None:
        frame = frame.where(F.col("date") >= F.lit(_day(since_ms)))
    if until_ms is not None:
        frame = frame.where(F.col("date") <= F.lit(_day(until_ms)))
    return within(frame, since_ms, until_ms).select(*COLUMN_NAMES, "date", "hour")


def within(frame: DataFrame, since_ms: int | None, until_ms: int | None) -> DataFrame:
    """The rows stored from one moment to before another."""
    if since_ms is not None:
        frame = frame.where(F.col("store_time") >= F.timestamp_millis(F.lit(since_ms)))
    if until_ms is not None:
        frame = frame.where(F.col("store_time") < F.timestamp_millis(F.lit(until_ms)))
    return frame


def _cores(spark: SparkSession) -> dict[str, str]:
    """The option that says how many tasks can run at once; a remote session does not know that."""
    context = getattr(spark, "sparkContext", None)
    return {} if context is None else {"cores": str(context.defaultParallelism)}


def _format(place: Cluster | Stores) -> str:
    return "rocketmq" if isinstance(place, Cluster) else "rocketmq-store"


def _day(ms: int) -> datetime.date:
    return datetime.date(1970, 1, 1) + datetime.timedelta(days=ms // DAY_MS)
