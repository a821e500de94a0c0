"""From the user's message to what goes over the wire: checks, id, compression, flags, fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contrailmq._native.client.sends import batch_body, plain_batch, property_text
from contrailmq.client.arguments import body_bytes
from contrailmq.client.message import Message, Receipt, SendStatus
from contrailmq.client.names import check_topic, wrap
from contrailmq.client.producer.settings import ProducerSettings
from contrailmq.clock import Clock
from contrailmq.errors import ClientError, LocalProtocolError, error_of
from contrailmq.protocol import properties as names
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.compression import compress
from contrailmq.protocol.headers.send import SendMessageResponse
from contrailmq.protocol.ids import UniqueIds
from contrailmq.protocol.queue import MessageQueue
from contrailmq.protocol.sysflag import COMPRESSED, TRANSACTION_PREPARED

_STATUS: Final = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}


_TOPICS_MAX: Final = 4096


@dataclass(slots=True)
class Outgoing:
    """A message, or a batch, ready to be sent to any queue of its topic."""

    topic: str
    body: bytes | bytearray | memoryview
    properties: str
    message_id: str
    code: int = int(RequestCode.SEND_MESSAGE_V2)
    sys_flag: int = 0
    flag: int = 0
    batch: bool = False
    reconsume_times: int = 0
    retries_max: int | None = None

    @property
    def size(self) -> int:
        """The bytes it is counted with while it is under way."""
        return len(self.body) + len(self.properties) + 256

    def command(
        self, group: str, queue: MessageQueue, *, born_ms: int, settings: ProducerSettings
    ) -> Command:
        """The request for one queue (SendMessageRequestHeaderV2).

        The fields are written by hand: this is done for every message, and a header object costs
        more than the rest of the send.
        """
        fields = {
            "a": group,
            "b": self.topic,
            "c": settings.default_topic,
            "d": str(settings.default_topic_queues),
            "e": str(queue.queue_id),
            "f": str(self.sys_flag),
            "g": str(born_ms),
            "h": str(self.flag),
            "i": self.properties,
            "j": str(self.reconsume_times),
            "k": "false",
            "m": "true" if self.batch else "false",
            "n": queue.broker_name,
        }
        if self.retries_max is not None:
            fields["l"] = str(self.retries_max)
        return Command(self.code, fields=fields, body=self.body)


class BatchParts:
    """The messages of a batch that is being filled, by columns."""

    __slots__ = ("bodies", "flags", "ids", "texts")

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.texts: list[bytes] = []  # properties
        self.flags: list[int] = []
        self.ids: list[str] = []


class Packer:
    """Makes outgoing messages of one producer."""

    def __init__(
        self, settings: ProducerSettings, *, ids: UniqueIds, clock: Clock, namespace: str
    ) -> None:
        self._settings = settings
        self._ids = ids
        self._now_ms = clock.now_ms
        self._namespace = namespace
        self._instance = f"{names.PROPERTY_INSTANCE_ID}\x01{namespace}\x02" if namespace else ""
        self._topics: dict[str, str] = {}  # checked names and what they are on the wire

    def pack(self, message: Message, *, extra: dict[str, str] | None = None) -> Outgoing:
        """One message; ``extra`` holds properties that only the client itself may set."""
        body, properties = self._checked(message)
        message_id = self._ids.next()
        properties[names.PROPERTY_UNIQUE_KEY] = message_id
        if extra:
            properties.update(extra)
        sys_flag = 0
        if len(body) >= self._settings.compress_over:
            packed = compress(body, self._settings.compression, self._settings.compression_level)
            if len(packed) < len(body):  # else it would be larger, and maybe too large
                body = packed
                sys_flag = COMPRESSED | self._settings.compression.flags
        if names.PROPERTY_TRANSACTION_PREPARED in properties:
            sys_flag |= TRANSACTION_PREPARED
        return Outgoing(
            self._topics[message.topic],
            body,
            _text(properties),
            message_id,
            sys_flag=sys_flag,
            flag=message.flag,
        )

    def pack_batch(self, messages: Sequence[Message]) -> Outgoing:
        """Several messages of one topic in one request; the broker stores them one by one."""
        if not messages:
            raise ClientError("a batch needs at least one message")
        first, now_ms = messages[0], self._now_ms()
        if first.topic in self._topics:
            plain = self._pack_plain(list(messages), now_ms)
            if plain is not None:
                return plain
        parts = BatchParts()
        for message in messages:
            if message.topic != first.topic or message.wait_stored != first.wait_stored:
                raise ClientError(
                    "the messages of a batch have one topic and one wait_stored;"
                    f" here are {first.topic!r} and {message.topic!r}"
                )
            if message.is_delayed:
                raise ClientError("a delayed message cannot be in a batch; send it alone")
            self.pack_inner(message, parts, now_ms)
        return self.join(first.topic, parts)

    def pack_inner(self, message: Message, parts: BatchParts, now_ms: int) -> None:
        """Add one message to a batch; raises for what cannot be sent, and adds nothing then."""
        body, flag = message.body, message.flag
        if not isinstance(flag, int) or not -1 << 31 <= flag < 1 << 31:
            raise ClientError(f"flag is {flag!r}, must be a whole number of 32 bits")
        text = property_text(message, names.RESERVED_PROPERTIES)
        if (
            text is None
            or type(body) is not bytes
            or not 0 < len(body) <= self._settings.message_size_max
            or message.topic not in self._topics
        ):
            body, properties = self._checked(message)
            text = _text(properties)
            instance = ""
        else:
            instance = self._instance
        message_id = self._ids.at(now_ms)
        text = f"{text}{instance}{names.PROPERTY_UNIQUE_KEY}\x01{message_id}\x02"
        parts.bodies.append(body)
        parts.texts.append(text.encode("utf-8", "replace"))
        parts.flags.append(flag)
        parts.ids.append(message_id)

    def join(self, topic: str, parts: BatchParts) -> Outgoing:
        """A batch of packed messages."""
        try:
            body = batch_body(parts.bodies, parts.texts, parts.flags)
        except ValueError as error:
            raise LocalProtocolError(str(error)) from error
        return self._batch(topic, body, parts.ids)

    def _pack_plain(self, messages: list[Message], now_ms: int) -> Outgoing | None:
        """``pack_batch`` in one compiled loop; None when a message needs a closer look."""
        first, ids = messages[0], self._ids.many(now_ms, len(messages))
        before_id = f"{self._instance}{names.PROPERTY_UNIQUE_KEY}\x01"
        try:
            body = plain_batch(
                messages, ids, first.topic, first.wait_stored, before_id,
                self._settings.message_size_max, names.RESERVED_PROPERTIES,
            )  # fmt: skip
        except ValueError as error:
            raise LocalProtocolError(str(error)) from error
        return None if body is None else self._batch(first.topic, body, ids)

    def _batch(self, topic: str, body: bytearray, ids: list[str]) -> Outgoing:
        if len(body) > self._settings.message_size_max:
            raise ClientError(
                f"batch of {len(body)} bytes, at most {self._settings.message_size_max};"
                " send it in parts"
            )
        return Outgoing(
            topic=wrap(self._namespace, topic),
            body=body,
            properties=_text({names.PROPERTY_WAIT: "true"}),
            message_id=",".join(ids),
            code=int(RequestCode.SEND_BATCH_MESSAGE),
            batch=True,
        )

    def _checked(self, message: Message) -> tuple[bytes, dict[str, str]]:
        if message.topic not in self._topics:
            check_topic(message.topic, for_sending=True)
            if len(self._topics) >= _TOPICS_MAX:
                self._topics.clear()
            self._topics[message.topic] = wrap(self._namespace, message.topic)
        body = body_bytes(message.body)
        if not 0 < len(body) <= self._settings.message_size_max:
            raise ClientError(
                f"body of {len(body)} bytes, at least 1 and at most"
                f" {self._settings.message_size_max}"
            )
        properties = message.wire_properties()
        if self._namespace:
            properties[names.PROPERTY_INSTANCE_ID] = self._namespace
        return body, properties


def receipt_of(answer: Command, outgoing: Outgoing, queue: MessageQueue) -> Receipt:
    """What the broker's answer says; raises the error of a refusal."""
    status = _STATUS.get(answer.code)
    if status is None:
        raise error_of(answer.code, answer.remark)
    fields = answer.fields
    try:
        queue_id, offset = int(fields["queueId"]), int(fields["queueOffset"])
        offset_message_id = fields["msgId"]
    except (KeyError, ValueError):
        header = SendMessageResponse.from_fields(fields)  # raises with the name of the field
        queue_id, offset = header.queue_id, header.queue_offset
        offset_message_id = header.msg_id
    return Receipt(
        outgoing.message_id,
        offset_message_id,
        MessageQueue(queue.topic, queue.broker_name, queue_id),
        offset,
        status,
        fields.get("transactionId"),
        fields.get(names.PROPERTY_MSG_REGION, "DefaultRegion"),
        fields.get("recallHandle"),
    )


def _text(properties: dict[str, str]) -> str:
    # The same text encode_properties writes, which the header wants undecoded.
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])
