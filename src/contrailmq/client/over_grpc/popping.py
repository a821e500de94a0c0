"""A consumer's requests as calls: what is received, and how it is settled.

Receipt handles of a service are any text.  The client knows a handle's parts, so each message gets
one of ours, whose offset is a serial number, and ``InHand`` finds the service's by it.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Final, NamedTuple

from contrailmq.errors import InvalidParameter, LocalProtocolError, RemoteProtocolError
from contrailmq.grpc.messages import (
    Broker,
    Encoding,
    FilterExpression,
    FilterType,
    MessageQueue,
    Moment,
    Permission,
    ReceiveMessageRequest,
    Resource,
    SystemProperties,
    WireMessage,
)
from contrailmq.protocol import properties as names
from contrailmq.protocol.hosts import host_bytes, split_address
from contrailmq.protocol.message import encode_record
from contrailmq.protocol.pop import NORMAL, Handle

IN_HAND_MAX: Final = 100_000
NOWHERE: Final = bytes(8)


class Held(NamedTuple):
    """What the service knows a message by."""

    message_id: str
    receipt_handle: str
    topic: str
    attempt: int


class InHand:
    """The messages that were received and not settled; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}
        self._serial = 0

    def add(self, held: Held) -> int:
        """Keep a message; returns its serial number."""
        self._serial += 1
        if len(self._held) >= IN_HAND_MAX:
            del self._held[next(iter(self._held))]
        self._held[self._serial] = held
        return self._serial

    def get(self, serial: int) -> Held:
        """A message by its number; raises InvalidParameter."""
        held = self._held.get(serial)
        if held is None:
            raise InvalidParameter(f"message {serial} was settled, or received too long ago")
        return held

    def find(self, serial: int) -> Held | None:
        """A message by its number, if it is not settled."""
        return self._held.get(serial)

    def replace(self, serial: int, receipt_handle: str) -> None:
        """A message has a new handle."""
        if serial in self._held and receipt_handle:
            self._held[serial] = self._held[serial]._replace(receipt_handle=receipt_handle)

    def settle(self, serial: int) -> None:
        """A message is settled."""
        self._held.pop(serial, None)

    def by_id(self, message_id: str) -> tuple[int, Held]:
        """The latest receipt of a message; raises InvalidParameter."""
        for serial in reversed(self._held):
            if self._held[serial].message_id == message_id:
                return serial, self._held[serial]
        raise InvalidParameter(f"message {message_id} was settled, or received too long ago")


def receive_request(fields: dict[str, str]) -> ReceiveMessageRequest:
    """A pop as a receive."""
    topic = Resource(name=fields["topic"])
    is_sql = fields.get("expType") == "SQL92"
    return ReceiveMessageRequest(
        group=Resource(name=fields["consumerGroup"]),
        message_queue=MessageQueue(
            topic, -1, Permission.READ_WRITE, Broker(fields.get("bname", ""), 0)
        ),
        filter_expression=FilterExpression(
            FilterType.SQL if is_sql else FilterType.TAG, fields.get("exp") or "*"
        ),
        batch_size=int(fields["maxMsgNums"]),
        invisible_duration=Moment.of_ms(int(fields["invisibleTime"])),
        auto_renew=False,
        long_polling_timeout=Moment.of_ms(int(fields["pollTime"])),
    )


def record_of(message: WireMessage, held: InHand, *, handle: Handle) -> bytes:
    """A received message as a record, with a handle of ours among its properties."""
    system = message.system_properties or SystemProperties()
    topic = message.topic.name if message.topic is not None else ""
    attempt = max(system.delivery_attempt or 1, 1)
    serial = held.add(Held(system.message_id, system.receipt_handle or "", topic, attempt))
    own = handle._replace(start_offset=serial, offset=serial, queue_id=system.queue_id)
    found = dict(message.user_properties)
    found[names.PROPERTY_UNIQUE_KEY] = system.message_id
    found[names.PROPERTY_POP_CK] = own.text()
    if system.tag is not None:
        found[names.PROPERTY_TAGS] = system.tag
    if system.keys:
        found[names.PROPERTY_KEYS] = " ".join(system.keys)
    if system.message_group:
        found[names.PROPERTY_SHARDING_KEY] = system.message_group
    if system.trace_context:
        found[names.PROPERTY_TRACE_CONTEXT] = system.trace_context
    if system.delivery_timestamp is not None:
        found[names.PROPERTY_TIMER_DELIVER_MS] = str(system.delivery_timestamp.ms)
    return bytes(
        encode_record(
            topic=topic,
            body=_plain(message.body, system.body_encoding),
            properties=found,
            born_ms=system.born_timestamp.ms if system.born_timestamp is not None else 0,
            born_host=_host(system.born_host),
            store_host=_host(system.store_host),
            queue_id=system.queue_id,
            queue_offset=system.queue_offset or 0,
            store_ms=system.store_timestamp.ms if system.store_timestamp is not None else 0,
            reconsume_times=attempt - 1,
        )
    )


def handle_of(broker_name: str, *, now_ms: int, invisible_ms: int) -> Handle:
    """What all handles of one receive share."""
    return Handle(0, now_ms, invisible_ms, 0, NORMAL, broker_name)


def _plain(body: bytes, encoding: int) -> bytes:
    if encoding != Encoding.GZIP:
        return body
    try:
        return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else zlib.decompress(body)
    except (OSError, EOFError, zlib.error) as error:
        raise RemoteProtocolError(f"body of {len(body)} bytes is no gzip: {error}") from None


def _host(text: str) -> bytes:
    try:
        return host_bytes(*split_address(text))
    except (ValueError, LocalProtocolError):  # a name, or nothing: a record holds numbers only
        return NOWHERE
