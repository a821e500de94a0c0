"""The brokers of a cluster as the gRPC calls see them: every call becomes a remoting request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Sequence
from typing import Final

from contrailmq.clock import Clock
from contrailmq.errors import (
    BrokerError,
    ContrailError,
    FlushDiskTimeout,
    FlushSlaveTimeout,
    IllegalMessage,
    NoMessage,
    PollingTimeout,
    SlaveNotAvailable,
)
from contrailmq.grpc.backend import PopAnswer, PopRequest, Sent, Taken
from contrailmq.grpc.calls_send import check_type
from contrailmq.grpc.clients import Client
from contrailmq.grpc.codes import Code, Refusal, status_of
from contrailmq.grpc.converting import (
    Outgoing,
    ReceiptHandle,
    TransactionPlace,
    java_hash,
    jump_hash,
)
from contrailmq.grpc.messages import MessageType
from contrailmq.lifecycle import Tasks
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.bodies.route import TopicRouteData
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.pop import (
    AckMessageRequest,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
    PopMessageRequest,
    PopMessageResponse,
)
from contrailmq.protocol.headers.send import (
    ConsumerSendMsgBackRequest,
    RecallMessageRequest,
    SendMessageRequestV2,
)
from contrailmq.protocol.headers.transaction import EndTransactionRequest
from contrailmq.protocol.ids import parse_offset_message_id
from contrailmq.protocol.message import decode_records
from contrailmq.protocol.pop import Handle, parse_handle, parse_offsets, real_topic
from contrailmq.protocol.properties import PROPERTY_POP_CK
from contrailmq.protocol.recall import read_handle
from contrailmq.proxy.directory import Directory
from contrailmq.proxy.producers import Producers

log = logging.getLogger(__name__)

SEND_S: Final = 5.0
POP_MORE_S: Final = 5.0
GIVEN_BACK_MS: Final = 1_000
INIT_MAX: Final = 1
PREPARED: Final = 0x4
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
_UNCERTAIN: Final = (FlushDiskTimeout, FlushSlaveTimeout, SlaveNotAvailable)


class ClusterBrokers:
    """All brokers of a cluster, over remoting."""

    def __init__(
        self, directory: Directory, producers: Producers, *, clock: Clock, rng: random.Random
    ) -> None:
        self._directory = directory
        self._producers = producers
        self._clock = clock
        self._turn = rng.randrange(1000)
        self._tasks = Tasks()

    async def aclose(self) -> None:
        """End what is under way."""
        await self._tasks.aclose(drain_s=1.0)

    async def route(self, topic: str) -> TopicRouteData:
        """Where a topic is."""
        return await self._directory.route(topic)

    async def message_type(self, topic: str) -> str:
        """The kind of messages a topic takes."""
        return await self._directory.message_type(topic)

    async def find_group(self, group: str) -> SubscriptionGroupConfig | None:
        """A group's configuration."""
        return await self._directory.find_group(group)

    async def send(self, topic: str, messages: Sequence[Outgoing], *, peer: str) -> list[Sent]:
        """Store messages in one queue, one after another."""
        await self._directory.route(topic)
        expected = await self._directory.message_type(topic)
        for message in messages:
            check_type(topic, expected, message.kind)
        queues = await self._directory.writable(topic)
        group = messages[0].message_group
        self._turn += 1
        number = jump_hash(java_hash(group), len(queues)) if group else self._turn % len(queues)
        name, address, queue_id = queues[number]
        return [
            await self._send(topic, message, queue_id, place=(name, address))
            for message in messages
        ]

    async def _send(
        self, topic: str, message: Outgoing, queue_id: int, *, place: tuple[str, str]
    ) -> Sent:
        is_half = message.kind == MessageType.TRANSACTION
        header = SendMessageRequestV2(
            producer_group=topic,
            topic=topic,
            queue_id=queue_id,
            sys_flag=PREPARED if is_half else 0,
            born_timestamp=message.born_ms,
            properties=message.properties.decode(),
            reconsume_times=0,
            broker_name=place[0],
        )
        try:
            answer = await self._directory.ask(
                place[1], RequestCode.SEND_MESSAGE_V2, header, body=message.body, timeout_s=SEND_S
            )
        except _UNCERTAIN as error:
            return Sent(0, "", fault=status_of(error))
        fields = answer.fields
        queue_offset = int(fields.get("queueOffset", "0"))
        transaction_id = ""
        if is_half:
            _, log_offset = parse_offset_message_id(fields["msgId"])
            transaction_id = TransactionPlace(
                message.message_id, queue_offset, log_offset, place[0]
            ).text()
        return Sent(queue_offset, transaction_id, fields.get("recallHandle", ""))

    async def pop(self, request: PopRequest) -> PopAnswer:
        """Give out messages; a request under way at a broker is waited for, caller or not."""
        work = self._tasks.start(self._pop(request), name="pop")
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(lambda done: self._return(request, done))
            raise

    async def _pop(self, request: PopRequest) -> PopAnswer:
        name, address = await self._directory.readable(request.topic, request.broker_name)
        header = PopMessageRequest(
            consumer_group=request.group,
            topic=request.topic,
            queue_id=-1,
            max_msg_nums=request.count,
            invisible_time=request.invisible_ms,
            poll_time=request.wait_ms,
            born_time=self._clock.now_ms(),
            init_mode=INIT_MAX,
            exp_type=request.expression_type,
            exp=request.expression,
            order=request.order,
            attempt_id=request.attempt_id,
        )
        try:
            answer = await self._directory.ask(
                address, RequestCode.POP_MESSAGE, header,
                timeout_s=request.wait_ms / 1000 + POP_MORE_S,
            )  # fmt: skip
        except PollingTimeout:
            return PopAnswer([])
        except BrokerError as error:
            if error.code == ResponseCode.POLLING_FULL:
                return PopAnswer([], is_full=True)
            raise
        return PopAnswer(_messages(answer, name))

    def _return(self, request: PopRequest, done: asyncio.Task[PopAnswer]) -> None:
        if not done.cancelled() and done.exception() is None:
            receipts = [taken.receipt for taken in done.result().messages]
            self.give_back(request.group, request.topic, receipts)

    def give_back(self, group: str, topic: str, receipts: Sequence[ReceiptHandle]) -> None:
        """Make messages visible again in a second."""

        async def give() -> None:
            for receipt in receipts:
                with contextlib.suppress(ContrailError):
                    await self.change(group, topic, receipt, invisible_ms=GIVEN_BACK_MS)

        if receipts:
            self._tasks.start(give(), name="give back")

    async def ack(self, group: str, topic: str, receipt: ReceiptHandle) -> None:
        """Settle a message."""
        handle = receipt.handle
        address = await self._directory.address_of(handle.broker_name, topic)
        header = AckMessageRequest(
            consumer_group=group,
            topic=real_topic(topic, group, handle.flag),
            queue_id=handle.queue_id,
            extra_info=handle.text(),
            offset=handle.offset,
        )
        try:
            await self._directory.ask(address, RequestCode.ACK_MESSAGE, header)
        except (IllegalMessage, NoMessage) as error:
            raise Refusal(Code.INVALID_RECEIPT_HANDLE, error.remark) from None

    async def change(
        self, group: str, topic: str, receipt: ReceiptHandle, *, invisible_ms: int
    ) -> ReceiptHandle:
        """Hide a message for another while."""
        handle = receipt.handle
        address = await self._directory.address_of(handle.broker_name, topic)
        header = ChangeInvisibleTimeRequest(
            consumer_group=group,
            topic=real_topic(topic, group, handle.flag),
            queue_id=handle.queue_id,
            extra_info=handle.text(),
            offset=handle.offset,
            invisible_time=invisible_ms,
        )
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        try:
            answer = await self._directory.ask(address, code, header)
        except (IllegalMessage, NoMessage) as error:
            raise Refusal(Code.INVALID_RECEIPT_HANDLE, error.remark) from None
        told = ChangeInvisibleTimeResponse.from_fields(answer.fields)
        changed = handle._replace(
            start_offset=handle.offset,
            pop_ms=told.pop_time,
            invisible_ms=told.invisible_time,
            revive_queue=told.revive_qid,
        )
        return ReceiptHandle(changed, receipt.log_offset)

    async def bury(
        self, group: str, topic: str, receipt: ReceiptHandle, *, message_id: str
    ) -> None:
        """Put a message to the dead letters, and settle it."""
        handle = receipt.handle
        address = await self._directory.address_of(handle.broker_name, topic)
        header = ConsumerSendMsgBackRequest(
            offset=receipt.log_offset or 0,
            group=group,
            delay_level=-1,
            origin_msg_id=message_id,
            origin_topic=real_topic(topic, group, handle.flag),
            max_reconsume_times=0,
        )
        await self._directory.ask(address, RequestCode.CONSUMER_SEND_MSG_BACK, header)
        await self.ack(group, topic, receipt)

    async def end_transaction(
        self, topic: str, place: TransactionPlace, *, commit: bool | None, is_check: bool
    ) -> None:
        """Hand the end on; brokers answer none of them."""
        address = await self._directory.address_of(place.broker_name, topic)
        header = EndTransactionRequest(
            topic=topic,
            producer_group=topic,
            tran_state_table_offset=place.queue_offset,
            commit_log_offset=place.log_offset,
            commit_or_rollback=UNKNOWN if commit is None else COMMIT if commit else ROLLBACK,
            from_transaction_check=is_check,
            msg_id=place.unique_key,
            transaction_id=place.unique_key,
        )
        command = Command.request(RequestCode.END_TRANSACTION, header, oneway=True)
        await self._directory.client.oneway(address, command)

    async def recall(self, topic: str, handle: str) -> str:
        """Take back a delayed message."""
        found = read_handle(handle)
        if found is None:
            raise Refusal(Code.INTERNAL_SERVER_ERROR, "recall failed, decode handle failed")
        address = await self._directory.address_of(found.broker_name, topic)
        header = RecallMessageRequest(topic=topic, recall_handle=handle, producer_group=topic)
        answer = await self._directory.ask(address, RequestCode.RECALL_MESSAGE, header)
        return answer.fields.get("msgId", "")

    def register(self, client: Client) -> None:
        """Note a producer, so that brokers can ask it; consumers need no place at brokers."""
        self._producers.note(client)

    def unregister(self, client: Client) -> None:
        """Forget a client."""
        self._producers.forget(client)


def _messages(answer: Command, broker_name: str) -> list[Taken]:
    told = PopMessageResponse.from_fields(answer.fields)
    starts = {
        (part.flag, part.queue_id, offset): part.start_offset
        for part in parse_offsets(told.start_offset_info, told.msg_offset_info)
        for offset in part.offsets
    }
    times = {}
    for text in filter(None, (told.order_count_info or "").split(";")):
        _, place, count = text.split(" ")
        times[place] = int(count)
    found = []
    for record in decode_records(answer.body):
        own = record.properties.get(PROPERTY_POP_CK)
        queue_id, offset = record.queue_id, record.queue_offset
        if own is not None:
            handle = parse_handle(own)
        else:
            start = starts.get(("0", queue_id, offset), offset)
            handle = Handle(
                start, told.pop_time, told.invisible_time, told.revive_qid, "0", broker_name,
                queue_id, offset,
            )  # fmt: skip
        attempt = record.reconsume_times + 1
        if told.order_count_info:
            attempt = times.get(f"qo{queue_id}%{offset}", 0) + 1
        found.append(Taken(record, ReceiptHandle(handle, record.commit_log_offset), attempt))
    return found
