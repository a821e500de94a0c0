"""A Spark driver as a process of its own, to be killed: runs one job and says what it found.

    python spark_driver.py JOB --name-servers … --checkpoint … --out … [--master …] [--now]

Jobs: ``topic`` streams topic ``in`` into topic ``out`` effectively once, ``both`` does so and
streams it into Parquet files at the same time.  ``all`` counts topic ``in`` by number, copies it to
topic ``copy``, counts it once more in the directories ``--stores``, streams it into ``out``, and
runs the pipelines: archives it to ``--out``, restores that into ``restored``, replays it into
``replayed``, counts it with SQL, redrives the dead letters of ``billing`` into ``redriven`` and
audits.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException

from contrailmq.pipelines import archive, query, redrive, replay, restore
from contrailmq.pipelines.audit import run as audit
from contrailmq.pipelines.places import Archive, Cluster
from contrailmq.spark import session


def main() -> None:
    """Run one job; ``--now`` ends it when everything that is there has been read."""
    parser = argparse.ArgumentParser()
    parser.add_argument("job", choices=("topic", "both", "all"))
    parser.add_argument("--name-servers", required=True)
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--now", action="store_true")
    parser.add_argument("--limit", default="1500")
    parser.add_argument("--speed", default="1")
    parser.add_argument("--stores", default="")
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
    if options.job == "all":
        found = {**_batch(spark, options), **_stream_on(spark, options)}
        found |= _pipelines(spark, options)
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        _stream(spark, options)
    spark.stop()


def _batch(spark: Any, options: argparse.Namespace) -> dict[str, Any]:
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
    stores = spark.read.format("rocketmq-store")
    files = stores.options(path=options.stores, topics="in", minPartitions="4").load()
    distinct = files.selectExpr("count(distinct properties['n'])").first()[0]
    return {"batch": list(row), "files": distinct}


def _stream_on(spark: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Stream to the end; a lost executor may end the query, which then goes on where it was."""
    for attempt in range(3):
        try:
            _stream(spark, options)
        except StreamingQueryException:
            continue
        return {"streams": attempt + 1}
    raise RuntimeError("the stream does not end")


def _pipelines(spark: Any, options: argparse.Namespace) -> dict[str, Any]:
    place = Cluster(name_servers=options.name_servers)
    path = f"{options.out}/archive"
    rows: dict[str, Any] = {}
    rows["archive"] = archive.run(spark, place, path, topics=["in"], batch_rows=5000).rows
    rows["restore"] = restore.run(spark, path, place, to="restored", topics=["in"]).rows
    rows["replay"] = replay.run(
        spark,
        place,
        place,
        topic="in",
        to="replayed",
        state=Path(options.out) / "replay.json",
        speed=float(options.speed),
        slice_s=1.0,
    ).rows
    counted = query.run(spark, "select count(*) as n from `in`", places=[Archive(path=path)])
    rows["sql"] = counted.collect()[0].n
    dead = redrive.run(spark, place, groups=["billing"], to="redriven")
    rows["redrive"] = dead.facts.get(redrive.SENT, 0)
    rows["audit"] = audit.run(spark, place, f"{options.out}/audit", topics=["in"]).rows
    return rows


def _stream(spark: Any, options: argparse.Namespace) -> None:
    queries = [_start(spark, options, "topic")]
    if options.job == "both":
        queries.append(_start(spark, options, "parquet"))
    while any(running.isActive for running in queries):
        spark.streams.awaitAnyTermination()  # raises what ended one of them
        spark.streams.resetTerminated()
    for ended in queries:
        ended.awaitTermination()


def _start(spark: Any, options: argparse.Namespace, kind: str) -> Any:
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
    if kind == "parquet":
        writer = frame.writeStream.format("parquet").option("path", options.out)
    else:
        writer = frame.writeStream.format("rocketmq").options(
            nameServers=options.name_servers, topic="out", delivery="effectively-once"
        )
    writer = writer.option("checkpointLocation", f"{options.checkpoint}/{kind}")
    if options.now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime="20 milliseconds")
    return writer.start()


if __name__ == "__main__":
    main()
