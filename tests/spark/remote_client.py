"""A Spark Connect client as a process of its own: reads, streams and writes, says what it saw.

    python remote_client.py REMOTE NAME_SERVERS STORE FOLDER

Nothing is registered: the server finds the sources by itself.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from contrailmq.pipelines import query, redrive
from contrailmq.pipelines.places import Cluster, Stores
from contrailmq.spark import json_body, session


def main(remote: str, name_servers: str, store: str, folder: str) -> None:
    """Everything the sources and the sink do, over Spark Connect."""
    spark = session("remote", remote=remote)
    kind = f"{type(spark).__module__}.{type(spark).__name__}"
    assert kind.startswith("pyspark.sql.connect."), kind
    topic = {"nameServers": name_servers, "topics": "orders"}
    orders = spark.read.format("rocketmq").options(**topic).load()
    found: dict[str, Any] = {"batch": _numbers(orders)}
    files = spark.read.format("rocketmq-store").options(path=store, topics="orders").load()
    found["files"] = _numbers(files)
    pushed = spark.read.format("rocketmq").options(**topic, pushDown="true").load()
    found["pushed"] = pushed.where("queue_id < 2 and queue_offset < 5").count()
    bodies = json_body(orders, "n INT").selectExpr("sum(json.n) as total").first()
    assert bodies is not None
    found["total"] = bodies.total

    stream = spark.readStream.format("rocketmq").options(**topic, startingOffsets="earliest").load()
    _drain(stream.writeStream.format("parquet").option("path", f"{folder}/files"), folder, "files")
    found["stream"] = _numbers(spark.read.parquet(f"{folder}/files"))
    sink = {"nameServers": name_servers, "topic": "streamed", "delivery": "effectively-once"}
    _drain(stream.writeStream.format("rocketmq").options(**sink), folder, "topic")
    for _ in range(2):  # the second one finds everything there
        orders.write.format("rocketmq").mode("append").options(
            **{**sink, "topic": "written"}, queryId="remote"
        ).save()
    for name in ("streamed", "written"):
        copy = spark.read.format("rocketmq").options(nameServers=name_servers, topics=name).load()
        found[name] = _numbers(copy)

    cluster = Cluster(name_servers=name_servers)
    text = "select tags, count(*) as n from orders group by tags order by tags"
    for place in (cluster, Stores(paths=(store,))):
        found.setdefault("sql", []).append(
            [list(row) for row in query.run(spark, text, places=[place]).collect()]
        )
        spark.catalog.dropTempView("orders")
    found["redrive"] = redrive.run(spark, cluster, groups=["billing"], dry_run=True).facts
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


def _numbers(frame: Any) -> list[int]:
    return sorted(int(row[0]) for row in frame.selectExpr("properties['n']").collect())


def _drain(writer: Any, folder: str, name: str) -> None:
    checked = writer.option("checkpointLocation", f"{folder}/check-{name}")
    checked.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
