"""RocketMQ in Python: name server, broker, client and Spark pipeline.

The client's names are loaded when they are first used, so that importing the package costs
nothing to those who need another part of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contrailmq.client.access import Credentials
    from contrailmq.client.choose import Selector
    from contrailmq.client.consumer.lite import LitePullConsumer
    from contrailmq.client.consumer.pull import PullConsumer, Pulled, PullStatus
    from contrailmq.client.consumer.push import PushConsumer
    from contrailmq.client.consumer.subscription import Sql
    from contrailmq.client.message import Message, Receipt, ReceivedMessage, SendStatus
    from contrailmq.client.producer import Producer
    from contrailmq.client.settings import (
        ClientSettings,
        ConsumerSettings,
        ProducerSettings,
    )
    from contrailmq.client.transaction import Transaction, TransactionState
    from contrailmq.protocol.queue import MessageQueue
    from contrailmq.version import VERSION as __version__

__all__ = [
    "ClientSettings",
    "ConsumerSettings",
    "Credentials",
    "LitePullConsumer",
    "Message",
    "MessageQueue",
    "Producer",
    "ProducerSettings",
    "PullConsumer",
    "PullStatus",
    "Pulled",
    "PushConsumer",
    "Receipt",
    "ReceivedMessage",
    "Selector",
    "SendStatus",
    "Sql",
    "Transaction",
    "TransactionState",
    "__version__",
]

_HOMES = {
    "ClientSettings": "contrailmq.client.settings",
    "ConsumerSettings": "contrailmq.client.settings",
    "Credentials": "contrailmq.client.access",
    "LitePullConsumer": "contrailmq.client.consumer.lite",
    "Message": "contrailmq.client.message",
    "MessageQueue": "contrailmq.protocol.queue",
    "Producer": "contrailmq.client.producer",
    "ProducerSettings": "contrailmq.client.settings",
    "PullConsumer": "contrailmq.client.consumer.pull",
    "PullStatus": "contrailmq.client.consumer.pull",
    "Pulled": "contrailmq.client.consumer.pull",
    "PushConsumer": "contrailmq.client.consumer.push",
    "Receipt": "contrailmq.client.message",
    "ReceivedMessage": "contrailmq.client.message",
    "Selector": "contrailmq.client.choose",
    "SendStatus": "contrailmq.client.message",
    "Sql": "contrailmq.client.consumer.subscription",
    "Transaction": "contrailmq.client.transaction",
    "TransactionState": "contrailmq.client.transaction",
}


def __getattr__(name: str) -> Any:
    """Load a public name from where it lives."""
    if name == "__version__":
        return importlib.import_module("contrailmq.version").VERSION
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'contrailmq' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})
