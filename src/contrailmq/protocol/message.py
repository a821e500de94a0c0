"""The message record: the bytes of one message in the commit log, and in every answer to a pull.

The places are in ``_native/record.py``, the map that compiled loops read, too.

| field | bytes | at (IPv4) |
|---|---|---|
| size of the record | 4 | 0 |
| magic: MAGIC_V1, or MAGIC_V2 for topics longer than 127 bytes | 4 | 4 |
| CRC-32 of the stored body, without its top bit; 0 when empty | 4 | 8 |
| queue id, flag | 4 + 4 | 12 |
| queue offset, commit-log offset | 8 + 8 | 20 |
| system flag (``sysflag``) | 4 | 36 |
| born time in ms, born host (``hosts``) | 8 + 8 or 20 | 40 |
| store time in ms, store host | 8 + 8 or 20 | 56 |
| times consumed again, offset of the prepared record | 4 + 8 | 72 |
| body with a 4-byte length | | 84 |
| topic with a 1-byte length, 2-byte under MAGIC_V2 | | |
| properties (``properties``) with a 2-byte length | | |

Where no record fits before the end of a segment, a blank record fills it: its size and
``record.MAGIC_BLANK``, nothing else.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final, TypeAlias

from contrailmq._native import record, records
from contrailmq._native.records import RecordDamage, RecordFields
from contrailmq.errors import CorruptRecord, LocalProtocolError, RemoteProtocolError
from contrailmq.protocol.compression import BODY_SIZE_MAX, compression_of, decompress
from contrailmq.protocol.hosts import HOST_SIZE_V4, HOST_SIZE_V6, host_text
from contrailmq.protocol.ids import offset_message_id
from contrailmq.protocol.properties import (
    PROPERTIES_SIZE_MAX,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQUE_KEY,
    encode_properties,
    split_keys,
)
from contrailmq.protocol.sysflag import BORN_HOST_V6, COMPRESSED, STORE_HOST_V6

Buffer: TypeAlias = bytes | bytearray | memoryview

_HEAD: Final = struct.Struct(">IIiiiqqiq")
_I64: Final = struct.Struct(">q")
_AFTER_HOSTS: Final = struct.Struct(">iqi")
_NO_LIMIT: Final = 1 << 62


class Record(RecordFields):
    """One stored message.  ``body`` is as stored; ``payload()`` is what the producer gave.

    Plain attributes: topic, queue_id, queue_offset, commit_log_offset, store_size, sys_flag, flag,
    born_ms, born_host_bytes, store_ms, store_host_bytes, reconsume_times,
    prepared_transaction_offset, body, body_crc, properties_bytes.  The rest is made when asked for.
    """

    __slots__ = ()

    @property
    def properties(self) -> dict[str, str]:
        """The properties; the same dict every time, the caller's to change."""
        known: dict[str, str] | None = self.lazy_properties
        if known is None:
            known = self.lazy_properties = records.decode_properties(self.properties_bytes)
        return known

    @property
    def born_host(self) -> str:
        """``ip:port`` of the producer."""
        return host_text(self.born_host_bytes)

    @property
    def store_host(self) -> str:
        """``ip:port`` of the broker that stored it."""
        return host_text(self.store_host_bytes)

    @property
    def offset_message_id(self) -> str:
        """The id of its place: store host and commit-log offset."""
        return offset_message_id(self.store_host_bytes, self.commit_log_offset)

    @property
    def unique_key(self) -> str | None:
        """The id its producer gave it, if one did."""
        return self.properties.get(PROPERTY_UNIQUE_KEY)

    @property
    def tags(self) -> str | None:
        """What it can be filtered by."""
        return self.properties.get(PROPERTY_TAGS)

    @property
    def keys(self) -> list[str]:
        """What it can be found by."""
        return split_keys(self.properties.get(PROPERTY_KEYS, ""))

    def payload(self, size_max: int = BODY_SIZE_MAX) -> bytes:
        """The body, decompressed if it is compressed."""
        if self.sys_flag & COMPRESSED:
            return decompress(self.body, compression_of(self.sys_flag), size_max)
        return self.body

    def fields(self) -> tuple[object, ...]:
        """Every stored field, in the order of the record."""
        return (
            self.store_size,
            self.body_crc,
            self.queue_id,
            self.flag,
            self.queue_offset,
            self.commit_log_offset,
            self.sys_flag,
            self.born_ms,
            self.born_host_bytes,
            self.store_ms,
            self.store_host_bytes,
            self.reconsume_times,
            self.prepared_transaction_offset,
            self.body,
            self.topic,
            self.properties_bytes,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash((self.commit_log_offset, self.store_host_bytes))

    def __repr__(self) -> str:
        return (
            f"Record({self.topic}, queue_id={self.queue_id}, queue_offset={self.queue_offset}, "
            f"commit_log_offset={self.commit_log_offset}, store_size={self.store_size})"
        )


def decode_record(buffer: Buffer, position: int = 0, *, check_crc: bool = False) -> Record:
    """The record that begins at a position; CorruptRecord (with that position) if none does."""
    view = memoryview(buffer)
    if position < 0 or len(view) - position < record.START_SIZE:
        raise CorruptRecord(f"no record fits at {position} of {len(view)} bytes", offset=position)
    size = int.from_bytes(view[position : position + 4], "big")
    raw = bytes(view[position : position + max(size, record.START_SIZE)])
    try:
        found: list[Record] = records.decode_records(raw, Record, 1, check_crc)
    except RecordDamage as error:
        reason = record.REASONS[error.reason]
        raise CorruptRecord(f"{reason}, at {position}", offset=position) from error
    return found[0]


def decode_records(buffer: Buffer, *, check_crc: bool = False) -> list[Record]:
    """All records of an answer to a pull; RemoteProtocolError if anything else is among them."""
    raw = buffer if isinstance(buffer, bytes) else bytes(buffer)
    try:
        return records.decode_records(raw, Record, _NO_LIMIT, check_crc)
    except RecordDamage as error:
        raise RemoteProtocolError(f"records of {len(raw)} bytes: {error}") from error


def body_crc(body: Buffer) -> int:
    """What a record holds as the checksum of its body."""
    return zlib.crc32(body) & record.CRC_MASK


def record_size(*, body: int, topic: int, properties: int, sys_flag: int = 0) -> int:
    """The size of a record from the sizes of its parts in bytes."""
    return record.size_with(body, topic, properties, sys_flag)


def encode_record(
    *,
    topic: str | bytes,
    body: Buffer,
    properties: bytes | Mapping[str, str],
    born_ms: int,
    born_host: bytes,
    store_host: bytes,
    queue_id: int = 0,
    queue_offset: int = 0,
    commit_log_offset: int = 0,
    store_ms: int = 0,
    flag: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
) -> bytearray:
    """The bytes of a record; the IPv6 bits of its flag follow the sizes of the hosts."""
    topic_bytes = topic.encode("utf-8", "replace") if isinstance(topic, str) else topic
    raw = properties if isinstance(properties, bytes) else encode_properties(properties)
    if len(raw) > PROPERTIES_SIZE_MAX:
        raise LocalProtocolError(f"properties of {len(raw)} bytes, at most {PROPERTIES_SIZE_MAX}")
    if len(topic_bytes) > record.TOPIC_SIZE_MAX:
        raise LocalProtocolError(
            f"topic of {len(topic_bytes)} bytes, at most {record.TOPIC_SIZE_MAX}"
        )
    sys_flag &= ~(BORN_HOST_V6 | STORE_HOST_V6)
    sys_flag |= BORN_HOST_V6 if _is_v6(born_host) else 0
    sys_flag |= STORE_HOST_V6 if _is_v6(store_host) else 0
    long_topic = len(topic_bytes) > record.TOPIC_SIZE_MAX_V1
    size = record_size(
        body=len(body), topic=len(topic_bytes), properties=len(raw), sys_flag=sys_flag
    )
    made = bytearray(
        _HEAD.pack(
            size,
            record.MAGIC_V2 if long_topic else record.MAGIC_V1,
            body_crc(body),
            queue_id,
            flag,
            queue_offset,
            commit_log_offset,
            sys_flag,
            born_ms,
        )
    )
    made += born_host
    made += _I64.pack(store_ms)
    made += store_host
    made += _AFTER_HOSTS.pack(reconsume_times, prepared_transaction_offset, len(body))
    made += body
    made += len(topic_bytes).to_bytes(2 if long_topic else 1, "big")
    made += topic_bytes
    made += len(raw).to_bytes(2, "big")
    made += raw
    assert len(made) == size, f"record of {len(made)} bytes, computed {size}"
    return made


def _is_v6(host: bytes) -> bool:
    if len(host) not in (HOST_SIZE_V4, HOST_SIZE_V6):
        raise LocalProtocolError(f"host of {len(host)} bytes, must be 8 or 20")
    return len(host) == HOST_SIZE_V6
