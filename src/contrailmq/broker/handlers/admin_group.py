"""Administration of subscription groups: request codes 200, 201, 207, 225, 352 and 353."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from contrailmq.broker.tables.counters import Counters
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.versions import page
from contrailmq.errors import InvalidParameter, SubscriptionGroupNotExist, SystemFailure
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.group import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.group import (
    DeleteSubscriptionGroupRequest,
    GetAllSubscriptionGroupRequest,
    GetAllSubscriptionGroupResponse,
    GetSubscriptionGroupConfigRequest,
    UpdateGroupForbiddenRequest,
)
from contrailmq.protocol.names import group_fault
from contrailmq.protocol.versions import V5_0_0

V5_2_0: Final = 453
READ_BIT: Final = 1
GROUPS_PER_REQUEST_MAX: Final = 10_000


class UpdateGroups:
    """Request codes 200 and 225: create groups or change them."""

    def __init__(self, groups: GroupTable) -> None:
        self._groups = groups

    def one(self, request: Command, connection: Connection) -> Command:
        """Code 200."""
        self._put([SubscriptionGroupConfig.decode_request(request.body)])
        return request.reply()

    def many(self, request: Command, connection: Connection) -> Command:
        """Code 225: all of them, or none."""
        self._put(SubscriptionGroupList.decode_request(request.body).group_config_list)
        return request.reply()

    def _put(self, configs: list[SubscriptionGroupConfig]) -> None:
        if len(configs) > GROUPS_PER_REQUEST_MAX:
            raise InvalidParameter(f"{len(configs)} groups at once, at most 10000")
        for config in configs:
            fault = group_fault(config.group_name)
            if fault is not None:
                raise InvalidParameter(fault)
        for config in configs:
            self._groups.put(config)


class ListGroups:
    """Request codes 201 and 352: what groups there are."""

    def __init__(self, groups: GroupTable) -> None:
        self._groups = groups

    def all(self, request: Command, connection: Connection) -> Command:
        """Code 201: every group's configuration, or a page of them (newer than 5.3)."""
        wrapper = self._groups.wrapper()
        if request.version < V5_0_0:
            return request.reply(body=wrapper.encode(legacy=True))
        header = GetAllSubscriptionGroupRequest.from_fields(request.fields)
        seen, start, count = header.data_version, header.group_seq, header.max_group_num
        if (seen, start, count) == (None, None, None):
            return request.reply(body=wrapper.encode())
        table = wrapper.subscription_group_table
        answer = GetAllSubscriptionGroupResponse(total_group_num=len(table))
        table = page(table, wrapper.data_version, seen=seen, start=start, count=count)
        forbidden = wrapper.forbidden_table or {}
        body = SubscriptionGroupWrapper(
            data_version=wrapper.data_version,
            forbidden_table={name: forbidden[name] for name in table if name in forbidden},
            subscription_group_table=table,
        )
        return request.reply(answer, body=body.encode())

    def one(self, request: Command, connection: Connection) -> Command:
        """Code 352: one group's configuration."""
        group = GetSubscriptionGroupConfigRequest.from_fields(request.fields).group
        config = self._groups.find(group)
        if config is None:
            if request.version <= V5_2_0:
                raise SystemFailure("No group in this broker")
            raise SubscriptionGroupNotExist(f"subscription group [{group}] does not exist")
        return request.reply(body=config.encode())


class DeleteGroup:
    """Request code 207: delete a group, and its offsets if that is asked for."""

    def __init__(
        self,
        groups: GroupTable,
        offsets: OffsetTable,
        counters: Counters,
        *,
        on_deleted: Callable[[str], None],
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._counters = counters
        self._on_deleted = on_deleted

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Deleting what is not there succeeds too."""
        header = DeleteSubscriptionGroupRequest.from_fields(request.fields)
        self._groups.delete(header.group_name)
        if header.drops_offsets:
            self._offsets.forget_group(header.group_name)
        self._counters.forget_group(header.group_name)
        self._on_deleted(header.group_name)
        return request.reply()


class ForbidGroup:
    """Request code 353: may a group read a topic? Without ``readable`` it only asks."""

    def __init__(self, groups: GroupTable) -> None:
        self._groups = groups

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Set the bit if it is given; answer what holds now."""
        header = UpdateGroupForbiddenRequest.from_fields(request.fields)
        group, topic = header.group, header.topic
        bits = self._groups.forbidden(group, topic)
        if header.readable is not None:
            wanted = bits & ~READ_BIT if header.readable else bits | READ_BIT
            if wanted != bits:
                self._groups.forbid(group, topic, wanted)
                bits = wanted
        body = GroupForbidden(group=group, topic=topic, readable=not bits & READ_BIT)
        return request.reply(body=body.encode())
