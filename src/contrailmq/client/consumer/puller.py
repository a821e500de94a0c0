"""One pull: the request, its answer, and which member of a broker to ask next time."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from contrailmq._native import records
from contrailmq.client.message import Origin, ReceivedMessage, open_messages
from contrailmq.client.session import Session
from contrailmq.errors import NetworkError, error_of
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.pull import (
    COMMIT_FLAG,
    LITE_FLAG,
    SUBSCRIPTION_FLAG,
    SUSPEND_FLAG,
    PullMessageResponse,
)
from contrailmq.protocol.names import MASTER_ID
from contrailmq.protocol.queue import MessageQueue
from contrailmq.protocol.versions import V5_0_0


class PullStatus(enum.Enum):
    """What a pull found (PullStatus)."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


_STATUS: Final = {
    int(ResponseCode.SUCCESS): PullStatus.FOUND,
    int(ResponseCode.PULL_NOT_FOUND): PullStatus.NO_NEW_MSG,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): PullStatus.NO_MATCHED_MSG,
    int(ResponseCode.PULL_OFFSET_MOVED): PullStatus.OFFSET_ILLEGAL,
}


@dataclass(slots=True)
class Pulled:
    """The answer to a pull."""

    status: PullStatus
    messages: list[ReceivedMessage]
    next_offset: int
    min_offset: int
    max_offset: int
    from_master: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PullWish:
    """What to pull."""

    offset: int
    count: int
    size: int
    suspend_s: float
    timeout_s: float
    commit_offset: int = -1  # at least 0: commit it along the way
    send_subscription: bool = False
    lite: bool = False


class Puller:
    """Pulls for one group over one session."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group
        self._suggested: dict[MessageQueue, int] = {}

    async def pull(
        self, queue: MessageQueue, wish: PullWish, *, origin: Origin, subscription: SubscriptionData
    ) -> Pulled:
        """Pull once; raises BrokerError or NetworkError."""
        routes, suggested = self._session.routes, self._suggested.get(queue, 0)
        found = routes.find_reader(queue.broker_name, suggested)
        if found is None:
            await routes.refresh(queue.topic)
            found = routes.find_reader(queue.broker_name, suggested)
        if found is None:
            raise NetworkError(f"broker {queue.broker_name} is in no route known here")
        broker_id, address = found
        is_master = broker_id == MASTER_ID
        command = self._command(queue, wish, subscription, address=address, is_master=is_master)
        answer = await self._session.call(address, command, timeout_s=wish.timeout_s)
        status = _STATUS.get(answer.code)
        if status is None:
            raise error_of(answer.code, answer.remark)
        header = PullMessageResponse.from_fields(answer.fields)
        self._suggested[queue] = header.suggest_which_broker_id
        messages: list[ReceivedMessage] = []
        next_offset = header.next_begin_offset
        if status is PullStatus.FOUND:
            messages = open_messages(bytes(answer.body), origin)
            if sum(message.store_size for message in messages) < len(answer.body):
                # Bytes that are no record follow: the next pull begins with them.
                next_offset = messages[-1].queue_offset + (header.offset_delta or 0) + 1
            if header.offset_delta:
                for message in messages:
                    message.queue_offset += header.offset_delta
            if subscription.tags_set:
                messages = _with_tags(messages, subscription)
        return Pulled(
            status,
            messages,
            next_offset,
            header.min_offset,
            header.max_offset,
            is_master,
        )

    def forget(self, queue: MessageQueue) -> None:
        """The queue is no longer ours."""
        self._suggested.pop(queue, None)

    def ask_master(self, queue: MessageQueue) -> None:
        """Do not follow the last suggestion."""
        self._suggested.pop(queue, None)

    def _command(
        self,
        queue: MessageQueue,
        wish: PullWish,
        subscription: SubscriptionData,
        *,
        address: str,
        is_master: bool,
    ) -> Command:
        # By hand, as sends are: a header object per pull is felt at full speed.
        sys_flag = SUSPEND_FLAG if wish.suspend_s > 0 else 0
        if wish.commit_offset >= 0 and is_master:
            sys_flag |= COMMIT_FLAG
        fields = {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "queueOffset": str(wish.offset),
            "maxMsgNums": str(wish.count),
            "commitOffset": str(max(wish.commit_offset, 0)),
            "suspendTimeoutMillis": str(int(wish.suspend_s * 1000)),
            "subVersion": str(subscription.sub_version),
            "expressionType": subscription.expression_type,
            "maxMsgBytes": str(wish.size),
            "bname": queue.broker_name,
        }
        code = RequestCode.PULL_MESSAGE
        if wish.send_subscription:
            sys_flag |= SUBSCRIPTION_FLAG
            fields["subscription"] = subscription.sub_string
        if wish.lite and self._session.versions.get(address, 0) >= V5_0_0:
            sys_flag |= LITE_FLAG
            code = RequestCode.LITE_PULL_MESSAGE
        fields["sysFlag"] = str(sys_flag)
        return Command(int(code), fields=fields)


def _with_tags(
    messages: list[ReceivedMessage], subscription: SubscriptionData
) -> list[ReceivedMessage]:
    """Drop messages whose tag only has the same hash (PullAPIWrapper.processPullResult)."""
    wanted = {tag.encode() for tag in subscription.tags_set}
    find = records.find_property
    return [message for message in messages if find(message.properties_bytes, b"TAGS") in wanted]
