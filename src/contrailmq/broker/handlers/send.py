"""Sending: request codes 10, 310 and 320.

Checks come in the order of the original and answer with its codes.  A topic that passed is
remembered as a ``SendDecision`` until the broker's tables change; the regular send then costs a
dictionary look-up, the broker's three properties appended to the sender's, and one append.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from contrailmq._native.lanes.fields import HAS_KEY, IS_ACTED_ON, NO_WAIT, SendProperties
from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.identity import Identity
from contrailmq.broker.lanes.tables import SEND_PROPERTIES
from contrailmq.broker.services.putting import Putting, count_batch, delay_level, refuse_unserved
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.locks import QueueLocks
from contrailmq.broker.tables.revision import Revision
from contrailmq.broker.tables.topics import (
    TopicTable,
    check_sendable,
    describe,
    has_batch_queues,
    topic_missing,
)
from contrailmq.clock import Clock
from contrailmq.errors import (
    BrokerError,
    IllegalMessage,
    NoPermission,
    ServiceNotAvailable,
    SubscriptionGroupNotExist,
    SystemFailure,
)
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command, Serialization
from contrailmq.protocol.headers.send import SendMessageRequest, SendMessageRequestV2
from contrailmq.protocol.ids import UniqueIds, offset_message_id
from contrailmq.protocol.names import (
    RETRY_PREFIX,
    TIMER_TOPIC,
    TOPIC_LENGTH_MAX,
    dlq_topic,
    is_retry_topic,
)
from contrailmq.protocol.properties import (
    PROPERTY_CLUSTER,
    PROPERTY_DELAY,
    PROPERTY_INNER_NUM,
    PROPERTY_MSG_REGION,
    PROPERTY_POP_CK,
    PROPERTY_TIMER_OUT_MS,
    PROPERTY_TRACE_SWITCH,
    PROPERTY_TRANSACTION_PREPARED,
    PROPERTY_UNIQUE_KEY,
    decode_properties_text,
    encode_properties,
    is_waiting,
)
from contrailmq.protocol.recall import RecallHandle
from contrailmq.protocol.sysflag import INNER_BATCH, MULTI_TAGS, NEED_UNWRAP
from contrailmq.protocol.versions import V3_4_9
from contrailmq.store.types import NewMessage

MULTI_TAG_TYPE: Final = "MULTI_TAG"
_Header = SendMessageRequest | SendMessageRequestV2


@dataclass(frozen=True, slots=True)
class SendDecision:
    """What was found out about a topic; true while the broker's revision is ``revision``."""

    revision: int
    write_queues: int
    queue_limit: int  # queue ids below it are legal
    sys_flag: int  # bits to add to the sender's
    is_batch: bool = False  # batches are kept whole


