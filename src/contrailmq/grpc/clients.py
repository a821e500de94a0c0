"""Clients of the gRPC door: their settings, their telemetry stream, and when they were last heard.

A client is known by the id in its metadata from its first settings on.  It goes when it says so,
or after 120 silent seconds.  What the server asks of it goes over its telemetry stream: at most one
writer at a time, answers are found by their nonce.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from contrailmq.clock import Clock
from contrailmq.errors import ConnectionLost, RequestTimeout, SystemBusy
from contrailmq.grpc.call import Call, CallGone
from contrailmq.grpc.in_hand import InHand
from contrailmq.grpc.messages_settings import ClientType, Settings, TelemetryCommand
from contrailmq.grpc.protobuf import codec_of
from contrailmq.lifecycle import Tasks

log = logging.getLogger(__name__)

CLIENTS_MAX: Final = 100_000
SILENT_MS: Final = 120_000
QUEUED_MAX: Final = 1_000  # commands to one client; further ones are dropped
_COMMANDS: Final = codec_of(TelemetryCommand)


class Stream:
    """One telemetry stream; commands are written in the order they were given.

    A stream that has nothing to say has no task: thousands of clients are connected and silent.
    """

    __slots__ = ("_call", "_is_writing", "_tasks", "_waiting")

    def __init__(self, call: Call, tasks: Tasks) -> None:
        self._call = call
        self._tasks = tasks
        self._waiting: deque[bytes] = deque()
        self._is_writing = False

    def send(self, command: TelemetryCommand) -> None:
        """Queue a command; raises ConnectionLost if the client takes none."""
        if self._call.is_gone or len(self._waiting) >= QUEUED_MAX:
            raise ConnectionLost(f"{self._call.peer} reads no telemetry")
        self._waiting.append(_COMMANDS.encode(command))
        if not self._is_writing:
            self._is_writing = True
            self._tasks.start(self._write(), name="telemetry")

    async def _write(self) -> None:
        try:
            while self._waiting:
                await self._call.write(self._waiting.popleft())
        except CallGone:
            self._waiting.clear()
        finally:
            self._is_writing = False


class Client:
    """One client. ``link`` is the backend's own note about it."""

    __slots__ = (
        "_asked",
        "_serial",
        "client_id",
        "in_hand",
        "language",
        "link",
        "peer",
        "seen_ms",
        "settings",
        "settled_ms",
        "stream",
        "version",
    )

    def __init__(self, client_id: str, *, peer: str, language: str, version: str) -> None:
        self.client_id = client_id
        self.peer = peer
        self.language = language
        self.version = version
        self.settings = Settings()
        self.stream: Stream | None = None
        self.in_hand = InHand()
        self.seen_ms = 0
        self.settled_ms = 0  # when its settings came
        self.link: Any = None
        self._asked: dict[str, asyncio.Future[TelemetryCommand]] = {}
        self._serial = 0

    @property
    def is_producer(self) -> bool:
        """Whether its settings are a producer's."""
        return self.settings.publishing is not None

    @property
    def is_push(self) -> bool:
        """Whether it is a push consumer."""
        return self.settings.client_type == ClientType.PUSH_CONSUMER

    def topics(self) -> list[str]:
        """The topics a producer publishes to."""
        publishing = self.settings.publishing
        return [topic.name for topic in publishing.topics] if publishing is not None else []

    def group(self) -> str:
        """The group of a consumer."""
        subscription = self.settings.subscription
        if subscription is None or subscription.group is None:
            return ""
        return subscription.group.name

    def tell(self, command: TelemetryCommand) -> None:
        """Send a command; raises ConnectionLost without an open stream."""
        if self.stream is None:
            raise ConnectionLost(f"client {self.client_id} has no telemetry stream")
        self.stream.send(command)

    async def ask(
        self, command: Callable[[str], TelemetryCommand], *, timeout_s: float
    ) -> TelemetryCommand:
        """Send the command made for a nonce, and return its answer."""
        self._serial += 1
        nonce = f"{self.client_id}-{self._serial}"
        answer: asyncio.Future[TelemetryCommand]
        answer = self._asked[nonce] = asyncio.get_running_loop().create_future()
        try:
            self.tell(command(nonce))
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise RequestTimeout(
                f"client {self.client_id} did not answer within {timeout_s:g} s"
            ) from None
        finally:
            del self._asked[nonce]

    def answered(self, nonce: str, command: TelemetryCommand) -> None:
        """Take an answer; one that was not asked for is dropped."""
        found = self._asked.get(nonce)
        if found is not None and not found.done():
            found.set_result(command)

    def __repr__(self) -> str:
        return f"<Client {self.client_id} peer={self.peer}>"


class ClientTable:
    """All clients with settings; at most ``clients_max``."""

    def __init__(self, clock: Clock, *, clients_max: int = CLIENTS_MAX) -> None:
        self._clock = clock
        self._clients_max = clients_max
        self._clients: dict[str, Client] = {}

    def find(self, client_id: str) -> Client | None:
        """A known client."""
        return self._clients.get(client_id)

    def get(self, client_id: str, *, peer: str, language: str, version: str) -> Client:
        """A known client, or a new one; raises SystemBusy when there are too many."""
        client = self._clients.get(client_id)
        if client is None:
            if len(self._clients) >= self._clients_max:
                raise SystemBusy(f"{len(self._clients)} clients, at most {self._clients_max}")
            client = Client(client_id, peer=peer, language=language, version=version)
            self._clients[client_id] = client
        self.seen(client)
        return client

    def seen(self, client: Client) -> None:
        """A client was heard of."""
        client.seen_ms = self._clock.monotonic_ms()

    def pop(self, client_id: str) -> Client | None:
        """Forget a client."""
        return self._clients.pop(client_id, None)

    def silent(self) -> list[Client]:
        """Clients that have not been heard of for 120 seconds."""
        limit_ms = self._clock.monotonic_ms() - SILENT_MS
        return [client for client in self._clients.values() if client.seen_ms < limit_ms]

    def all(self) -> list[Client]:
        """Every client."""
        return list(self._clients.values())

    def __len__(self) -> int:
        return len(self._clients)
