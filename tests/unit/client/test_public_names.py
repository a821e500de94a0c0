"""What a program needs is importable from ``contrailmq``; JSON bodies have a short way."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import contrailmq
from contrailmq import ClientError, ContrailError, Message
from contrailmq.client.arguments import json_value


@dataclass
class Order:
    number: int
    items: list[str]


def test_every_public_name_can_be_imported_and_is_listed() -> None:
    for name in contrailmq.__all__:
        assert getattr(contrailmq, name) is not None
        assert name in dir(contrailmq)
    assert {"AdminClient", "World", "NoRoute", "BrokerError"} <= set(contrailmq.__all__)
    assert issubclass(contrailmq.NoRoute, ContrailError)


def test_json_bodies_there_and_back() -> None:
    sent = Message.json("T", Order(7, ["a", "b"]), tags="new", keys=["7"])
    assert (sent.topic, sent.tags, sent.keys) == ("T", "new", ("7",))
    assert sent.body == b'{"number":7,"items":["a","b"]}'
    with pytest.raises(ClientError, match="cannot be written as JSON"):
        Message.json("T", object())
    assert json_value(bytes(sent.body), Order) == Order(7, ["a", "b"])
    with pytest.raises(ClientError, match="of Order"):
        json_value(b'{"number":"x"}', Order)
    with pytest.raises(ClientError, match="12 bytes is no JSON"):
        json_value(b"\xff" * 12)
