"""Looking messages up: by key or unique key (12), by place in the log (33)."""

from __future__ import annotations

from typing import Final, Protocol

from contrailmq.errors import SystemFailure
from contrailmq.net.connection import Connection
from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.query import (
    QueryMessageRequest,
    QueryMessageResponse,
    ViewMessageRequest,
)
from contrailmq.store.settings import StoreSettings
from contrailmq.store.types import KeyMatches

ANSWER_SIZE_MAX: Final = 12 * 1024 * 1024  # leaves room in a frame


class MessageLookup(Protocol):
    """What this module needs of the store."""

    settings: StoreSettings

    def record_at(self, commit_log_offset: int, size: int | None = None) -> bytes | None:
        """The record that begins at an offset of the log, or None."""
        ...

    def query_key(
        self, topic: str, key: str, *, count: int, begin_ms: int, end_ms: int
    ) -> KeyMatches:
        """Where messages with a key lie."""
        ...


class QueryMessage:
    """Request code 12."""

    def __init__(self, store: MessageLookup) -> None:
        self._store = store

    def __call__(self, request: Command, connection: Connection) -> Command:
        """The messages of a topic with a key, within a span of time."""
        header = QueryMessageRequest.from_fields(request.fields)
        settings = self._store.settings
        count = settings.query_count_default if header.unique_key_query else header.max_num
        found = self._store.query_key(
            header.topic,
            header.key,
            count=max(0, min(count, settings.query_count_max)),
            begin_ms=header.begin_timestamp,
            end_ms=header.end_timestamp,
        )
        records: list[bytes] = []
        size = 0
        for offset in found.offsets:
            record = self._store.record_at(offset)
            if record is None:
                continue
            size += len(record)
            if size > ANSWER_SIZE_MAX:
                break
            records.append(record)
        answer = QueryMessageResponse(
            index_last_update_timestamp=found.last_update_ms,
            index_last_update_phyoffset=found.last_update_offset,
        )
        if not records:
            return request.reply(
                answer,
                code=ResponseCode.QUERY_NOT_FOUND,
                remark="can not find message, maybe time range not correct",
            )
        return request.reply(answer, body=b"".join(records))


class ViewMessage:
    """Request code 33."""

    def __init__(self, store: MessageLookup) -> None:
        self._store = store

    def __call__(self, request: Command, connection: Connection) -> Command:
        """The message at a place in the log."""
        header = ViewMessageRequest.from_fields(request.fields)
        record = self._store.record_at(header.offset)
        if record is None:
            raise SystemFailure(f"can not find message by the offset, {header.offset}")
        return request.reply(body=record)
