"""What a transaction says of itself, and of a producer that cannot answer for it."""

from __future__ import annotations

import logging
from contextlib import closing

import pytest

from contrailmq import Message
from contrailmq.blocking import Producer
from contrailmq.testing.cluster import ClusterThread


def test_a_transaction_shows_where_it_is(caplog: pytest.LogCaptureFixture) -> None:
    with closing(ClusterThread()) as cluster, caplog.at_level(logging.WARNING):
        cluster.create_topic("orders")
        with Producer("shop", name_servers=cluster.name_servers) as producer:
            transaction = producer.transaction(Message("orders", b"1"))
            assert repr(transaction) == "<Transaction topic=orders group=shop not begun open>"
            with transaction:
                transaction.rollback()
            assert f"id={transaction.transaction_id} rollback>" in repr(transaction)
            with producer.transaction(Message("orders", b"2")):
                pass
        told = [entry.getMessage() for entry in caplog.records if "check=" in entry.getMessage()]
        assert len(told) == 1
        assert "group=shop" in told[0]
        with Producer(
            "asked", name_servers=cluster.name_servers, check=lambda message: True
        ) as producer, producer.transaction(Message("orders", b"3")):  # fmt: skip
            pass
    assert not any("group=asked" in entry.getMessage() for entry in caplog.records)
