"""Popping: requests of a group that shares all queues of its topics, and the messages they give.

A popped message is hidden from the other members until its invisible time is over.  Its *handle*
names it to its broker: an acknowledgement settles it, a change hides it for another while and gives
it a new handle, and without either it comes back to any member.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from contrailmq.client.broker_calls import BrokerCalls
from contrailmq.client.message import Origin, ReceivedMessage, open_as
from contrailmq.client.session import Session
from contrailmq.errors import ClientError, error_of
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.bodies.queues import BatchAck, BatchAckMessageRequest
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.pop import (
    AckMessageRequest,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
)
from contrailmq.protocol.pop import (
    NORMAL,
    POP_COUNT_MAX,
    Handle,
    parse_handle,
    parse_offsets,
    real_topic,
)
from contrailmq.protocol.properties import PROPERTY_POP_CK
from contrailmq.protocol.queue import MessageQueue

ALL_QUEUES: Final = -1
DEAD_LEVEL: Final = -1  # the delay level that sends a message to the dead letters
_NOTHING: Final = (
    ResponseCode.POLLING_TIMEOUT,
    ResponseCode.POLLING_FULL,
    ResponseCode.PULL_NOT_FOUND,
)
_GRACE_S: Final = 10.0  # an answer may come so much later than the broker waits


class PopOrigin(Origin):
    """Where popped messages came from; it settles them."""

    __slots__ = ("pops",)

    def __init__(self, queue: MessageQueue, group: str, namespace: str, pops: Pops) -> None:
        super().__init__(queue, group, namespace)
        self.pops = pops


class PoppedMessage(ReceivedMessage):
    """A message that is hidden from the other members of the group for a while.

    ``handle`` is its receipt.  ``await message.ack()`` settles it, ``extend(seconds)`` hides it for
    so long from now on, ``dead_letter()`` puts it away for good.
    """

    origin: PopOrigin
    handle: Handle

    @property
    def invisible_until_ms(self) -> int:
        """When it becomes visible to other members, by the broker's clock."""
        return self.handle.pop_ms + self.handle.invisible_ms

    async def ack(self) -> None:
        """Settle it: it does not come again."""
        await self.origin.pops.ack([self])

    async def extend(self, seconds: float) -> None:
        """Hide it for so many seconds from now on; 0 lets it come again at once."""
        await self.origin.pops.change(self, seconds)

    async def dead_letter(self) -> None:
        """Put it into the group's dead-letter topic, and settle it."""
        await self.origin.pops.dead_letter(self)


