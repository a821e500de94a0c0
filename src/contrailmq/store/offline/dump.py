"""Messages of a store directory as rows: chosen by topic, queue, time, key and tag."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from contrailmq.errors import ContrailError
from contrailmq.protocol.hosts import host_address
from contrailmq.protocol.message import Record, decode_record
from contrailmq.store.offline.reader import FOREVER_MS, StoreReader

BODY_SHOWN_MAX: Final = 200  # a longer body is shown by its hash alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which messages are wanted; what is not set does not matter. Times are store times."""

    topic: str | None = None
    queue_id: int | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
    start: int | None = None
    end: int | None = None
    key: str | None = None
    tag: str | None = None

    def wants(self, record: Record) -> bool:
        """Whether a record is one of them."""
        if self.topic is not None and record.topic != self.topic:
            return False
        if self.queue_id is not None and record.queue_id != self.queue_id:
            return False
        if self.begin_ms is not None and record.store_ms < self.begin_ms:
            return False
        if self.end_ms is not None and record.store_ms >= self.end_ms:
            return False
        if self.start is not None and record.queue_offset < self.start:
            return False
        if self.end is not None and record.queue_offset >= self.end:
            return False
        if self.tag is not None and record.tags != self.tag:
            return False
        return self.key is None or self.key in (*record.keys, record.unique_key)


def messages(reader: StoreReader, choice: Choice) -> Iterator[Record]:
    """The messages chosen: queue by queue, in the order of each queue."""
    if choice.key is not None and choice.topic is not None and reader.index.files:
        yield from _by_key(reader, choice)
        return
    for topic, queue_id in reader.queues(choice.topic):
        if choice.queue_id not in (None, queue_id):
            continue
        start, end = choice.start or 0, choice.end
        if choice.begin_ms is not None:
            start = max(start, reader.offset_by_time(topic, queue_id, choice.begin_ms))
        for record in reader.records(topic, queue_id, start=start, end=end):
            if choice.end_ms is not None and record.store_ms >= choice.end_ms:
                break
            if choice.wants(record):
                yield record


def _by_key(reader: StoreReader, choice: Choice) -> Iterator[Record]:
    # The index holds no more than the newest few of a key that very many messages share.
    assert choice.topic is not None
    assert choice.key is not None
    begin_ms = 0 if choice.begin_ms is None else choice.begin_ms - choice.begin_ms % 1000
    for offset in reader.query_key(
        choice.topic,
        choice.key,
        begin_ms=begin_ms,
        end_ms=FOREVER_MS if choice.end_ms is None else choice.end_ms,
    ):
        raw = reader.record_at(offset)
        if raw is not None:
            record = decode_record(raw)
            if choice.wants(record):
                yield record


def row(record: Record) -> dict[str, Any]:
    """A message under the names the original's tools use, ready for JSON."""
    try:
        body = record.payload()
    except ContrailError:
        body = None  # compressed in a way that cannot be undone: the rest is still worth seeing
    shown = body is not None and len(body) < BODY_SHOWN_MAX
    return {
        "kind": "message",
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "commitLogOffset": record.commit_log_offset,
        "storeSize": record.store_size,
        "bornTimestamp": record.born_ms,
        "storeTimestamp": record.store_ms,
        "bornHost": _host(record.born_host_bytes),
        "storeHost": _host(record.store_host_bytes),
        "msgId": record.offset_message_id,
        "uniqKey": record.unique_key,
        "sysFlag": record.sys_flag,
        "flag": record.flag,
        "bodyCRC": record.body_crc,
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "properties": dict(sorted(record.properties.items())),
        "storedBodyLength": len(record.body),
        "bodyLength": None if body is None else len(body),
        "bodySha256": None if body is None else hashlib.sha256(body).hexdigest(),
        "body": base64.b64encode(body).decode("ascii") if shown and body is not None else None,
    }


def _host(host: bytes) -> str:
    address, port = host_address(host)
    return f"{address},{port}"
