"""The messaging service: its table of methods, and what it does on its own.

Every unary call is decoded, checked for access, checked for a client id, served, and answered; a
refusal becomes the status of the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from contrailmq.clock import Clock
from contrailmq.errors import ContrailError, RemoteProtocolError
from contrailmq.grpc import messages as m
from contrailmq.grpc.backend import Access, Backend, Need, Soon, awaited
from contrailmq.grpc.call import (
    Call,
    CallGone,
    GrpcError,
    GrpcStatus,
    Streaming,
    Unary,
    UnaryHandler,
)
from contrailmq.grpc.caller import Caller, caller_of
from contrailmq.grpc.calls_client import ClientCalls
from contrailmq.grpc.calls_receive import ReceiveCalls
from contrailmq.grpc.calls_route import Places, RouteCalls
from contrailmq.grpc.calls_send import SendCalls
from contrailmq.grpc.calls_settle import SettleCalls
from contrailmq.grpc.checks import BODY_SIZE_MAX
from contrailmq.grpc.clients import Client, ClientTable
from contrailmq.grpc.codes import Refusal, status_of
from contrailmq.grpc.in_hand import FAILURES_MAX, Held, Key
from contrailmq.grpc.protobuf import codec_of
from contrailmq.grpc.settling import retry_ms
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig

log = logging.getLogger(__name__)

PATH: Final = "/apache.rocketmq.v2.MessagingService/"
RENEW_EVERY_S: Final = 5.0
NO_LITE: Final = (
    "SyncLiteSubscription is not served: this server has no lite topics; subscribe to a topic"
)
Q = TypeVar("Q", bound=m.Message)
A = TypeVar("A", bound=m.Message)


class Service:
    """All calls of one server over one backend."""

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        *,
        places: Places,
        access: Access | None = None,
        body_size_max: int = BODY_SIZE_MAX,
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._access = access
        self.clients = ClientTable(clock)
        self._client_calls = ClientCalls(
            backend, self.clients, access, body_size_max=body_size_max, clock=clock
        )
        self._routes = RouteCalls(backend, places)
        self._sends = SendCalls(backend, clock, body_size_max=body_size_max)
        self._settles = SettleCalls(backend, self.clients, clock)
        self._receives = ReceiveCalls(backend, self.clients, clock)

    def methods(self) -> dict[str, Unary | Streaming]:
        """Path to handler of every method; others are UNIMPLEMENTED."""
        routes, sends, settles = self._routes, self._sends, self._settles
        clients = self._client_calls
        unary = self._unary
        table: dict[str, Unary | Streaming] = {
            "QueryRoute": unary(
                m.QueryRouteRequest, m.QueryRouteResponse, routes.route, routes.route_needs
            ),
            "Heartbeat": unary(
                m.HeartbeatRequest, m.StatusResponse, clients.heartbeat, clients.heartbeat_needs
            ),
            "SendMessage": unary(
                m.SendMessageRequest, m.SendMessageResponse, sends.send, sends.send_needs
            ),
            "QueryAssignment": unary(
                m.QueryAssignmentRequest, m.QueryAssignmentResponse,
                routes.assignment, routes.assignment_needs,
            ),
            "AckMessage": unary(
                m.AckMessageRequest, m.AckMessageResponse, settles.ack, settles.ack_needs
            ),
            "ForwardMessageToDeadLetterQueue": unary(
                m.ForwardRequest, m.StatusResponse, settles.forward, settles.forward_needs
            ),
            "EndTransaction": unary(
                m.EndTransactionRequest, m.StatusResponse, sends.end, sends.end_needs
            ),
            "NotifyClientTermination": unary(
                m.TerminationRequest, m.StatusResponse, clients.terminate, clients.heartbeat_needs
            ),
            "ChangeInvisibleDuration": unary(
                m.ChangeInvisibleDurationRequest, m.ChangeInvisibleDurationResponse,
                settles.change, settles.change_needs,
            ),
            "RecallMessage": unary(
                m.RecallMessageRequest, m.RecallMessageResponse, sends.recall, sends.recall_needs
            ),
            "ReceiveMessage": Streaming(self._receive),
            "Telemetry": Streaming(clients.telemetry),
            "SyncLiteSubscription": Unary(_refuse_lite),
        }  # fmt: skip
        return {PATH + name: served for name, served in table.items()}

    async def run(self) -> None:
        """Renew what push consumers hold, and drop silent clients, until cancelled."""
        while True:
            await asyncio.sleep(RENEW_EVERY_S)
            for client in self.clients.silent():
                log.info("a client is silent and dropped: client=%s", client.client_id)
                self.clients.pop(client.client_id)
                self._client_calls.release(client)
            for client in self.clients.all():
                await self._renew(client)

    async def aclose(self) -> None:
        """Stop writing to clients."""
        await self._client_calls.tasks.aclose()

    def _unary(
        self,
        request_type: type[Q],
        answer_type: Callable[[m.Status], A],
        serve: Callable[[Caller, Q], Soon[A]],
        needs: Callable[[Q], list[Need]],
    ) -> Unary:
        decode = codec_of(request_type).decode
        access = self._access

        def encode(answer: Any) -> bytes:
            return codec_of(type(answer)).encode(answer)

        async def later(answer: Awaitable[A]) -> bytes:
            try:
                return encode(await answer)
            except (GrpcError, CallGone):
                raise
            except ContrailError as error:
                return encode(answer_type(status_of(error)))

        def handler(call: Call, data: bytes) -> bytes | Awaitable[bytes]:
            try:
                request = decode(data)
                if access is not None:
                    access.check(call.metadata, call.peer, needs(request))
                answer = serve(caller_of(call), request)
            except GrpcError:
                raise
            except RemoteProtocolError as error:
                raise GrpcError(GrpcStatus.INTERNAL, str(error)) from None
            except ContrailError as error:
                return encode(answer_type(status_of(error)))
            return later(answer) if isinstance(answer, Awaitable) else encode(answer)

        found: UnaryHandler = handler
        return Unary(found)

    async def _receive(self, call: Call) -> None:
        data = await call.read()
        try:
            request = codec_of(m.ReceiveMessageRequest).decode(data or b"")
        except RemoteProtocolError as error:
            raise GrpcError(GrpcStatus.INTERNAL, str(error)) from None
        if self._access is not None:
            self._access.check(call.metadata, call.peer, self._receives.needs(request))
        try:
            context = caller_of(call)
        except Refusal as error:
            answer = m.ReceiveMessageResponse(status_of(error))
            await call.write(codec_of(m.ReceiveMessageResponse).encode(answer))
            return
        await self._receives.receive(context, request)

    async def _renew(self, client: Client) -> None:
        now_ms = self._clock.now_ms()
        for key, held in client.in_hand.items():
            if held.is_due(now_ms):
                await self._renew_one(client, key, held)

    async def _renew_one(self, client: Client, key: Key, held: Held) -> None:
        now_ms = self._clock.now_ms()
        is_last = held.is_overdue(now_ms)
        invisible_ms = held.next_ms
        if is_last:
            config = await awaited(self._backend.find_group(held.group))
            invisible_ms = retry_ms(config or SubscriptionGroupConfig(), held.attempt)
        try:
            held.receipt = await awaited(
                self._backend.change(
                    held.group, held.topic, held.receipt, invisible_ms=invisible_ms
                )
            )
        except ContrailError as error:
            held.failures += 1
            log.info("a renewal failed: client=%s error=%s", client.client_id, error)
            is_last = is_last or held.failures >= FAILURES_MAX
        else:
            held.renewals, held.failures = held.renewals + 1, 0
        if is_last:
            client.in_hand.discard(key)


def _refuse_lite(call: Call, data: bytes) -> bytes:
    raise GrpcError(GrpcStatus.UNIMPLEMENTED, NO_LITE)
