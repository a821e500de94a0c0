"""Administration of offsets: request codes 43, 45, 222, 223 and 314.

Resetting (222) has two ways.  Callers of 5.x get the server's: the offset table is set, a mark
makes the next pull of each queue answer PULL_OFFSET_MOVED, and held pulls are run again so that
this is now.  Callers of 4.9 expect that connected clients are told (220); a group without clients
is answered CONSUMER_NOT_ONLINE, and their tool then sets the offsets itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.identity import Identity
from contrailmq.broker.services.delay import DelayLevels
from contrailmq.broker.services.longpoll import LongPolls
from contrailmq.broker.tables.consumers import ConsumerGroup, ConsumerTable
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.topics import TopicTable, topic_missing
from contrailmq.errors import (
    ConsumerNotOnline,
    NetworkError,
    RemoteProtocolError,
    SubscriptionGroupNotExist,
    SystemFailure,
)
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.queues import (
    ConsumerOffsets,
    GetConsumerStatusBody,
    ResetOffsetBody,
)
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.bodies.version import DataVersion
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.offset import (
    CloneGroupOffsetRequest,
    GetConsumerStatusRequest,
    ResetOffsetRequest,
)
from contrailmq.protocol.queue import MessageQueue
from contrailmq.protocol.versions import V5_0_0, version_name

log = logging.getLogger(__name__)

PUSH_VERSION_MIN: Final = 28  # V3_0_7_SNAPSHOT
STATUS_TIMEOUT_S: Final = 5.0
STATUS_CLIENTS_MAX: Final = 200


class QueueSearch(Protocol):
    """What this module needs of the store."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the one behind the last."""
        ...

    def offset_by_time(self, topic: str, queue_id: int, ms: int, *, upper: bool = False) -> int:
        """The first offset stored at ``ms`` or later."""
        ...


class ResetOffset:
    """Request code 222."""

    def __init__(
        self,
        offsets: OffsetTable,
        topics: TopicTable,
        queues: QueueSearch,
        *,
        groups: GroupTable,
        consumers: ConsumerTable,
        polls: LongPolls,
        live: LiveSettings,
        identity: Identity,
    ) -> None:
        self._offsets = offsets
        self._topics = topics
        self._queues = queues
        self._groups = groups
        self._consumers = consumers
        self._polls = polls
        self._live = live
        self._identity = identity

    def __call__(self, request: Command, connection: Connection) -> Command:
        """The offsets the group goes on from."""
        header = ResetOffsetRequest.from_fields(request.fields)
        if request.version >= V5_0_0 and self._live.now.server_side_reset:
            table = self._reset_here(header)
        else:
            table = self._tell_clients(header, is_c=request.language == "CPP")
        log.info(
            "offsets reset: group=%s topic=%s peer=%s", header.group, header.topic, connection.peer
        )
        return request.reply(body=ResetOffsetBody(offset_table=table).encode())

    def _reset_here(self, header: ResetOffsetRequest) -> dict[MessageQueue, int]:
        topic, group = header.topic, header.group
        if not self._identity.is_master:
            raise SystemFailure("can not reset offset in slave broker")
        config = self._topics.find(topic)
        if config is None:
            raise topic_missing(topic)
        if self._groups.find(group) is None:
            raise SubscriptionGroupNotExist(f"subscription group [{group}] does not exist")
        if header.queue_id is not None and header.queue_id >= 0:
            wanted = {header.queue_id: self._explicit(header, config, header.queue_id)}
        else:
            wanted = {
                queue_id: self._at(topic, queue_id, header.timestamp)
                for queue_id in range(config.read_queue_nums)
            }
        for queue_id, offset in wanted.items():
            self._offsets.reset(group, topic, queue_id, offset=offset)
        self._polls.wake_all(topic)
        return {self._queue(topic, queue_id): offset for queue_id, offset in wanted.items()}

    def _explicit(self, header: ResetOffsetRequest, config: TopicConfig, queue_id: int) -> int:
        topic = header.topic
        if queue_id >= config.read_queue_nums:
            raise SystemFailure(
                f"queueId[{queue_id}] of topic[{topic}], below {config.read_queue_nums}"
            )
        if header.offset is None or header.offset == -1:
            return self._at(topic, queue_id, header.timestamp)
        first, end = self._queues.bounds(topic, queue_id)
        if not first <= header.offset <= end + 1:
            raise SystemFailure(
                f"Target offset {header.offset} not in consume queue range [{first}-{end}]"
            )
        return header.offset

    def _tell_clients(self, header: ResetOffsetRequest, *, is_c: bool) -> dict[MessageQueue, int]:
        topic, group = header.topic, header.group
        config = self._topics.find(topic)
        if config is None:
            raise SystemFailure(
                f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
            )
        table: dict[MessageQueue, int] = {}
        for queue_id in range(config.write_queue_nums):
            consumed = self._offsets.find(group, topic, queue_id)
            if consumed is None:
                raise SystemFailure(f"THe consumer group <{group}> not exist")
            target = self._at(topic, queue_id, header.timestamp)
            is_used = header.is_force or target < consumed
            table[self._queue(topic, queue_id)] = target if is_used else consumed
        found = self._consumers.find(group)
        if found is None:
            raise ConsumerNotOnline(
                f"Consumer not online, so can not reset offset, Group: {group} Topic: {topic} "
                f"Timestamp: {header.timestamp}"
            )
        _check_versions(found)
        body = ResetOffsetBody(offset_table=table)
        data = body.encode_for_c() if is_c else body.encode()
        pushed = ResetOffsetRequest(topic=topic, group=group, timestamp=header.timestamp)
        for member in list(found.members.values()):
            command = Command.request(
                RequestCode.RESET_CONSUMER_CLIENT_OFFSET, pushed, body=data, oneway=True
            )
            try:
                member.connection.oneway(command)
            except NetworkError as error:
                log.warning("a client was not told: id=%s error=%s", member.client_id, error)
        return table

    def _at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        if timestamp_ms < 0:
            return self._queues.bounds(topic, queue_id)[1]
        return max(self._queues.offset_by_time(topic, queue_id, timestamp_ms), 0)

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._identity.broker_name, queue_id)


