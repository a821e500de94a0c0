"""Messages as an application sees them: what it sends, what it gets back, what it receives."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from contrailmq._native import records
from contrailmq._native.client.delivery import DeliveryFields, adopt, find_bad_bodies
from contrailmq.client.arguments import (
    body_bytes,
    check_keys,
    check_properties,
    check_tags,
    check_whole,
    json_bytes,
    json_value,
)
from contrailmq.client.names import unwrap
from contrailmq.errors import ClientError, RemoteProtocolError
from contrailmq.protocol import properties as names
from contrailmq.protocol.compression import compression_of, decompress
from contrailmq.protocol.hosts import host_text
from contrailmq.protocol.ids import offset_message_id
from contrailmq.protocol.names import is_retry_topic
from contrailmq.protocol.queue import MessageQueue
from contrailmq.protocol.sysflag import COMPRESSED

DELAY_LEVEL_MAX: Final = 18
DEAD_LETTER_S: Final = -1.0  # in place of a time to wait
_NO_LIMIT: Final = 1 << 62
_TIME_MAX_MS: Final = (1 << 63) - 1


class Message:
    """A message to be sent; ``send`` does not change it, so it can be sent again.

    ``keys`` make it findable, ``tags`` filterable.  ``delay_level`` is one of the broker's fixed
    delays (1 s, 5 s, 10 s, 30 s, 1 m … 2 h: levels 1 to 18); ``delay_s`` and ``deliver_at_ms`` are
    exact and need a broker with a timer wheel (5.x brokers).
    """

    __slots__ = (
        "body",
        "delay_level",
        "delay_s",
        "deliver_at_ms",
        "flag",
        "keys",
        "properties",
        "tags",
        "topic",
        "wait_stored",
    )

    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview = b"",
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
        delay_s: float | None = None,
        deliver_at_ms: int | None = None,
        flag: int = 0,
        wait_stored: bool = True,
    ) -> None:
        self.topic = topic
        self.body = body
        self.tags = tags
        self.keys: tuple[str, ...] = tuple(keys.split() if isinstance(keys, str) else keys)
        self.properties: dict[str, str] = dict(properties) if properties else {}
        self.delay_level = delay_level
        self.delay_s = delay_s
        self.deliver_at_ms = deliver_at_ms
        self.flag = flag
        self.wait_stored = wait_stored
        if type(body) is not bytes:
            body_bytes(body)
        if tags is not None or self.keys:
            check_tags(tags)
            check_keys(self.keys)
        if self.properties:
            check_properties(self.properties)
        if delay_level or delay_s is not None or deliver_at_ms is not None or flag:
            self._check_numbers()

    @classmethod
    def json(cls, topic: str, value: Any, **arguments: Any) -> Message:
        """Make a message whose body is a value as JSON; ``arguments`` are those of ``Message``."""
        return cls(topic, json_bytes(value), **arguments)

    def _check_numbers(self) -> None:
        check_whole("delay_level", self.delay_level, 0, DELAY_LEVEL_MAX)
        check_whole("flag", self.flag, -(1 << 31), (1 << 31) - 1)
        if self.deliver_at_ms is not None:
            check_whole("deliver_at_ms", self.deliver_at_ms, 0, _TIME_MAX_MS)
        delay_s: Any = self.delay_s
        if delay_s is not None and (
            isinstance(delay_s, bool)
            or not isinstance(delay_s, int | float)
            or not 0 <= delay_s * 1000 <= _TIME_MAX_MS  # false for nan, too
        ):
            raise ClientError(f"delay_s is {delay_s!r}: expected seconds from 0 on")

    @property
    def is_delayed(self) -> bool:
        """Whether the broker is to hold it back."""
        return bool(self.delay_level or self.delay_s is not None or self.deliver_at_ms is not None)

    def wire_properties(self) -> dict[str, str]:
        """All properties as the broker stores them; raises for what could not be stored."""
        found: dict[str, str] = {}
        self._check_numbers()
        if self.properties:
            check_properties(self.properties)
            found.update(self.properties)
        if self.keys:
            check_keys(self.keys)
            found[names.PROPERTY_KEYS] = names.join_keys(self.keys)
        if self.tags:
            check_tags(self.tags)
            found[names.PROPERTY_TAGS] = self.tags
        found[names.PROPERTY_WAIT] = "true" if self.wait_stored else "false"
        if self.delay_level:
            found[names.PROPERTY_DELAY] = str(self.delay_level)
        if self.delay_s is not None:
            found[names.PROPERTY_TIMER_DELAY_MS] = str(int(self.delay_s * 1000))
        if self.deliver_at_ms is not None:
            found[names.PROPERTY_TIMER_DELIVER_MS] = str(self.deliver_at_ms)
        return found

    def __repr__(self) -> str:
        return (
            f"<Message {self.topic} tags={self.tags} keys={self.keys} body={len(self.body)} bytes>"
        )


class SendStatus(enum.Enum):
    """What the broker said about a message it has stored (SendStatus)."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class Receipt(NamedTuple):
    """Where a message is: its own id, its place at the broker, and how safe it is there.

    For a batch the ids are joined by commas, ``queue`` and ``offset`` are those of its first.
    """

    message_id: str
    offset_message_id: str
    queue: MessageQueue
    offset: int
    status: SendStatus = SendStatus.SEND_OK
    transaction_id: str | None = None
    region: str = "DefaultRegion"
    recall_handle: str | None = None

    @property
    def message_ids(self) -> list[str]:
        """The ids of the messages of a batch, in order."""
        return self.message_id.split(",")


