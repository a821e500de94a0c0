"""Sends of gRPC clients: the same rules and the same store as the remoting handler's."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import Final

from contrailmq.broker.config import permission
from contrailmq.broker.handlers.send import SendMessage
from contrailmq.broker.identity import Identity
from contrailmq.broker.services.putting import FLUSH_LATE, STOPPED, MessageStore, Putting
from contrailmq.broker.tables.attributes import MESSAGE_TYPE
from contrailmq.broker.tables.topics import TopicTable, topic_missing
from contrailmq.errors import LocalProtocolError
from contrailmq.grpc.backend import Sent, Soon
from contrailmq.grpc.calls_send import check_type
from contrailmq.grpc.codes import Code, Refusal
from contrailmq.grpc.converting import Outgoing, TransactionPlace, java_hash, jump_hash
from contrailmq.grpc.messages import MessageType, Status
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.hosts import parse_host
from contrailmq.protocol.names import TIMER_TOPIC
from contrailmq.protocol.properties import decode_properties, encode_properties
from contrailmq.store.certainty import Outcome, ReplicaFault
from contrailmq.store.types import NewMessage

NORMAL: Final = "NORMAL"
_NOWHERE: Final = b"\x7f\x00\x00\x01\x00\x00\x00\x00"


class GrpcSending:
    """Puts messages of gRPC clients."""

    def __init__(
        self, send: SendMessage, putting: Putting, store: MessageStore, *,
        topics: TopicTable, identity: Identity,
    ) -> None:  # fmt: skip
        self._send = send
        self._putting = putting
        self._store = store
        self._topics = topics
        self._identity = identity
        self._turns: dict[str, int] = {}

    def message_type(self, topic: str) -> str:
        """The kind of messages a topic takes."""
        config = self._topics.find(topic)
        return NORMAL if config is None else config.attributes.get(MESSAGE_TYPE, NORMAL)

    def send(self, topic: str, messages: Sequence[Outgoing], *, peer: str) -> Soon[list[Sent]]:
        """Store messages in one queue; answered at once if nothing is waited for."""
        config = self._topics.find(topic)
        if config is None:
            raise topic_missing(topic)
        expected = config.attributes.get(MESSAGE_TYPE, NORMAL)
        for message in messages:
            check_type(topic, expected, message.kind)
        queue_id = self._queue(config, messages[0].message_group)
        self._send.check_serving()
        decision = self._send.decide(topic)
        assert decision is not None, "the topic is there"
        host = _host(peer)
        sent, end_offset = [], 0
        for message in messages:
            new = NewMessage(
                topic,
                queue_id,
                message.body,
                message.properties,
                sys_flag=decision.sys_flag,
                born_ms=message.born_ms,
                born_host=host,
                store_host=self._identity.store_host,
            )
            one, end_offset = self._put(topic, message, new)
            sent.append(one)
        flushed = self._store.wait_flushed(end_offset)
        return sent if flushed is None else _when_flushed(sent, flushed)

    def _put(self, topic: str, message: Outgoing, new: NewMessage) -> tuple[Sent, int]:
        transaction_id = recall_handle = ""
        if message.kind in (MessageType.NORMAL, MessageType.FIFO):
            new.suffix = self._send.suffix
            appended = self._putting.put(new)
        else:
            properties = decode_properties(message.properties)
            properties.update(self._send.added)
            new.properties = encode_properties(properties)
            is_half = message.kind == MessageType.TRANSACTION
            arrange = self._putting.half if is_half else self._putting.arrange
            new = arrange(new, properties)
            appended = self._putting.put(new)
            if is_half:
                place = TransactionPlace(message.message_id, appended.queue_offset, appended.offset)
                transaction_id = place.text()
            elif new.topic == TIMER_TOPIC:
                recall_handle = self._send.recall_handle(topic, new)
        return Sent(appended.queue_offset, transaction_id, recall_handle), appended.end_offset

    def _queue(self, config: TopicConfig, message_group: str) -> int:
        queues = config.write_queue_nums if permission.is_writeable(config.perm) else 0
        if queues <= 0:
            raise Refusal(Code.FORBIDDEN, "no writable queue")
        if message_group:
            return jump_hash(java_hash(message_group), queues)
        turn = self._turns.get(config.topic_name, 0)
        if len(self._turns) > 4 * len(self._topics) + 64:
            self._turns.clear()  # topics come and go
        self._turns[config.topic_name] = turn + 1
        return turn % queues


@functools.lru_cache(1024)
def _host(peer: str) -> bytes:
    try:
        return parse_host(peer)
    except LocalProtocolError:
        return _NOWHERE


async def _when_flushed(sent: list[Sent], flushed: asyncio.Future[Outcome]) -> list[Sent]:
    fault = _fault(await asyncio.shield(flushed))
    return sent if fault is None else [each._replace(fault=fault) for each in sent]


def _fault(outcome: Outcome) -> Status | None:
    if outcome is True:
        return None
    if outcome is False:
        return Status(Code.MASTER_PERSISTENCE_TIMEOUT, FLUSH_LATE)
    if outcome is ReplicaFault.TIMEOUT:
        return Status(Code.SLAVE_PERSISTENCE_TIMEOUT, f"stored, but {outcome.value}")
    if outcome is ReplicaFault.NOT_AVAILABLE:
        return Status(Code.HA_NOT_AVAILABLE, f"stored, but {outcome.value}")
    return Status(Code.INTERNAL_SERVER_ERROR, STOPPED)
