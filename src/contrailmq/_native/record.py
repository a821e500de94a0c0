"""The map of a commit-log record: where each field is, and what can be wrong with one.

This module is never compiled.  Compiled modules take the constants and inline C functions of
``record.pxd`` under the same names; the plain build takes these.  ``test_maps.py`` compares the two
files, and the table in docs/store-format.md, name by name.

A record with IPv4 hosts begins with 88 bytes at fixed places, the ``*_AT`` constants.  Each IPv6
host is 12 bytes longer and moves everything after it; only this module knows that.  After the
body come the topic and the properties, each with its length in front.

How to read a record: first compare ``size_of`` with the room you have and with ``SIZE_MIN``.  The
fields before the hosts, ``store_ms`` and ``moved`` are then safe to read.  ``locate`` checks all
lengths, once.  If the ``size`` it returns is above zero, body, topic and properties can be read
without another check.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from contrailmq._native import raw

SIZE_AT = 0
MAGIC_AT = 4
BODY_CRC_AT = 8
QUEUE_ID_AT = 12
FLAG_AT = 16
QUEUE_OFFSET_AT = 20
LOG_OFFSET_AT = 28
SYS_FLAG_AT = 36
BORN_MS_AT = 40
BORN_HOST_AT = 48
STORE_MS_AT = 56  # from here on: with an IPv4 born host
STORE_HOST_AT = 64  # from here on: with two IPv4 hosts
RECONSUME_TIMES_AT = 72
PREPARED_OFFSET_AT = 76
BODY_LENGTH_AT = 84
BODY_AT = 88

HOST_SIZE = 8  # an IPv4 address and a port
HOST_SIZE_V6 = 20
PORT_SIZE = 4
IPV6_EXTRA = 12
START_SIZE = 8  # size and magic: enough to see what it is; also all of a blank record
SIZE_MIN = 91  # IPv4 hosts; no body, topic or properties
SIZE_MAX = 0x7FFFFFFF
PROPERTIES_HEAD = 2  # the length in front of the properties
TOPIC_SIZE_MAX_V1 = 127
TOPIC_SIZE_MAX = 32767
PROPERTIES_SIZE_MAX = 32767
CRC_MASK = 0x7FFFFFFF  # the checksum is stored without its top bit

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB  # the length in front of the topic has two bytes
MAGIC_BLANK = 0xCBD43194  # fills the rest of a segment

COMPRESSED = 0x1
TRANSACTION_MASK = 0xC
TRANSACTION_PREPARED = 0x4
TRANSACTION_ROLLBACK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
INNER_BATCH = 0x80
COMPRESSION_MASK = 0x700

# Why no record was found, or why a walk over records ended.
END = 0
EMPTY = 1
BLANK = 2
BAD_MAGIC = 3
BAD_SIZE = 4
BAD_PLACE = 5
BAD_FIELDS = 6
BAD_CRC = 7
LOST_PAGE = 8
FULL = 9
CUT = 10
REASONS = {
    END: "the end of the bytes",
    EMPTY: "nothing was written here",
    BLANK: "a blank record",
    BAD_MAGIC: "not a record: unknown magic number",
    BAD_SIZE: "impossible record size",
    BAD_PLACE: "the record says it belongs elsewhere",
    BAD_FIELDS: "the record's lengths do not add up",
    BAD_CRC: "the body does not have its checksum",
    LOST_PAGE: "part of the record was never written",
    FULL: "no room for more positions",
    CUT: "the bytes end within a record",
}
DAMAGE = {  # the reasons of a record that is broken, or still being written
    reason: REASONS[reason]
    for reason in (BAD_MAGIC, BAD_SIZE, BAD_PLACE, BAD_FIELDS, BAD_CRC, LOST_PAGE, CUT)
}


class Spans(NamedTuple):
    """Positions and sizes of the variable parts of a record.

    ``size`` is the record's.  If it is zero or less there is no record, and it is minus the
    reason; all other fields are zero then.
    """

    size: int
    body: int
    body_size: int
    topic: int
    topic_size: int
    properties: int
    properties_size: int
    end: int  # of the properties: the record's own end, unless it has slack


def size_of(data: Any, at: int) -> int:
    """Return the size a record states for itself."""
    return raw.get_u32(data, at + SIZE_AT)


def magic(data: Any, at: int) -> int:
    """Return the magic number."""
    return raw.get_u32(data, at + MAGIC_AT)


def is_record(magic: int) -> bool:
    """Whether a magic number is one of a message's."""
    return magic in (MAGIC_V1, MAGIC_V2)


