"""What takes the place of remoting where a client is given ``endpoints``.

Theory of operation.  Producers and consumers make remoting requests and read their answers.  The
bridge turns each request into a call of the v2 service and its answer into the one remoting would
have given, so that retries, errors, budgets and handlers are the same code.  A request that the
service has no call for is answered with REQUEST_CODE_NOT_SUPPORTED.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from contrailmq.client.access import Credentials
from contrailmq.client.over_grpc.calls import Calls
from contrailmq.client.over_grpc.consuming import ConsumerRequests
from contrailmq.client.over_grpc.popping import InHand, handle_of, record_of
from contrailmq.client.over_grpc.producing import (
    NO_OFFSET_ID,
    route_data,
    route_request,
    send_header,
    wire_message,
)
from contrailmq.client.over_grpc.statuses import code_of, error_of_call, remark_of
from contrailmq.client.over_grpc.telemetry import Telemetry, settings_of
from contrailmq.clock import Clock
from contrailmq.errors import BrokerError, ContrailError
from contrailmq.grpc import messages
from contrailmq.grpc.call import GrpcError
from contrailmq.grpc.http2.tls import ALPN
from contrailmq.grpc.messages import Resource
from contrailmq.grpc.messages_settings import ClientType, OrphanedTransaction
from contrailmq.lifecycle import Tasks
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Handler
from contrailmq.net.network import Network
from contrailmq.protocol import properties as names
from contrailmq.protocol.bodies.heartbeat import HeartbeatData
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.route import GetRouteInfoRequest
from contrailmq.protocol.headers.send import (
    RecallMessageRequest,
    RecallMessageResponse,
    SendMessageResponse,
)
from contrailmq.protocol.headers.transaction import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from contrailmq.protocol.names import AUTO_CREATE_TOPIC

__all__ = ["ALPN", "GrpcBridge"]

COMMIT, ROLLBACK = 8, 12
UNKNOWN_QUEUE: Final = -1  # the service does not say which it chose
LEAVE_S: Final = 1.0
TOPICS_MAX: Final = 1024  # names of topics told to the service


class Asker:
    """Who asked a question, as a handler sees a connection: its answer goes back by a call."""

    def __init__(self, bridge: GrpcBridge, address: str) -> None:
        self._bridge = bridge
        self._address = address

    def oneway(self, command: Command) -> None:
        """Send the answer."""
        self._bridge.start(self._bridge.oneway(self._address, command))


class GrpcBridge:
    """Remoting requests of one client, as calls; the interface is that of ``RemotingClient``."""

    def __init__(
        self,
        *,
        client_id: str,
        handlers: Mapping[int, Handler],
        network: Network,
        clock: Clock,
        rng: random.Random,
        credentials: Credentials | None,
    ) -> None:
        self._handlers = handlers
        self._calls = Calls(client_id, network, clock=clock, rng=rng, credentials=credentials)
        self._telemetry: dict[str, Telemetry] = {}
        self._topics: dict[str, None] = {}
        self._transactions: dict[str, str] = {}
        self._group = ""
        self._tasks = Tasks()
        consumer = ConsumerRequests(self._calls, clock)
        self._serves: dict[int, Callable[[str, Command, float], Awaitable[Command]]] = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.SEND_MESSAGE: self._send,
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send,
            RequestCode.HEART_BEAT: self._beat,
            RequestCode.END_TRANSACTION: self._end,
            RequestCode.POP_MESSAGE: consumer.pop,
            RequestCode.ACK_MESSAGE: consumer.ack,
            RequestCode.BATCH_ACK_MESSAGE: consumer.ack_many,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: consumer.change,
            RequestCode.CONSUMER_SEND_MSG_BACK: consumer.forward,
            RequestCode.RECALL_MESSAGE: self._recall,
        }

    # -- what a session uses

    async def call(self, address: str, command: Command, *, timeout_s: float) -> Command:
        """The answer, whatever its code; raises a NetworkError."""
        serve = self._serves.get(command.code)
        if serve is None:
            return command.refuse(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f"request {command.code} has no call in gRPC; give name_servers to use it",
            )
        try:
            return await serve(address, command, timeout_s)
        except BrokerError as error:
            return command.refuse(error.code, error.remark)

    async def oneway(self, address: str, command: Command, *, timeout_s: float = 3.0) -> None:
        """Make the call, whatever comes of it."""
        await self.call(address, command, timeout_s=timeout_s)

    def find_connection(self, address: str) -> Connection | None:
        """None: there is no connection of remoting."""
        return None

    def drop(self, address: str, reason: str) -> None:
        """Nothing: an address that is not used costs nothing."""

    def start(self, work: Any) -> None:
        """Begin something the bridge ends with itself."""
        self._tasks.start(work)

    async def aclose(self) -> None:
        """Say goodbye and close."""
        request = messages.TerminationRequest(Resource(name=self._group) if self._group else None)
        for address, telemetry in self._telemetry.items():
            try:
                await self._calls.ask(
                    address,
                    "NotifyClientTermination",
                    request,
                    messages.StatusResponse,
                    timeout_s=LEAVE_S,
                )
            except ContrailError:
                continue  # it notices
            finally:
                telemetry.close()
        await self._tasks.aclose()
        await self._calls.aclose()

    # -- producers

    async def _route(self, address: str, command: Command, timeout_s: float) -> Command:
        topic = GetRouteInfoRequest.from_fields(command.fields).topic
        if topic == AUTO_CREATE_TOPIC:  # the service makes topics by itself, or not at all
            return command.refuse(ResponseCode.TOPIC_NOT_EXIST, f"no topic {topic} in gRPC")
        answer = await self._calls.ask(
            address,
            "QueryRoute",
            route_request(topic, address),
            messages.QueryRouteResponse,
            timeout_s=timeout_s,
        )
        code = code_of(answer.status)
        if code:
            return command.refuse(code, remark_of(answer.status))
        if len(self._topics) < TOPICS_MAX:
            self._topics[topic] = None
        return command.reply(body=route_data(answer.message_queues, address).encode())

    async def _send(self, address: str, command: Command, timeout_s: float) -> Command:
        header = send_header(command)
        request = messages.SendMessageRequest([wire_message(header, bytes(command.body))])
        answer = await self._calls.ask(
            address, "SendMessage", request, messages.SendMessageResponse, timeout_s=timeout_s
        )
        entry = answer.entries[0] if answer.entries else messages.SendResultEntry()
        status = entry.status if entry.status is not None else answer.status
        if entry.transaction_id:
            self._transactions[entry.message_id] = entry.transaction_id
            if len(self._transactions) > TOPICS_MAX:
                del self._transactions[next(iter(self._transactions))]
        return command.reply(
            SendMessageResponse(
                msg_id=NO_OFFSET_ID,
                queue_id=UNKNOWN_QUEUE,
                queue_offset=entry.offset,
                transaction_id=entry.transaction_id or None,
                recall_handle=entry.recall_handle or None,
            ),
            code=code_of(status),
            remark=remark_of(status) if code_of(status) else None,
        )

    async def _end(self, address: str, command: Command, timeout_s: float) -> Command:
        header = EndTransactionRequest.from_fields(command.fields)
        if header.commit_or_rollback not in (COMMIT, ROLLBACK):
            return command.reply()  # the service asks again by itself
        source = messages.Source
        message_id = header.msg_id or ""
        request = messages.EndTransactionRequest(
            Resource(name=header.topic or ""),
            message_id,
            self._transactions.pop(message_id, header.transaction_id or ""),
            messages.Resolution.COMMIT
            if header.commit_or_rollback == COMMIT
            else messages.Resolution.ROLLBACK,
            source.SERVER_CHECK if header.from_transaction_check else source.CLIENT,
        )
        return await self._calls.carry_out(
            address, command, "EndTransaction", request, timeout_s=timeout_s
        )

    async def _recall(self, address: str, command: Command, timeout_s: float) -> Command:
        header = RecallMessageRequest.from_fields(command.fields)
        request = messages.RecallMessageRequest(Resource(name=header.topic), header.recall_handle)
        answer = await self._calls.ask(
            address, "RecallMessage", request, messages.RecallMessageResponse, timeout_s=timeout_s
        )
        if code_of(answer.status):
            return command.refuse(code_of(answer.status), remark_of(answer.status))
        return command.reply(RecallMessageResponse(msg_id=answer.message_id))

    async def _beat(self, address: str, command: Command, timeout_s: float) -> Command:
        beat = HeartbeatData.decode(bytes(command.body))
        group = beat.consumer_data_set[0].group_name if beat.consumer_data_set else ""
        self._group = group
        settings = settings_of(beat, list(self._topics), address)
        telemetry = self._telemetry.get(address)
        if telemetry is None:
            telemetry = Telemetry(self._calls.channel(address), self._tasks, self._checked)
            self._telemetry[address] = telemetry
        try:
            await telemetry.tell(settings, self._calls.passing())
        except GrpcError as error:
            raise error_of_call(error, address) from None
        request = messages.HeartbeatRequest(
            Resource(name=group) if group else None, settings.client_type or ClientType.PRODUCER
        )
        return await self._calls.carry_out(
            address, command, "Heartbeat", request, timeout_s=timeout_s
        )

    async def _checked(self, address: str, question: OrphanedTransaction) -> None:
        """The service asks how a transaction ended: ask the handler, as a broker would."""
        handler = self._handlers.get(RequestCode.CHECK_TRANSACTION_STATE)
        message = question.message
        if handler is None or message is None or message.topic is None:
            return
        group = self._producer_group()
        message.user_properties = {**message.user_properties, names.PROPERTY_PRODUCER_GROUP: group}
        record = record_of(message, InHand(), handle=handle_of("", now_ms=0, invisible_ms=0))
        header = CheckTransactionStateRequest(
            topic=message.topic.name,
            tran_state_table_offset=0,
            commit_log_offset=0,
            transaction_id=question.transaction_id,
        )
        request = Command.request(RequestCode.CHECK_TRANSACTION_STATE, header, body=record)
        answer = handler(request, cast(Connection, Asker(self, address)))
        if asyncio.iscoroutine(answer) or isinstance(answer, asyncio.Future):
            await answer

    def _producer_group(self) -> str:
        handler: Any = self._handlers.get(RequestCode.CHECK_TRANSACTION_STATE)
        return str(getattr(handler, "group", ""))
