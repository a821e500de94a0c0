"""Headers of clients as the broker knows them, and of what the broker asks them."""

from __future__ import annotations

from contrailmq.protocol.header import Header, Int32, RpcRequest, TopicRequest, wire


class HeartbeatResponse(Header, frozen=True, kw_only=True):
    """What a 5.x broker adds to the answer to RequestCode 34."""

    is_support_heart_beat_v2: bool | None = wire("IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = wire("IS_SUB_CHANGE", default=None)


class UnregisterClientRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 35: a client leaves a producer group, a consumer group or both."""

    client_id: str = wire("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class NotifyConsumerIdsChangedRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 40, broker to client, oneway: somebody came or went, rebalance."""

    consumer_group: str


class GetConsumerRunningInfoRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 307, forwarded by the broker to the client it names."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 309, forwarded by the broker with the message in the body.

    The name of the broker stands in ``brokerName`` here, besides the common ``bname``.
    """

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    message_broker_name: str | None = wire("brokerName", default=None)
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
