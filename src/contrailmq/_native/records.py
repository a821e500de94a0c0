"""Stored records and property strings become Python objects.

Every length is checked (``record.locate``) before a byte after it is read: compiled code does not
check by itself.  Nothing here knows an error class of ours: ``RecordDamage`` has a reason (one of
``record.REASONS``) and the position of the damage.

Names with an underscore are C functions in the compiled build.
"""

from __future__ import annotations

import zlib
from typing import Any

from contrailmq._native import raw, record, text
from contrailmq._native.record import REASONS as reasons  # a dict is not in the .pxd


class RecordDamage(ValueError):
    """Bytes that are no record: ``position`` says where, ``reason`` why."""

    def __init__(self, reason: int, position: int) -> None:
        super().__init__(f"{reasons[reason]}, at {position}")
        self.reason = reason
        self.position = position


class RecordFields:
    """The fields of one decoded record; ``protocol.message.Record`` adds what follows from them."""

    __slots__ = (
        "body",
        "body_crc",
        "born_host_bytes",
        "born_ms",
        "commit_log_offset",
        "flag",
        "lazy_properties",
        "prepared_transaction_offset",
        "properties_bytes",
        "queue_id",
        "queue_offset",
        "reconsume_times",
        "store_host_bytes",
        "store_ms",
        "store_size",
        "sys_flag",
        "topic",
    )

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    store_size: int
    sys_flag: int
    flag: int
    born_ms: int
    born_host_bytes: bytes
    store_ms: int
    store_host_bytes: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    body_crc: int
    properties_bytes: bytes
    lazy_properties: dict[str, str] | None


def _find(data: Any, at: int, end: int) -> record.Spans:
    """Find the parts of the whole record at ``at``, or the reason why there is none."""
    left = end - at
    if left < record.START_SIZE:
        return record.no_record(record.CUT)
    size = record.size_of(data, at)
    magic = record.magic(data, at)
    if magic == record.MAGIC_BLANK:
        return record.no_record(record.BLANK)
    if not record.is_record(magic):
        is_empty = size == 0 and magic == 0
        return record.no_record(record.EMPTY if is_empty else record.BAD_MAGIC)
    if size < record.SIZE_MIN or size > record.SIZE_MAX:
        return record.no_record(record.BAD_SIZE)
    if size > left:
        return record.no_record(record.CUT)
    spans = record.locate(data, at, size)
    if spans.size > 0 and spans.end != at + size:
        return record.no_record(record.BAD_FIELDS)
    return spans


def decode_records(data: bytes, make: Any, limit: int, check_crc: bool) -> list[Any]:
    """Decode back-to-back records, at most ``limit``; ``make`` is a subclass of RecordFields.

    Raises RecordDamage where the bytes are no record; a blank record counts as damage.
    """
    result: list[Any] = []
    view = data
    end = len(data)
    at = 0
    previous = None
    while at < end and len(result) < limit:
        spans = _find(view, at, end)
        if spans.size <= 0:
            raise RecordDamage(-spans.size, at)
        made = make()
        made.body = view[spans.body : spans.body + spans.body_size]
        made.properties_bytes = view[spans.properties : spans.end]
        made.lazy_properties = None
        if previous is not None and _is_text(view, spans.topic, spans.topic_size, previous.topic):
            made.topic = previous.topic
        else:
            name = view[spans.topic : spans.topic + spans.topic_size]
            made.topic = name.decode("utf-8", "replace")
        _fill(view, at, made, previous)
        if check_crc and zlib.crc32(made.body) & record.CRC_MASK != made.body_crc:
            raise RecordDamage(record.BAD_CRC, at)
        result.append(made)
        previous = made
        at += made.store_size
    return result


def _fill(view: Any, at: int, made: Any, previous: Any) -> None:
    flag = record.sys_flag(view, at)
    made.store_size = raw.get_i32(view, at + record.SIZE_AT)
    made.body_crc = raw.get_i32(view, at + record.BODY_CRC_AT)
    made.queue_id = raw.get_i32(view, at + record.QUEUE_ID_AT)
    made.flag = raw.get_i32(view, at + record.FLAG_AT)
    made.queue_offset = record.queue_offset(view, at)
    made.commit_log_offset = record.log_offset(view, at)
    made.sys_flag = raw.get_i32(view, at + record.SYS_FLAG_AT)
    made.born_ms = raw.get_i64(view, at + record.BORN_MS_AT)
    made.store_ms = record.store_ms(view, at)
    # Neighbours mostly share their hosts: those are made once, and compared.
    known = None if previous is None else previous.born_host_bytes
    made.born_host_bytes = _host(view, at + record.BORN_HOST_AT, record.born_host_size(flag), known)
    known = None if previous is None else previous.store_host_bytes
    place = at + record.store_ms_at(flag) + record.STORE_HOST_AT - record.STORE_MS_AT
    made.store_host_bytes = _host(view, place, record.store_host_size(flag), known)
    place = at + record.moved(flag)
    made.reconsume_times = raw.get_i32(view, place + record.RECONSUME_TIMES_AT)
    made.prepared_transaction_offset = raw.get_i64(view, place + record.PREPARED_OFFSET_AT)


def _host(view: Any, at: int, size: int, known: bytes | None) -> bytes:
    if known is not None and len(known) == size and raw.same_bytes(view, at, known, 0, size):
        return known
    return view[at : at + size]  # type: ignore[no-any-return]


def _is_text(view: Any, at: int, size: int, words: str) -> bool:
    if len(words) != size:
        return False
    for index in range(size):
        if view[at + index] >= text.HIGH_BIT or view[at + index] != ord(words[index]):
            return False
    return True


def decode_properties(data: bytes) -> dict[str, str]:
    """Split a property string: pairs without name or value are dropped, the last name wins."""
    result: dict[str, str] = {}
    view = data
    end = len(data)
    at = 0
    while at < end:
        pair = text.pair_at(view, at, end)
        if pair.name_size > 0 and pair.value_size > 0:
            name = view[at : at + pair.name_size].decode("utf-8", "replace")
            result[name] = view[pair.value : pair.end].decode("utf-8", "replace")
        at = pair.end + 1
    return result


def find_property(data: bytes, name: bytes) -> bytes | None:
    """Return the last value of a property in a property string, without making a dict of it."""
    view = data
    wanted = name
    size = len(name)
    end = len(data)
    start = -1
    stop = -1
    at = 0
    while at < end:
        pair = text.pair_at(view, at, end)
        if pair.name_size == size and size > 0 and pair.value_size > 0:
            if raw.same_bytes(view, at, wanted, 0, size):
                start = pair.value
                stop = pair.end
        at = pair.end + 1
    return view[start:stop] if start >= 0 else None
