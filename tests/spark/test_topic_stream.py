"""Topics as streams: triggers, limits, the journal, the group's lag, new queues, lost messages."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

pytestmark = pytest.mark.spark


def _stream(spark: Any, cluster: ClusterThread, **options: str) -> Any:
    return (
        spark.readStream.format("rocketmq")
        .options(nameServers=cluster.name_servers, **options)
        .load()
    )


def _read(spark: Any, cluster: ClusterThread, **options: str) -> Any:
    reader = spark.read.format("rocketmq").options(nameServers=cluster.name_servers, **options)
    return reader.load()


def _drain(frame: Any, out: Path, checkpoint: Path) -> Any:
    """Run a stream to the end of what is there; the query, for its progress."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(checkpoint))
        .option("path", str(out))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def _numbers(spark: Any, out: Path) -> list[int]:
    rows = spark.read.parquet(str(out)).select("body").collect()
    return sorted(json.loads(bytes(row.body))["n"] for row in rows)


def test_what_is_there_then_what_came(spark: Any, cluster: ClusterThread, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=3)
    send(cluster.name_servers, "orders", range(3000))
    frame = _stream(spark, cluster, topics="orders", startingOffsets="earliest")
    _drain(frame, tmp_path / "out", tmp_path / "check")
    assert _numbers(spark, tmp_path / "out") == list(range(3000))
    send(cluster.name_servers, "orders", range(3000, 4000))
    _drain(frame, tmp_path / "out", tmp_path / "check")
    assert _numbers(spark, tmp_path / "out") == list(range(4000))


def test_limits_cut_batches(spark: Any, cluster: ClusterThread, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.name_servers, "orders", range(2500))
    frame = _stream(
        spark, cluster, topics="orders", startingOffsets="earliest", maxOffsetsPerTrigger="1000"
    )
    query = _drain(frame, tmp_path / "out", tmp_path / "check")
    sizes = [progress["numInputRows"] for progress in query.recentProgress]
    assert [size for size in sizes if size] == [1000, 1000, 500]
    assert _numbers(spark, tmp_path / "out") == list(range(2500))
    by_size = _stream(
        spark, cluster, topics="orders", startingOffsets="earliest", maxBytesPerTrigger="100000"
    )
    query = _drain(by_size, tmp_path / "out2", tmp_path / "check2")
    sizes = [progress["numInputRows"] for progress in query.recentProgress]
    assert len([size for size in sizes if size]) >= 3
    assert max(sizes) < 1000
    assert _numbers(spark, tmp_path / "out2") == list(range(2500))


def test_latest_means_the_first_trigger(spark: Any, cluster: ClusterThread, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.name_servers, "orders", range(100))
    frame = _stream(spark, cluster, topics="orders")
    _drain(frame, tmp_path / "out", tmp_path / "check")
    send(cluster.name_servers, "orders", range(100, 150))
    _drain(frame, tmp_path / "out", tmp_path / "check")
    assert _numbers(spark, tmp_path / "out") == list(range(100, 150))