class Pops:
    """Pops, acknowledgements and changes of one group over one session."""

    def __init__(
        self, session: Session, group: str, *,
        namespace: str = "", from_first: bool = True, kind: type[PoppedMessage] = PoppedMessage,
    ) -> None:  # fmt: skip
        self._session = session
        self._group = group
        self._namespace = namespace
        self._init_mode = "0" if from_first else "1"
        self._kind = kind
        self._calls = BrokerCalls(session, group)

    async def pop(
        self, queue: MessageQueue, subscription: SubscriptionData, *,
        count: int, invisible_s: float, wait_s: float,
    ) -> list[PoppedMessage]:  # fmt: skip
        """Up to ``count`` messages of a queue, or of all queues of its broker (queue id -1)."""
        session = self._session
        address = session.writer(queue.broker_name)
        wait_ms = max(int(wait_s * 1000), 0)
        fields = {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "maxMsgNums": str(min(count, POP_COUNT_MAX)),
            "invisibleTime": str(int(invisible_s * 1000)),
            "pollTime": str(wait_ms),
            "bornTime": str(session.world.clock.now_ms()),
            "initMode": self._init_mode,
            "expType": subscription.expression_type,
            "exp": subscription.sub_string,
            "order": "false",
            "bname": queue.broker_name,
        }
        command = Command(int(RequestCode.POP_MESSAGE), fields=fields)
        answer = await session.call(address, command, timeout_s=wait_s + _GRACE_S)
        if answer.code in _NOTHING:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise error_of(answer.code, answer.remark)
        messages = self._open(answer, queue)
        wanted = set(subscription.tags_set)
        if not wanted:
            return messages
        alien = [message for message in messages if message.tags not in wanted]
        if alien:  # another tag with the same hash: not for this group
            await self.ack(alien)
        return [message for message in messages if message.tags in wanted]

    def _open(self, answer: Command, queue: MessageQueue) -> list[PoppedMessage]:
        origin = PopOrigin(queue, self._group, self._namespace, self)
        messages = open_as(self._kind, bytes(answer.body), origin)
        fields = answer.fields
        starts = {
            (part.queue_id, offset): part.start_offset
            for part in parse_offsets(fields.get("startOffsetInfo"), fields.get("msgOffsetInfo"))
            if part.flag == NORMAL
            for offset in part.offsets
        }
        for message in messages:
            text = message.properties.get(PROPERTY_POP_CK)
            if text is not None:
                message.handle = parse_handle(text)
                continue
            place = (message.queue_id, message.queue_offset)
            message.handle = Handle(
                starts.get(place, message.queue_offset),
                int(fields["popTime"]),
                int(fields["invisibleTime"]),
                int(fields["reviveQid"]),
                NORMAL,
                queue.broker_name,
                *place,
            )
        return messages

    async def ack(self, messages: Sequence[PoppedMessage]) -> None:
        """Settle messages: by one request, or one for each broker when there are several."""
        if len(messages) == 1:
            await self._ack_one(messages[0])
            return
        brokers: dict[str, list[PoppedMessage]] = {}
        for message in messages:
            brokers.setdefault(message.handle.broker_name, []).append(message)
        for broker_name, own in brokers.items():
            await self._ack_many(broker_name, own)

    async def change(self, message: PoppedMessage, seconds: float) -> None:
        """Hide a message for so long from now on; it has another handle then."""
        handle = message.handle
        header = ChangeInvisibleTimeRequest(
            consumer_group=self._group,
            topic=self._topic(message),
            queue_id=handle.queue_id,
            extra_info=handle.text(),
            offset=handle.offset,
            invisible_time=max(int(seconds * 1000), 0),
            broker_name=handle.broker_name,
        )
        answer = await self._session.ask(
            self._session.writer(handle.broker_name),
            Command.request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header),
        )
        changed = ChangeInvisibleTimeResponse.from_fields(answer.fields)
        message.handle = handle._replace(
            start_offset=handle.offset,
            pop_ms=changed.pop_time,
            invisible_ms=changed.invisible_time,
            revive_queue=changed.revive_qid,
        )

    async def dead_letter(self, message: PoppedMessage) -> None:
        """Have the broker copy a message to the dead letters, then settle it."""
        await self._calls.send_back(
            self._session.writer(message.handle.broker_name),
            offset=message.commit_log_offset,
            delay_level=DEAD_LEVEL,
            retries_max=0,
            message_id=message.message_id,
            topic=message.origin.queue.topic,
        )
        await self.ack([message])

    async def _ack_one(self, message: PoppedMessage) -> None:
        handle = message.handle
        header = AckMessageRequest(
            consumer_group=self._group,
            topic=self._topic(message),
            queue_id=handle.queue_id,
            extra_info=handle.text(),
            offset=handle.offset,
            broker_name=handle.broker_name,
        )
        command = Command.request(RequestCode.ACK_MESSAGE, header)
        await self._session.ask(self._session.writer(handle.broker_name), command)

    async def _ack_many(self, broker_name: str, messages: Iterable[PoppedMessage]) -> None:
        same: dict[Handle, list[int]] = {}
        topics: dict[Handle, str] = {}
        for message in messages:
            handle = message.handle._replace(offset=-1)
            same.setdefault(handle, []).append(message.handle.offset)
            topics[handle] = message.origin.queue.topic
        acks = [
            BatchAck(
                consumer_group=self._group,
                topic=topics[handle],
                retry=handle.flag,
                start_offset=handle.start_offset,
                queue_id=handle.queue_id,
                revive_queue_id=handle.revive_queue,
                pop_time=handle.pop_ms,
                invisible_time=handle.invisible_ms,
                bits=BatchAck.bits_of(offsets, handle.start_offset),
            )
            for handle, offsets in same.items()
        ]
        body = BatchAckMessageRequest(acks=acks, broker_name=broker_name).encode()
        command = Command(int(RequestCode.BATCH_ACK_MESSAGE), body=body)
        await self._session.ask(self._session.writer(broker_name), command)

    def _topic(self, message: PoppedMessage) -> str:
        return real_topic(message.origin.queue.topic, self._group, message.handle.flag)


def pop_queues(session: Session, topic: str) -> list[MessageQueue]:
    """What a member pops of a topic: all queues of each broker that has some to read."""
    queues = session.routes.find_subscribe(topic) or []
    brokers = dict.fromkeys(queue.broker_name for queue in queues)
    return [MessageQueue(topic, name, ALL_QUEUES) for name in brokers if session.find_writer(name)]


def check_pop(count: int, invisible_s: float) -> None:
    """Raise for what no broker takes."""
    if not 1 <= count <= POP_COUNT_MAX:
        raise ClientError(f"count is {count}; a pop gives 1 to {POP_COUNT_MAX} messages")
    if invisible_s <= 0:
        raise ClientError(f"invisible_s is {invisible_s}; give the seconds a message stays hidden")
