"""Headers of looking things up: messages, queues, who consumes what."""

from __future__ import annotations

from contrailmq.protocol.header import Header, Int32, RpcRequest, TopicRequest, wire


class QueryMessageRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 12: messages with a key in a span of time."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: int
    end_timestamp: int
    unique_key_query: bool | None = wire("_UNIQUE_KEY_QUERY", default=None)


class QueryMessageResponse(Header, frozen=True, kw_only=True):
    """How far the index reaches."""

    index_last_update_timestamp: int
    index_last_update_phyoffset: int


class ViewMessageRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 33: the message at this commit-log offset."""

    topic: str | None = None
    offset: int


class QueryConsumeQueueRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 321: raw entries of a consume queue."""

    topic: str
    queue_id: Int32
    index: int
    count: Int32
    consumer_group: str | None = None


class QueryConsumeTimeSpanRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 303: first, last and consumed store times of every queue."""

    topic: str
    group: str


class QueryTopicConsumeByWhoRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 300: the groups that consume a topic."""

    topic: str


class QueryTopicsByConsumerRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 343: the topics a group consumes."""

    group: str


class QuerySubscriptionByConsumerRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 345: the subscription of a group to a topic."""

    group: str
    topic: str | None = None