def test_a_failed_first_batch_is_replayed_as_it_was(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.name_servers, "orders", range(500))
    frame = _stream(spark, cluster, topics="orders", startingOffsets="earliest")
    seen: list[list[int]] = []

    def fail_once(batch: Any, _: int) -> None:
        rows = batch.select("body").collect()
        seen.append(sorted(json.loads(bytes(row.body))["n"] for row in rows))
        if len(seen) == 1:
            raise RuntimeError("the first time it fails")

    def run() -> None:
        query = (
            frame.writeStream.foreachBatch(fail_once)
            .option("checkpointLocation", str(tmp_path / "check"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    with pytest.raises(Exception, match="the first time it fails"):
        run()
    send(cluster.name_servers, "orders", range(500, 700))
    run()
    assert seen == [list(range(500)), list(range(500)), list(range(500, 700))]


def test_the_group_follows(spark: Any, cluster: ClusterThread, tmp_path: Path) -> None:
    from contrailmq.bulk.cluster import Brokers
    from contrailmq.bulk.options import source_options

    cluster.create_topic("orders", queues=2)
    send(cluster.name_servers, "orders", range(900))
    options = {"topics": "orders", "group": "spark_orders"}
    frame = _stream(spark, cluster, startingOffsets="earliest", **options)
    _drain(frame, tmp_path / "out", tmp_path / "check")
    brokers = Brokers(source_options({"nameServers": cluster.name_servers, **options}).access)
    queues = brokers.readable_queues(
        source_options({"nameServers": cluster.name_servers, **options})
    )
    assert brokers.committed("spark_orders", queues) == brokers.end_offsets(queues)
    brokers.close()
    send(cluster.name_servers, "orders", range(900, 1000))
    after = (
        spark.read.format("rocketmq")
        .options(nameServers=cluster.name_servers, startingOffsets="committed", **options)
        .load()
        .collect()
    )
    assert sorted(json.loads(bytes(row.body))["n"] for row in after) == list(range(900, 1000))


def test_progress_shows_the_lag(spark: Any, cluster: ClusterThread, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=1)
    send(cluster.name_servers, "orders", range(300))
    frame = _stream(
        spark, cluster, topics="orders", startingOffsets="earliest", maxOffsetsPerTrigger="100"
    )
    query = _drain(frame, tmp_path / "out", tmp_path / "check")
    source = query.recentProgress[0]["sources"][0]
    end, latest = (json.loads(source[name]) for name in ("endOffset", "latestOffset"))
    lag = sum(
        latest["to"]["orders"][broker]["0"] - end["to"]["orders"][broker]["0"]
        for broker in ("broker-a", "broker-b")
    )
    assert lag == 200


def test_topics_that_appear_are_read_from_their_first_message(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    cluster.create_topic("orders_1", queues=2)
    send(cluster.name_servers, "orders_1", range(10))
    frame = _stream(spark, cluster, topicsPattern="orders_.*", startingOffsets="latest")
    _drain(frame, tmp_path / "out", tmp_path / "check")
    cluster.create_topic("orders_2", queues=2)
    send(cluster.name_servers, "orders_2", range(100, 130))
    _drain(frame, tmp_path / "out", tmp_path / "check")
    assert _numbers(spark, tmp_path / "out") == list(range(100, 130))


@pytest.mark.parametrize("kind", ["rocketmq", "rocketmq-store"])
def test_what_is_wrong_with_a_stream_is_the_last_that_is_said(
    spark: Any, tmp_path: Path, kind: str
) -> None:
    """Spark closes a reader it does not have, and would say that instead."""
    place = {"nameServers": "127.0.0.1:1"} if kind == "rocketmq" else {"path": "/none"}
    given = {**place, "topics": "t", "endingOffsets": "latest"}
    for trigger in ({"availableNow": True}, {"processingTime": "1 second"}):
        frame = spark.readStream.format(kind).options(**given).load()
        check = str(tmp_path / next(iter(trigger)))
        stream = frame.writeStream.format("noop").option("checkpointLocation", check)
        with pytest.raises(Exception, match="a stream has no end") as raised:
            stream.trigger(**trigger).start().awaitTermination(60)
        assert "'reader'" not in str(raised.value)


def test_filters_in_a_stream(spark: Any, cluster: ClusterThread, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.name_servers, "orders", range(1000))
    frame = _stream(spark, cluster, topics="orders", startingOffsets="earliest", tags="t1")
    _drain(frame, tmp_path / "out", tmp_path / "check")
    assert _numbers(spark, tmp_path / "out") == list(range(1, 1000, 2))


def test_messages_of_a_waiting_stream(spark: Any, cluster: ClusterThread, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=2)
    frame = _stream(spark, cluster, topics="orders", startingOffsets="earliest")
    query = (
        frame.writeStream.format("memory")
        .queryName("waiting_stream")
        .option("checkpointLocation", str(tmp_path / "check"))
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    try:
        query.processAllAvailable()
        for first in (0, 20):
            send(cluster.name_servers, "orders", range(first, first + 20))
            query.processAllAvailable()
            assert spark.table("waiting_stream").count() == first + 20
    finally:
        query.stop()


def test_a_restarted_broker_does_not_end_a_stream(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=2)
    cluster.create_topic("copy", queues=2)
    send(cluster.name_servers, "orders", range(1000))
    frame = _stream(
        spark, cluster, topics="orders", startingOffsets="earliest", maxOffsetsPerTrigger="250"
    )
    query = (
        frame.writeStream.format("rocketmq")
        .options(nameServers=cluster.name_servers, topic="copy", delivery="effectively-once")
        .option("checkpointLocation", str(tmp_path / "check"))
        .trigger(processingTime="20 milliseconds")
        .start()
    )
    try:
        deadline = time.monotonic() + 180
        while len(query.recentProgress) < 2:
            assert time.monotonic() < deadline and query.isActive
            time.sleep(0.05)
        # One after the other, and all of them: then the name server does not know the topic.
        cluster.stop_broker(0)
        cluster.start_broker(0)
        cluster.stop_broker(0)
        cluster.stop_broker(1)
        time.sleep(1)
        cluster.start_broker(0)
        cluster.start_broker(1)
        send(cluster.name_servers, "orders", range(1000, 1500))
        query.processAllAvailable()
    finally:
        query.stop()
    rows = _read(spark, cluster, topics="copy").select("body").collect()
    assert sorted(json.loads(bytes(row.body))["n"] for row in rows) == list(range(1500))


def test_lost_messages_are_named_or_passed(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=1)
    send(cluster.name_servers, "orders", range(20))
    frame = _stream(spark, cluster, topics="orders", startingOffsets="earliest")
    _drain(frame, tmp_path / "out", tmp_path / "check")
    found = sorted((tmp_path / "check" / "offsets").glob("[0-9]*"), key=lambda p: int(p.name))
    text = found[-1].read_text()
    last = json.loads(text.splitlines()[-1])
    reached = last["to"]["orders"]
    assert sum(brokers["0"] for brokers in reached.values()) == 20
    beyond = json.dumps({"orders": {"broker-a": {"0": 30}}})
    with pytest.raises(Exception, match=r"broker broker-a queue 0: offsets \d+ to 29"):
        wrong = _stream(spark, cluster, topics="orders", startingOffsets=beyond)
        _drain(wrong, tmp_path / "out2", tmp_path / "check2")
    # The checkpoint of a topic that has had more messages than it has now.
    for broker in reached.values():
        broker["0"] += 50
    lines = text.splitlines()
    lines[-1] = json.dumps(last)
    found[-1].write_text("\n".join(lines))
    for crc in (tmp_path / "check" / "offsets").glob(".*.crc"):
        crc.unlink()
    with pytest.raises(Exception, match=r"topic orders broker broker-a queue 0: offsets"):
        _drain(frame, tmp_path / "out", tmp_path / "check")
    tolerant = _stream(spark, cluster, topics="orders", failOnDataLoss="false")
    _drain(tolerant, tmp_path / "out", tmp_path / "check")
    send(cluster.name_servers, "orders", range(1000, 1010))
    _drain(tolerant, tmp_path / "out", tmp_path / "check")
    assert set(range(1000, 1010)) <= set(_numbers(spark, tmp_path / "out"))
