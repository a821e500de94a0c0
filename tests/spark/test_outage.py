"""All brokers of a topic away for a moment, so that the name server has forgotten it."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
import pytest

from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.loss import MessagesLost
from contrailmq.bulk.options import sink_options, source_options
from contrailmq.clock import SystemClock
from contrailmq.errors import NoRoute
from contrailmq.pipelines.courier import Courier
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.topic import DeleteTopicRequest
from contrailmq.spark.columns import message_schema
from contrailmq.spark.reader import TopicReader
from contrailmq.spark.sink import ROUTE_PATIENCE_S, write_rows
from contrailmq.spark.stream import TopicStreamReader
from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

pytestmark = pytest.mark.spark
COUNT = 400


@pytest.fixture
def alone() -> Iterator[ClusterThread]:
    """The only broker, with messages."""
    found = ClusterThread(brokers=1)
    try:
        for topic in ("orders", "copy"):
            found.create_topic(topic, queues=2)
        send(found.name_servers, "orders", range(COUNT))
        yield found
    finally:
        found.close()


@contextmanager
def _outage(cluster: ClusterThread, *, ends_meanwhile: bool = True) -> Iterator[None]:
    """The broker is gone, and known to be; it comes back a second after the work has begun.

    Or only when the work is over, so that nothing depends on who is faster.
    """
    cluster.stop_broker(0)
    given = source_options({"nameServers": cluster.name_servers, "topics": "orders"})
    with closing(Brokers(given.access)) as brokers:
        deadline = time.monotonic() + 60
        while brokers.find_route("orders") is not None:
            assert time.monotonic() < deadline, "the name server remembers"
            brokers.drop("")
            time.sleep(0.05)
    if not ends_meanwhile:
        try:
            yield
        finally:
            cluster.start_broker(0)
        return
    back = threading.Timer(1.0, cluster.start_broker, [0])
    back.start()
    try:
        yield
    finally:
        back.join()


def _options(cluster: ClusterThread, **more: str) -> Any:
    return source_options({"nameServers": cluster.name_servers, "topics": "orders", **more})


def _rows(reader: Any, parts: Any) -> list[dict[str, Any]]:
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def _copied(cluster: ClusterThread) -> Counter[str]:
    given = source_options({"nameServers": cluster.name_servers, "topics": "copy"})
    reader = TopicReader(given, message_schema())
    return Counter(row["keys"] for row in _rows(reader, reader.partitions()))


def _batch(count: int) -> Any:
    return pa.record_batch(
        {
            "body": pa.array([b"x"] * count),
            "keys": pa.array([f"k{number}" for number in range(count)]),
            "unique_key": pa.array([f"{number:032X}" for number in range(count)]),
        }
    )


def test_a_stream_waits_for_what_it_has_seen(alone: ClusterThread) -> None:
    reader = TopicStreamReader(_options(alone, startingOffsets="earliest"), message_schema())
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    with _outage(alone):
        assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
    with _outage(alone):  # tasks of a batch that was planned before
        assert len(_rows(reader, reader.partitions(start, end))) == COUNT
    reader.stop()


@pytest.mark.parametrize("tolerant", [False, True])
def test_a_topic_that_was_deleted_and_made_again_is_noticed(
    alone: ClusterThread, tolerant: bool
) -> None:
    """Although it has more messages than were read of the old one."""
    given = _options(alone, startingOffsets="earliest", failOnDataLoss=str(not tolerant).lower())
    reader = TopicStreamReader(given, message_schema())
    every = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    end = reader.latestOffset(start, every)
    _delete(alone, "orders")
    alone.create_topic("orders", queues=2)
    send(alone.name_servers, "orders", range(5000, 5000 + 2 * COUNT))
    if not tolerant:
        with pytest.raises(MessagesLost, match="the topic was deleted and made again"):
            reader.latestOffset(end, every)
    else:
        found = []
        while (following := reader.latestOffset(end, every)) != end:
            found += _rows(reader, reader.partitions(end, following))
            end = following
        numbers = sorted(json.loads(row["body"])["n"] for row in found)
        assert numbers == list(range(5000, 5000 + 2 * COUNT))
    reader.stop()


def _delete(cluster: ClusterThread, topic: str) -> None:
    header = DeleteTopicRequest(topic=topic)
    with closing(Brokers(_options(cluster).access)) as brokers:
        for address in cluster.addresses:
            request = Command.request(RequestCode.DELETE_TOPIC_IN_BROKER, header)
            assert brokers.wire(address).call(request).code == 0


def test_a_query_that_begins_says_at_once_that_there_is_no_such_topic(
    alone: ClusterThread,
) -> None:
    for_long = _outage(alone, ends_meanwhile=False)
    with for_long, pytest.raises(NoRoute, match="'orders' is not known"):
        TopicReader(_options(alone), message_schema()).partitions()
    with _outage(alone, ends_meanwhile=False), pytest.raises(NoRoute):
        given = sink_options({"nameServers": alone.name_servers, "topic": "copy"})
        write_rows(iter([_batch(3)]), given, query="q", batch="0")


def test_a_streams_sink_waits(alone: ClusterThread) -> None:
    once = {"topic": "copy", "delivery": "effectively-once"}
    given = sink_options({"nameServers": alone.name_servers, **once})
    with _outage(alone):
        done = write_rows(
            iter([_batch(50)]), given, query="q", batch="1", route_patience_s=ROUTE_PATIENCE_S
        )
    assert (done.sent, done.skipped) == (50, 0)
    assert _copied(alone) == Counter(f"k{number}" for number in range(50))


def test_what_is_sent_again_waits(alone: ClusterThread) -> None:
    given = sink_options({"nameServers": alone.name_servers})
    with closing(Courier(given, clock=SystemClock())) as courier:
        assert courier.written("copy", ["00"]) == set()
        with _outage(alone):
            courier.send(_batch(50), topic="copy")
    assert _copied(alone) == Counter(f"k{number}" for number in range(50))
