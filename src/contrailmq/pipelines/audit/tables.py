"""The tables of an audit, as functions of DataFrames: used by ``audit`` and by its SDP project.

``slim`` is what all but two of them are made of: a row a message, without its body.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from contrailmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX
from contrailmq.protocol.properties import PROPERTY_RETRY_TOPIC

SLIM_COLUMNS: Final = (
    "topic", "broker", "queue_id", "queue_offset", "body", "keys", "born_time", "store_time",
    "reconsume_times",
)  # fmt: skip
FAILURE_COLUMNS: Final = ("topic", "store_time", "properties")
KEYS_MAX: Final = 20
_FIELD: Final = "\x01"
_RECORD: Final = "\x02"


def hour_of(moment: str | Column = "store_time") -> Column:
    """The full hour of a time, in UTC."""
    return F.timestamp_seconds(F.floor(F.unix_seconds(moment) / 3600) * 3600)


def slim(messages: DataFrame) -> DataFrame:
    """Messages without their bodies: size, first key, hour, and how long sending took."""
    return messages.select(
        "topic", "broker", "queue_id", "queue_offset", "reconsume_times",
        F.coalesce(F.octet_length("body"), F.lit(0)).alias("size"),
        F.split_part("keys", F.lit(" "), F.lit(1)).alias("key"),
        hour_of().alias("hour"),
        F.unix_seconds("store_time").alias("second"),
        (F.unix_millis("store_time") - F.unix_millis("born_time")).alias("send_ms"),
    )  # fmt: skip


def traffic(messages: DataFrame) -> DataFrame:
    """Per topic and hour: rates and sizes; ``peak_per_s`` is the busiest second."""
    seconds = messages.groupBy("topic", "hour", "second").agg(F.count(F.lit(1)).alias("n"))
    peaks = seconds.groupBy("topic", "hour").agg(F.max("n").alias("peak_per_s"))
    whole = messages.groupBy("topic", "hour").agg(
        F.count(F.lit(1)).alias("messages"),
        F.sum("size").alias("bytes"),
        (F.count(F.lit(1)) / 3600).alias("per_s"),
        F.avg("size").alias("size_avg"),
        F.percentile_approx("size", 0.5).alias("size_p50"),
        F.percentile_approx("size", 0.99).alias("size_p99"),
        F.max("size").alias("size_max"),
        F.percentile_approx("send_ms", 0.5).alias("send_p50_ms"),
        F.percentile_approx("send_ms", 0.99).alias("send_p99_ms"),
        F.sum((F.col("reconsume_times") > 0).cast("long")).alias("retried"),
    )
    return whole.join(peaks, ["topic", "hour"]).orderBy("topic", "hour")


def queues(messages: DataFrame) -> DataFrame:
    """Per queue: its share; ``skew`` is 1 where a queue has as much as the others."""
    counted = messages.groupBy("topic", "broker", "queue_id").agg(
        F.count(F.lit(1)).alias("messages"),
        F.sum("size").alias("bytes"),
        F.min("queue_offset").alias("first_offset"),
        F.max("queue_offset").alias("last_offset"),
    )
    mean = F.avg("messages").over(Window.partitionBy("topic"))
    return counted.withColumn("skew", F.col("messages") / mean).orderBy(
        "topic", "broker", "queue_id"
    )


def keys(messages: DataFrame) -> DataFrame:
    """The most frequent keys of each topic; ``share`` of the messages that have a key."""
    counted = (
        messages.where("key is not null and key <> ''")
        .groupBy("topic", "key")
        .agg(F.count(F.lit(1)).alias("messages"))
    )
    topic = Window.partitionBy("topic")
    ranked = counted.withColumns(
        {
            "share": F.col("messages") / F.sum("messages").over(topic),
            "keys_of_topic": F.count(F.lit(1)).over(topic),
            "rank": F.row_number().over(topic.orderBy(F.desc("messages"), "key")),
        }
    )
    return ranked.where(F.col("rank") <= KEYS_MAX).orderBy("topic", "rank")


def failures(messages: DataFrame) -> DataFrame:
    """Per group, topic and hour: retries and dead letters; of retry and dead letter topics."""
    is_dead = F.col("topic").startswith(DLQ_PREFIX)
    group = F.when(is_dead, F.substring("topic", len(DLQ_PREFIX) + 1, 255)).otherwise(
        F.substring("topic", len(RETRY_PREFIX) + 1, 255)
    )
    rows = messages.select(
        group.alias("group"),
        F.col("properties").getItem(PROPERTY_RETRY_TOPIC).alias("topic"),
        hour_of().alias("hour"),
        is_dead.cast("long").alias("dead"),
    )
    return (
        rows.groupBy("group", "topic", "hour")
        .agg(F.sum(1 - F.col("dead")).alias("retries"), F.sum("dead").alias("dead_letters"))
        .orderBy("group", "topic", "hour")
    )


def delays(traces: DataFrame) -> DataFrame:
    """Per topic, group and hour: from the call of send to the consumer, from trace messages.

    ``delay`` is to the first attempt of a group, ``work`` is what consumers took.
    """
    records = traces.select(
        F.explode(F.split(F.col("body").cast("string"), _RECORD)).alias("record")
    ).select(F.split("record", _FIELD).alias("f"))

    def field(index: int) -> Column:
        return F.try_element_at("f", F.lit(index + 1))

    sent = records.where(field(0) == "Pub").select(
        field(5).alias("id"), field(4).alias("topic"), field(1).try_cast("long").alias("sent_ms")
    )
    sent = sent.groupBy("id", "topic").agg(F.min("sent_ms").alias("sent_ms"))
    begun = records.where(field(0) == "SubBefore").select(
        field(5).alias("id"), field(3).alias("group"), field(4).alias("request"),
        field(1).try_cast("long").alias("begun_ms"), field(6).try_cast("int").alias("retry"),
    )  # fmt: skip
    ended = records.where(field(0) == "SubAfter").select(
        field(2).alias("id"), field(1).alias("request"),
        field(3).try_cast("long").alias("work_ms"), (field(4) == "true").alias("success"),
    )  # fmt: skip
    attempts = begun.join(ended, ["id", "request"], "left")
    met = attempts.groupBy("id", "group").agg(
        F.min("begun_ms").alias("begun_ms"),
        F.max("work_ms").alias("work_ms"),
        F.count(F.lit(1)).alias("attempts"),
        F.sum((~F.coalesce("success", F.lit(True))).cast("long")).alias("failed"),
    )
    delay = F.greatest(F.col("begun_ms") - F.col("sent_ms"), F.lit(0))
    rows = met.join(sent, "id").select(
        "topic", "group", "attempts", "failed", "work_ms",
        hour_of(F.timestamp_millis("sent_ms")).alias("hour"), delay.alias("delay_ms"),
    )  # fmt: skip
    percentiles = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return (
        rows.groupBy("topic", "group", "hour")
        .agg(
            F.count(F.lit(1)).alias("messages"),
            *(
                F.percentile_approx(column, share).alias(f"{column[:-3]}_{name}_ms")
                for column in ("delay_ms", "work_ms")
                for name, share in percentiles.items()
            ),
            F.max("delay_ms").alias("delay_max_ms"),
            F.sum("attempts").alias("attempts"),
            F.sum("failed").alias("failed_attempts"),
        )
        .orderBy("topic", "group", "hour")
    )
