"""Offsets: what groups committed (14, 15) and where queues begin and end (29 to 32)."""

from __future__ import annotations

from typing import Protocol

from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.topics import TopicTable, topic_missing
from contrailmq.errors import InvalidParameter, QueryNotFound, SubscriptionGroupNotExist
from contrailmq.net.connection import Connection
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.offset import (
    GetEarliestMsgStoretimeRequest,
    GetEarliestMsgStoretimeResponse,
    GetMaxOffsetRequest,
    GetMaxOffsetResponse,
    GetMinOffsetRequest,
    GetMinOffsetResponse,
    QueryConsumerOffsetRequest,
    QueryConsumerOffsetResponse,
    SearchOffsetRequest,
    SearchOffsetResponse,
    UpdateConsumerOffsetRequest,
)
from contrailmq.protocol.names import is_lmq
from contrailmq.protocol.versions import V5_0_0


class FirstMessages(Protocol):
    """What a new group's first offset depends on."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First and next offset of a queue."""
        ...

    def is_in_memory(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a message is within what the original calls the memory window."""
        ...


class QueueBounds(Protocol):
    """Where queues begin and end, by offset and by time."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First and next offset of a queue."""
        ...

    def offset_by_time(self, topic: str, queue_id: int, ms: int, *, upper: bool = False) -> int:
        """The offset a point in time stands for."""
        ...

    def earliest_time(self, topic: str | None = None, queue_id: int | None = None) -> int:
        """When the oldest message was stored, -1 when there is none."""
        ...


class QueryConsumerOffset:
    """Request code 14."""

    def __init__(self, offsets: OffsetTable, topics: TopicTable, queues: FirstMessages) -> None:
        self._offsets = offsets
        self._topics = topics
        self._queues = queues

    def __call__(self, request: Command, connection: Connection) -> Command:
        """The committed offset, or where a new group begins."""
        header = QueryConsumerOffsetRequest.from_fields(request.fields)
        offset = self._offsets.find(header.consumer_group, header.topic, header.queue_id)
        if offset is None:
            offset = self._offset_of_new_group(header, request.version)
        return request.reply(QueryConsumerOffsetResponse(offset=offset))

    def _offset_of_new_group(self, header: QueryConsumerOffsetRequest, version: int) -> int:
        # A new group is given 0 while the queue still begins there, also when it is empty:
        # 5.x answers 22 to the empty one, and its clients then miss what arrives meanwhile.
        if header.set_zero_if_not_found is False:
            raise QueryNotFound("Not found, do not set to zero, maybe this group boot first")
        unknown = self._topics.find(header.topic) is None
        first, end = self._queues.bounds(header.topic, header.queue_id)
        if (
            first <= 0
            and not (unknown and end == 0 and version >= V5_0_0)
            and (end == 0 or self._queues.is_in_memory(header.topic, header.queue_id, 0))
        ):
            return 0
        raise QueryNotFound("Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")


class UpdateConsumerOffset:
    """Request code 15."""

    def __init__(
        self, offsets: OffsetTable, topics: TopicTable, groups: GroupTable, *, live: LiveSettings
    ) -> None:
        self._offsets = offsets
        self._topics = topics
        self._groups = groups
        self._live = live

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Store an offset of a group, topic and queue that exist."""
        header = UpdateConsumerOffsetRequest.from_fields(request.fields)
        group, topic = header.consumer_group, header.topic
        if self._groups.find(group) is None:
            auto_create = self._live.now.auto_create_group
            if self._groups.find_or_create(group, auto_create=auto_create) is None:
                raise SubscriptionGroupNotExist(f"subscription group [{group}] does not exist")
        config = self._topics.find(topic)
        if config is None:
            raise topic_missing(topic)
        queues = max(config.read_queue_nums, config.write_queue_nums)
        is_light = self._offsets.has_lights and is_lmq(group)  # whatever the queue
        if not 0 <= header.queue_id < queues and not is_light:
            raise InvalidParameter(f"queueId[{header.queue_id}] of topic[{topic}], below {queues}")
        if header.commit_offset < 0:
            raise InvalidParameter(f"commitOffset[{header.commit_offset}], at least 0")
        taken = self._offsets.commit(group, topic, header.queue_id, offset=header.commit_offset)
        return request.reply(remark=None if taken else "Offset has been previously reset")


class SearchOffset:
    """Request code 29."""

    def __init__(self, queues: QueueBounds) -> None:
        self._queues = queues

    def __call__(self, request: Command, connection: Connection) -> Command:
        """The offset of a point in time."""
        header = SearchOffsetRequest.from_fields(request.fields)
        offset = self._queues.offset_by_time(
            header.topic, header.queue_id, header.timestamp, upper=header.is_upper
        )
        return request.reply(SearchOffsetResponse(offset=offset))


class GetMaxOffset:
    """Request code 30."""

    def __init__(self, queues: QueueBounds) -> None:
        self._queues = queues

    def __call__(self, request: Command, connection: Connection) -> Command:
        """The offset the next message gets."""
        header = GetMaxOffsetRequest.from_fields(request.fields)
        _, end = self._queues.bounds(header.topic, header.queue_id)
        return request.reply(GetMaxOffsetResponse(offset=end))


class GetMinOffset:
    """Request code 31."""

    def __init__(self, queues: QueueBounds) -> None:
        self._queues = queues

    def __call__(self, request: Command, connection: Connection) -> Command:
        """The offset of the oldest message."""
        header = GetMinOffsetRequest.from_fields(request.fields)
        first, _ = self._queues.bounds(header.topic, header.queue_id)
        return request.reply(GetMinOffsetResponse(offset=first))


class GetEarliestStoreTime:
    """Request code 32."""

    def __init__(self, queues: QueueBounds) -> None:
        self._queues = queues

    def __call__(self, request: Command, connection: Connection) -> Command:
        """When the oldest message of a queue was stored."""
        header = GetEarliestMsgStoretimeRequest.from_fields(request.fields)
        timestamp = self._queues.earliest_time(header.topic, header.queue_id)
        return request.reply(GetEarliestMsgStoretimeResponse(timestamp=timestamp))
