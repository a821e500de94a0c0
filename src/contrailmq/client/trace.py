"""Message trace: what became of each message, sent as messages to a trace topic.

Records are joined by type-specific fields with 0x01 and end with 0x02 (TraceDataEncoder); one trace
message holds records of one topic, at most 128,000 bytes of them, and its KEYS are the ids and
keys of the messages it tells of.  Tracing never fails or slows what it traces: when it cannot keep
up, records are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from contrailmq.client.producer.outgoing import Outgoing
from contrailmq.client.producer.sender import Sender
from contrailmq.errors import ContrailError
from contrailmq.protocol import properties as names
from contrailmq.protocol.ids import UniqueIds

log = logging.getLogger(__name__)

FIELD: Final = "\x01"
RECORD: Final = "\x02"
BODY_SIZE_MAX: Final = 128_000
_QUEUE_MAX: Final = 2048
_BATCH_MAX: Final = 20
_FLUSH_S: Final = 0.5

SUCCESS: Final = 0
TIME_OUT: Final = 1
EXCEPTION: Final = 2
FAILED: Final = 4


class TraceRecord(NamedTuple):
    """One encoded record, and the keys it can be found by."""

    text: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A message was sent, or not."""

    timestamp_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str
    keys: str
    store_host: str
    body_size: int
    cost_ms: int
    kind: int  # 0 normal, 1 half, 2 committed, 3 delayed, 4 ordered
    offset_message_id: str
    success: bool

    def encode(self) -> TraceRecord:
        """The record as the console reads it."""
        fields = (
            "Pub", self.timestamp_ms, self.region, self.group, self.topic, self.message_id,
            self.tags, self.keys, self.store_host, self.body_size, self.cost_ms, self.kind,
            self.offset_message_id, self.success,
        )  # fmt: skip
        return TraceRecord(_join(fields), _keys(self.message_id, self.keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class Consuming:
    """A message is handed to a consumer."""

    timestamp_ms: int
    region: str
    group: str
    request_id: str
    message_id: str
    retries: int
    keys: str

    def encode(self) -> TraceRecord:
        """The record as the console reads it."""
        fields = (
            "SubBefore", self.timestamp_ms, self.region, self.group, self.request_id,
            self.message_id, self.retries, self.keys,
        )  # fmt: skip
        return TraceRecord(_join(fields), _keys(self.message_id, self.keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed:
    """A consumer is done with a message."""

    request_id: str
    message_id: str
    cost_ms: int
    success: bool
    keys: str
    outcome: int
    timestamp_ms: int
    group: str

    def encode(self) -> TraceRecord:
        """The record as the console reads it."""
        fields = (
            "SubAfter", self.request_id, self.message_id, self.cost_ms, self.success, self.keys,
            self.outcome, self.timestamp_ms, self.group,
        )  # fmt: skip
        return TraceRecord(_join(fields), _keys(self.message_id, self.keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransaction:
    """A transaction was committed, rolled back, or left open."""

    timestamp_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str
    keys: str
    store_host: str
    transaction_id: str
    state: str
    from_check: bool

    def encode(self) -> TraceRecord:
        """The record as the console reads it."""
        fields = (
            "EndTransaction", self.timestamp_ms, self.region, self.group, self.topic,
            self.message_id, self.tags, self.keys, self.store_host, 2, self.transaction_id,
            self.state, self.from_check,
        )  # fmt: skip
        return TraceRecord(_join(fields), _keys(self.message_id, self.keys))


Event = Published | Consuming | Consumed | EndedTransaction


class Tracer:
    """Collects records and sends them in the background."""

    def __init__(self, sender: Sender, topic: str, *, ids: UniqueIds) -> None:
        self._sender = sender
        self._topic = topic
        self._ids = ids
        self._records: deque[TraceRecord] = deque()
        self._wake = asyncio.Event()
        self.dropped = 0

    def note(self, event: Event) -> None:
        """Take a record; dropped when 2,048 already wait."""
        if len(self._records) >= _QUEUE_MAX:
            self.dropped += 1
            return
        self._records.append(event.encode())
        if len(self._records) >= _BATCH_MAX:
            self._wake.set()

    def request_id(self) -> str:
        """An id that ties the two records of one consumption together."""
        return self._ids.next()

    async def run(self) -> None:
        """Send records until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_FLUSH_S):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            await self.flush()

    async def flush(self) -> None:
        """Send all records that wait; what cannot be sent is dropped and logged."""
        while self._records:
            batch = take_batch(self._records)
            try:
                await self._sender.send(self._outgoing(batch))
            except ContrailError as error:
                self.dropped += len(batch)
                log.warning("trace not sent records=%s error=%s", len(batch), error)

    def _outgoing(self, batch: Sequence[TraceRecord]) -> Outgoing:
        message_id = self._ids.next()
        keys = names.join_keys(dict.fromkeys(key for record in batch for key in record.keys))
        properties = {
            names.PROPERTY_KEYS: keys,
            names.PROPERTY_UNIQUE_KEY: message_id,
            names.PROPERTY_WAIT: "true",
        }
        return Outgoing(
            topic=self._topic,
            body="".join(record.text for record in batch).encode(),
            properties="".join(f"{name}\x01{value}\x02" for name, value in properties.items()),
            message_id=message_id,
        )


def take_batch(records: deque[TraceRecord]) -> list[TraceRecord]:
    """Take records for one trace message: at most twenty and at most 128,000 bytes."""
    batch: list[TraceRecord] = []
    size = 0
    while records and len(batch) < _BATCH_MAX:
        size += len(records[0].text)
        if batch and size > BODY_SIZE_MAX:
            break
        batch.append(records.popleft())
    return batch


def _join(fields: Sequence[object]) -> str:
    return FIELD.join(_word(value) for value in fields) + RECORD


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _keys(message_id: str, keys: str) -> tuple[str, ...]:
    return (message_id, *names.split_keys(keys))
