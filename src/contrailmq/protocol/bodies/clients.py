"""Bodies about connected clients, and what they answer about themselves."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from contrailmq.protocol.bodies.body import Body, Int, Long
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.queue import MessageQueue


class Connection(Body):
    """One connected client."""

    client_addr: str = ""
    client_id: str = ""
    language: str = ""
    version: Int = 0


class ConsumerConnection(Body):
    """Code 203's answer: the clients of a consumer group and what they subscribe to."""

    connection_set: list[Connection] = []
    consume_from_where: str | None = None
    consume_type: str | None = None
    message_model: str | None = None
    subscription_table: dict[str, SubscriptionData] = {}


class ProducerConnection(Body):
    """Code 204's answer: the clients of a producer group."""

    connection_set: list[Connection] = []


class ProducerInfo(Body):
    """One client of a producer group, with the time of its last heartbeat."""

    client_id: str = ""
    language: str = ""
    last_update_timestamp: Long = 0
    remote_ip: str = msgspec.field(name="remoteIP", default="")
    version: Int = 0


class ProducerTableInfo(Body):
    """Code 328's answer: all producer groups."""

    data: dict[str, list[ProducerInfo]] = {}


class ProcessQueueInfo(Body):
    """What a push consumer holds of one queue."""

    cached_msg_count: Int = 0
    cached_msg_max_offset: Long = 0
    cached_msg_min_offset: Long = 0
    cached_msg_size_in_mib: Int = msgspec.field(name="cachedMsgSizeInMiB", default=0)
    commit_offset: Long = 0
    droped: bool = False  # spelled so on the wire
    last_consume_timestamp: Long = 0
    last_lock_timestamp: Long = 0
    last_pull_timestamp: Long = 0
    locked: bool = False
    transaction_msg_count: Int = 0
    transaction_msg_max_offset: Long = 0
    transaction_msg_min_offset: Long = 0
    try_unlock_times: Long = 0


class PopProcessQueueInfo(Body):
    """What a consumer holds of one queue it pops."""

    droped: bool = False  # spelled so on the wire
    last_pop_timestamp: Long = 0
    wait_ack_count: Int = 0


class ConsumeStatus(Body):
    """The rates of one topic in a consumer."""

    consume_failed_msgs: Long = 0
    consume_failed_tps: float = msgspec.field(name="consumeFailedTPS", default=0.0)
    consume_ok_tps: float = msgspec.field(name="consumeOKTPS", default=0.0)
    consume_rt: float = msgspec.field(name="consumeRT", default=0.0)
    pull_rt: float = msgspec.field(name="pullRT", default=0.0)
    pull_tps: float = msgspec.field(name="pullTPS", default=0.0)


class ConsumerRunningInfo(Body):
    """Code 307's answer: the inside of a running consumer."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"mq_pop_table", "user_consumer_info"})

    jstack: str | None = None
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] = {}
    mq_table: dict[MessageQueue, ProcessQueueInfo] = {}
    properties: dict[str, str] = {}
    status_table: dict[str, ConsumeStatus] = {}
    subscription_set: list[SubscriptionData] = []
    user_consumer_info: dict[str, Any] = {}


class ConsumeMessageDirectlyResult(Body):
    """Code 309's answer: what a listener said to one message."""

    auto_commit: bool = True
    consume_result: str | None = None
    order: bool = False
    remark: str | None = None
    spent_time_mills: Long = 0
