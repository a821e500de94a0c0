"""Messages sent again by tasks: answers that are lost, refusals, tasks that are run twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from contrailmq.bulk.options import sink_options, source_options
from contrailmq.bulk.wire import Wire, command_of
from contrailmq.clock import SystemClock
from contrailmq.errors import ConnectionLost, ContrailError
from contrailmq.pipelines.courier import Courier
from contrailmq.pipelines.resend import CHUNK_ROWS, Resend
from contrailmq.spark.columns import message_schema
from contrailmq.spark.reader import TopicReader
from contrailmq.testing.cluster import ClusterThread

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def brokers() -> Iterator[ClusterThread]:
    """Two brokers; every test has topics of its own."""
    found = ClusterThread(brokers=2)
    try:
        yield found
    finally:
        found.close()


def _batch(numbers: range) -> Any:
    return pa.record_batch(
        {
            "body": pa.array([b"%d" % number for number in numbers]),
            "keys": pa.array([f"k{number}" for number in numbers]),
            "store_time": pa.array([1_000_000 * number for number in numbers], pa.timestamp("us")),
            "unique_key": pa.array([f"{number:032X}" for number in numbers]),
        }
    )


def _found(cluster: ClusterThread, topic: str) -> Counter[int]:
    reader = TopicReader(
        source_options({"nameServers": cluster.name_servers, "topics": topic}), message_schema()
    )
    return Counter(
        int(row["body"])
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    )


def _lose_answers(monkeypatch: pytest.MonkeyPatch, count: int) -> list[int]:
    """The first answers of brokers to batches never arrive: the connection breaks after them."""
    honest = Wire.receive
    lost: list[int] = []

    def receive(wire: Wire) -> Any:
        answers = honest(wire)
        if len(lost) < count and any("msgId" in command_of(one).fields for one in answers):
            lost.append(len(answers))
            raise ConnectionLost("the answer is lost")
        return answers

    monkeypatch.setattr(Wire, "receive", receive)
    return lost


def test_lost_answers_double_nothing(
    brokers: ClusterThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.create_topic("answers", queues=3)
    options = sink_options({"nameServers": brokers.name_servers, "batchCount": "50"})
    lost = _lose_answers(monkeypatch, 2)
    with closing(Courier(options, clock=SystemClock())) as courier:
        courier.send(_batch(range(600)), topic="answers")
        courier.send(_batch(range(600, 700)), topic="answers")
    assert len(lost) == 2
    assert _found(brokers, "answers") == Counter(range(700))


def test_after_a_refusal_only_what_is_missing_is_sent(brokers: ClusterThread) -> None:
    brokers.create_topic("refused", queues=1)
    options = sink_options({"nameServers": brokers.name_servers, "compressOver": "0"})
    wrong = pa.record_batch(
        {
            "body": pa.array([b"1", bytes(5 * 1024 * 1024)]),
            "keys": pa.array(["a", "b"]),
            "unique_key": pa.array([f"{1:032X}", f"{2:032X}"]),
        }
    )
    with closing(Courier(options, clock=SystemClock())) as courier:
        with pytest.raises(ContrailError):
            courier.send(wrong, topic="refused")
        keys = wrong.column("unique_key").to_pylist()
        there = courier.written("refused", keys)
        assert keys[1] not in there
        # What was left of the batch that failed does not go out with the next one.
        courier.send(_batch(range(1, 2) if keys[0] not in there else range(3, 4)), topic="refused")
    assert max(_found(brokers, "refused").values()) == 1


@pytest.mark.parametrize("sent", [0, 1, 300, CHUNK_ROWS + 500])
def test_a_task_that_is_run_again_sends_the_rest(brokers: ClusterThread, sent: int) -> None:
    topic = f"task_{sent}"
    brokers.create_topic(topic, queues=2)
    options = sink_options({"nameServers": brokers.name_servers})
    rows = _batch(range(2 * CHUNK_ROWS))
    with closing(Courier(options, clock=SystemClock())) as courier:
        for start in range(0, sent, CHUNK_ROWS):  # what an executor did before it was lost
            count = min(CHUNK_ROWS, sent - start)
            part = rows.slice(start, count)
            # Of a group that was under way any part may be there.
            courier.send(part if count == CHUNK_ROWS else part.slice(count // 2), topic=topic)
    task = Resend(options=options, topic=topic, check=False)
    (result,) = task(iter([rows.slice(0, 1500), rows.slice(1500)]))
    assert _found(brokers, topic) == Counter(range(2 * CHUNK_ROWS))
    report = result.to_pylist()[0]
    assert report["sent"] + report["there"] == 2 * CHUNK_ROWS
