"""Telemetry, Heartbeat and NotifyClientTermination: clients come, live and go."""

from __future__ import annotations

import asyncio
from typing import Final

from contrailmq.clock import Clock
from contrailmq.errors import ConnectionLost, ContrailError, RemoteProtocolError
from contrailmq.grpc import checks
from contrailmq.grpc.backend import Access, Backend, Need, awaited
from contrailmq.grpc.call import Call, GrpcError, GrpcStatus
from contrailmq.grpc.caller import Caller, caller_of
from contrailmq.grpc.clients import Client, ClientTable, Stream
from contrailmq.grpc.codes import Code, Refusal, ok
from contrailmq.grpc.messages import HeartbeatRequest, StatusResponse, TerminationRequest
from contrailmq.grpc.messages_settings import Settings, TelemetryCommand
from contrailmq.grpc.protobuf import codec_of
from contrailmq.grpc.settling import SUBSCRIPTIONS_MAX, check_settings, merged
from contrailmq.lifecycle import Tasks

# Node's client (1.0.8) asks for its routes one after another, sends its settings after the first,
# and waits for ever for an answer that came before the last.
WAITS_FOR_SETTINGS: Final = ("HTTP", "NODE_JS")
HELD_BACK_S: Final = 0.25


class ClientCalls:
    """The calls about clients themselves."""

    def __init__(
        self, backend: Backend, clients: ClientTable, access: Access | None, *,
        body_size_max: int, clock: Clock,
    ) -> None:  # fmt: skip
        self._backend = backend
        self._clients = clients
        self._access = access
        self._body_size_max = body_size_max
        self._clock = clock
        self.tasks = Tasks()
        self._commands = codec_of(TelemetryCommand)

    def heartbeat_needs(self, request: HeartbeatRequest | TerminationRequest) -> list[Need]:
        """The client consumes with its group, if it names one."""
        group = request.group.name if request.group is not None else ""
        return [Need(group=group)] if group else []

    async def heartbeat(self, context: Caller, request: HeartbeatRequest) -> StatusResponse:
        """Register a client again, from the settings it sent."""
        client = self._clients.find(context.client_id)
        if client is None:
            raise _unknown()
        if not client.is_producer:
            checks.group_of(request.group)
        self._clients.seen(client)
        self._backend.register(client)
        return StatusResponse(ok())

    async def terminate(self, context: Caller, request: TerminationRequest) -> StatusResponse:
        """Forget a client, and give back what it holds."""
        if request.group is not None and request.group.name:
            checks.group_of(request.group)
        client = self._clients.pop(context.client_id)
        if client is None:
            raise _unknown()
        self.release(client)
        return StatusResponse(ok())

    def release(self, client: Client) -> None:
        """A client is gone: others may have what it holds."""
        self._backend.unregister(client)
        for held in client.in_hand.take_all():
            self._backend.give_back(held.group, held.topic, [held.receipt])

    async def telemetry(self, call: Call) -> None:
        """Serve a telemetry stream until the client closes it."""
        client: Client | None = None
        stream = Stream(call, self.tasks)
        try:
            context = caller_of(call)
            while (data := await call.read()) is not None:
                command = self._commands.decode(data)
                if command.settings is not None:
                    client = await self._settle(context, command.settings)
                    if client.stream is not stream and context.language in WAITS_FOR_SETTINGS:
                        await asyncio.sleep(HELD_BACK_S)
                    client.stream = stream
                    stream.send(TelemetryCommand(status=ok(), settings=client.settings))
                    self._backend.register(client)
                elif client is not None:
                    self._clients.seen(client)
                    _take_answer(client, command)
        except ConnectionLost as error:
            raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, str(error)) from None
        except Refusal as error:
            raise GrpcError(GrpcStatus.INVALID_ARGUMENT, error.text) from None
        except RemoteProtocolError as error:
            raise GrpcError(GrpcStatus.INVALID_ARGUMENT, str(error)) from None
        finally:
            if client is not None and client.stream is stream:
                client.stream = None

    async def _settle(self, context: Caller, settings: Settings) -> Client:
        subscription = settings.subscription
        entries = subscription.subscriptions if subscription is not None else []
        topics = settings.publishing.topics if settings.publishing is not None else []
        if len(entries) + len(topics) > SUBSCRIPTIONS_MAX:
            raise Refusal(
                Code.BAD_REQUEST,
                f"{len(entries) + len(topics)} topics, at most {SUBSCRIPTIONS_MAX}",
            )
        check_settings(settings)
        if self._access is not None:
            self._access.check(context.call.metadata, context.peer, _needs(settings))
        config = None
        if subscription is not None and subscription.group is not None:
            config = await awaited(self._backend.find_group(subscription.group.name))
        try:
            client = self._clients.get(
                context.client_id,
                peer=context.peer, language=context.language, version=context.version,
            )  # fmt: skip
        except ContrailError as error:
            raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, str(error)) from None
        client.settings = merged(settings, config, body_max=self._body_size_max)
        client.settled_ms = self._clock.now_ms()
        return client


def _unknown() -> Refusal:
    return Refusal(Code.UNRECOGNIZED_CLIENT_TYPE, "cannot find client settings for this client")


def _needs(settings: Settings) -> list[Need]:
    if settings.publishing is not None:
        return [Need(topic=topic.name, is_write=True) for topic in settings.publishing.topics]
    subscription = settings.subscription
    if subscription is None:
        return []
    group = subscription.group.name if subscription.group is not None else ""
    needs = [Need(group=group)] if group else []
    topics = [entry.topic.name for entry in subscription.subscriptions if entry.topic is not None]
    return needs + [Need(topic=topic) for topic in topics]


def _take_answer(client: Client, command: TelemetryCommand) -> None:
    if command.thread_stack_trace is not None:
        client.answered(command.thread_stack_trace.nonce, command)
    elif command.verify_message_result is not None:
        client.answered(command.verify_message_result.nonce, command)
