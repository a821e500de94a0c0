"""Headers of topics."""

from __future__ import annotations

from contrailmq.protocol.header import Header, Int32, RpcRequest, TopicRequest


class CreateTopicRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCodes 17 and 513: create a topic or change it.

    ``attributes`` is a comma list of ``+key=value`` and ``-key``.
    """

    topic: str
    default_topic: str = "TBW102"
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


class DeleteTopicRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 215: remove a topic, its queues and its offsets."""

    topic: str


class GetTopicConfigRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 351: the configuration of one topic."""

    topic: str


class GetAllTopicConfigRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 21: the configuration of all topics; newer peers ask for it in pages."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetAllTopicConfigResponse(Header, frozen=True, kw_only=True):
    """How many topics there are, for those who asked for pages."""

    total_topic_num: Int32 | None = None


class GetTopicStatsInfoRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 202: bounds and last store time of every queue of a topic."""

    topic: str
