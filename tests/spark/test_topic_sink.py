"""DataFrames into topics: fields, queues by key, compression, at least once, effectively once."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.options import source_options
from contrailmq.client.producer.queue_choice import by_key
from contrailmq.protocol.queue import MessageQueue
from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

pytestmark = pytest.mark.spark


def _rows(spark: Any, cluster: ClusterThread, topic: str) -> list[Any]:
    reader = spark.read.format("rocketmq").options(nameServers=cluster.name_servers, topics=topic)
    return list(reader.load().collect())


def _write(frame: Any, cluster: ClusterThread, **options: str) -> None:
    writer = frame.write.format("rocketmq").mode("append")
    writer.options(nameServers=cluster.name_servers, **options).save()


def test_columns_become_fields(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("out", queues=2)
    frame = spark.range(5000).selectExpr(
        "cast(id as string) as body",
        "concat('k', id, ' extra') as keys",
        "if(id % 2 = 0, 'even', null) as tags",
        "map('n', cast(id as string), 'CLUSTER', 'mine', 'empty', '') as properties",
        "id as ignored",
    )
    _write(frame, cluster, topic="out")
    rows = _rows(spark, cluster, "out")
    assert sorted(int(bytes(row.body)) for row in rows) == list(range(5000))
    queues = [MessageQueue("out", b, i) for b in ("broker-a", "broker-b") for i in range(2)]
    for row in rows:
        number = int(bytes(row.body))
        assert row.keys == f"k{number} extra"
        assert row.tags == ("even" if number % 2 == 0 else None)
        assert row.properties["n"] == str(number)
        assert row.properties["CLUSTER"] == "DefaultCluster"
        assert "empty" not in row.properties
        assert by_key(queues, f"k{number}") == MessageQueue("out", row.broker, row.queue_id)
    assert len({row.unique_key for row in rows}) == 5000


def test_keys_beyond_ascii_and_keys_as_an_array(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("out", queues=3)
    frame = spark.createDataFrame(
        [("a", ["schlüssel", "b"]), ("b", ["鍵"]), ("c", []), ("d", ["x", None, "y"]), ("e", None)],
        "body string, keys array<string>",
    )
    _write(frame, cluster, topic="out")
    rows = {bytes(row.body): row for row in _rows(spark, cluster, "out")}
    queues = [MessageQueue("out", b, i) for b in ("broker-a", "broker-b") for i in range(3)]
    assert rows[b"a"].keys == "schlüssel b"
    for body, key in ((b"a", "schlüssel"), (b"b", "鍵")):
        row = rows[body]
        assert by_key(queues, key) == MessageQueue("out", row.broker, row.queue_id)
    assert rows[b"c"].keys is None
    assert (rows[b"d"].keys, rows[b"e"].keys) == ("x y", None)


def test_a_topic_column_and_a_round_trip(spark: Any, cluster: ClusterThread) -> None:
    for topic in ("one", "two", "copy"):
        cluster.create_topic(topic, queues=2)
    frame = spark.range(100).selectExpr(
        "cast(id as string) as body", "if(id < 30, 'one', 'two') as topic"
    )
    _write(frame, cluster)
    assert len(_rows(spark, cluster, "one")) == 30
    assert len(_rows(spark, cluster, "two")) == 70
    send(cluster.name_servers, "one", range(50))
    read = spark.read.format("rocketmq").options(nameServers=cluster.name_servers, topics="one")
    _write(read.load(), cluster, topic="copy")
    original, copied = _rows(spark, cluster, "one"), _rows(spark, cluster, "copy")
    fields = ("body", "keys", "tags", "unique_key")
    assert sorted(str([row[name] for name in fields]) for row in original) == sorted(
        str([row[name] for name in fields]) for row in copied
    )
    with_colour = [row.properties.get("colour") for row in copied]
    assert sorted(filter(None, with_colour)) == sorted(
        filter(None, (row.properties.get("colour") for row in original))
    )


def test_rows_with_a_time_of_their_own_come_then(spark: Any, cluster: ClusterThread) -> None:
    """Read before their time they are not there; each is there once, and not early."""
    cluster.create_topic("later", queues=2)
    at_s = int(time.time()) + 12
    frame = spark.range(60).selectExpr(
        "cast(id as string) as body",
        f"if(id < 20, null, timestamp_millis({at_s} * 1000L + id)) as deliver_at",
    )
    _write(frame, cluster, topic="later", delivery="effectively-once", queryId="timers")
    _write(frame, cluster, topic="later", delivery="effectively-once", queryId="timers")
    assert sorted(int(bytes(row.body)) for row in _rows(spark, cluster, "later")) == list(range(20))
    deadline = time.monotonic() + 60
    while len(_rows(spark, cluster, "later")) < 60 and time.monotonic() < deadline:
        time.sleep(0.5)
    rows = _rows(spark, cluster, "later")
    assert sorted(int(bytes(row.body)) for row in rows) == list(range(60))
    for row in rows:
        number = int(bytes(row.body))
        if number >= 20:
            assert row.store_time.timestamp() >= at_s + number / 1000 - 0.001


def test_levels_delay_and_rows_without_one_come_at_once(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("later", queues=2)
    frame = spark.range(30).selectExpr(
        "cast(id as string) as body", "if(id % 2 = 0, 1, if(id % 3 = 0, 0, null)) as delay_level"
    )
    for _ in range(2):
        _write(frame, cluster, topic="later", delivery="effectively-once", queryId="levels")
    deadline = time.monotonic() + 60
    while len(_rows(spark, cluster, "later")) < 30 and time.monotonic() < deadline:
        time.sleep(0.5)
    rows = {int(bytes(row.body)): row for row in _rows(spark, cluster, "later")}
    assert len(_rows(spark, cluster, "later")) == len(rows) == 30
    for number, row in rows.items():
        late_s = (row.store_time - row.born_time).total_seconds()
        assert late_s >= 0.99 if number % 2 == 0 else late_s < 0.99


def test_the_first_write_makes_the_topic(spark: Any, cluster: ClusterThread) -> None:
    """As every producer: four queues on each broker; many with createTopic; the rest as it was."""
    body = spark.range(0, 6000, 1, 4).selectExpr(
        "cast(id as string) as body", "cast(id as string) as keys", "id"
    )
    _write(body, cluster, topic="new")
    rows = _rows(spark, cluster, "new")
    assert sorted(int(bytes(row.body)) for row in rows) == list(range(6000))
    assert {(row.broker, row.queue_id) for row in rows} == {
        (broker, number) for broker in ("broker-a", "broker-b") for number in range(4)
    }
    for _ in range(2):
        _write(body, cluster, topic="once", delivery="effectively-once", queryId="new")
    assert len(_rows(spark, cluster, "once")) == 6000
    _write(body, cluster, topic="many", createTopic="8")
    assert len({(row.broker, row.queue_id) for row in _rows(spark, cluster, "many")}) == 16
    _write(body, cluster, topic="many", createTopic="2")
    assert len({(row.broker, row.queue_id) for row in _rows(spark, cluster, "many")}) == 16
    _write(body.selectExpr("body", "if(id < 10, 'x', 'y') as topic"), cluster, createTopic="1")
    assert len(_rows(spark, cluster, "x")) == 10
    with pytest.raises(Exception, match="createTopic='2000': expected at most 1024"):
        _write(body, cluster, topic="more", createTopic="2000")


def test_where_no_broker_makes_topics_the_error_says_both_ways(spark: Any) -> None:
    cluster = ClusterThread(properties={"autoCreateTopicEnable": "false"})
    try:
        body = spark.range(20).selectExpr("cast(id as string) as body")
        for options, frame in (({"topic": "none"}, body), ({}, body.selectExpr("*", "'n' topic"))):
            with pytest.raises(Exception, match=r"createTopic=8 .*autoCreateTopicEnable=true"):
                _write(frame, cluster, **options)
        _write(body, cluster, topic="made", createTopic="3", ordered="true")
        assert len(_rows(spark, cluster, "made")) == 20
    finally:
        cluster.close()


def test_large_bodies_are_compressed(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("out", queues=1)
    frame = spark.range(60).selectExpr("repeat(cast(id as string), 1 + id * 200) as body")
    _write(frame, cluster, topic="out", compression="zstd")
    rows = _rows(spark, cluster, "out")
    wanted = sorted((str(n) * (1 + n * 200)).encode() for n in range(60))
    assert sorted(bytes(row.body) for row in rows) == wanted
    assert {bool(row.sys_flag & 1) for row in rows if len(row.body) >= 4096} == {True}
    assert {bool(row.sys_flag & 1) for row in rows if len(row.body) < 4096} == {False}


def test_what_cannot_be_written_is_refused(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("out", queues=1)
    with pytest.raises(Exception, match="a column body is needed"):
        _write(spark.range(1), cluster, topic="out")
    body = spark.range(1).selectExpr("'x' as body")
    with pytest.raises(Exception, match="give the option topic"):
        _write(body, cluster)
    with pytest.raises(Exception, match="needs the option queryId"):
        _write(body, cluster, topic="out", delivery="effectively-once")
    with pytest.raises(Exception, match="cannot be overwritten"):
        body.write.format("rocketmq").mode("overwrite").options(
            nameServers=cluster.name_servers, topic="out"
        ).save()
    for columns, text in (
        (["body", "map('p', 'a\u0002b') as properties"], r"properties\['p'\] .* has a separator"),
        (["body", "'a\u0001b' as tags"], r"tags 'a.*x01b' has a separator"),
        (["body", "map('p', repeat('v', 40000)) as properties"], "at most 32767"),
        (["cast(null as string) as body"], "a row cannot be written: its body is null"),
        (["body", "map('p', 1) as properties"], "is map<string,int>, expected map<string,string>"),
        (["body", "array(1) as keys"], "is array<int>, expected string or array<string>"),
        (["body", "-1 as delay_level"], "delay_level -1: expected 1 to"),
        (["body", "1 as delay_level", "now() as deliver_at"], "give it one of them"),
    ):
        with pytest.raises(Exception, match=text):
            _write(body.selectExpr(*columns), cluster, topic="out")
    with pytest.raises(Exception, match="batchSize='5000000': expected at most 4194304"):
        _write(body, cluster, topic="out", batchSize="5000000")
    with pytest.raises(Exception, match="inFlight=8 and ordered=true exclude each other"):
        _write(body, cluster, topic="out", inFlight="8", ordered="true")
    assert _rows(spark, cluster, "out") == []


def test_a_repeated_write_adds_nothing(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("out", queues=3)
    frame = spark.range(0, 4000, 1, 3).selectExpr("cast(id as string) as body")
    options = {"topic": "out", "delivery": "effectively-once", "queryId": "load-1"}
    _write(frame.where("id < 2500"), cluster, **options, batchCount="50")
    some = len(_rows(spark, cluster, "out"))
    assert some == 2500
    for _ in range(2):
        _write(frame, cluster, **options, batchCount="170")
        rows = _rows(spark, cluster, "out")
        assert sorted(int(bytes(row.body)) for row in rows) == list(range(4000))
    _write(frame, cluster, topic="out", delivery="effectively-once", queryId="load-2")
    assert len(_rows(spark, cluster, "out")) == 8000


def test_a_stream_into_a_topic_whose_batch_fails(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    """One task of each batch fails after its rows are written; the replay writes none twice."""
    cluster.create_topic("in", queues=4)
    cluster.create_topic("out", queues=2)
    send(cluster.name_servers, "in", range(2000))
    flag = tmp_path / "failed"
    name_servers = cluster.name_servers

    def poisoned(batches: Any) -> Any:
        yield from batches
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.partitionId() == 1 and not flag.exists():
            flag.touch()
            given = source_options({"nameServers": name_servers, "topics": "out"})
            brokers = Brokers(given.access)
            queues = brokers.readable_queues(given)
            for _ in range(600):  # until another task has written something
                if sum(brokers.end_offsets(queues).values()):
                    break
                time.sleep(0.05)
            brokers.close()
            raise RuntimeError("this task fails once")

    frame = (
        spark.readStream.format("rocketmq")
        .options(
            nameServers=cluster.name_servers,
            topics="in",
            startingOffsets="earliest",
            minPartitions="3",
        )
        .load()
        .select("body", "keys")
    )
    frame = frame.mapInArrow(poisoned, frame.schema)

    def run() -> None:
        query = (
            frame.writeStream.format("rocketmq")
            .options(nameServers=cluster.name_servers, topic="out", delivery="effectively-once")
            .option("checkpointLocation", str(tmp_path / "check"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    with pytest.raises(Exception, match="this task fails once"):
        run()
    assert _rows(spark, cluster, "out"), "nothing was written before the failure"
    run()
    rows = _rows(spark, cluster, "out")
    assert sorted(json.loads(bytes(row.body))["n"] for row in rows) == list(range(2000))


def test_a_broker_that_restarts_under_the_writer(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    cluster.create_topic("out", queues=2)
    import threading

    restart = threading.Timer(0.2, lambda: (cluster.stop_broker(0), cluster.start_broker(0)))
    restart.start()
    frame = spark.range(0, 60000, 1, 2).selectExpr("cast(id as string) as body")
    _write(frame, cluster, topic="out", delivery="effectively-once", queryId="x", batchCount="100")
    restart.join()
    rows = _rows(spark, cluster, "out")
    assert sorted(int(bytes(row.body)) for row in rows) == list(range(60000))


def test_a_thread_of_its_own_writes(spark: Any, cluster: ClusterThread) -> None:
    """Spark looks for the format in the thread's active session; ``session`` sees to that."""
    from contrailmq.spark import session

    cluster.create_topic("out", queues=2)
    frame = spark.range(100).selectExpr("cast(id as string) as body")

    def write() -> None:
        assert session() is spark
        _write(frame, cluster, topic="out")

    with ThreadPoolExecutor(1) as threads:
        threads.submit(write).result(120)
    assert len(_rows(spark, cluster, "out")) == 100
