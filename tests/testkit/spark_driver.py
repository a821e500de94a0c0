"""A Spark driver as a process of its own, to be killed: runs one job and says what it found.

    python spark_driver.py JOB --name-servers … --checkpoint … --out … [--master …] [--now]

Jobs: ``parquet`` streams topic ``in`` into Parquet files, ``topic`` streams it into topic ``out``
effectively once, ``batch`` counts topic ``in`` by number and copies it to topic ``copy``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from contrailmq.spark import session


def main() -> None:
    """Run one job; ``--now`` ends it when everything that is there has been read."""
    parser = argparse.ArgumentParser()
    parser.add_argument("job", choices=("parquet", "topic", "batch"))
    parser.add_argument("--name-servers", required=True)
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--now", action="store_true")
    parser.add_argument("--limit", default="1500")
    options = parser.parse_args()
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    spark = session("spark-driver", master=options.master, settings=settings)
    if options.job == "batch":
        _batch(spark, options)
    else:
        _stream(spark, options)
    spark.stop()


def _batch(spark: Any, options: argparse.Namespace) -> None:
    reader = spark.read.format("rocketmq")
    frame = reader.options(nameServers=options.name_servers, topics="in", minPartitions="6").load()
    numbers = frame.selectExpr("cast(properties['n'] as bigint) as n")
    row = numbers.selectExpr("count(*)", "count(distinct n)", "sum(n)").first()
    frame.write.format("rocketmq").mode("append").options(
        nameServers=options.name_servers,
        topic="copy",
        delivery="effectively-once",
        queryId="copy-1",
    ).save()
    sys.stdout.write(json.dumps(list(row)) + "\n")


def _stream(spark: Any, options: argparse.Namespace) -> None:
    frame = (
        spark.readStream.format("rocketmq")
        .options(
            nameServers=options.name_servers,
            topics="in",
            startingOffsets="earliest",
            maxOffsetsPerTrigger=options.limit,
            minPartitions="3",
            group="spark_driver",
        )
        .load()
    )
    if options.job == "parquet":
        writer = frame.writeStream.format("parquet").option("path", options.out)
    else:
        writer = frame.writeStream.format("rocketmq").options(
            nameServers=options.name_servers, topic="out", delivery="effectively-once"
        )
    writer = writer.option("checkpointLocation", options.checkpoint)
    if options.now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime="20 milliseconds")
    writer.start().awaitTermination()


if __name__ == "__main__":
    main()
