"""The telemetry stream to one address: who we are, and what the service asks."""

from __future__ import annotations

import asyncio
import logging
import platform
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from contrailmq.client.over_grpc.producing import endpoints_of
from contrailmq.errors import ContrailError
from contrailmq.grpc.http2.client import Channel, ClientCall, Fields
from contrailmq.grpc.messages import FilterExpression, FilterType, Moment, Resource
from contrailmq.grpc.messages_settings import (
    ClientType,
    OrphanedTransaction,
    Publishing,
    Settings,
    Subscription,
    SubscriptionEntry,
    TelemetryCommand,
    UserAgent,
)
from contrailmq.grpc.protobuf import codec_of
from contrailmq.lifecycle import Tasks
from contrailmq.protocol.bodies.heartbeat import HeartbeatData
from contrailmq.version import VERSION

log = logging.getLogger(__name__)

METHOD: Final = "/apache.rocketmq.v2.MessagingService/Telemetry"
ANSWER_S: Final = 3.0
PYTHON: Final = 6  # Language of the service's definition

OnCheck = Callable[[str, OrphanedTransaction], Awaitable[None]]


def settings_of(beat: HeartbeatData, topics: list[str], address: str) -> Settings:
    """What a heartbeat says of a client, as settings."""
    settings = Settings(
        client_type=ClientType.PRODUCER,
        access_point=endpoints_of(address),
        request_timeout=Moment(3),
        user_agent=UserAgent(PYTHON, VERSION, platform.system(), socket.gethostname()),
    )
    if not beat.consumer_data_set:
        settings.publishing = Publishing([Resource(name=topic) for topic in topics])
        return settings
    group = beat.consumer_data_set[0]
    settings.client_type = ClientType.SIMPLE_CONSUMER
    settings.subscription = Subscription(
        group=Resource(name=group.group_name),
        subscriptions=[
            SubscriptionEntry(
                Resource(name=one.topic),
                FilterExpression(
                    FilterType.SQL if one.expression_type == "SQL92" else FilterType.TAG,
                    one.sub_string or "*",
                ),
            )
            for one in group.subscription_data_set
        ],
    )
    return settings


class Telemetry:
    """One stream, opened by the first settings and again after it was lost."""

    def __init__(self, channel: Channel, tasks: Tasks, on_check: OnCheck) -> None:
        self._channel = channel
        self._tasks = tasks
        self._on_check = on_check
        self._call: ClientCall | None = None
        self._sent = b""
        self._codec = codec_of(TelemetryCommand)
        self._answered: asyncio.Future[None] | None = None

    async def tell(self, settings: Settings, passing: Fields) -> None:
        """Send settings if they are new here, and wait for the answer; raises ContrailError."""
        encoded = self._codec.encode(TelemetryCommand(settings=settings))
        if self._call is not None and encoded == self._sent:
            return
        if self._call is None:
            self._call = await self._channel.open(METHOD, passing=passing)
            self._tasks.start(self._listen(self._call), name="telemetry")
        self._sent = encoded
        self._answered = asyncio.get_running_loop().create_future()
        await self._call.write(encoded)
        await asyncio.wait((self._answered,), timeout=ANSWER_S)

    def close(self) -> None:
        """Send no more."""
        if self._call is not None:
            self._call.end()

    async def _listen(self, call: ClientCall) -> None:
        try:
            while (message := await call.read()) is not None:
                command = self._codec.decode(message)
                if command.settings is not None:
                    self._note_answer()
                elif command.recover_orphaned_transaction_command is not None:
                    await self._on_check(
                        self._channel.address, command.recover_orphaned_transaction_command
                    )
        except ContrailError as error:
            log.info("telemetry ended address=%s error=%s", self._channel.address, error)
        finally:
            if self._call is call:
                self._call = None
            self._note_answer()

    def _note_answer(self) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)
