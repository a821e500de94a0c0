"""Headers of subscription groups."""

from __future__ import annotations

from contrailmq.protocol.header import Header, Int32, RpcRequest, TopicRequest


class GetConsumerListByGroupRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 38: the ids of the clients that are in this group now."""

    consumer_group: str


class GetAllSubscriptionGroupRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 201: the configuration of all groups; newer peers ask for it in pages."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetAllSubscriptionGroupResponse(Header, frozen=True, kw_only=True):
    """How many groups there are, for those who asked for pages."""

    total_group_num: Int32 | None = None


class GetSubscriptionGroupConfigRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 352: the configuration of one group."""

    group: str


class DeleteSubscriptionGroupRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 207: forget a group; 4.9 names the flag differently from 5.x."""

    group_name: str
    clean_offset: bool | None = None
    remove_offset: bool | None = None

    @property
    def drops_offsets(self) -> bool:
        """Whether the offsets go too, by either name of the flag."""
        return bool(self.clean_offset or self.remove_offset)


class UpdateGroupForbiddenRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 353: may this group read this topic? ``readable`` None only asks."""

    group: str
    topic: str
    readable: bool | None = None