def body_crc(data: Any, at: int) -> int:
    """Return the checksum of the body, without its top bit."""
    return raw.get_u32(data, at + BODY_CRC_AT)


def queue_id(data: Any, at: int) -> int:
    """Return the queue id, unsigned."""
    return raw.get_u32(data, at + QUEUE_ID_AT)


def queue_offset(data: Any, at: int) -> int:
    """Return the message's place in its queue."""
    return raw.get_i64(data, at + QUEUE_OFFSET_AT)


def log_offset(data: Any, at: int) -> int:
    """Return the record's place in the log."""
    return raw.get_i64(data, at + LOG_OFFSET_AT)


def sys_flag(data: Any, at: int) -> int:
    """Return the system flag."""
    return raw.get_u32(data, at + SYS_FLAG_AT)


def born_host_size(flag: int) -> int:
    """Return the size of the born host under a system flag."""
    return HOST_SIZE_V6 if flag & BORN_HOST_V6 else HOST_SIZE


def store_host_size(flag: int) -> int:
    """Return the size of the store host under a system flag."""
    return HOST_SIZE_V6 if flag & STORE_HOST_V6 else HOST_SIZE


def moved(flag: int) -> int:
    """Return by how much the hosts move what comes after them."""
    return born_host_size(flag) + store_host_size(flag) - 2 * HOST_SIZE


def store_ms_at(flag: int) -> int:
    """Return where the store time is, from the beginning of the record."""
    return BORN_HOST_AT + born_host_size(flag)


def store_ms(data: Any, at: int) -> int:
    """Return when the broker stored the message."""
    return raw.get_i64(data, at + store_ms_at(sys_flag(data, at)))


def topic_head(topic_size: int) -> int:
    """Return the size of the length in front of a topic of this size."""
    return 2 if topic_size > TOPIC_SIZE_MAX_V1 else 1


def size_with(body_size: int, topic_size: int, properties_size: int, flag: int) -> int:
    """Return the size of a record with such parts."""
    size = SIZE_MIN - 1 + topic_head(topic_size) + moved(flag)
    return size + body_size + topic_size + properties_size


def has_queue_offset(flag: int) -> bool:
    """Whether a message is in its queue: not if it is prepared or rolled back."""
    return flag & TRANSACTION_MASK not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)


def no_record(reason: int) -> Spans:
    """Return the answer for a place without a record."""
    return Spans(-reason, 0, 0, 0, 0, 0, 0, 0)


def locate(data: Any, at: int, size: int) -> Spans:
    """Find body, topic and properties; the only check of their lengths.

    The caller has checked that ``size`` bytes, at least ``SIZE_MIN``, can be read from ``at``.
    """
    end = at + size
    body = at + BODY_AT + moved(sys_flag(data, at))
    head = 1 if magic(data, at) == MAGIC_V1 else 2
    if body + head + PROPERTIES_HEAD > end:
        return no_record(BAD_FIELDS)
    body_size = raw.get_u32(data, body - BODY_AT + BODY_LENGTH_AT)
    if body_size > end - body - head - PROPERTIES_HEAD:
        return no_record(BAD_FIELDS)
    topic = body + body_size + head
    topic_size = data[topic - 1] if head == 1 else raw.get_u16(data, topic - 2)
    if topic_size > end - topic - PROPERTIES_HEAD:
        return no_record(BAD_FIELDS)
    properties = topic + topic_size + PROPERTIES_HEAD
    properties_size = raw.get_u16(data, properties - PROPERTIES_HEAD)
    stop = properties + properties_size
    if stop > end:
        return no_record(BAD_FIELDS)
    return Spans(size, body, body_size, topic, topic_size, properties, properties_size, stop)
