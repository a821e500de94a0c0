"""Headers of consumer offsets and of the bounds of queues."""

from __future__ import annotations

from contrailmq.protocol.header import Header, Int32, RpcRequest, TopicRequest


class QueryConsumerOffsetRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 14: where did this group last commit in this queue?"""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class QueryConsumerOffsetResponse(Header, frozen=True, kw_only=True):
    """The committed offset."""

    offset: int


class UpdateConsumerOffsetRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 15, mostly oneway: this group has consumed this queue up to here."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: int


class SearchOffsetRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 29: the offset of a point in time; ``boundary_type`` is LOWER or UPPER."""

    topic: str
    queue_id: Int32
    timestamp: int
    boundary_type: str | None = None

    @property
    def is_upper(self) -> bool:
        """Whether the upper bound is asked for; every other text means the lower one."""
        return self.boundary_type is not None and self.boundary_type.upper() == "UPPER"


class SearchOffsetResponse(Header, frozen=True, kw_only=True):
    """The offset found."""

    offset: int


class GetMaxOffsetRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 30: the offset the next message of this queue will have."""

    topic: str
    queue_id: Int32
    committed: bool | None = None


class GetMaxOffsetResponse(Header, frozen=True, kw_only=True):
    """The offset after the last message."""

    offset: int


class GetMinOffsetRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 31: the offset of the oldest message of this queue."""

    topic: str
    queue_id: Int32


class GetMinOffsetResponse(Header, frozen=True, kw_only=True):
    """The offset of the first message."""

    offset: int


class GetEarliestMsgStoretimeRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 32: when was the oldest message of this queue stored?"""

    topic: str
    queue_id: Int32


class GetEarliestMsgStoretimeResponse(Header, frozen=True, kw_only=True):
    """The store time, -1 when unknown."""

    timestamp: int


class ResetOffsetRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCodes 222 (admin to broker) and 220 (broker to client): go to a point in time."""

    topic: str
    group: str
    timestamp: int
    is_force: bool = False
    queue_id: Int32 | None = None
    offset: int | None = None


class GetConsumerStatusRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCodes 223 (admin to broker) and 221 (broker to client): where do clients stand?"""

    topic: str
    group: str
    client_addr: str | None = None


class CloneGroupOffsetRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 314: give one group the offsets of another."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class QueryCorrectionOffsetRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 308: the smallest offsets of other groups; ``filter_groups`` has commas."""

    topic: str
    compare_group: str
    filter_groups: str | None = None
