"""Timers: request codes 60, 61 and 370.

A recall is a cancel that the broker writes itself: a timer message in the slot of the one it takes
back, naming its topic and unique key (RecallMessageProcessor of 5.3.2).  The answer says that the
cancel is stored; whether the message was still waiting shows when it is due.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.identity import Identity
from contrailmq.broker.services.putting import Putting
from contrailmq.broker.tables.topics import TopicTable, topic_missing
from contrailmq.clock import Clock
from contrailmq.errors import CodeNotSupported, IllegalOperation, NoPermission, SystemFailure
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.queues import TimerMetric, TimerMetrics
from contrailmq.protocol.bodies.version import DataVersion
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.send import RecallMessageRequest, RecallMessageResponse
from contrailmq.protocol.properties import (
    PROPERTY_BORN_TIMESTAMP,
    PROPERTY_PRODUCER_GROUP,
    PROPERTY_TAGS,
    PROPERTY_TIMER_DEL_UNIQKEY,
    PROPERTY_TIMER_DELIVER_MS,
    PROPERTY_UNIQUE_KEY,
    encode_properties,
)
from contrailmq.protocol.recall import RecallHandle, read_handle
from contrailmq.store.settings import StoreSettings
from contrailmq.store.types import NewMessage

RECALL_TAG = "_RECALL_TAG_"


class TimerState(Protocol):
    """What this module needs of the timers."""

    counts: dict[str, int]

    def check_bytes(self) -> bytes:
        """The seven numbers of ``timercheck``."""
        ...


class TimerViews:
    """Request codes 60 and 61: how far the timers are, and how many messages wait."""

    def __init__(self, timers: TimerState, settings: Callable[[], StoreSettings]) -> None:
        self._timers = timers
        self._settings = settings

    def checkpoint(self, request: Command, connection: Connection) -> Command:
        """Request code 60: the timers' checkpoint, for a replica."""
        self._check()
        return request.reply(body=self._timers.check_bytes())

    def metrics(self, request: Command, connection: Connection) -> Command:
        """Request code 61: how many messages wait, by topic."""
        self._check()
        return request.reply(body=timer_metrics(self._timers.counts).encode())

    def _check(self) -> None:
        if not self._settings().timer_enable:
            raise SystemFailure("The timer message store is not there: timerWheelEnable is false")


def timer_metrics(counts: dict[str, int], now_ms: int = 0) -> TimerMetrics:
    """The counts as ``timermetrics`` and code 61 have them."""
    return TimerMetrics(
        data_version=DataVersion(timestamp=now_ms),
        timing_count={
            topic: TimerMetric(count=count, time_stamp=now_ms)
            for topic, count in sorted(counts.items())
        },
    )


class RecallMessage:
    """Request code 370: take back a timer message that is not delivered yet."""

    def __init__(
        self,
        putting: Putting,
        topics: TopicTable,
        *,
        live: LiveSettings,
        settings: Callable[[], StoreSettings],
        identity: Identity,
        clock: Clock,
        durable: Callable[[Command, int], Command | Awaitable[Command | None]],
    ) -> None:
        self._putting = putting
        self._topics = topics
        self._live = live
        self._settings = settings
        self._identity = identity
        self._clock = clock
        self._durable = durable

    def __call__(
        self, request: Command, connection: Connection
    ) -> Command | Awaitable[Command | None]:
        """Store the cancel."""
        header = RecallMessageRequest.from_fields(request.fields)
        if not self._settings().timer_enable:
            raise CodeNotSupported(f" request type {request.code} not supported")
        if not self._live.now.recall_enable:
            raise NoPermission("recall failed, operation is forbidden: recallMessageEnable=false")
        if self._topics.find(header.topic) is None:
            raise topic_missing(header.topic)
        handle = self._checked(header)
        properties = {
            PROPERTY_TAGS: RECALL_TAG,
            PROPERTY_UNIQUE_KEY: handle.unique_key,
            PROPERTY_TIMER_DEL_UNIQKEY: f"{handle.topic}+{handle.unique_key}",
            PROPERTY_TIMER_DELIVER_MS: str(handle.due_ms),
            PROPERTY_BORN_TIMESTAMP: str(self._clock.now_ms()),
        }
        if header.producer_group:
            properties[PROPERTY_PRODUCER_GROUP] = header.producer_group
        message = NewMessage(
            handle.topic,
            0,
            b"0",
            encode_properties(properties),
            born_ms=self._clock.now_ms(),
            born_host=connection.peer_host,
            store_host=self._identity.store_host,
        )
        appended = self._putting.put(self._putting.arrange(message, properties))
        answer = RecallMessageResponse(msg_id=handle.unique_key)
        return self._durable(request.reply(answer), appended.end_offset)

    def _checked(self, header: RecallMessageRequest) -> RecallHandle:
        handle = read_handle(header.recall_handle)
        if handle is None:
            raise IllegalOperation("recall failed, decode handle failed")
        if handle.topic != header.topic:
            raise IllegalOperation(
                f"recall failed, topic not match: {header.topic}, the handle's is {handle.topic}"
            )
        if handle.broker_name != self._identity.broker_name:
            raise IllegalOperation("recall failed, broker service not available: wrong broker")
        now_ms = self._clock.now_ms()
        limit_ms = 1000 * self._settings().timer_max_delay_s
        if not now_ms < handle.due_ms < now_ms + limit_ms:
            raise IllegalOperation(
                f"recall failed, timestamp invalid: {handle.due_ms}, expected after {now_ms} and "
                f"before {now_ms + limit_ms}; the message is delivered"
            )
        return handle