class ConsumerStatus:
    """Request code 223: where the connected clients of a group stand; they are asked (221)."""

    def __init__(self, consumers: ConsumerTable) -> None:
        self._consumers = consumers

    async def __call__(self, request: Command, connection: Connection) -> Command:
        """One client, or all of them; one that does not answer is left out."""
        header = GetConsumerStatusRequest.from_fields(request.fields)
        found = self._consumers.find(header.group)
        if found is None:
            raise SystemFailure(f"No Any Consumer online in the consumer group: [{header.group}]")
        _check_versions(found)
        wanted = header.client_addr
        asked = GetConsumerStatusRequest(topic=header.topic, group=header.group)
        table: dict[str, dict[MessageQueue, int]] = {}
        members = [m for m in found.members.values() if not wanted or m.client_id == wanted]
        for member in members[:STATUS_CLIENTS_MAX]:
            command = Command.request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, asked)
            try:
                answer = await member.connection.call(command, timeout_s=STATUS_TIMEOUT_S)
                if answer.code == 0 and answer.body:
                    status = GetConsumerStatusBody.decode(answer.body)
                    table[member.client_id] = status.message_queue_table
            except (NetworkError, RemoteProtocolError) as error:
                log.warning("a client gave no status: id=%s error=%s", member.client_id, error)
        return request.reply(body=GetConsumerStatusBody(consumer_table=table).encode())


class CloneOffsets:
    """Request code 314: give one group the offsets of another."""

    def __init__(self, offsets: OffsetTable, topics: TopicTable, consumers: ConsumerTable) -> None:
        self._offsets = offsets
        self._topics = topics
        self._consumers = consumers

    def __call__(self, request: Command, connection: Connection) -> Command:
        """In one topic, or in all of the source; topics the target's clients ignore are not."""
        header = CloneGroupOffsetRequest.from_fields(request.fields)
        topics = [header.topic] if header.topic else self._offsets.topics_of(header.src_group)
        for topic in topics:
            if self._topics.find(topic) is None:
                continue
            if not header.offline and self._is_ignored(header.dest_group, topic):
                continue
            self._offsets.copy(header.src_group, header.dest_group, topic)
        return request.reply()

    def _is_ignored(self, group: str, topic: str) -> bool:
        online = self._consumers.find(group)
        if online is None or not online.subscriptions:
            return False
        return topic not in online.subscriptions


class CopyOffsets:
    """Request codes 43 and 45: all offsets, as replicas and exporters fetch them."""

    def __init__(
        self, offsets: OffsetTable, delay: DelayLevels, *, version: Callable[[], DataVersion]
    ) -> None:
        self._offsets = offsets
        self._delay = delay
        self._version = version

    def consumers(self, request: Command, connection: Connection) -> Command:
        """Code 43: the content of ``consumerOffset.json``."""
        table = {pair: dict(sorted(queues.items())) for pair, queues in self._offsets.pairs()}
        topics: dict[str, list[str]] = {}
        for pair in table:
            topic, _, group = pair.partition("@")
            topics.setdefault(group, []).append(topic)
        body = ConsumerOffsets(
            data_version=self._version(), group_topic_map=topics, offset_table=table
        )
        return request.reply(body=body.encode(legacy=request.version < V5_0_0))

    def delays(self, request: Command, connection: Connection) -> Command:
        """Code 45: the content of ``delayOffset.json``."""
        return request.reply(body=self._delay.saved().encode(legacy=request.version < V5_0_0))


def _check_versions(group: ConsumerGroup) -> None:
    for member in group.members.values():
        if member.version < PUSH_VERSION_MIN:
            raise SystemFailure(
                f"the client does not support this feature. version={version_name(member.version)}"
            )
