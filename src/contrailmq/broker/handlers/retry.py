"""Messages a consumer gives back: request code 36.

A message given back goes to the group's retry topic by way of a delay level, later and later with
every attempt, and after the last attempt to the group's dead-letter topic.
"""

from __future__ import annotations

import random
from typing import Final, Protocol

from contrailmq.broker.config import permission
from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.identity import Identity
from contrailmq.broker.services.putting import Putting
from contrailmq.broker.tables.counters import Counters
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.errors import (
    CorruptRecord,
    NoPermission,
    RemoteProtocolError,
    SubscriptionGroupNotExist,
    SystemFailure,
)
from contrailmq.net.connection import Connection
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.send import ConsumerSendMsgBackRequest
from contrailmq.protocol.message import Record, decode_record
from contrailmq.protocol.names import dlq_topic, retry_topic
from contrailmq.protocol.properties import (
    PROPERTY_DELAY,
    PROPERTY_ORIGIN_MESSAGE_ID,
    PROPERTY_RETRY_TOPIC,
    PROPERTY_WAIT,
    encode_properties,
)
from contrailmq.protocol.versions import V3_4_9
from contrailmq.store.types import NewMessage

FIRST_RETRY_LEVEL: Final = 3


class Records(Protocol):
    """What this module needs of the store."""

    def record_at(self, commit_log_offset: int, size: int | None = None) -> bytes | None:
        """A copy of a record."""
        ...


class SendMessageBack:
    """Request code 36."""

    def __init__(
        self,
        records: Records,
        putting: Putting,
        topics: TopicTable,
        *,
        groups: GroupTable,
        live: LiveSettings,
        identity: Identity,
        counters: Counters,
        rng: random.Random,
    ) -> None:
        self._records = records
        self._putting = putting
        self._topics = topics
        self._groups = groups
        self._live = live
        self._identity = identity
        self._counters = counters
        self._rng = rng

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Store the message again, for later or for good."""
        header = ConsumerSendMsgBackRequest.from_fields(request.fields)
        group = self._groups.find_or_create(
            header.group, auto_create=self._live.now.auto_create_group
        )
        if group is None:
            raise SubscriptionGroupNotExist(f"subscription group not exist, {header.group}")
        if not self._live.permission.is_writeable:
            raise NoPermission(f"the broker[{self._identity.address}] sending message is forbidden")
        if group.retry_queue_nums <= 0:
            return request.reply()
        topic = self._writeable_topic(retry_topic(header.group), group.retry_queue_nums)
        queue_id = self._rng.randrange(group.retry_queue_nums)
        record = self._record(header.offset)
        properties = record.properties
        properties.setdefault(PROPERTY_RETRY_TOPIC, record.topic)
        properties[PROPERTY_WAIT] = "false"
        properties.setdefault(PROPERTY_ORIGIN_MESSAGE_ID, record.offset_message_id)
        limit = group.retry_max_times
        if request.version >= V3_4_9 and header.max_reconsume_times is not None:
            limit = header.max_reconsume_times
        level = header.delay_level
        is_dead = record.reconsume_times >= limit or level < 0
        if is_dead:
            topic = self._writeable_topic(dlq_topic(header.group), 1)
            queue_id = 0
            properties[PROPERTY_DELAY] = "0"
        else:
            level = level or FIRST_RETRY_LEVEL + record.reconsume_times
            properties[PROPERTY_DELAY] = str(level)
        message = self._again(record, topic, queue_id)
        self._putting.put(self._putting.arrange(message, properties))
        origin = header.origin_topic or record.topic
        self._counters.sent_back(header.group, origin)
        if is_dead:
            self._counters.dead(header.group, origin)
        return request.reply()

    def _writeable_topic(self, topic: str, queue_nums: int) -> str:
        config = self._topics.create_internal(topic, queue_nums=queue_nums)
        if not permission.is_writeable(config.perm):
            raise NoPermission(f"the topic[{topic}] sending message is forbidden")
        return topic

    def _record(self, offset: int) -> Record:
        data = self._records.record_at(offset)
        try:
            if data is not None:
                return decode_record(data)
        except (CorruptRecord, RemoteProtocolError):
            data = None
        raise SystemFailure(f"look message by offset failed, {offset}")

    def _again(self, record: Record, topic: str, queue_id: int) -> NewMessage:
        return NewMessage(
            topic,
            queue_id,
            record.body,
            encode_properties(record.properties),
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_ms=record.born_ms,
            born_host=record.born_host_bytes,
            store_host=self._identity.store_host,
            reconsume_times=record.reconsume_times + 1,
            wait=False,
        )
