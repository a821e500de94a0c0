"""Topics as DataFrames, read once: every row, every way to begin and end, filters, partitions."""

from __future__ import annotations

import datetime
import json
import time
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan

from contrailmq.bulk.options import source_options
from contrailmq.bulk.planning import QueueRange
from contrailmq.errors import ConfigError
from contrailmq.spark.columns import message_schema
from contrailmq.spark.reader import TopicReader
from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

pytestmark = pytest.mark.spark


def _read(spark: Any, cluster: ClusterThread, **options: str) -> Any:
    return spark.read.format("rocketmq").options(nameServers=cluster.name_servers, **options).load()


def _numbers(frame: Any) -> list[int]:
    return sorted(json.loads(bytes(row.body))["n"] for row in frame.collect())


def test_every_row_has_every_column(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("orders", queues=3)
    send(cluster.name_servers, "orders", range(5000))
    rows = _read(spark, cluster, topics="orders").collect()
    assert sorted(int(row.properties["n"]) for row in rows) == list(range(5000))
    assert {row.broker for row in rows} == {"broker-a", "broker-b"}
    for row in rows:
        number = int(row.properties["n"])
        assert json.loads(bytes(row.body))["n"] == number
        assert (row.topic, row.tags, row.keys) == ("orders", f"t{number % 2}", f"k{number}")
        assert row.unique_key == row.properties["UNIQ_KEY"]
        assert row.born_time <= row.store_time
        assert row.born_host.startswith("127.0.0.1:")
        assert (row.reconsume_times, row.sys_flag) == (0, 0)
        assert len(row.message_id) == 32
    places = {(row.broker, row.queue_id, row.queue_offset) for row in rows}
    assert len(places) == 5000
    own = _read(spark, cluster, topics="orders", properties="own").collect()
    assert len(own) == len(rows)
    for row in own:
        number = int(row.properties["n"])
        colour = "blue" if number % 3 else "red"
        assert row.properties == {"n": str(number), "colour": colour}
        assert (row.tags, row.keys) == (f"t{number % 2}", f"k{number}")


def test_ways_to_begin_and_to_end(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.name_servers, "orders", range(400))
    time.sleep(0.05)
    border = str(time.time_ns() // 1_000_000)
    time.sleep(0.05)
    send(cluster.name_servers, "orders", range(400, 1000))
    assert _numbers(_read(spark, cluster, topics="orders", startingTimestamp=border)) == list(
        range(400, 1000)
    )
    assert _numbers(_read(spark, cluster, topics="orders", endingTimestamp=border)) == list(
        range(400)
    )
    assert _numbers(_read(spark, cluster, topics="orders", startingOffsets="latest")) == []
    everything = _read(spark, cluster, topics="orders").collect()
    sizes = Counter((row.broker, row.queue_id) for row in everything)
    (some, _), (other, size) = sizes.most_common(2)
    assert size > 10
    firsts = {some: 10, other: 7}

    def given(offsets: dict[tuple[str, int], int]) -> str:
        nested: dict[str, dict[str, int]] = {}
        for (broker, queue_id), offset in offsets.items():
            nested.setdefault(broker, {})[str(queue_id)] = offset
        return json.dumps({"orders": nested})

    def ids(rows: Any) -> list[str]:
        return sorted(row.message_id for row in rows)

    def first_of(row: Any) -> int:
        return firsts.get((row.broker, row.queue_id), 0)

    found = _read(spark, cluster, topics="orders", startingOffsets=given(firsts)).collect()
    assert ids(found) == ids(row for row in everything if row.queue_offset >= first_of(row))
    marks = given({some: -1, other: -2})
    found = _read(spark, cluster, topics="orders", startingOffsets=marks).collect()
    assert ids(found) == ids(r for r in everything if (r.broker, r.queue_id) != some)
    # Queues that are left out are read to their ends.
    found = _read(spark, cluster, topics="orders", endingOffsets=given(firsts)).collect()
    assert ids(found) == ids(
        r for r in everything if r.queue_offset < firsts.get((r.broker, r.queue_id), 10**6)
    )
    beyond = {"topics": "orders", "startingOffsets": given({some: 5000})}
    with pytest.raises(Exception, match=r"offsets \d+ to 4999 .*not in the queue"):
        _read(spark, cluster, **beyond).collect()
    found = _read(spark, cluster, **beyond, failOnDataLoss="false").collect()
    assert ids(found) == ids(r for r in everything if (r.broker, r.queue_id) != some)


def test_filters_run_on_the_broker(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.name_servers, "orders", range(3000))
    odd = _numbers(_read(spark, cluster, topics="orders", tags="t1 || other"))
    assert odd == list(range(1, 3000, 2))
    red = _numbers(_read(spark, cluster, topics="orders", sql="colour = 'red' AND n > 1500"))
    assert red == [n for n in range(1501, 3000) if n % 3 == 0]
    # Asked for messages, a broker passes all of them if it does not understand the condition.
    with pytest.raises(Exception, match="sql='n >< 3': expected a value"):
        _read(spark, cluster, topics="orders", sql="n >< 3").collect()


def test_a_condition_that_a_broker_refuses_is_an_error() -> None:
    cluster = ClusterThread(properties={"enablePropertyFilter": "false"})
    try:
        cluster.create_topic("orders", queues=1)
        given = {"nameServers": cluster.name_servers, "topics": "orders", "sql": "n = 3"}
        with pytest.raises(ConfigError, match=r"refused by broker broker-a: .*SQL92"):
            TopicReader(source_options(given), message_schema()).partitions()
    finally:
        cluster.close()


def test_conditions_narrow_what_is_planned(cluster: ClusterThread) -> None:
    """Rows are right without push-down too; here is what is read for them."""
    cluster.create_topic("orders", queues=2)
    cluster.create_topic("other", queues=1)
    send(cluster.name_servers, "orders", range(1000))
    send(cluster.name_servers, "other", range(10))
    given = {"nameServers": cluster.name_servers, "topics": "orders,other", "pushDown": "true"}
    now = datetime.datetime.now(datetime.UTC)

    def planned(*conditions: Any) -> tuple[list[QueueRange], str]:
        reader = TopicReader(source_options(given), message_schema())
        left = list(reader.pushFilters(conditions))
        assert [type(found) for found in left] == [
            type(found)
            for found in conditions
            if found.attribute[0] in ("tags", "store_time", "keys")
        ], "what is not done exactly is done again by Spark"
        parts: Any = reader.partitions()
        ranges = [each for part in parts for each in part.ranges]
        return ranges, parts[0].subscription.expression if parts else ""

    everything, _ = planned()
    assert sum(part.size for part in everything) == 1010
    one = everything[0].queue
    ranges, _ = planned(EqualTo(("topic",), "other"))
    assert {part.queue.topic for part in ranges} == {"other"}
    ranges, _ = planned(
        EqualTo(("topic",), one.topic),
        EqualTo(("broker",), one.broker_name),
        EqualTo(("queue_id",), one.queue_id),
        GreaterThanOrEqual(("queue_offset",), 3),
        LessThan(("queue_offset",), 9),
    )
    assert ranges == [QueueRange(one, 3, 9)]
    ranges, expression = planned(In(("tags",), ("t1", "t7")))
    assert (ranges, expression) == (everything, "t1 || t7")
    hour = datetime.timedelta(hours=1)
    assert planned(GreaterThan(("store_time",), now + hour)) == ([], "")
    assert planned(LessThan(("store_time",), now - hour)) == ([], "")
    assert planned(GreaterThan(("store_time",), now - hour))[0] == everything
    assert planned(EqualTo(("keys",), "k1"))[0] == everything


def test_conditions_are_pushed_down_by_option(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.name_servers, "orders", range(3000))
    options = {"topics": "orders", "pushDown": "true", "minPartitions": "4"}
    even = _read(spark, cluster, **options).where("tags = 't0'")
    assert _numbers(even) == list(range(0, 3000, 2))
    nothing = _read(spark, cluster, **options).where("broker = 'broker-a' and queue_id = 7")
    assert _numbers(nothing) == []
    frame = _read(spark, cluster, **options)
    some = frame.where("queue_id = 1 and broker = 'broker-b' and queue_offset between 5 and 9")
    assert [row.queue_offset for row in some.collect()] == [5, 6, 7, 8, 9]
    now = _read(spark, cluster, **options).where("store_time > timestamp '2020-01-01'")
    assert len(_numbers(now)) == 3000
    later = _read(spark, cluster, **options).where("store_time > timestamp '2120-01-01'")
    assert _numbers(later) == []


def test_partitions_follow_the_size(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("orders", queues=8)
    send(cluster.name_servers, "orders", range(2000))
    few = _read(spark, cluster, topics="orders")
    assert few.rdd.getNumPartitions() == 1
    many = _read(spark, cluster, topics="orders", minPartitions="5")
    assert many.rdd.getNumPartitions() == 5
    assert _numbers(many) == list(range(2000))
    small = _read(spark, cluster, topics="orders", maxRecordsPerPartition="300")
    assert small.rdd.getNumPartitions() == 7
    assert _numbers(small) == list(range(2000))


def test_topics_by_list_pattern_and_assignment(spark: Any, cluster: ClusterThread) -> None:
    for topic, numbers in (("orders_eu", range(10)), ("orders_us", range(10, 30))):
        cluster.create_topic(topic, queues=2)
        send(cluster.name_servers, topic, numbers)
    assert _numbers(_read(spark, cluster, topics="orders_eu,orders_us")) == list(range(30))
    assert _numbers(_read(spark, cluster, topicsPattern="orders_.*")) == list(range(30))
    assert _numbers(_read(spark, cluster, topicsPattern=".*us")) == list(range(10, 30))
    every = _read(spark, cluster, topics="orders_us").collect()
    place = (every[0].broker, every[0].queue_id)
    chosen = _read(
        spark, cluster, assign=json.dumps({"orders_us": {place[0]: [place[1]]}})
    ).collect()
    wanted = [row.message_id for row in every if (row.broker, row.queue_id) == place]
    assert sorted(row.message_id for row in chosen) == sorted(wanted)
    for wrong, text in (
        ('{"orders_us": [0, 7]}', r"queues \[7\] of topic orders_us, .*there are \[0, 1\]"),
        ('{"orders_us": {"broker-z": [0]}}', r"not on broker broker-z; there are \[\]"),
    ):
        with pytest.raises(Exception, match=text):
            _read(spark, cluster, assign=wrong).collect()
    with pytest.raises(Exception, match="startingOffsets names queue 0 of topic orders_us on brok"):
        _read(
            spark,
            cluster,
            topics="orders_us",
            startingOffsets='{"orders_us": {"broker-z": {"0": 1}}}',
        ).collect()
    with pytest.raises(Exception, match="'nowhere' is not known to the name servers"):
        _read(spark, cluster, topics="nowhere").collect()
    with pytest.raises(Exception, match="give one of the options topics"):
        _read(spark, cluster).collect()


def test_an_empty_topic_is_an_empty_frame(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("orders", queues=2)
    assert _read(spark, cluster, topics="orders").collect() == []


def test_a_given_schema_chooses_columns(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.name_servers, "orders", range(100))
    reader = spark.read.format("rocketmq").options(
        nameServers=cluster.name_servers, topics="orders"
    )
    frame = reader.schema("tags STRING, queue_offset BIGINT").load()
    assert {tuple(row) for row in frame.select("tags").collect()} == {("t0",), ("t1",)}


def test_big_and_compressed_bodies(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("orders", queues=1)
    send(cluster.name_servers, "orders", range(40), size=20_000)
    rows = _read(spark, cluster, topics="orders").collect()
    assert sorted(json.loads(bytes(row.body))["n"] for row in rows) == list(range(40))


def test_a_broker_that_is_away_for_a_moment(spark: Any, cluster: ClusterThread) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.name_servers, "orders", range(1000))
    frame = _read(spark, cluster, topics="orders")
    cluster.stop_broker(1)
    cluster.start_broker(1)
    assert _numbers(frame) == list(range(1000))


def test_json_bodies_become_columns(spark: Any, cluster: ClusterThread) -> None:
    from contrailmq.spark import json_body

    cluster.create_topic("orders", queues=1)
    send(cluster.name_servers, "orders", range(50))
    frame = _read(spark, cluster, topics="orders")
    by_schema = json_body(frame, "n INT, pad STRING").where("json.n >= 40")
    assert by_schema.count() == 10
    by_sample = json_body(frame).selectExpr("sum(json.n)").first()
    assert by_sample[0] == sum(range(50))
    by_text = json_body(frame, sample='{"n": 1}')
    assert by_text.select("json.*").columns == ["n"]
