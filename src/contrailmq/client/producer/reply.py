"""Request and reply over messages.

A requester sends an ordinary message that names itself and a correlation id; whoever consumes it
sends a reply message, which the broker pushes to the requester (request 326).
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Awaitable
from typing import Final

from contrailmq._native.client.delivery import adopt
from contrailmq.client.arguments import body_bytes
from contrailmq.client.message import Message, Origin, Receipt, ReceivedMessage
from contrailmq.client.producer.outgoing import Outgoing
from contrailmq.clock import Clock
from contrailmq.errors import ClientError, SystemFailure, TooManyRequests
from contrailmq.net.connection import Connection
from contrailmq.protocol import properties as names
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.compression import compression_of, decompress
from contrailmq.protocol.headers.send import ReplyMessageRequest
from contrailmq.protocol.hosts import parse_host
from contrailmq.protocol.names import reply_topic
from contrailmq.protocol.properties import decode_properties_text
from contrailmq.protocol.queue import MessageQueue
from contrailmq.protocol.sysflag import COMPRESSED

log = logging.getLogger(__name__)

REPLY: Final = "reply"
_WAITING_MAX: Final = 65536  # requests without a reply; at the bound another is refused


_CALLER_GONE: Final = "push reply message"  # how a broker's refusal begins, in Java's words


class Replies:
    """The requests of one producer that wait for their replies."""

    def __init__(self, *, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}

    def open(self) -> tuple[str, asyncio.Future[ReceivedMessage]]:
        """A new correlation id, and the future of the reply to it."""
        if len(self._waiting) >= _WAITING_MAX:
            raise TooManyRequests(f"{len(self._waiting)} requests wait for replies")
        correlation_id = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        future = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        return correlation_id, future

    def drop(self, correlation_id: str) -> None:
        """Nobody waits for this reply any more."""
        self._waiting.pop(correlation_id, None)

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Take a reply the broker pushes."""
        header = ReplyMessageRequest.from_fields(request.fields)
        properties = decode_properties_text(header.properties or "")
        correlation_id = properties.get(names.PROPERTY_CORRELATION_ID, "")
        future = self._waiting.get(correlation_id)
        if future is None:
            log.info("reply without a waiting request: correlation_id=%s", correlation_id)
        elif not future.done():
            future.set_result(self._message(header, properties, bytes(request.body)))
        return request.reply(code=int(ResponseCode.SUCCESS))

    def _message(
        self, header: ReplyMessageRequest, properties: dict[str, str], body: bytes
    ) -> ReceivedMessage:
        if header.sys_flag & COMPRESSED:
            body = decompress(body, compression_of(header.sys_flag))
        properties[names.PROPERTY_ARRIVE_TIME] = str(self._clock.now_ms())
        message = ReceivedMessage()
        message.topic = header.topic
        message.body = body
        message.queue_id = header.queue_id
        message.queue_offset = message.commit_log_offset = 0
        message.store_size = message.body_crc = message.prepared_transaction_offset = 0
        message.sys_flag = header.sys_flag
        message.flag = header.flag
        message.born_ms = header.born_timestamp
        message.store_ms = header.store_timestamp
        message.born_host_bytes = parse_host(header.born_host.lstrip("/"))
        message.store_host_bytes = parse_host(header.store_host.lstrip("/"))
        message.reconsume_times = header.reconsume_times or 0
        message.properties_bytes = b""
        message.lazy_properties = properties
        adopt([message], Origin(MessageQueue(header.topic, "", header.queue_id), ""))
        return message


def reply_to(request: ReceivedMessage, body: bytes, *, properties: dict[str, str]) -> Message:
    """The message that answers a request; raises when the message is no request."""
    cluster = request.properties.get(names.PROPERTY_CLUSTER)
    if not cluster or names.PROPERTY_CORRELATION_ID not in request.properties:
        raise ClientError(
            "the message is not a request: it has no cluster or correlation id; it must have been"
            " sent with Producer.request and have come through a broker"
        )
    return Message(reply_topic(cluster), body_bytes(body), properties=properties)


def reply_properties(request: ReceivedMessage) -> dict[str, str]:
    """The properties that bring a reply back to its requester."""
    found = {names.PROPERTY_MESSAGE_TYPE: REPLY}
    for name in (
        names.PROPERTY_CORRELATION_ID,
        names.PROPERTY_REPLY_TO_CLIENT,
        names.PROPERTY_TTL,
    ):
        value = request.properties.get(name)
        if value is not None:
            found[name] = value
    return found


def as_reply(outgoing: Outgoing) -> Outgoing:
    """The same message under the code that makes the broker push it."""
    outgoing.code = int(RequestCode.SEND_REPLY_MESSAGE_V2)
    return outgoing


async def delivered(sending: Awaitable[Receipt], request: ReceivedMessage) -> Receipt | None:
    """Await the sending of a reply. Returns None if the broker cannot reach the caller."""
    try:
        return await sending
    except SystemFailure as error:
        if not error.remark.startswith(_CALLER_GONE):
            raise
        log.warning("a reply was not delivered id=%s error=%s", request.message_id, error)
        return None