class SendMessage:
    """Request codes 10, 310 and 320."""

    def __init__(
        self,
        putting: Putting,
        topics: TopicTable,
        groups: GroupTable,
        *,
        live: LiveSettings,
        locks: QueueLocks,
        identity: Identity,
        revision: Revision,
        clock: Clock,
        rng: random.Random,
        ids: UniqueIds,
        made: Callable[[str], Awaitable[None]],
    ) -> None:
        self._putting = putting
        self._topics = topics
        self._groups = groups
        self._live = live
        self._locks = locks
        self._identity = identity
        self._revision = revision
        self._clock = clock
        self._rng = rng
        self._ids = ids
        self.unique_key = ids.next  # for what comes without one
        self._made = made  # a topic that was made by its first message
        self._decisions: dict[str, SendDecision] = {}
        self._properties = SendProperties(SEND_PROPERTIES)
        settings = live.now
        self.added = {  # properties the broker puts after the sender's
            PROPERTY_CLUSTER: identity.cluster_name,
            PROPERTY_MSG_REGION: settings.region_id,
            PROPERTY_TRACE_SWITCH: "true" if settings.trace_on else "false",
        }
        self.suffix = encode_properties(self.added)
        self.answer_fields = {
            name: self.added[name] for name in (PROPERTY_MSG_REGION, PROPERTY_TRACE_SWITCH)
        }

    def __call__(
        self, request: Command, connection: Connection
    ) -> Command | Awaitable[Command | None]:
        """Store what was sent; a refusal carries region and trace switch too."""
        if request.code == RequestCode.SEND_MESSAGE:
            header: _Header = SendMessageRequest.from_fields(request.fields)
        else:
            header = SendMessageRequestV2.from_fields(request.fields)
        try:
            if header.batch or request.code == RequestCode.SEND_BATCH_MESSAGE:
                return self._send_batch(request, header, connection)
            return self._send(request, header, connection)
        except BrokerError as error:
            return request.reply(code=error.code, remark=error.remark, fields=self.answer_fields)

    def decide(self, topic: str) -> SendDecision | None:
        """What is known about a topic that exists; None for one that does not (yet).

        Raises the refusal of a topic nobody may send to.
        """
        decision = self._decisions.get(topic)
        if decision is not None and decision.revision == self._revision.value:
            return decision
        if not self._live.permission.is_writeable and self._topics.is_order(topic):
            raise NoPermission(f"the broker[{self._identity.address}] sending message is forbidden")
        check_sendable(topic)
        config = self._topics.find(topic)
        if config is None:
            return None
        if len(self._decisions) > 4 * len(self._topics) + 64:  # topics come and go
            self._decisions.clear()
        decision = self._decisions[topic] = self._decision(config)
        return decision

    def _decision(self, config: TopicConfig) -> SendDecision:
        return SendDecision(
            self._revision.value,
            config.write_queue_nums,
            max(config.write_queue_nums, config.read_queue_nums),
            MULTI_TAGS if config.topic_filter_type == MULTI_TAG_TYPE else 0,
            has_batch_queues(config),
        )

    def _send(
        self, request: Command, header: _Header, connection: Connection
    ) -> Command | Awaitable[Command | None]:
        is_new = self._topics.find(header.topic) is None
        decision, queue_id = self._admit(header, connection)
        if not request.body:
            raise IllegalMessage("the message is illegal: it has no body")
        if header.sys_flag & INNER_BATCH:
            raise IllegalMessage("sysFlag 0x80 is for batches kept whole")
        text = (header.properties or "").encode("utf-8", "replace")
        found = self._properties.look(text)
        message = self._message(request, header, connection, place=(queue_id, decision))
        message.wait = not found & NO_WAIT
        if is_ordinary(found) and not is_retry_topic(header.topic):
            message.properties, message.suffix = text, self.suffix
            transaction_id = self._properties.key(text).decode("utf-8", "replace")
        else:
            message, transaction_id = self._place(request, header, message)
        appended = self._putting.put(message)
        reply = self._reply(
            request, queue_id, offsets=[appended.offset],
            queue_offset=appended.queue_offset, transaction_id=transaction_id,
        )  # fmt: skip
        if message.topic == TIMER_TOPIC and not is_retry_topic(header.topic):
            reply.fields["recallHandle"] = self.recall_handle(header.topic, message)
        answer = self.when_durable(reply, appended.end_offset, wait=message.wait)
        return self._when_made(answer, header.topic) if is_new else answer

    def _message(
        self, request: Command, header: _Header, connection: Connection, *,
        place: tuple[int, SendDecision],
    ) -> NewMessage:  # fmt: skip
        queue_id, decision = place
        return NewMessage(
            header.topic, queue_id, request.body,
            flag=header.flag, sys_flag=header.sys_flag | decision.sys_flag,
            born_ms=header.born_timestamp, born_host=connection.peer_host,
            store_host=self._identity.store_host,
            reconsume_times=header.reconsume_times or 0,
        )  # fmt: skip

    def recall_handle(self, topic: str, message: NewMessage) -> str:
        """What takes back a message that waits for its time."""
        properties = decode_properties_text(message.properties.decode("utf-8", "replace"))
        due_ms = int(properties[PROPERTY_TIMER_OUT_MS]) + 1
        unique_key = properties[PROPERTY_UNIQUE_KEY]
        return RecallHandle(topic, self._identity.broker_name, due_ms, unique_key).encode()

    def _place(
        self, request: Command, header: _Header, message: NewMessage
    ) -> tuple[NewMessage, str]:
        """The long way: retries, delays, transactions, senders that leave things out."""
        properties = decode_properties_text(header.properties or "")
        properties.pop(PROPERTY_POP_CK, None)
        unique_key = properties.get(PROPERTY_UNIQUE_KEY)
        if unique_key is None:
            unique_key = properties[PROPERTY_UNIQUE_KEY] = self._ids.next()
        if is_retry_topic(header.topic):
            self._send_to_dead_letters_if_due(request, header, message, properties=properties)
        properties.update(self.added)
        refuse_unserved(properties)
        message.properties = encode_properties(properties)
        retried = message.reconsume_times > 0 and delay_level(properties) > 0
        if properties.get(PROPERTY_TRANSACTION_PREPARED) == "true" and not retried:
            if self._live.now.reject_transactions:
                raise NoPermission(
                    f"the broker[{self._identity.address}] sending transaction message is forbidden"
                )
            return self._putting.half(message, properties), unique_key
        return self._putting.arrange(message, properties), unique_key

    def _send_batch(
        self, request: Command, header: _Header, connection: Connection
    ) -> Command | Awaitable[Command | None]:
        if len(header.topic) > TOPIC_LENGTH_MAX:
            raise IllegalMessage(
                f"message topic length too long {len(header.topic)}, at most {TOPIC_LENGTH_MAX}"
            )
        is_new = self._topics.find(header.topic) is None
        decision, queue_id = self._admit(header, connection)
        if header.sys_flag & INNER_BATCH and not decision.is_batch:
            raise IllegalMessage(f"sysFlag {header.sys_flag:#x} is for topics of batch queues")
        if is_retry_topic(header.topic):
            raise IllegalMessage(f"batch request does not support retry group {header.topic}")
        properties = decode_properties_text(header.properties or "")
        message = self._message(request, header, connection, place=(queue_id, decision))
        message.wait = is_waiting(properties)
        if decision.is_batch and PROPERTY_UNIQUE_KEY in properties:
            return self._send_whole(request, message, properties)
        # Each inner message keeps its own unique key; the batch's stands in the answer only.
        unique_key = properties.pop(PROPERTY_UNIQUE_KEY, None) or self._ids.next()
        message.properties = self.batch_suffix(properties)
        appended = self._putting.put_batch(message, request.body)
        reply = self._reply(
            request, queue_id, offsets=appended.offsets,
            queue_offset=appended.queue_offset, transaction_id=unique_key,
        )  # fmt: skip
        answer = self.when_durable(reply, appended.end_offset, wait=message.wait)
        return self._when_made(answer, header.topic) if is_new else answer

    def _send_whole(
        self, request: Command, message: NewMessage, properties: dict[str, str]
    ) -> Command | Awaitable[Command | None]:
        """Keep a batch as one record (topics with batch queues)."""
        self.batch_suffix(properties)  # for its refusals
        key, count = properties[PROPERTY_UNIQUE_KEY], count_batch(request.body)
        properties |= {**self.added, PROPERTY_INNER_NUM: str(count)}
        message.properties = encode_properties(properties)
        message.sys_flag |= INNER_BATCH | NEED_UNWRAP
        appended = self._putting.put_whole(message, count)
        reply = self._reply(
            request, message.queue_id,
            offsets=[appended.offset], queue_offset=appended.queue_offset, transaction_id=key,
        )  # fmt: skip
        reply.fields["batchUniqId"] = key
        return self.when_durable(reply, appended.end_offset, wait=message.wait)

    def batch_suffix(self, properties: dict[str, str]) -> bytes:
        """What stands behind the properties of each message of a batch.

        ``properties`` are the batch's own, without its unique key; raises a refusal.
        """
        if delay_level(properties) > 0 or properties.get(PROPERTY_TRANSACTION_PREPARED) == "true":
            raise IllegalMessage("a batch can be neither delayed nor transactional")
        return encode_properties({**properties, **self.added})

    def check_serving(self) -> None:
        """Raise unless this broker takes messages now."""
        settings = self._live.now
        if not self._identity.is_master:
            raise ServiceNotAvailable(
                f"the broker[{self._identity.address}] is a replica: send to its primary"
            )
        if settings.start_accept_send_ms and self._clock.now_ms() < settings.start_accept_send_ms:
            raise SystemFailure(
                f"broker unable to service, until {settings.start_accept_send_ms} ms since 1970"
            )

    def _admit(self, header: _Header, connection: Connection) -> tuple[SendDecision, int]:
        """Everything that is checked before a message is looked at; returns its queue."""
        self.check_serving()
        decision = self.decide(header.topic)
        if decision is None:
            decision = self._decision(self._create_topic(header))
        queue_id = header.queue_id
        if queue_id >= decision.queue_limit:
            config = self._topics.find(header.topic)
            told = describe(config) if config is not None else header.topic
            raise SystemFailure(
                f"request queueId[{queue_id}] is illegal, {told} Producer: {connection.peer}"
            )
        if queue_id < 0:
            queue_id = self._rng.randrange(max(decision.write_queues, 1))
        return decision, queue_id

    def _create_topic(self, header: _Header) -> TopicConfig:
        sys_flag = 1 if header.unit_mode else 0
        config = self._topics.create_for_send(
            header.topic,
            header.default_topic,
            queue_nums=header.default_topic_queue_nums,
            sys_flag=2 if header.unit_mode and is_retry_topic(header.topic) else sys_flag,
            auto_create=self._live.now.auto_create_topic,
        )
        if config is None and is_retry_topic(header.topic):
            config = self._topics.create_internal(header.topic, queue_nums=1)
        if config is None:
            raise topic_missing(header.topic)
        return config

    def _send_to_dead_letters_if_due(
        self,
        request: Command,
        header: _Header,
        message: NewMessage,
        *,
        properties: dict[str, str],
    ) -> None:
        """A consumer that could not give a message back sends it to its retry topic itself."""
        group = header.topic[len(RETRY_PREFIX) :]
        config = self._groups.find_or_create(group, auto_create=self._live.now.auto_create_group)
        if config is None:
            raise SubscriptionGroupNotExist(f"subscription group not exist, {group}")
        limit = config.retry_max_times
        if request.version >= V3_4_9 and header.max_reconsume_times is not None:
            limit = header.max_reconsume_times
        if message.reconsume_times > limit or self._locks.is_group_locking(group):
            message.topic = dlq_topic(group)
            message.queue_id = 0
            self._topics.create_internal(message.topic, queue_nums=1)
            properties[PROPERTY_DELAY] = "-1"

    def _reply(
        self, request: Command, queue_id: int, *,
        offsets: list[int], queue_offset: int, transaction_id: str,
    ) -> Command:  # fmt: skip
        host = self._identity.store_host
        fields = {
            "queueId": str(queue_id),
            "transactionId": transaction_id,
            "msgId": ",".join(offset_message_id(host, offset) for offset in offsets),
            "queueOffset": str(queue_offset),
        }
        return request.reply(fields=fields | self.answer_fields)

    def sample(self, serialization: Serialization) -> Command:
        """Return an answer to a send, for the lanes to put their own values into."""
        request = Command(RequestCode.SEND_MESSAGE_V2, serialization=serialization)
        return self._reply(request, 0, offsets=[0], queue_offset=0, transaction_id="")

    async def _when_made(
        self, answer: Command | Awaitable[Command | None], topic: str
    ) -> Command | None:
        """Answer the first message of a topic once the topic is saved and announced."""
        await self._made(topic)
        return answer if isinstance(answer, Command) else await answer

    def when_durable(
        self, reply: Command, end_offset: int, *, wait: bool = True
    ) -> Command | Awaitable[Command | None]:
        """Return the answer, or a future of it if the sender waits for disk and replicas."""
        return self._putting.when_flushed(reply, end_offset) if wait else reply


def is_ordinary(found: int) -> bool:
    """Whether properties, by what ``SendProperties`` found, are stored as they come."""
    return bool(found & HAS_KEY) and not found & IS_ACTED_ON
