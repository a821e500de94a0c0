"""What takes the place of remoting where a client is given ``endpoints``.

Theory of operation.  Producers and consumers make remoting requests and read their answers.  The
bridge turns each request into a call of the v2 service and its answer into the one remoting would
have given, so that retries, errors, budgets and handlers are the same code.  A request that the
service has no call for is answered with REQUEST_CODE_NOT_SUPPORTED.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar, cast

import msgspec

from contrailmq.client.access import Credentials
from contrailmq.client.over_grpc.popping import InHand, handle_of, receive_request, record_of
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
from contrailmq.grpc.codes import Code
from contrailmq.grpc.http2.client import Channel, Fields
from contrailmq.grpc.http2.tls import ALPN
from contrailmq.grpc.messages import Moment, Resource, Status
from contrailmq.grpc.messages_settings import ClientType, OrphanedTransaction
from contrailmq.grpc.protobuf import codec_of
from contrailmq.lifecycle import Tasks
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Handler
from contrailmq.net.network import Network
from contrailmq.protocol import properties as names
from contrailmq.protocol.bodies.heartbeat import HeartbeatData
from contrailmq.protocol.bodies.queues import BatchAckMessageRequest
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.pop import (
    AckMessageRequest,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
)
from contrailmq.protocol.headers.route import GetRouteInfoRequest
from contrailmq.protocol.headers.send import (
    ConsumerSendMsgBackRequest,
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

SERVICE: Final = "/apache.rocketmq.v2.MessagingService/"
SPOKEN_VERSION: Final = "5.2.0"  # of the service, which compares it with that of old clients
COMMIT, ROLLBACK = 8, 12
UNKNOWN_QUEUE: Final = -1  # the service does not say which it chose
LEAVE_S: Final = 1.0
TOPICS_MAX: Final = 1024  # names of topics told to the service
M = TypeVar("M", bound=msgspec.Struct)


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
        self._client_id = client_id
        self._handlers = handlers
        self._network = network
        self._clock = clock
        self._rng = rng
        self._credentials = credentials
        self._channels: dict[str, Channel] = {}
        self._telemetry: dict[str, Telemetry] = {}
        self._topics: dict[str, None] = {}
        self._transactions: dict[str, str] = {}
        self._group = ""
        self._in_hand = InHand()
        self._tasks = Tasks()
        self._serves: dict[int, Callable[[str, Command, float], Awaitable[Command]]] = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.SEND_MESSAGE: self._send,
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send,
            RequestCode.HEART_BEAT: self._beat,
            RequestCode.END_TRANSACTION: self._end,
            RequestCode.POP_MESSAGE: self._pop,
            RequestCode.ACK_MESSAGE: self._ack,
            RequestCode.BATCH_ACK_MESSAGE: self._ack_many,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self._change,
            RequestCode.CONSUMER_SEND_MSG_BACK: self._forward,
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
                await self._ask(
                    address, "NotifyClientTermination", request, messages.StatusResponse, LEAVE_S
                )
            except ContrailError:
                continue  # it notices
            finally:
                telemetry.close()
        await self._tasks.aclose()
        for channel in self._channels.values():
            await channel.aclose()

    # -- calls

    async def _ask(
        self, address: str, method: str, request: msgspec.Struct, kind: type[M], timeout_s: float
    ) -> M:
        encoded = codec_of(type(request)).encode(request)
        try:
            answer = await self._channel(address).call(
                SERVICE + method, encoded, passing=self._passing(), timeout_s=timeout_s
            )
        except GrpcError as error:
            raise error_of_call(error, address) from None
        return codec_of(kind).decode(answer)

    def _channel(self, address: str) -> Channel:
        found = self._channels.get(address)
        if found is None:
            lasting = (
                ("user-agent", "contrailmq"),
                ("x-mq-client-id", self._client_id),
                ("x-mq-language", "PYTHON"),
                ("x-mq-client-version", SPOKEN_VERSION),
                ("x-mq-protocol", "v2"),
            )
            found = self._channels[address] = Channel(address, self._network, lasting=lasting)
        return found

    def _passing(self) -> Fields:
        """Headers that differ with every call: its id, and the signature of its moment."""
        request_id = f"{self._rng.getrandbits(128):032x}"
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
        fields = [("x-mq-request-id", request_id), ("x-mq-date-time", now)]
        account = self._credentials
        if account is not None:
            sign = hmac.new(account.secret_key.encode(), now.encode(), hashlib.sha1).hexdigest()
            text = f"Credential={account.access_key}, SignedHeaders=x-mq-date-time, Signature="
            fields.append(("authorization", f"MQv2-HMAC-SHA1 {text}{sign.upper()}"))
            if account.security_token is not None:
                fields.append(("x-mq-session-token", account.security_token))
        return fields

    # -- producers

    async def _route(self, address: str, command: Command, timeout_s: float) -> Command:
        topic = GetRouteInfoRequest.from_fields(command.fields).topic
        if topic == AUTO_CREATE_TOPIC:  # the service makes topics by itself, or not at all
            return command.refuse(ResponseCode.TOPIC_NOT_EXIST, f"no topic {topic} in gRPC")
        answer = await self._ask(
            address,
            "QueryRoute",
            route_request(topic, address),
            messages.QueryRouteResponse,
            timeout_s,
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
        answer = await self._ask(
            address, "SendMessage", request, messages.SendMessageResponse, timeout_s
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
        return await self._plain(address, command, "EndTransaction", request, timeout_s)

    async def _recall(self, address: str, command: Command, timeout_s: float) -> Command:
        header = RecallMessageRequest.from_fields(command.fields)
        request = messages.RecallMessageRequest(Resource(name=header.topic), header.recall_handle)
        answer = await self._ask(
            address, "RecallMessage", request, messages.RecallMessageResponse, timeout_s
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
            telemetry = Telemetry(self._channel(address), self._tasks, self._checked)
            self._telemetry[address] = telemetry
        try:
            await telemetry.tell(settings, self._passing())
        except GrpcError as error:
            raise error_of_call(error, address) from None
        request = messages.HeartbeatRequest(
            Resource(name=group) if group else None, settings.client_type or ClientType.PRODUCER
        )
        return await self._plain(address, command, "Heartbeat", request, timeout_s)

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

    # -- consumers

    async def _pop(self, address: str, command: Command, timeout_s: float) -> Command:
        fields = command.fields
        request = receive_request(fields)
        encoded = codec_of(messages.ReceiveMessageRequest).encode(request)
        codec = codec_of(messages.ReceiveMessageResponse)
        broker = fields.get("bname", "")
        handle = handle_of(
            broker, now_ms=self._clock.now_ms(), invisible_ms=int(fields["invisibleTime"])
        )
        status: Status | None = None
        records: list[bytes] = []
        call = await self._channel(address).open(
            SERVICE + "ReceiveMessage", passing=self._passing(), timeout_s=timeout_s
        )
        try:
            await call.write(encoded, is_last=True)
            while (data := await call.read()) is not None:
                part = codec.decode(data)
                if part.status is not None:
                    status = part.status
                elif part.message is not None:
                    records.append(record_of(part.message, self._in_hand, handle=handle))
        except GrpcError as error:
            if not records:
                raise error_of_call(error, address) from None
        finally:
            call.cancel()
        code = code_of(status)
        if code and not records:
            return command.refuse(code, remark_of(status))
        return command.reply(body=b"".join(records))

    async def _ack(self, address: str, command: Command, timeout_s: float) -> Command:
        header = AckMessageRequest.from_fields(command.fields)
        return await self._settle(
            address, command, header.consumer_group, [header.offset], timeout_s=timeout_s
        )

    async def _ack_many(self, address: str, command: Command, timeout_s: float) -> Command:
        body = BatchAckMessageRequest.decode(bytes(command.body))
        answer = command.reply()
        groups: dict[tuple[str, str], list[int]] = {}
        for ack in body.acks:
            groups.setdefault((ack.consumer_group, ack.topic), []).extend(ack.offsets())
        for (group, _), serials in groups.items():
            one = await self._settle(address, command, group, serials, timeout_s=timeout_s)
            answer = one if one.code else answer
        return answer

    async def _settle(
        self, address: str, command: Command, group: str, serials: list[int], *, timeout_s: float
    ) -> Command:
        known = [(serial, self._in_hand.find(serial)) for serial in serials]
        held = [(serial, one) for serial, one in known if one is not None]
        if not held:
            return command.reply()  # forwarded, or settled before
        request = messages.AckMessageRequest(
            Resource(name=group),
            Resource(name=held[0][1].topic),
            [messages.AckMessageEntry(one.message_id, one.receipt_handle) for _, one in held],
        )
        answer = await self._ask(
            address, "AckMessage", request, messages.AckMessageResponse, timeout_s
        )
        status = answer.status
        if status is not None and status.code == Code.MULTIPLE_RESULTS:
            bad = [one.status for one in answer.entries if code_of(one.status)]
            status = bad[0] if bad else None
        if code_of(status):
            return command.refuse(code_of(status), remark_of(status))
        for serial, _ in held:
            self._in_hand.settle(serial)
        return command.reply()

    async def _change(self, address: str, command: Command, timeout_s: float) -> Command:
        header = ChangeInvisibleTimeRequest.from_fields(command.fields)
        held = self._in_hand.get(header.offset)
        request = messages.ChangeInvisibleDurationRequest(
            Resource(name=header.consumer_group),
            Resource(name=held.topic),
            held.receipt_handle,
            Moment.of_ms(header.invisible_time),
            held.message_id,
        )
        answer = await self._ask(
            address,
            "ChangeInvisibleDuration",
            request,
            messages.ChangeInvisibleDurationResponse,
            timeout_s,
        )
        if code_of(answer.status):
            return command.refuse(code_of(answer.status), remark_of(answer.status))
        self._in_hand.replace(header.offset, answer.receipt_handle)
        return command.reply(
            ChangeInvisibleTimeResponse(
                pop_time=self._clock.now_ms(),
                invisible_time=header.invisible_time,
                revive_qid=0,
            )
        )

    async def _forward(self, address: str, command: Command, timeout_s: float) -> Command:
        header = ConsumerSendMsgBackRequest.from_fields(command.fields)
        serial, held = self._in_hand.by_id(header.origin_msg_id or "")
        request = messages.ForwardRequest(
            Resource(name=header.group),
            Resource(name=held.topic),
            held.receipt_handle,
            held.message_id,
            held.attempt,
            held.attempt,
        )
        answer = await self._plain(
            address, command, "ForwardMessageToDeadLetterQueue", request, timeout_s
        )
        if answer.code == 0:
            self._in_hand.settle(serial)
        return answer

    async def _plain(
        self, address: str, command: Command, method: str, request: msgspec.Struct, timeout_s: float
    ) -> Command:
        answer = await self._ask(address, method, request, messages.StatusResponse, timeout_s)
        code = code_of(answer.status)
        return command.refuse(code, remark_of(answer.status)) if code else command.reply()
