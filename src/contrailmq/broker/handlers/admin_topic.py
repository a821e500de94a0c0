"""Administration of topics: request codes 17, 18, 21, 202, 215, 305 and 351."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from contrailmq.broker.identity import Identity
from contrailmq.broker.services.registration import Registration
from contrailmq.broker.services.stats import Stats
from contrailmq.broker.tables.attributes import altered
from contrailmq.broker.tables.counters import Counters
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.topics import TopicTable, topic_missing
from contrailmq.broker.tables.versions import page
from contrailmq.errors import SystemFailure
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.stats import TopicOffset, TopicStatsTable
from contrailmq.protocol.bodies.topic import (
    TopicConfig,
    TopicConfigAndMappingWrapper,
    TopicConfigList,
    TopicList,
)
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.topic import (
    CreateTopicRequest,
    DeleteTopicRequest,
    GetAllTopicConfigRequest,
    GetAllTopicConfigResponse,
    GetTopicConfigRequest,
    GetTopicStatsInfoRequest,
)
from contrailmq.protocol.names import (
    is_system_topic,
    pop_retry_topic,
    pop_retry_topic_v2,
    stored_topic_fault,
)
from contrailmq.protocol.queue import MessageQueue
from contrailmq.protocol.versions import V5_0_0

QUEUES_MAX: Final = 65_536
FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")


class TopicStore(Protocol):
    """What this module needs of the store."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the one behind the last."""
        ...

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message was stored; -1 when it is not there."""
        ...

    def delete_topic(self, topic: str) -> int:
        """Delete the queues of a topic."""
        ...


class UpdateTopics:
    """Request codes 17 and 18: create topics or change them."""

    def __init__(self, topics: TopicTable, registration: Registration) -> None:
        self._topics = topics
        self._registration = registration

    async def one(self, request: Command, connection: Connection) -> Command:
        """Code 17."""
        header = CreateTopicRequest.from_fields(request.fields)
        config = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type or FILTER_TYPES[0],
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
            attributes=self._attributes(header.topic, header.attributes),
        )
        await self._put([config])
        return request.reply()

    async def many(self, request: Command, connection: Connection) -> Command:
        """Code 18: all of them, or none."""
        configs = TopicConfigList.decode_request(request.body).topic_config_list
        for config in configs:
            signed = (
                (name if name[:1] in ("+", "-") else f"+{name}", value)
                for name, value in config.attributes.items()
            )
            text = ",".join(f"{name}={value}" if value else name for name, value in signed)
            config.attributes = self._attributes(config.topic_name, text)
        await self._put(configs)
        return request.reply()

    def _attributes(self, topic: str, text: str | None) -> dict[str, str]:
        before = self._topics.find(topic)
        return altered(
            before.attributes if before is not None else None,
            text,
        )

    async def _put(self, configs: list[TopicConfig]) -> None:
        for config in configs:
            _check(config)
        changed = [config.topic_name for config in configs if self._topics.put(config)]
        if len(changed) == 1:
            await self._registration.announce(changed[0])
        elif changed:
            await self._registration.register()


class DeleteTopic:
    """Request code 215: the topic, its offsets and its queues."""

    def __init__(
        self,
        topics: TopicTable,
        offsets: OffsetTable,
        store: TopicStore,
        *,
        counters: Counters,
        registration: Registration,
        on_deleted: Callable[[str], None],
    ) -> None:
        self._topics = topics
        self._offsets = offsets
        self._store = store
        self._counters = counters
        self._registration = registration
        self._on_deleted = on_deleted

    async def __call__(self, request: Command, connection: Connection) -> Command:
        """Deleting what is not there succeeds too."""
        topic = DeleteTopicRequest.from_fields(request.fields).topic
        if not topic.strip():
            raise SystemFailure("The specified topic is blank.")
        if is_system_topic(topic):
            raise SystemFailure(f"The topic[{topic}] is conflict with system topic.")
        for name in (topic, *self._pop_retry_topics(topic)):
            self._topics.delete(name)
            self._offsets.forget_topic(name)
            self._store.delete_topic(name)
            self._counters.forget_topic(name)
            self._on_deleted(name)
        await self._registration.register()
        return request.reply()

    def _pop_retry_topics(self, topic: str) -> list[str]:
        """Where groups that popped the topic have their retries."""
        names = []
        for group in self._offsets.groups_of(topic):
            names += [pop_retry_topic(topic, group), pop_retry_topic_v2(topic, group)]
        return [name for name in names if self._topics.find(name) is not None]


class ListTopics:
    """Request codes 21, 305 and 351: what topics there are."""

    def __init__(self, topics: TopicTable, identity: Identity) -> None:
        self._topics = topics
        self._identity = identity

    def all(self, request: Command, connection: Connection) -> Command:
        """Code 21: every topic's configuration, or a page of them (newer than 5.3)."""
        if request.version < V5_0_0:
            return request.reply(body=self._topics.wrapper().encode(legacy=True))
        wrapper = self._topics.wrapper()
        header = GetAllTopicConfigRequest.from_fields(request.fields)
        seen, start, count = header.data_version, header.topic_seq, header.max_topic_num
        version, table = wrapper.data_version, wrapper.topic_config_table
        answer = None
        if (seen, start, count) != (None, None, None):
            answer = GetAllTopicConfigResponse(total_topic_num=len(table))
            table = page(table, version, seen=seen, start=start, count=count)
        body = TopicConfigAndMappingWrapper(data_version=version, topic_config_table=table)
        return request.reply(answer, body=body.encode())

    def system(self, request: Command, connection: Connection) -> Command:
        """Code 305: the topics the broker made for itself."""
        names = [name for name in self._topics.names() if is_system_topic(name)]
        names += [name for name in self._topics.system_names() if name not in names]
        return request.reply(body=TopicList(topic_list=names).encode())

    def one(self, request: Command, connection: Connection) -> Command:
        """Code 351: one topic's configuration."""
        topic = GetTopicConfigRequest.from_fields(request.fields).topic
        config = self._topics.find(topic)
        if config is None:
            raise topic_missing(topic)
        return request.reply(body=config.encode())


