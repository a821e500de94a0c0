"""What holds on every Spark from 4.0 on: read, write, stream, go on. ``scripts/sparks`` runs it.

One module, few jobs: each Spark of CI gets a minute.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contrailmq.spark.versions import HAS_FILTERS, HAS_LIMITS, version
from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

pytestmark = pytest.mark.spark


def _numbers(rows: Any) -> list[int]:
    return sorted(json.loads(bytes(row.body))["n"] for row in rows)


def _stream(spark: Any, cluster: ClusterThread, **options: Any) -> Any:
    reader = spark.readStream.format("rocketmq").options(
        nameServers=cluster.name_servers, startingOffsets="earliest", **options
    )
    return reader.load()


def _run(frame: Any, path: Path, **trigger: Any) -> Any:
    writer = frame.writeStream.format("parquet").option("path", str(path / "out"))
    writer = writer.option("checkpointLocation", str(path / "check")).trigger(**trigger)
    return writer.start()


def test_read_write_and_follow(spark: Any, cluster: ClusterThread, tmp_path: Path) -> None:
    """A batch there and back; a directory; a stream with a limit that is all read, and goes on."""
    cluster.create_topic("in", queues=3)
    send(cluster.name_servers, "in", range(2000))
    options = {"nameServers": cluster.name_servers, "topics": "in"}
    frame = spark.read.format("rocketmq").options(**options).load()
    rows = frame.collect()
    assert _numbers(rows) == list(range(2000))
    assert rows[0].properties["colour"] in ("blue", "red")
    assert rows[0].store_time >= rows[0].born_time
    frame.where("queue_id = 1").write.format("rocketmq").mode("append").options(
        nameServers=cluster.name_servers, topic="copy", createTopic="2"
    ).save()
    read = spark.read.format("rocketmq")
    copied = read.options(nameServers=cluster.name_servers, topics="copy").load().collect()
    assert _numbers(copied) == _numbers(row for row in rows if row.queue_id == 1)
    stores = ",".join(map(str, cluster.stores))
    found = spark.read.format("rocketmq-store").options(path=stores, topics="in").load()
    assert _numbers(found.collect()) == list(range(2000))

    stream = _stream(spark, cluster, topics="in", maxOffsetsPerTrigger=700)
    for expected in (2000, 2500):  # the second run goes on where the first one ended
        query = _run(stream, tmp_path, availableNow=True)
        assert query.awaitTermination(200) and query.exception() is None
        written = spark.read.parquet(str(tmp_path / "out")).collect()
        assert _numbers(written) == list(range(expected))
        if expected == 2000:
            send(cluster.name_servers, "in", range(2000, 2500))


def test_a_stream_goes_on_after_its_batch_failed(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    """The replayed batch is the same, what came meanwhile is read in the same run, new topics too.

    Before 4.2 Spark asks where the end is before it says where the stream was.
    """
    cluster.create_topic("seen", queues=2)
    send(cluster.name_servers, "seen", range(300))
    stream = _stream(spark, cluster, topicsPattern="seen.*", maxOffsetsPerTrigger=200)
    batches: list[list[int]] = []

    def fail(frame: Any, batch: int) -> None:
        batches.append(_numbers(frame.collect()))
        raise RuntimeError("as planned")

    def keep(frame: Any, batch: int) -> None:
        batches.append(_numbers(frame.collect()))

    check = str(tmp_path / "check")
    for act in (fail, keep):
        writer = stream.writeStream.foreachBatch(act).option("checkpointLocation", check)
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(200)
        except Exception as error:
            assert act is fail, error
        if act is fail:
            send(cluster.name_servers, "seen", range(300, 350))
            cluster.create_topic("seen_too", queues=1)
            send(cluster.name_servers, "seen_too", range(1000, 1010))
    assert batches[0] == batches[1]
    wanted = [*range(350), *range(1000, 1010)]
    assert sorted(number for batch in batches[1:] for number in batch) == wanted


def test_a_stream_into_a_topic(spark: Any, cluster: ClusterThread, tmp_path: Path) -> None:
    """Row by row before 4.1, in Arrow batches since; properties, keys and delays arrive."""
    cluster.create_topic("in", queues=2)
    cluster.create_topic("out", queues=2)
    send(cluster.name_servers, "in", range(500))
    stream = _stream(spark, cluster, topics="in").selectExpr("body", "keys", "tags", "properties")
    writer = stream.writeStream.format("rocketmq").options(
        nameServers=cluster.name_servers, topic="out", delivery="effectively-once"
    )
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    assert writer.start().awaitTermination(200)
    read = spark.read.format("rocketmq")
    rows = read.options(nameServers=cluster.name_servers, topics="out").load().collect()
    assert _numbers(rows) == list(range(500))
    for row in rows:
        number = json.loads(bytes(row.body))["n"]
        assert (row.keys, row.properties["n"]) == (f"k{number}", str(number))


def test_what_this_spark_has_not_is_refused_with_the_version(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    cluster.create_topic("in", queues=1)
    send(cluster.name_servers, "in", range(10))
    read = spark.read.format("rocketmq").options(nameServers=cluster.name_servers, topics="in")
    pushed = read.option("pushDown", "true").load().where("queue_offset < 4")
    if HAS_FILTERS:
        assert len(pushed.collect()) == 4
    else:
        with pytest.raises(Exception, match=r"pushDown=true needs PySpark 4[.]1"):
            pushed.collect()
    assert (version() >= (4, 2)) == HAS_LIMITS
    wrong = spark.readStream.format("rocketmq").options(
        nameServers=cluster.name_servers, topics="in", endingOffsets="latest"
    )
    with pytest.raises(Exception, match="a stream has no end"):
        _run(wrong.load(), tmp_path, availableNow=True).awaitTermination(100)
