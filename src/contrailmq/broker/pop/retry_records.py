"""Records on their way out of a pop, and on their way back: offsets, new addresses, retries."""

from __future__ import annotations

from collections.abc import Sequence

from contrailmq._native import record as record_map
from contrailmq.protocol.message import (
    Record,
    decode_records,
    encode_record,
)
from contrailmq.protocol.pop import CheckPoint, Handle
from contrailmq.protocol.properties import (
    PROPERTY_FIRST_POP_TIME,
    PROPERTY_POP_CK,
    encode_properties,
)
from contrailmq.store.types import GetResult, NewMessage


def offsets_in(result: GetResult, start: int) -> Sequence[int]:
    """The queue offsets of what a read found."""
    if result.next_offset - start == result.count:
        return range(start, result.next_offset)
    records, at, offsets = result.records, 0, []
    while at < len(records):
        place = at + record_map.QUEUE_OFFSET_AT
        offsets.append(int.from_bytes(records[place : place + 8], "big"))
        at += int.from_bytes(records[at : at + 4], "big")
    return offsets


def readdressed(records: bytes | bytearray, topic: str, handle: Handle) -> bytes:
    """Retries as their consumer gets them: under the topic it asked for, each with its handle.

    A consumer cannot know the handle by itself: it takes all messages of a topic for the topic's
    own.  Ordinary messages go out as they are stored.
    """
    out = bytearray()
    for record in decode_records(records):
        properties = record.properties
        own = handle._replace(queue_id=record.queue_id, offset=record.queue_offset)
        properties.setdefault(PROPERTY_POP_CK, own.text())
        out += encode_record(
            topic=topic,
            body=record.body,
            properties=encode_properties(properties),
            born_ms=record.born_ms,
            born_host=record.born_host_bytes,
            store_host=record.store_host_bytes,
            queue_id=record.queue_id,
            queue_offset=record.queue_offset,
            commit_log_offset=record.commit_log_offset,
            store_ms=record.store_ms,
            flag=record.flag,
            sys_flag=record.sys_flag,
            reconsume_times=record.reconsume_times,
            prepared_transaction_offset=record.prepared_transaction_offset,
        )
    return bytes(out)


def retry_of(
    record: Record, check_point: CheckPoint, topic: str, *, host: bytes
) -> tuple[NewMessage, dict[str, str]]:
    """A message on its way to the retry topic, one attempt older (PopReviveService.reviveRetry)."""
    properties = dict(record.properties)
    if record.reconsume_times == 0 or PROPERTY_FIRST_POP_TIME not in properties:
        properties[PROPERTY_FIRST_POP_TIME] = str(check_point.pop_ms)
    message = NewMessage(
        topic,
        0,
        record.body,
        encode_properties(properties),
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_ms=record.born_ms,
        born_host=host,
        store_host=host,
        reconsume_times=record.reconsume_times + 1,
        wait=False,
    )
    return message, properties