class TopicStats:
    """Request code 202: bounds and last write of every queue."""

    def __init__(
        self, topics: TopicTable, store: TopicStore, *, identity: Identity, stats: Stats
    ) -> None:
        self._topics = topics
        self._store = store
        self._identity = identity
        self._stats = stats

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Queues nobody wrote to count too, with zeros."""
        topic = GetTopicStatsInfoRequest.from_fields(request.fields).topic
        config = self._topics.find(topic)
        if config is None:
            raise topic_missing(topic)
        table = {}
        for queue_id in range(max(config.read_queue_nums, config.write_queue_nums)):
            first, end = self._store.bounds(topic, queue_id)
            last_ms = self._store.store_time(topic, queue_id, end - 1) if end > first else 0
            table[MessageQueue(topic, self._identity.broker_name, queue_id)] = TopicOffset(
                min_offset=max(first, 0),
                max_offset=max(end, 0),
                last_update_timestamp=max(last_ms, 0),
            )
        body = TopicStatsTable(
            offset_table=table, topic_put_tps=self._stats.tps("TOPIC_PUT_NUMS", topic)
        )
        return request.reply(body=body.encode(legacy=request.version < V5_0_0))


def _check(config: TopicConfig) -> None:
    fault = stored_topic_fault(config.topic_name)
    if fault is not None:
        raise SystemFailure(fault)
    if is_system_topic(config.topic_name):
        raise SystemFailure(f"The topic[{config.topic_name}] is conflict with system topic.")
    for name in ("read_queue_nums", "write_queue_nums"):
        count = getattr(config, name)
        if not 0 <= count <= QUEUES_MAX:
            raise SystemFailure(f"{name} {count}: expected 0 to {QUEUES_MAX}")
    if not 0 <= config.perm <= 15:
        raise SystemFailure(f"perm {config.perm}: expected 0 to 15 (2 write, 4 read)")
    if config.topic_filter_type not in FILTER_TYPES:
        raise SystemFailure(
            f"topicFilterType {config.topic_filter_type!r}: expected one of {FILTER_TYPES}"
        )
