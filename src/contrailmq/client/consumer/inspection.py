"""What brokers ask of a consumer: who are you, where do you stand, start over there, try this.

Requests 40 (members changed), 220 (reset offsets), 221 (consumed offsets), 307 (running state) and
309 (consume one message now).  The answers are what RocketMQ's admin tools and console show.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from contrailmq.client.consumer.delivery import Workers
from contrailmq.client.consumer.queue_work import QueueWork
from contrailmq.client.consumer.settling import Settling
from contrailmq.client.message import Origin, open_messages
from contrailmq.client.session import Session
from contrailmq.client.settings import ConsumerSettings
from contrailmq.errors import SystemFailure
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Handler
from contrailmq.protocol.bodies.clients import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueInfo,
)
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.bodies.queues import GetConsumerStatusBody, ResetOffsetBody
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.client import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
    NotifyConsumerIdsChangedRequest,
)
from contrailmq.protocol.headers.offset import GetConsumerStatusRequest, ResetOffsetRequest
from contrailmq.protocol.queue import MessageQueue
from contrailmq.version import VERSION

log = logging.getLogger(__name__)

_MIB = 1024 * 1024


class Running(Protocol):
    """The consumer as these questions see it."""

    settling: Settling | None

    def works(self) -> dict[MessageQueue, QueueWork]:
        """All queues that are ours."""
        ...

    async def reset(self, offsets: dict[MessageQueue, int]) -> None:
        """Go on at other offsets."""
        ...


class Described(Protocol):
    """The kind of consumer it is."""

    @property
    def group(self) -> str:
        """Its group."""
        ...

    @property
    def subscriptions(self) -> dict[str, SubscriptionData]:
        """What it subscribes to."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether queues are consumed in order."""
        ...

    @property
    def broadcast(self) -> bool:
        """Whether every member gets every message."""
        ...


class Inspection:
    """Answers for one consumer."""

    def __init__(
        self,
        running: Running,
        shape: Described,
        session: Session,
        *,
        settings: ConsumerSettings,
        workers: Workers | None,
        wake: Callable[[], None],
    ) -> None:
        self._running = running
        self._shape = shape
        self._session = session
        self._settings = settings
        self._workers = workers
        self._wake = wake
        self._started_ms = session.world.clock.now_ms()

    def handlers(self) -> dict[int, Handler]:
        """The requests served here."""
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_state,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume,
        }

    def _members_changed(self, request: Command, connection: Connection) -> None:
        header = NotifyConsumerIdsChangedRequest.from_fields(request.fields)
        if header.consumer_group == self._shape.group:
            self._wake()

    async def _reset(self, request: Command, connection: Connection) -> Command | None:
        header = ResetOffsetRequest.from_fields(request.fields)
        self._check_group(header.group)
        table = ResetOffsetBody.decode(request.body).offset_table
        log.info("offsets reset by an administrator topic=%s queues=%s", header.topic, len(table))
        await self._running.reset(table)
        return request.reply()

    def _status(self, request: Command, connection: Connection) -> Command:
        header = GetConsumerStatusRequest.from_fields(request.fields)
        self._check_group(header.group)
        table = {
            queue: work.cache.commit_offset()
            for queue, work in self._running.works().items()
            if queue.topic == header.topic
        }
        return request.reply(body=GetConsumerStatusBody(message_queue_table=table).encode())

    def _running_state(self, request: Command, connection: Connection) -> Command:
        header = GetConsumerRunningInfoRequest.from_fields(request.fields)
        self._check_group(header.consumer_group)
        body = ConsumerRunningInfo(
            jstack=self._tasks_text() if header.jstack_enable else None,
            mq_table={queue: self._queue(work) for queue, work in self._running.works().items()},
            properties=self._properties(),
            status_table=self._tallies(),
            subscription_set=list(self._shape.subscriptions.values()),
        )
        return request.reply(body=body.encode())

    async def _consume(self, request: Command, connection: Connection) -> Command:
        header = ConsumeMessageDirectlyRequest.from_fields(request.fields)
        self._check_group(header.consumer_group)
        if self._workers is None:
            raise SystemFailure(
                f"group {self._shape.group} consumes by a loop and has no handler to try"
            )
        queue = MessageQueue(header.topic or "", header.message_broker_name or "", 0)
        origin = Origin(queue, self._shape.group, self._session.settings.namespace)
        clock = self._session.world.clock
        begun_ms = clock.monotonic_ms()
        messages = open_messages(bytes(request.body), origin)
        result, remark = "CR_SUCCESS", None
        try:
            await self._workers.call(messages)
            if any(message.retry_asked for message in messages):
                result = "CR_LATER"
        except Exception as error:
            result, remark = "CR_THROW_EXCEPTION", f"{type(error).__name__}: {error}"
        body = ConsumeMessageDirectlyResult(
            consume_result=result,
            order=self._shape.ordered,
            remark=remark,
            spent_time_mills=clock.monotonic_ms() - begun_ms,
        )
        return request.reply(body=body.encode())

    def _check_group(self, group: str) -> None:
        if group != self._shape.group:
            raise SystemFailure(f"the consumer group {group} is not in this client")

    def _queue(self, work: QueueWork) -> ProcessQueueInfo:
        cache = work.cache
        first, last = cache.bounds
        return ProcessQueueInfo(
            cached_msg_count=cache.count,
            cached_msg_max_offset=last,
            cached_msg_min_offset=first,
            cached_msg_size_in_mib=cache.size // _MIB,
            commit_offset=cache.commit_offset(),
            droped=work.dropped,
            last_consume_timestamp=work.last_settled_ms,
            last_lock_timestamp=work.last_lock_ms,
            last_pull_timestamp=work.last_pull_ms,
            locked=work.locked_until > 0,
        )

    def _properties(self) -> dict[str, str]:
        workers = self._workers.count if self._workers is not None else 1
        return {
            "PROP_NAMESERVER_ADDR": f"{self._session.name_servers};",
            "PROP_THREADPOOL_CORE_SIZE": str(workers),
            "PROP_CONSUMEORDERLY": "true" if self._shape.ordered else "false",
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CLIENT_VERSION": f"contrailmq {VERSION}",
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
            "messageModel": "BROADCASTING" if self._shape.broadcast else "CLUSTERING",
            "consumerGroup": self._shape.group,
            "pullBatchSize": str(self._settings.pull_count),
            "pullThresholdForQueue": str(self._settings.queue_count_max),
            "consumeTimeout": str(int(self._settings.consume_timeout_s // 60)),
            "maxReconsumeTimes": str(self._settings.retries_max),
        }

    def _tallies(self) -> dict[str, ConsumeStatus]:
        settling = self._running.settling
        if settling is None:
            return {}
        seconds = max(1, (self._session.world.clock.now_ms() - self._started_ms) // 1000)
        return {
            topic: ConsumeStatus(
                consume_failed_msgs=tally.failed,
                consume_failed_tps=tally.failed / seconds,
                consume_ok_tps=tally.ok / seconds,
                pull_tps=(tally.ok + tally.failed) / seconds,
            )
            for topic, tally in settling.tallies.items()
        }

    def _tasks_text(self) -> str:
        lines = [repr(work) for work in self._running.works().values()]
        return "\n".join(lines)
