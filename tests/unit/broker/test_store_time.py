"""The writer's time is that of the last record: the checkpoint vouches for it, and no later."""

from __future__ import annotations

from contrailmq.blocking import Message, Producer
from contrailmq.testing.cluster import ClusterThread


def test_requests_that_store_nothing_leave_it_alone() -> None:
    cluster = ClusterThread()
    try:
        store = cluster._cluster.brokers[0].broker.parts.store
        with Producer("times", name_servers=cluster.name_servers) as producer:
            producer.send(Message("times", b"first"))
            receipt = producer.send(Message("times", b"second"))
        stored_ms = store.store_time("times", receipt.queue.queue_id, receipt.offset)
        for number in range(3):  # each goes over a connection of its own, which takes its time
            cluster.create_topic(f"another-{number}")
        assert store.log.writer.store_ms == stored_ms > 0
    finally:
        cluster.close()
