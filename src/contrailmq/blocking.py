"""The client for people without asyncio: the same names, and calls that wait."""

from contrailmq.client.access import Credentials
from contrailmq.client.blocking import Producer, Transaction
from contrailmq.client.blocking_consumers import LitePullConsumer, PullConsumer, PushConsumer
from contrailmq.client.blocking_pop import PoppedMessage, SimpleConsumer
from contrailmq.client.consumer.pull import Pulled, PullStatus
from contrailmq.client.consumer.subscription import Sql
from contrailmq.client.loop_thread import LoopThread
from contrailmq.client.message import Message, Receipt, ReceivedMessage, SendStatus
from contrailmq.client.producer.transaction import TransactionState
from contrailmq.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from contrailmq.protocol.queue import MessageQueue

__all__ = [
    "ClientSettings",
    "ConsumerSettings",
    "Credentials",
    "LitePullConsumer",
    "LoopThread",
    "Message",
    "MessageQueue",
    "PoppedMessage",
    "Producer",
    "ProducerSettings",
    "PullConsumer",
    "PullStatus",
    "Pulled",
    "PushConsumer",
    "Receipt",
    "ReceivedMessage",
    "SendStatus",
    "SimpleConsumer",
    "Sql",
    "Transaction",
    "TransactionState",
]
