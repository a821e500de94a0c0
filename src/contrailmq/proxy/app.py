"""The composition root of a proxy: stateless, so that many can stand after one balancer."""

from __future__ import annotations

import random
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from contrailmq.clock import Clock, SystemClock
from contrailmq.errors import ConfigError
from contrailmq.grpc.calls_route import Places
from contrailmq.grpc.http2.limits import Http2Limits
from contrailmq.grpc.http2.server import GrpcServer
from contrailmq.grpc.http2.tls import grpc_tls
from contrailmq.grpc.service import Service
from contrailmq.lifecycle import running
from contrailmq.net.client import RemotingClient
from contrailmq.net.network import AsyncioNetwork, Network
from contrailmq.net.settings import ClientNetSettings
from contrailmq.net.tls import client_context
from contrailmq.net.tls_settings import TlsSettings
from contrailmq.protocol.acl import signed
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.proxy.cluster import ClusterBrokers
from contrailmq.proxy.directory import Directory
from contrailmq.proxy.producers import Producers

PORT: Final = 8081


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """Where a proxy listens, which cluster it serves, and as which account."""

    name_servers: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = PORT
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    tls: TlsSettings = field(default_factory=TlsSettings)


class Proxy:
    """One proxy: ``async with Proxy(settings) as proxy`` serves until the block ends."""

    def __init__(
        self,
        settings: ProxySettings,
        *,
        clock: Clock | None = None,
        network: Network | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock if clock is not None else SystemClock()
        tls = settings.tls
        own: Network = AsyncioNetwork(client_tls=client_context(tls) if tls.enable else None)
        self._network = network if network is not None else own
        self._rng = rng if rng is not None else random.Random()
        self._stack = AsyncExitStack()
        self.port = 0

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        settings, stack = self._settings, self._stack
        client_id = f"proxy@{self._rng.getrandbits(64):x}"
        producers = Producers(client_id, self._rng)
        client = RemotingClient(
            ClientNetSettings(),
            clock=self._clock,
            network=self._network,
            rng=self._rng,
            handlers={int(RequestCode.CHECK_TRANSACTION_STATE): producers.check},
            sign=self._sign if settings.access_key else None,
        )
        stack.push_async_callback(client.aclose)
        directory = Directory(client, settings.name_servers, clock=self._clock, rng=self._rng)
        producers.name_of = directory.name_of
        brokers = ClusterBrokers(directory, producers, clock=self._clock, rng=self._rng)
        stack.push_async_callback(brokers.aclose)
        places = Places(own_host=settings.host, port=settings.port)
        service = Service(brokers, self._clock, places=places)
        stack.push_async_callback(service.aclose)
        server = GrpcServer(
            service.methods(),
            Http2Limits(),
            clock=self._clock,
            network=self._network,
            tls=grpc_tls(settings.tls),
        )
        try:
            await server.start(settings.host, settings.port)
        except OSError as error:
            raise ConfigError(
                f"port {settings.port} on {settings.host} cannot be used: {error.strerror}; "
                "take another with --port"
            ) from error
        stack.push_async_callback(server.aclose)
        self.port = places.port = server.port
        await stack.enter_async_context(running(service.run(), name="grpc"))
        beats = producers.run(client, lambda: directory.primaries)
        await stack.enter_async_context(running(beats, name="producers"))

    def _sign(self, command: Command) -> None:
        settings = self._settings
        command.fields = signed(
            command.fields, command.body,
            access_key=settings.access_key, secret_key=settings.secret_key,
        )  # fmt: skip
