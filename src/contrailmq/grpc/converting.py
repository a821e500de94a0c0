"""Messages of gRPC and records of the log: which property becomes which field, both ways.

A stored message has the properties the original's proxy writes, so that consumers of either
protocol read it alike.  Bodies are stored and handed out plain: SDKs differ in which compression
they can undo, and remoting consumers cannot undo gzip.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from typing import Final, NamedTuple

from contrailmq.grpc.checks import FORBIDDEN_PROPERTIES
from contrailmq.grpc.codes import Code, Refusal
from contrailmq.grpc.messages import (
    DeadLetterQueue,
    Digest,
    DigestType,
    Encoding,
    MessageType,
    Moment,
    Resource,
    SystemProperties,
    WireMessage,
)
from contrailmq.protocol import properties as names
from contrailmq.protocol.message import Record
from contrailmq.protocol.pop import Handle
from contrailmq.protocol.properties import encode_properties, split_keys

HIDDEN_PROPERTIES: Final = FORBIDDEN_PROPERTIES | {
    names.PROPERTY_SHARDING_KEY,
    names.PROPERTY_TRACE_CONTEXT,
    names.PROPERTY_TRANSACTION_ID,
    names.PROPERTY_TRANSACTION_CHECK_TIMES,
    names.PROPERTY_CHECK_IMMUNITY_TIME,
}
TYPES: Final = {kind.name: kind for kind in MessageType}
_DELAYS: Final = (
    names.PROPERTY_DELAY,
    names.PROPERTY_TIMER_DELIVER_MS,
    names.PROPERTY_TIMER_DELAY_SEC,
)


class Outgoing(NamedTuple):
    """A sent message as the broker stores it."""

    message_id: str
    body: bytes
    properties: bytes  # encoded, without what the broker adds
    born_ms: int
    message_group: str
    kind: MessageType


def outgoing(message: WireMessage, topic: str, *, peer: str, body_size_max: int) -> Outgoing:
    """What is stored of a message that passed the checks."""
    system = message.system_properties or SystemProperties()
    body = message.body
    if system.body_encoding == Encoding.GZIP:
        body = _gunzipped(body, body_size_max)
    found: dict[str, str | None] = dict(message.user_properties)
    found.pop("", None)  # no record can hold it
    kind = MessageType.FIFO if names.PROPERTY_SHARDING_KEY in found else MessageType.NORMAL
    if system.tag is not None:
        found[names.PROPERTY_TAGS] = system.tag
    if system.keys:
        found[names.PROPERTY_KEYS] = " ".join(system.keys)
    found[names.PROPERTY_UNIQUE_KEY] = system.message_id
    if system.message_group:
        kind = MessageType.FIFO
        found[names.PROPERTY_SHARDING_KEY] = system.message_group
    if system.delivery_timestamp is not None:
        kind = MessageType.DELAY
        found[names.PROPERTY_TIMER_DELIVER_MS] = str(system.delivery_timestamp.ms)
    if system.message_type == MessageType.TRANSACTION:
        kind = MessageType.TRANSACTION
        found[names.PROPERTY_TRANSACTION_PREPARED] = "true"
        recovery = system.orphaned_transaction_recovery_duration
        if recovery is not None:
            found[names.PROPERTY_CHECK_IMMUNITY_TIME] = str(recovery.seconds)
    found[names.PROPERTY_PRODUCER_GROUP] = topic
    found[names.PROPERTY_RECONSUME_TIME] = str(system.delivery_attempt or 0)
    if system.trace_context:
        found[names.PROPERTY_TRACE_CONTEXT] = system.trace_context
    found[names.PROPERTY_BORN_HOST] = system.born_host or peer
    born = system.born_timestamp
    born_ms = born.ms if born is not None else 0
    found[names.PROPERTY_BORN_TIMESTAMP] = str(born_ms)
    return Outgoing(
        system.message_id, body, encode_properties(found), born_ms, system.message_group or "", kind
    )


def _gunzipped(body: bytes, size_max: int) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as stream:
            plain = stream.read(size_max + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise Refusal(Code.MESSAGE_CORRUPTED, f"the body is no gzip: {error}") from None
    if len(plain) > size_max:
        raise Refusal(Code.MESSAGE_BODY_TOO_LARGE, f"the unpacked body exceeds the max {size_max}")
    return plain


def delivered(record: Record, topic: str, *, handle: str | None, attempt: int) -> WireMessage:
    """A stored message as its consumer gets it, under the topic it asked for."""
    properties = record.properties
    body = record.payload()
    # Java's SDK compares the digest's text, in upper case.
    digest = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    due = properties.get(names.PROPERTY_TIMER_DELIVER_MS, "")
    keys = properties.get(names.PROPERTY_KEYS)
    system = SystemProperties(
        tag=properties.get(names.PROPERTY_TAGS),
        keys=split_keys(keys) if keys else [],
        message_id=properties.get(names.PROPERTY_UNIQUE_KEY) or record.offset_message_id,
        body_digest=Digest(DigestType.MD5, digest),
        body_encoding=Encoding.IDENTITY,
        message_type=kind_of(properties),
        born_timestamp=Moment.of_ms(record.born_ms),
        born_host=properties.get(names.PROPERTY_BORN_HOST) or record.born_host,
        store_timestamp=Moment.of_ms(record.store_ms),
        store_host=record.store_host,
        delivery_timestamp=Moment.of_ms(int(due)) if due.isdecimal() else None,
        receipt_handle=handle,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        delivery_attempt=attempt,
        message_group=properties.get(names.PROPERTY_SHARDING_KEY),
        trace_context=properties.get(names.PROPERTY_TRACE_CONTEXT),
    )
    origin = properties.get(names.PROPERTY_DLQ_ORIGIN_TOPIC)
    if origin is not None:
        origin_id = properties.get(names.PROPERTY_DLQ_ORIGIN_MESSAGE_ID, "")
        system.dead_letter_queue = DeadLetterQueue(origin, origin_id)
    user = {name: value for name, value in properties.items() if name not in HIDDEN_PROPERTIES}
    return WireMessage(Resource(name=topic), user, system, body)


def kind_of(properties: dict[str, str]) -> MessageType:
    """What a stored message is."""
    if properties.get(names.PROPERTY_TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION
    if any(name in properties for name in _DELAYS):
        return MessageType.DELAY
    if names.PROPERTY_SHARDING_KEY in properties:
        return MessageType.FIFO
    return MessageType.NORMAL


class ReceiptHandle(NamedTuple):
    """What names a received message: POP's handle and the message's place in the log."""

    handle: Handle
    log_offset: int | None

    def text(self) -> str:
        """Nine parts with single spaces."""
        return f"{self.handle.text()} {self.log_offset if self.log_offset is not None else 0}"

    def is_expired(self, now_ms: int) -> bool:
        """Whether the message is visible again."""
        return self.handle.pop_ms + self.handle.invisible_ms <= now_ms


def parse_receipt(text: str) -> ReceiptHandle:
    """Read a handle; also the ten parts that the original's changes give, whose ninth is void."""
    parts = text.split(" ")
    if len(parts) == 10:
        del parts[8]
    try:
        if len(parts) in (8, 9):
            start, pop, invisible, revive = (int(part) for part in parts[:4])
            handle = Handle(
                start, pop, invisible, revive, parts[4], parts[5], int(parts[6]), int(parts[7])
            )
            return ReceiptHandle(handle, int(parts[8]) if len(parts) == 9 else None)
    except ValueError:
        pass
    raise Refusal(
        Code.INVALID_RECEIPT_HANDLE,
        f"receipt handle {text[:100]!r}: expected nine parts separated by spaces",
    )


