"""What a client asks of brokers, as typed calls: offsets, bounds, groups, locks, send-back.

Names given here are the wire's: topics and groups with their namespace.
"""

from __future__ import annotations

from collections.abc import Sequence

from contrailmq.client.session import Session
from contrailmq.errors import SystemFailure
from contrailmq.protocol.bodies.group import ConsumerListBody
from contrailmq.protocol.bodies.heartbeat import CheckClientRequest, SubscriptionData
from contrailmq.protocol.bodies.queues import LockBatchRequest, LockBatchResponse
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.group import GetConsumerListByGroupRequest
from contrailmq.protocol.headers.offset import (
    GetMaxOffsetRequest,
    GetMaxOffsetResponse,
    GetMinOffsetRequest,
    GetMinOffsetResponse,
    QueryConsumerOffsetRequest,
    QueryConsumerOffsetResponse,
    SearchOffsetRequest,
    SearchOffsetResponse,
    UpdateConsumerOffsetRequest,
)
from contrailmq.protocol.headers.send import ConsumerSendMsgBackRequest
from contrailmq.protocol.queue import MessageQueue

_OFFSET_TIMEOUT_S = 5.0
_SEND_BACK_TIMEOUT_S = 5.0
_LOCK_TIMEOUT_S = 1.0


class BrokerCalls:
    """Calls of one consumer group to the brokers of its session."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group

    async def committed(self, queue: MessageQueue) -> int:
        """The group's offset in a queue; raises QueryNotFound when it has none."""
        header = QueryConsumerOffsetRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            broker_name=queue.broker_name,
            set_zero_if_not_found=False,  # 5.x and ours; older brokers answer 0 for a short queue
        )
        answer = await self._session.ask(
            self._session.keeper(queue.broker_name),
            Command.request(RequestCode.QUERY_CONSUMER_OFFSET, header),
            timeout_s=_OFFSET_TIMEOUT_S,
        )
        return QueryConsumerOffsetResponse.from_fields(answer.fields).offset

    async def commit(self, queue: MessageQueue, offset: int, confirmed: bool) -> None:
        """Store the group's offset; unconfirmed, nobody answers."""
        header = UpdateConsumerOffsetRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            broker_name=queue.broker_name,
        )
        address = self._session.keeper(queue.broker_name)
        request = Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header)
        if confirmed:
            await self._session.ask(address, request, timeout_s=_OFFSET_TIMEOUT_S)
        else:
            await self._session.oneway(address, request)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset the queue's next message will have."""
        header = GetMaxOffsetRequest(
            topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name
        )
        answer = await self._ask(queue, RequestCode.GET_MAX_OFFSET, header)
        return GetMaxOffsetResponse.from_fields(answer.fields).offset

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the queue's oldest message."""
        header = GetMinOffsetRequest(
            topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name
        )
        answer = await self._ask(queue, RequestCode.GET_MIN_OFFSET, header)
        return GetMinOffsetResponse.from_fields(answer.fields).offset

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a moment."""
        header = SearchOffsetRequest(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=timestamp_ms,
            broker_name=queue.broker_name,
        )
        answer = await self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return SearchOffsetResponse.from_fields(answer.fields).offset

    async def members(self, broker_name: str) -> list[str]:
        """The ids of the group's clients as one broker sees them, sorted as Java sorts."""
        header = GetConsumerListByGroupRequest(consumer_group=self._group)
        try:
            answer = await self._session.ask(
                self._session.keeper(broker_name),
                Command.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header),
            )
        except SystemFailure:
            return []  # the broker's way to say that it knows nobody of this group
        ids = ConsumerListBody.decode(answer.body).consumer_id_list
        return sorted(ids, key=lambda text: text.encode("utf-16-be"))

    async def check_subscription(self, broker_name: str, subscription: SubscriptionData) -> None:
        """Let a broker judge a subscription; raises what it says against it."""
        body = CheckClientRequest(
            client_id=self._session.client_id,
            group=self._group,
            subscription_data=subscription,
        )
        await self._session.ask(
            self._session.keeper(broker_name),
            Command.request(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode()),
        )

    async def lock(self, broker_name: str, queues: Sequence[MessageQueue]) -> set[MessageQueue]:
        """Lock queues of one broker for us alone; the ones that we have now."""
        answer = await self._session.ask(
            self._session.writer(broker_name),
            Command.request(RequestCode.LOCK_BATCH_MQ, body=self._lock_body(queues)),
            timeout_s=_LOCK_TIMEOUT_S,
        )
        return set(LockBatchResponse.decode(answer.body).lock_ok_mq_set)

    async def unlock(self, broker_name: str, queues: Sequence[MessageQueue]) -> None:
        """Give locked queues of one broker back."""
        await self._session.ask(
            self._session.writer(broker_name),
            Command.request(RequestCode.UNLOCK_BATCH_MQ, body=self._lock_body(queues)),
            timeout_s=_LOCK_TIMEOUT_S,
        )

    async def send_back(
        self, address: str, *, offset: int, delay_level: int, retries_max: int,
        message_id: str, topic: str,
    ) -> None:  # fmt: skip
        """Let the broker deliver a message again after a delay, or bury it after too many."""
        header = ConsumerSendMsgBackRequest(
            offset=offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message_id,
            origin_topic=topic,
            unit_mode=False,
            max_reconsume_times=retries_max,
        )
        await self._session.ask(
            address,
            Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header),
            timeout_s=_SEND_BACK_TIMEOUT_S,
        )

    async def _ask(self, queue: MessageQueue, code: RequestCode, header: object) -> Command:
        address = self._session.keeper(queue.broker_name)
        return await self._session.ask(address, Command.request(code, header))  # type: ignore[arg-type]

    def _lock_body(self, queues: Sequence[MessageQueue]) -> bytes:
        return LockBatchRequest(
            consumer_group=self._group,
            client_id=self._session.client_id,
            mq_set=list(queues),
        ).encode()
