"""Test a program that uses RocketMQ, with a real broker that is gone after the test.

pytest -p contrailmq.testing.pytest_plugin examples/test_my_service.py
"""

from __future__ import annotations

import pytest

from contrailmq.blocking import Message, Producer, ProducerSettings, PushConsumer
from contrailmq.errors import NetworkError
from contrailmq.testing.cluster import ClusterThread


def place_order(name_servers: str, number: int) -> str:
    """The program under test."""
    settings = ProducerSettings(send_timeout_s=1.0)
    with Producer("shop", name_servers=name_servers, settings=settings) as producer:
        return producer.send(Message("orders", f"{number}".encode())).message_id


def test_an_order_is_announced(contrail_broker: ClusterThread) -> None:
    """The message is there."""
    message_id = place_order(contrail_broker.name_servers, 42)
    with PushConsumer(
        "test", topics="orders", name_servers=contrail_broker.name_servers, start_from="first"
    ) as consumer:
        message = next(iter(consumer))
        assert (message.message_id, message.body) == (message_id, b"42")


def test_a_broker_that_hangs(contrail_broker: ClusterThread) -> None:
    """The program does not hang with it."""
    contrail_broker.drop()
    with pytest.raises(NetworkError):
        place_order(contrail_broker.name_servers, 43)
