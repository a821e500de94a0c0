"""SendMessage, EndTransaction and RecallMessage."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from contrailmq.clock import Clock
from contrailmq.errors import BrokerError
from contrailmq.grpc import checks
from contrailmq.grpc.backend import Backend, Need, Sent, Soon, awaited
from contrailmq.grpc.caller import Caller
from contrailmq.grpc.codes import Code, Refusal, ok, status_of
from contrailmq.grpc.converting import TYPES, outgoing, parse_transaction
from contrailmq.grpc.messages import (
    EndTransactionRequest,
    MessageType,
    RecallMessageRequest,
    RecallMessageResponse,
    Resolution,
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
    Source,
    StatusResponse,
)
from contrailmq.protocol.names import is_retry_or_dlq

MESSAGES_MAX: Final = 1024
ENDED_MAX: Final = 10_000  # ends that are remembered, so that none is carried out twice


def check_type(topic: str, expected: str, actual: MessageType) -> None:
    """Refuse a message of another kind than its topic's."""
    if is_retry_or_dlq(topic) or expected == "MIXED" or TYPES.get(expected) == actual:
        return
    raise Refusal(
        Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
        f"TopicMessageType validate failed, the expected type is {expected}, "
        f"but actual type is {actual.name}",
    )


class SendCalls:
    """What producers call."""

    def __init__(
        self, backend: Backend, clock: Clock, *, body_size_max: int = checks.BODY_SIZE_MAX
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._body_size_max = body_size_max
        self._ended: dict[str, None] = {}

    def send_needs(self, request: SendMessageRequest) -> list[Need]:
        """The client publishes to the topic."""
        topics = {message.topic.name for message in request.messages if message.topic is not None}
        return [Need(topic=topic, is_write=True) for topic in sorted(topics)]

    def send(self, context: Caller, request: SendMessageRequest) -> Soon[SendMessageResponse]:
        """Store messages of one topic in one queue; answered at once if nothing is waited for."""
        messages = request.messages
        if not messages:
            raise Refusal(Code.MESSAGE_CORRUPTED, "no message to send")
        topic = checks.topic_of(messages[0].topic)
        if len(messages) > 1:
            if len(messages) > MESSAGES_MAX:
                raise Refusal(
                    Code.MESSAGE_CORRUPTED, f"{len(messages)} messages, at most {MESSAGES_MAX}"
                )
            if any(checks.topic_of(message.topic) != topic for message in messages):
                raise Refusal(Code.MESSAGE_CORRUPTED, "topic in message is not same")
        now_ms = self._clock.now_ms()
        size_max = self._body_size_max
        for message in messages:
            checks.check_message(message, body_size_max=size_max, now_ms=now_ms)
        out = [
            outgoing(message, topic, peer=context.peer, body_size_max=size_max)
            for message in messages
        ]
        sent = self._backend.send(topic, out, peer=context.peer)
        ids = [message.message_id for message in out]
        if isinstance(sent, Awaitable):
            return _answer_later(ids, sent)
        return _answer(ids, sent)

    def end_needs(self, request: EndTransactionRequest) -> list[Need]:
        """The client publishes to the topic."""
        return [Need(topic=request.topic.name if request.topic else "", is_write=True)]

    async def end(self, context: Caller, request: EndTransactionRequest) -> StatusResponse:
        """Hand the end of a transaction on; OK does not say what became of it."""
        topic = checks.topic_of(request.topic)
        if not request.transaction_id.strip():
            raise Refusal(Code.INVALID_TRANSACTION_ID, "transaction id cannot be empty")
        place = parse_transaction(request.transaction_id)
        if place is None or request.transaction_id in self._ended:
            raise Refusal(Code.INTERNAL_SERVER_ERROR, "cannot found transaction data")
        commit: bool | None = None
        if request.resolution in (Resolution.COMMIT, Resolution.ROLLBACK):
            commit = request.resolution == Resolution.COMMIT
            if len(self._ended) >= ENDED_MAX:
                del self._ended[next(iter(self._ended))]
            self._ended[request.transaction_id] = None
        try:
            await awaited(
                self._backend.end_transaction(
                    topic, place, commit=commit, is_check=request.source == Source.SERVER_CHECK
                )
            )
        except BrokerError:
            self._ended.pop(request.transaction_id, None)
            raise
        return StatusResponse(ok())

    def recall_needs(self, request: RecallMessageRequest) -> list[Need]:
        """The client publishes to the topic."""
        return [Need(topic=request.topic.name if request.topic else "", is_write=True)]

    async def recall(self, context: Caller, request: RecallMessageRequest) -> RecallMessageResponse:
        """Take back a delayed message that is not delivered yet."""
        topic = checks.topic_of(request.topic)
        expected = await awaited(self._backend.message_type(topic))
        check_type(topic, expected, MessageType.DELAY)
        message_id = await awaited(self._backend.recall(topic, request.recall_handle))
        return RecallMessageResponse(ok(), message_id)


async def _answer_later(ids: list[str], sent: Awaitable[list[Sent]]) -> SendMessageResponse:
    return _answer(ids, await sent)


def _answer(ids: list[str], sent: list[Sent]) -> SendMessageResponse:
    entries = [
        SendResultEntry(
            ok(), message_id, each.transaction_id or message_id, each.queue_offset,
            each.recall_handle,
        )
        if each.fault is None
        else SendResultEntry(each.fault)
        for message_id, each in zip(ids, sent, strict=True)
    ]  # fmt: skip
    faults = {each.fault.code for each in sent if each.fault is not None}
    if not faults:
        return SendMessageResponse(ok(), entries)
    if len(faults) == 1 and all(each.fault is not None for each in sent):
        fault = sent[0].fault
        assert fault is not None
        return SendMessageResponse(fault, entries)
    return SendMessageResponse(
        status_of(Refusal(Code.MULTIPLE_RESULTS, Code.MULTIPLE_RESULTS.name)), entries
    )
