"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue."""

from __future__ import annotations

from collections.abc import Awaitable

from contrailmq.clock import Clock
from contrailmq.errors import ContrailError
from contrailmq.grpc import checks
from contrailmq.grpc.backend import Backend, Need, Soon, awaited
from contrailmq.grpc.caller import Caller
from contrailmq.grpc.calls_route import consuming
from contrailmq.grpc.clients import Client, ClientTable
from contrailmq.grpc.codes import Code, Refusal, ok, status_of
from contrailmq.grpc.converting import ReceiptHandle, parse_receipt
from contrailmq.grpc.messages import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ForwardRequest,
    Status,
    StatusResponse,
)


class SettleCalls:
    """What consumers call about messages they have received."""

    def __init__(self, backend: Backend, clients: ClientTable, clock: Clock) -> None:
        self._backend = backend
        self._clients = clients
        self._clock = clock

    def ack_needs(self, request: AckMessageRequest) -> list[Need]:
        """The group consumes the topic."""
        return [consuming(request.topic, request.group)]

    def ack(self, context: Caller, request: AckMessageRequest) -> Soon[AckMessageResponse]:
        """Settle messages, each with a status of its own."""
        topic, group = checks.topic_of(request.topic), checks.group_of(request.group)
        client = self._clients.find(context.client_id)
        results = [self._ack(group, topic, entry, client) for entry in request.entries]
        if any(isinstance(result, Awaitable) for result in results):
            return _ack_later(request, results)
        return _acked(request, [result for result in results if isinstance(result, Status)])

    def _ack(
        self, group: str, topic: str, entry: AckMessageEntry, client: Client | None
    ) -> Soon[Status]:
        try:
            receipt = self._receipt(
                group, topic, entry.message_id, entry.receipt_handle, client=client
            )
            settled = self._backend.ack(group, topic, receipt)
            if client is not None:
                client.in_hand.remove(group, topic, entry.message_id, receipt)
        except ContrailError as error:
            return status_of(error)
        return ok() if settled is None else _status_later(settled)

    def change_needs(self, request: ChangeInvisibleDurationRequest) -> list[Need]:
        """The group consumes the topic."""
        return [consuming(request.topic, request.group)]

    async def change(
        self, context: Caller, request: ChangeInvisibleDurationRequest
    ) -> ChangeInvisibleDurationResponse:
        """Hide a message for another while; the new handle replaces the old one."""
        topic, group = checks.topic_of(request.topic), checks.group_of(request.group)
        invisible_ms = checks.invisible_ms(request.invisible_duration)
        client = self._clients.find(context.client_id)
        receipt = self._receipt(
            group, topic, request.message_id, request.receipt_handle, client=client
        )
        changed = await awaited(
            self._backend.change(group, topic, receipt, invisible_ms=invisible_ms)
        )
        if client is not None:
            client.in_hand.remove(group, topic, request.message_id, receipt)
        return ChangeInvisibleDurationResponse(ok(), changed.text())

    def forward_needs(self, request: ForwardRequest) -> list[Need]:
        """The group consumes the topic."""
        return [consuming(request.topic, request.group)]

    async def forward(self, context: Caller, request: ForwardRequest) -> StatusResponse:
        """Put a message to the dead letters."""
        topic, group = checks.topic_of(request.topic), checks.group_of(request.group)
        client = self._clients.find(context.client_id)
        # An old handle will do: the message is found by its place in the log.
        receipt = _newest(group, topic, request.message_id, request.receipt_handle, client=client)
        if receipt.log_offset is None:
            raise Refusal(
                Code.INVALID_RECEIPT_HANDLE, "the receipt handle has no commit log offset"
            )
        await awaited(self._backend.bury(group, topic, receipt, message_id=request.message_id))
        if client is not None:
            client.in_hand.remove(group, topic, request.message_id, receipt)
        return StatusResponse(Status(Code.OK, "0"))

    def _receipt(
        self, group: str, topic: str, message_id: str, text: str, *, client: Client | None
    ) -> ReceiptHandle:
        receipt = _newest(group, topic, message_id, text, client=client)
        if receipt.is_expired(self._clock.now_ms()):
            raise Refusal(Code.INVALID_RECEIPT_HANDLE, "receipt handle is expired")
        return receipt


def _newest(
    group: str, topic: str, message_id: str, text: str, *, client: Client | None
) -> ReceiptHandle:
    receipt = parse_receipt(text)
    if client is None:
        return receipt
    return client.in_hand.newest(group, topic, message_id, receipt)


async def _status_later(settled: Awaitable[None]) -> Status:
    try:
        await settled
    except ContrailError as error:
        return status_of(error)
    return ok()


async def _ack_later(request: AckMessageRequest, results: list[Soon[Status]]) -> AckMessageResponse:
    return _acked(request, [await awaited(result) for result in results])


def _acked(request: AckMessageRequest, found: list[Status]) -> AckMessageResponse:
    entries = [
        AckMessageResultEntry(entry.message_id, entry.receipt_handle, status)
        for entry, status in zip(request.entries, found, strict=True)
    ]
    codes = {status.code for status in found}
    if len(codes) > 1:
        return AckMessageResponse(
            Status(Code.MULTIPLE_RESULTS, Code.MULTIPLE_RESULTS.name), entries
        )
    code = Code(codes.pop()) if codes else Code.OK
    return AckMessageResponse(Status(code, code.name), entries)
