"""The client for people without asyncio: the same names, and calls that wait."""

from contrailmq.client.access import Credentials
from contrailmq.client.blocking import Producer, Transaction
from contrailmq.client.blocking_consumers import LitePullConsumer, PullConsumer, PushConsumer
from contrailmq.client.consumer.pull import Pulled, PullStatus
from contrailmq.client.consumer.subscription import Sql
from contrailmq.client.loop_thread import LoopThread
from contrailmq.client.message import Message, Receipt, ReceivedMessage, SendStatus
from contrailmq.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from contrailmq.client.transaction import TransactionState
from contrailmq.protocol.queue import MessageQueue

__all__ = [
    "ClientSettings",
    "ConsumerSettings",
    "Credentials",
    "LitePullConsumer",
    "LoopThread",
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
    "SendStatus",
    "Sql",
    "Transaction",
    "TransactionState",
]