M = TypeVar("M", bound="ReceivedMessage")


class Origin:
    """Where messages were pulled from: what all of one queue share."""

    __slots__ = ("group", "namespace", "queue")

    def __init__(self, queue: MessageQueue, group: str, namespace: str = "") -> None:
        self.queue = queue
        self.group = group
        self.namespace = namespace


class ReceivedMessage(DeliveryFields):
    """A message as it came from a broker: a decoded record with the body as it was sent.

    Plain attributes: topic, body, queue_id, queue_offset, commit_log_offset, born_ms, store_ms,
    reconsume_times, flag, sys_flag.  A push consumer acknowledges the message when its loop or
    handler is done with it; ``retry`` asks instead for another delivery later.  ``problem`` is set
    only where the consumer asked to be given messages that cannot be opened (``on_bad_message``).
    """

    __slots__ = ("__dict__",)

    origin: Origin
    problem: str | None = None  # why its body cannot be opened; then ``body`` is as it was stored

    @property
    def offset(self) -> int:
        """Its offset in its queue."""
        return self.queue_offset

    @property
    def size(self) -> int:
        """The bytes it takes at the broker; what flow control counts."""
        return self.store_size

    @property
    def queue(self) -> MessageQueue:
        """The queue it was pulled from (for a retry, one of the retry topic)."""
        return self.origin.queue

    @property
    def attempt(self) -> int:
        """1 for the first delivery."""
        return self.reconsume_times + 1

    @property
    def properties(self) -> dict[str, str]:
        """All properties, the system's included."""
        known: dict[str, str] | None = self.lazy_properties
        if known is None:
            known = self.lazy_properties = records.decode_properties(self.properties_bytes)
        return known

    @property
    def tags(self) -> str | None:
        """What it can be filtered by."""
        return self.properties.get(names.PROPERTY_TAGS)

    @property
    def keys(self) -> list[str]:
        """What it can be found by."""
        text = self.properties.get(names.PROPERTY_KEYS)
        return names.split_keys(text) if text else []

    @property
    def message_id(self) -> str:
        """The id its producer gave it, else the id of its place."""
        return self.properties.get(names.PROPERTY_UNIQUE_KEY) or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The id of its place at the broker."""
        return offset_message_id(self.store_host_bytes, self.commit_log_offset)

    @property
    def born_host(self) -> str:
        """``ip:port`` of the producer."""
        return host_text(self.born_host_bytes)

    @property
    def store_host(self) -> str:
        """``ip:port`` of the broker that stored it."""
        return host_text(self.store_host_bytes)

    def retry(self, after: float | None = None) -> None:
        """Deliver it again later instead of acknowledging it.

        ``after`` in seconds picks the broker's nearest delay that is not shorter; without it the
        broker waits longer with each attempt.  For ordered consumption the whole queue waits.
        """
        self.retry_asked = True
        self.retry_after_s = after

    def dead_letter(self) -> Any:
        """Make it a dead letter when its handler is done, without another attempt.

        Later calls of ``retry`` undo it. A broadcast message is dropped.
        """
        self.retry(DEAD_LETTER_S)

    def json(self, kind: Any = Any) -> Any:
        """The value of a JSON body; with ``kind`` (a dataclass, ``dict[str, int]`` …) checked.

        Raises ClientError for a body that is no JSON, or not of that kind.
        """
        return json_value(self.body, kind)

    def __repr__(self) -> str:
        return (
            f"<ReceivedMessage {self.topic} {self.origin.queue.broker_name}/{self.queue_id}"
            f"@{self.queue_offset} attempt={self.attempt} body={len(self.body)} bytes>"
        )


def open_messages(data: bytes, origin: Origin) -> list[ReceivedMessage]:
    """Decode the answer to a pull: bodies decompressed, retried messages under their own topic.

    Raises RemoteProtocolError when the bytes are no records.
    """
    return open_as(ReceivedMessage, data, origin)


def open_as(kind: type[M], data: bytes, origin: Origin) -> list[M]:
    """``open_messages`` for messages of another class."""
    try:
        found: list[M] = records.decode_records(data, kind, _NO_LIMIT, False)
    except records.RecordDamage as error:
        if error.position == 0:
            raise RemoteProtocolError(f"records of {len(data)} bytes: {error}") from error
        found = records.decode_records(data[: error.position], ReceivedMessage, _NO_LIMIT, False)
    is_compressed = adopt(found, origin)
    for index in find_bad_bodies(found):
        found[index].problem = "the body does not have the checksum it was stored with"
    if is_compressed:
        for message in found:
            if message.sys_flag & COMPRESSED and message.problem is None:
                _unpack(message)
    if is_retry_topic(origin.queue.topic):
        for message in found:
            message.topic = message.properties.get(names.PROPERTY_RETRY_TOPIC) or message.topic
    if origin.namespace:
        for message in found:
            message.topic = unwrap(origin.namespace, message.topic)
    return found


def _unpack(message: ReceivedMessage) -> None:
    try:
        message.body = decompress(message.body, compression_of(message.sys_flag))
    except RemoteProtocolError as error:
        message.problem = str(error)


DELAYS_S = (
    1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200,
)  # fmt: skip


def delay_level(after_s: float | None) -> int:
    """The broker's delay level for a wait: the shortest that is long enough; 0 leaves it to it.

    -1 makes a dead letter.
    """
    if after_s is None:
        return 0
    if after_s == DEAD_LETTER_S:
        return -1
    for level, delay in enumerate(DELAYS_S, start=1):
        if delay >= after_s:
            return level
    return len(DELAYS_S)
