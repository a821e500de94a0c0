"""The rows of a partition come in one order, however a broker divides its answers.

Rows are known by their numbers when a batch is written again (effectively once): a partition that
came in another order would lose some and write others twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.loss import Losses
from contrailmq.bulk.options import source_options
from contrailmq.bulk.planning import QueueRange
from contrailmq.bulk.pull import Puller, Subscription
from contrailmq.protocol.message import decode_record
from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

pytestmark = pytest.mark.spark
COUNT = 6000


@pytest.fixture(scope="module", params=["3", "32", "4096"])
def topic(request: pytest.FixtureRequest) -> Iterator[ClusterThread]:
    """A topic of a broker that gives so many messages to a pull at most."""
    found = ClusterThread(properties={"maxTransferCountOnMessageInMemory": request.param})
    try:
        found.create_topic("in", queues=5)
        send(found.name_servers, "in", range(COUNT))
        yield found
    finally:
        found.close()


@pytest.mark.parametrize("held_size_max", [1, 10_000, None])
@pytest.mark.parametrize("expression", ["*", "t0 || t1"])
def test_queue_by_queue(
    topic: ClusterThread,
    expression: str,
    held_size_max: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if held_size_max is not None:
        monkeypatch.setattr("contrailmq.bulk.pull.HELD_SIZE_MAX", held_size_max)
    given = source_options({"nameServers": topic.name_servers, "topics": "in"})
    with closing(Brokers(given.access)) as brokers:
        queues = brokers.readable_queues(given)
        ranges = [QueueRange(q, 0, end) for q, end in brokers.end_offsets(queues).items()]
        ranges = [*ranges[2:], *ranges[:2]]  # their order is the plan's, not that of numbers
        found = []
        wanted = Subscription("test", expression)
        for group in Puller(brokers, wanted, losses=Losses(fail=True)).read(ranges):
            records = [decode_record(group.data, at) for at in group.positions]
            found += [(record.queue_id, record.queue_offset) for record in records]
    assert found == [(r.queue.queue_id, at) for r in ranges for at in range(r.start, r.end)]
    assert len(found) == COUNT


def test_few_groups_of_many_records(topic: ClusterThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are made fast of many records at once: small pieces come together."""
    monkeypatch.setattr("contrailmq.bulk.wire.ARENA_SIZE", 64 * 1024)
    given = source_options({"nameServers": topic.name_servers, "topics": "in"})
    with closing(Brokers(given.access)) as brokers:
        queues = brokers.readable_queues(given)
        ranges = [QueueRange(q, 0, end) for q, end in brokers.end_offsets(queues).items()]
        puller = Puller(brokers, Subscription("test"), losses=Losses(fail=True))
        sizes = [len(group.positions) for group in puller.read(ranges)]
    assert sum(sizes) == COUNT
    assert len(sizes) <= 4
