"""Answers to requests between clients: request codes 324 and 325.

A consumer answers a request by sending to ``<cluster>_REPLY_TOPIC``; the message names the client
that asked (REPLY_TO_CLIENT).  The broker pushes it to that client's connection (code 326), and
keeps a copy in the topic where ``storeReplyMessageEnable`` says so.
"""

from __future__ import annotations

from typing import Final

from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.identity import Identity
from contrailmq.broker.services.putting import Putting
from contrailmq.broker.tables.producers import ProducerTable
from contrailmq.broker.tables.topics import TopicTable, topic_missing
from contrailmq.clock import Clock
from contrailmq.errors import BrokerError, NetworkError
from contrailmq.net.connection import Connection
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.send import (
    ReplyMessageRequest,
    SendMessageRequest,
    SendMessageRequestV2,
)
from contrailmq.protocol.hosts import host_text
from contrailmq.protocol.ids import offset_message_id
from contrailmq.protocol.names import reply_topic
from contrailmq.protocol.properties import (
    PROPERTY_PUSH_REPLY_TIME,
    PROPERTY_REPLY_TO_CLIENT,
    decode_properties_text,
    encode_properties,
)
from contrailmq.store.types import NewMessage

PUSH_TIMEOUT_S: Final = 10.0


class SendReply:
    """Request codes 324 and 325."""

    def __init__(
        self,
        putting: Putting,
        topics: TopicTable,
        producers: ProducerTable,
        *,
        live: LiveSettings,
        identity: Identity,
        clock: Clock,
        answer_fields: dict[str, str],
    ) -> None:
        self._putting = putting
        self._topics = topics
        self._producers = producers
        self._live = live
        self._identity = identity
        self._clock = clock
        self._answer_fields = answer_fields

    async def __call__(self, request: Command, connection: Connection) -> Command:
        """Push the answer to whoever asked; SYSTEM_ERROR when it did not arrive."""
        if request.code == RequestCode.SEND_REPLY_MESSAGE:
            header = SendMessageRequest.from_fields(request.fields)
        else:
            header = SendMessageRequestV2.from_fields(request.fields).v1()
        config = self._topics.find(header.topic)
        if config is None and header.topic == reply_topic(self._identity.cluster_name):
            config = self._topics.create_internal(header.topic, queue_nums=1)
        if config is None:
            raise topic_missing(header.topic)
        queue_id = header.queue_id if 0 <= header.queue_id < config.write_queue_nums else 0
        properties = decode_properties_text(header.properties or "")
        fault = await self._push(request, header, connection, properties=properties)
        fields = {"msgId": "0", "queueId": "0", "queueOffset": "0"}
        if self._live.now.store_replies:
            fields = self._keep(request, header, connection, queue_id=queue_id) or fields
        fields.update(self._answer_fields)
        code = ResponseCode.SUCCESS if fault is None else ResponseCode.SYSTEM_ERROR
        return request.reply(code=code, remark=fault, fields=fields)

    async def _push(
        self,
        request: Command,
        header: SendMessageRequest,
        connection: Connection,
        *,
        properties: dict[str, str],
    ) -> str | None:
        client_id = properties.get(PROPERTY_REPLY_TO_CLIENT)
        if client_id is None:
            return f"reply message properties[{PROPERTY_REPLY_TO_CLIENT}] is null"
        asker = self._producers.find_client(client_id)
        if asker is None:
            return f"push reply message fail, channel of <{client_id}> not found."
        now_ms = self._clock.now_ms()
        properties[PROPERTY_PUSH_REPLY_TIME] = str(now_ms)
        push = ReplyMessageRequest(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=encode_properties(properties).decode(),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
            born_host=connection.peer,
            store_host=host_text(self._identity.store_host),
            store_timestamp=now_ms,
        )
        code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        try:
            answer = await asker.call(
                Command.request(code, push, body=request.body), timeout_s=PUSH_TIMEOUT_S
            )
        except NetworkError as error:
            return f"push reply message to {client_id} fail: {error}"
        if answer.code != ResponseCode.SUCCESS:
            return f"push reply message to {client_id} fail: it answered code {answer.code}"
        return None

    def _keep(
        self, request: Command, header: SendMessageRequest, connection: Connection, *, queue_id: int
    ) -> dict[str, str] | None:
        message = NewMessage(
            header.topic,
            queue_id,
            request.body,
            encode_properties(decode_properties_text(header.properties or "")),
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_ms=header.born_timestamp,
            born_host=connection.peer_host,
            store_host=self._identity.store_host,
            reconsume_times=header.reconsume_times or 0,
            wait=False,
        )
        try:
            appended = self._putting.put(message)
        except BrokerError:
            return None  # it was pushed, or not; the copy is only for those who look later
        return {
            "msgId": offset_message_id(self._identity.store_host, appended.offset),
            "queueId": str(queue_id),
            "queueOffset": str(appended.queue_offset),
        }
