"""RocketMQ in Python: name server, broker, client and Spark pipeline.

The client's names are loaded when they are first used, so that importing the package costs
nothing to those who need another part of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contrailmq.admin.client import AdminClient
    from contrailmq.client.access import Credentials, Tls
    from contrailmq.client.consumer.lite import LitePullConsumer
    from contrailmq.client.consumer.pop_push import PopConsumer
    from contrailmq.client.consumer.pops import PoppedMessage
    from contrailmq.client.consumer.pull import PullConsumer, Pulled, PullStatus
    from contrailmq.client.consumer.push import PushConsumer
    from contrailmq.client.consumer.simple import SimpleConsumer
    from contrailmq.client.consumer.subscription import Sql
    from contrailmq.client.message import Message, Receipt, ReceivedMessage, SendStatus
    from contrailmq.client.producer.producer import Producer
    from contrailmq.client.producer.queue_choice import Selector
    from contrailmq.client.producer.transaction import Transaction, TransactionState
    from contrailmq.client.settings import (
        ClientSettings,
        ConsumerSettings,
        ProducerSettings,
        World,
    )
    from contrailmq.errors import (
        BrokerError,
        ClientError,
        ConnectFailed,
        ConnectionLost,
        ContrailError,
        NetworkError,
        NoPermission,
        NoRoute,
        RequestTimeout,
        TopicNotExist,
    )
    from contrailmq.protocol.queue import MessageQueue
    from contrailmq.version import VERSION as __version__

__all__ = [
    "AdminClient",
    "BrokerError",
    "ClientError",
    "ClientSettings",
    "ConnectFailed",
    "ConnectionLost",
    "ConsumerSettings",
    "ContrailError",
    "Credentials",
    "LitePullConsumer",
    "Message",
    "MessageQueue",
    "NetworkError",
    "NoPermission",
    "NoRoute",
    "PopConsumer",
    "PoppedMessage",
    "Producer",
    "ProducerSettings",
    "PullConsumer",
    "PullStatus",
    "Pulled",
    "PushConsumer",
    "Receipt",
    "ReceivedMessage",
    "RequestTimeout",
    "Selector",
    "SendStatus",
    "SimpleConsumer",
    "Sql",
    "Tls",
    "TopicNotExist",
    "Transaction",
    "TransactionState",
    "World",
    "__version__",
]

_HOMES = {
    "AdminClient": "contrailmq.admin.client",
    "BrokerError": "contrailmq.errors",
    "ClientError": "contrailmq.errors",
    "ClientSettings": "contrailmq.client.settings",
    "ConnectFailed": "contrailmq.errors",
    "ConnectionLost": "contrailmq.errors",
    "ConsumerSettings": "contrailmq.client.settings",
    "ContrailError": "contrailmq.errors",
    "Credentials": "contrailmq.client.access",
    "LitePullConsumer": "contrailmq.client.consumer.lite",
    "Message": "contrailmq.client.message",
    "MessageQueue": "contrailmq.protocol.queue",
    "NetworkError": "contrailmq.errors",
    "NoPermission": "contrailmq.errors",
    "NoRoute": "contrailmq.errors",
    "PopConsumer": "contrailmq.client.consumer.pop_push",
    "PoppedMessage": "contrailmq.client.consumer.pops",
    "Producer": "contrailmq.client.producer.producer",
    "ProducerSettings": "contrailmq.client.settings",
    "PullConsumer": "contrailmq.client.consumer.pull",
    "PullStatus": "contrailmq.client.consumer.pull",
    "Pulled": "contrailmq.client.consumer.pull",
    "PushConsumer": "contrailmq.client.consumer.push",
    "Receipt": "contrailmq.client.message",
    "ReceivedMessage": "contrailmq.client.message",
    "RequestTimeout": "contrailmq.errors",
    "Selector": "contrailmq.client.producer.queue_choice",
    "SendStatus": "contrailmq.client.message",
    "SimpleConsumer": "contrailmq.client.consumer.simple",
    "Sql": "contrailmq.client.consumer.subscription",
    "Tls": "contrailmq.client.access",
    "TopicNotExist": "contrailmq.errors",
    "Transaction": "contrailmq.client.producer.transaction",
    "TransactionState": "contrailmq.client.producer.transaction",
    "World": "contrailmq.client.settings",
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