class TransactionPlace(NamedTuple):
    """Where a half message lies; part of its transaction id, so nothing has to be remembered."""

    unique_key: str
    queue_offset: int
    log_offset: int
    broker_name: str = ""

    def text(self) -> str:
        """The transaction id: the unique key and both offsets in hex, then the broker."""
        place = f"{self.unique_key}@{self.queue_offset:x}@{self.log_offset:x}"
        return f"{place}@{self.broker_name}" if self.broker_name else place


def parse_transaction(text: str) -> TransactionPlace | None:
    """Where the half message of a transaction id lies; None for an id of another kind."""
    parts = text.split("@")
    try:
        if len(parts) in (3, 4):
            broker = parts[3] if len(parts) == 4 else ""
            return TransactionPlace(parts[0], int(parts[1], 16), int(parts[2], 16), broker)
    except ValueError:
        pass
    return None


def jump_hash(key: int, buckets: int) -> int:
    """Jump consistent hash of Lamping and Veach, with the constants of Guava's."""
    key &= (1 << 64) - 1
    candidate = 0
    while True:
        key = (2862933555777941757 * key + 1) & ((1 << 64) - 1)
        following = int((candidate + 1) / (((key >> 33) + 1) / (1 << 31)))
        if not 0 <= following < buckets:
            return candidate
        candidate = following


def java_hash(text: str) -> int:
    """``String.hashCode``, signed."""
    result = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        result = (31 * result + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result
