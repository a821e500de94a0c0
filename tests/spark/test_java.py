"""Java brokers under the source and the sink: everything a task and a planner do against them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.options import sink_options, source_options, store_options
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.topic import CreateTopicRequest
from contrailmq.spark.columns import message_schema
from contrailmq.spark.reader import TopicReader
from contrailmq.spark.sink import Written, write_rows
from contrailmq.spark.store_reader import StoreTopicReader
from contrailmq.spark.stream import TopicStreamReader
from testkit.golden import VERSIONS
from testkit.peer import JavaCluster

pytestmark = [pytest.mark.spark, pytest.mark.interop]

COUNT = 6000


@pytest.fixture(scope="module", params=VERSIONS)
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A name server and a broker of the original, with topics filled by the sink."""
    home = tmp_path_factory.mktemp(f"spark-java-{request.param}")
    cluster = JavaCluster(request.param, home, serialization="JSON", conf={})
    try:
        for topic in ("orders", "once"):
            _create(cluster, topic)
        written = _write(cluster, "orders")
        assert (written.sent, written.skipped) == (COUNT, 0)
        _await_queues(cluster, "orders")
        yield cluster
    finally:
        cluster.kill()


def _create(cluster: JavaCluster, topic: str) -> None:
    access = source_options({"nameServers": cluster.namesrv, "topics": topic}).access
    brokers = Brokers(access)
    header = CreateTopicRequest(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=4,
        write_queue_nums=4,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    request = Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    assert brokers.wire(cluster.broker_address).call(request).code == 0
    brokers.patiently(lambda: brokers.route(topic))
    brokers.close()


def _await_queues(cluster: JavaCluster, topic: str) -> None:
    """A Java broker puts messages into their queues a moment after it has stored them."""
    given = source_options({"nameServers": cluster.namesrv, "topics": topic})
    brokers = Brokers(given.access)
    queues = brokers.readable_queues(given)
    deadline = time.monotonic() + 60
    while sum(brokers.end_offsets(queues).values()) < COUNT:
        assert time.monotonic() < deadline, "the queues do not fill"
        time.sleep(0.05)
    brokers.close()


def _write(cluster: JavaCluster, topic: str, **options: str) -> Written:
    numbers = range(COUNT)
    batch = pa.record_batch(
        {
            "body": pa.array([b"%d" % n * (1 if n % 100 else 3000) for n in numbers]),
            "keys": pa.array([f"k{n}" for n in numbers]),
            "tags": pa.array([f"t{n % 2}" for n in numbers]),
            "properties": pa.array(
                [[("n", str(n))] for n in numbers], pa.map_(pa.string(), pa.string())
            ),
        }
    )
    given = sink_options({"nameServers": cluster.namesrv, "topic": topic, **options})
    return write_rows(iter([batch.slice(0, 2500), batch.slice(2500)]), given, query="q", batch="1")


def _rows(reader: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for partition in reader.partitions():
        for batch in reader.read(partition):
            found += batch.to_pylist()
    return found


def _read(cluster: JavaCluster, topic: str, **options: str) -> list[dict[str, Any]]:
    given = source_options({"nameServers": cluster.namesrv, "topics": topic, **options})
    return _rows(TopicReader(given, message_schema()))


def _numbers(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(int(dict(row["properties"])["n"]) for row in rows)


def test_what_the_sink_wrote_is_read(java: JavaCluster) -> None:
    rows = _read(java, "orders", minPartitions="3")
    assert _numbers(rows) == list(range(COUNT))
    for row in rows:
        number = int(dict(row["properties"])["n"])
        assert row["body"] == b"%d" % number * (1 if number % 100 else 3000)
        assert (row["keys"], row["tags"]) == (f"k{number}", f"t{number % 2}")
        assert bool(row["sys_flag"] & 1) == (len(row["body"]) >= 4096)
    assert len({row["unique_key"] for row in rows}) == COUNT


def test_filters_run_on_the_broker(java: JavaCluster) -> None:
    assert _numbers(_read(java, "orders", tags="t1")) == list(range(1, COUNT, 2))
    found = _numbers(_read(java, "orders", sql="n BETWEEN 100 AND 250 AND TAGS = 't0'"))
    assert found == list(range(100, 251, 2))


def test_times_are_found_to_the_message(java: JavaCluster) -> None:
    """Many messages of a millisecond, and times between them: 4.9 only answers about so."""
    by_queue: dict[int, list[tuple[int, int]]] = {}
    for row in _read(java, "orders"):
        stored_ms = round(row["store_time"].timestamp() * 1000)
        by_queue.setdefault(row["queue_id"], []).append((row["queue_offset"], stored_ms))
    given = source_options({"nameServers": java.namesrv, "topics": "orders"})
    brokers = Brokers(given.access)
    queues = brokers.readable_queues(given)
    times = sorted({ms for found in by_queue.values() for _, ms in found})
    for ms in {*times[:: max(1, len(times) // 12)], times[0] - 1, times[-1], times[-1] + 1}:
        found = brokers.offsets_at(queues, ms)
        for queue in queues:
            rows = sorted(by_queue[queue.queue_id])
            later = [offset for offset, stored_ms in rows if stored_ms >= ms]
            assert found[queue] == (later[0] if later else len(rows)), (queue, ms)
    brokers.close()


def test_a_stream_and_the_group_that_follows_it(java: JavaCluster) -> None:
    given = {
        "nameServers": java.namesrv,
        "topics": "orders",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "2500",
        "maxBytesPerTrigger": "100000000",
        "group": "spark_java",
    }
    reader = TopicStreamReader(source_options(given), message_schema())
    start = reader.initialOffset()
    sizes, numbers = [], []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        rows = [
            row
            for partition in reader.partitions(start, end)
            for batch in reader.read(partition)
            for row in batch.to_pylist()
        ]
        sizes.append(len(rows))
        numbers += _numbers(rows)
        start = end
    assert sizes == [2500, 2500, 1000]
    assert sorted(numbers) == list(range(COUNT))
    brokers = Brokers(source_options(given).access)
    queues = brokers.readable_queues(source_options(given))
    assert brokers.committed("spark_java", queues) == brokers.end_offsets(queues)
    brokers.close()
    reader.stop()


def test_a_repeated_write_adds_nothing(java: JavaCluster) -> None:
    first = _write(java, "once", delivery="effectively-once", batchCount="90")
    assert (first.sent, first.skipped) == (COUNT, 0)
    _await_queues(java, "once")
    again = _write(java, "once", delivery="effectively-once", batchCount="170")
    assert (again.sent, again.skipped) == (0, COUNT)
    assert _numbers(_read(java, "once")) == list(range(COUNT))


def test_the_files_of_a_running_broker(java: JavaCluster) -> None:
    directory: Path = java.broker.store
    given = store_options({"path": str(directory), "topics": "orders", "broker": "broker-a"})
    rows = _rows(StoreTopicReader(given, message_schema()))
    wanted = _read(java, "orders")
    assert sorted(map(str, rows)) == sorted(map(str, wanted))
