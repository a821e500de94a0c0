"""Headers of topics."""

from __future__ import annotations

from dataclasses import dataclass

from contrailmq.protocol.header import Header, Int32, RpcRequest, TopicRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicRequest(TopicRequest):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicRequest(TopicRequest):
    """RequestCode 215: remove a topic, its queues and its offsets."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicConfigRequest(TopicRequest):
    """RequestCode 351: the configuration of one topic."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllTopicConfigRequest(RpcRequest):
    """RequestCode 21: the configuration of all topics; newer peers ask for it in pages."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllTopicConfigResponse(Header):
    """How many topics there are, for those who asked for pages."""

    total_topic_num: Int32 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicStatsInfoRequest(TopicRequest):
    """RequestCode 202: bounds and last store time of every queue of a topic."""

    topic: str
