"""Headers of looking things up: messages, queues, who consumes what."""

from __future__ import annotations

from dataclasses import dataclass

from contrailmq.protocol.header import Header, Int32, RpcRequest, TopicRequest, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessageRequest(TopicRequest):
    """RequestCode 12: messages with a key in a span of time."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: int
    end_timestamp: int
    unique_key_query: bool | None = wire("_UNIQUE_KEY_QUERY", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessageResponse(Header):
    """How far the index reaches."""

    index_last_update_timestamp: int
    index_last_update_phyoffset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewMessageRequest(RpcRequest):
    """RequestCode 33: the message at this commit-log offset."""

    topic: str | None = None
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeQueueRequest(TopicRequest):
    """RequestCode 321: raw entries of a consume queue."""

    topic: str
    queue_id: Int32
    index: int
    count: Int32
    consumer_group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeTimeSpanRequest(TopicRequest):
    """RequestCode 303: first, last and consumed store times of every queue."""

    topic: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTopicConsumeByWhoRequest(TopicRequest):
    """RequestCode 300: the groups that consume a topic."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTopicsByConsumerRequest(RpcRequest):
    """RequestCode 343: the topics a group consumes."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySubscriptionByConsumerRequest(TopicRequest):
    """RequestCode 345: the subscription of a group to a topic."""

    group: str
    topic: str | None = None
