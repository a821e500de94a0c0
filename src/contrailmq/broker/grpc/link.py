"""A gRPC client as the broker's tables know it: requests to it become telemetry commands.

Code 39 (how did a transaction end?), 307 (running info, here the threads) and 309 (consume this
message now) have commands; everything else that is told to remoting clients does not concern a
gRPC client, whose queues are not assigned by rebalancing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from contrailmq.errors import ConnectionLost, RemoteProtocolError
from contrailmq.grpc.clients import Client
from contrailmq.grpc.codes import Code
from contrailmq.grpc.converting import TransactionPlace, delivered
from contrailmq.grpc.messages_settings import (
    Nonce,
    OrphanedTransaction,
    TelemetryCommand,
    VerifyMessage,
)
from contrailmq.protocol.bodies.clients import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.transaction import CheckTransactionStateRequest
from contrailmq.protocol.message import decode_record

ASK_TIMEOUT_S: Final = 5.0
_RESULTS: Final = {
    Code.OK: "CR_SUCCESS",
    Code.FAILED_TO_CONSUME_MESSAGE: "CR_LATER",
    Code.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
}


class GrpcLink:
    """The way to one gRPC client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._callbacks: list[Callable[[Any], None]] = []

    @property
    def peer(self) -> str:
        """The client's address."""
        return self._client.peer

    @property
    def closed(self) -> bool:
        """Whether the client has no telemetry stream now."""
        return self._client.stream is None

    def on_close(self, callback: Callable[[Any], None]) -> None:
        """Call back when the client is dropped."""
        self._callbacks.append(callback)

    def close(self, reason: str) -> None:
        """The client is dropped."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def oneway(self, command: Command) -> None:
        """Pass on a question about a transaction; nothing else."""
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            return
        header = CheckTransactionStateRequest.from_fields(command.fields)
        record = decode_record(command.body)
        message = delivered(record, record.topic, handle=None, attempt=1)
        assert message.system_properties is not None
        place = TransactionPlace(
            message.system_properties.message_id,
            header.tran_state_table_offset,
            header.commit_log_offset,
        )
        orphan = OrphanedTransaction(message, place.text())
        self._client.tell(TelemetryCommand(recover_orphaned_transaction_command=orphan))

    async def call(self, command: Command, *, timeout_s: float) -> Command:
        """Ask for threads, or to consume one message; raises NetworkError."""
        timeout_s = min(timeout_s, ASK_TIMEOUT_S)
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            answer = await self._client.ask(
                lambda nonce: TelemetryCommand(print_thread_stack_trace_command=Nonce(nonce)),
                timeout_s=timeout_s,
            )
            trace = answer.thread_stack_trace
            text = trace.thread_stack_trace if trace is not None else None
            return command.reply(body=ConsumerRunningInfo(jstack=text).encode())
        if command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return await self._verify(command, timeout_s)
        raise ConnectionLost(f"{self.peer} is a gRPC client: it knows no request {command.code}")

    async def _verify(self, command: Command, timeout_s: float) -> Command:
        record = decode_record(command.body)
        message = delivered(record, record.topic, handle=None, attempt=record.reconsume_times + 1)
        answer = await self._client.ask(
            lambda nonce: TelemetryCommand(verify_message_command=VerifyMessage(nonce, message)),
            timeout_s=timeout_s,
        )
        if answer.status is None:
            raise RemoteProtocolError(f"{self.peer}: a verification without a status")
        try:
            result = _RESULTS.get(Code(answer.status.code), "CR_THROW_EXCEPTION")
        except ValueError:
            result = "CR_THROW_EXCEPTION"
        body = ConsumeMessageDirectlyResult(
            consume_result=result, remark=answer.status.message or None
        )
        return command.reply(body=body.encode())
