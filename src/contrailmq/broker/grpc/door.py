"""The gRPC door of one broker: its service, and the port it listens on."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass

from contrailmq.broker.grpc.access import GrpcAccess
from contrailmq.broker.grpc.local import LocalBroker
from contrailmq.broker.grpc.receiving import GrpcReceiving
from contrailmq.broker.grpc.routes import GrpcRoutes
from contrailmq.broker.grpc.sending import GrpcSending
from contrailmq.broker.grpc.settings import GrpcSettings
from contrailmq.broker.handlers.special import special_handlers
from contrailmq.broker.parts import Parts
from contrailmq.broker.services.access import Access
from contrailmq.errors import ConfigError
from contrailmq.grpc.calls_route import Places
from contrailmq.grpc.http2.limits import Http2Limits
from contrailmq.grpc.http2.server import GrpcServer
from contrailmq.grpc.http2.tls import grpc_tls
from contrailmq.grpc.service import Service
from contrailmq.lifecycle import running
from contrailmq.net.network import Network
from contrailmq.net.tls import ServerTls
from contrailmq.net.tls_settings import TlsSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doorway:
    """Where a door is, and who may come in."""

    settings: GrpcSettings
    host: str
    network: Network
    tls: TlsSettings
    access: Access | None = None


async def open_door(stack: AsyncExitStack, parts: Parts, doorway: Doorway) -> int:
    """Serve gRPC until the stack closes; the port, or 0 if there is no door. Raises ConfigError."""
    wanted = doorway.settings.server_port
    if not wanted:
        return 0
    places = Places()  # the port is known when it is open
    service = build_service(parts, doorway.settings, access=doorway.access, places=places)
    server = GrpcServer(
        service.methods(),
        Http2Limits(),
        clock=parts.clock,
        network=doorway.network,
        tls=_tls(doorway.tls),
    )
    try:
        await server.start(doorway.host, abs(wanted))
    except OSError as error:
        fault = (
            f"port {abs(wanted)} on {doorway.host} cannot be used: {error.strerror}; set "
            "grpcServerPort to a free one, or to 0 for none"
        )
        if wanted > 0:
            raise ConfigError(fault) from error
        log.warning("no door for gRPC clients: %s", fault)
        return 0
    stack.push_async_callback(service.aclose)
    stack.push_async_callback(server.aclose)
    await stack.enter_async_context(running(service.run(), name="grpc"))
    places.port = server.port
    return server.port


def build_service(
    parts: Parts, settings: GrpcSettings, *, access: Access | None, places: Places
) -> Service:
    """The calls over this broker; nothing listens yet."""
    tables, identity = parts.tables, parts.identity
    places.own_name = identity.broker_name
    places.own_host = identity.address.rpartition(":")[0]
    places.advertised = settings.places()
    sending = GrpcSending(
        parts.send, parts.putting, parts.store, topics=tables.topics, identity=identity
    )
    routes = GrpcRoutes(
        tables.topics,
        parts.registration,
        parts.client,
        live=tables.live,
        identity=identity,
        clock=parts.clock,
    )
    backend = LocalBroker(
        sending,
        GrpcReceiving(parts.pop, broker_name=identity.broker_name),
        routes,
        clients=parts.clients,
        groups=tables.groups,
        handlers=special_handlers(parts),
        live=tables.live,
        store_host=identity.store_host,
    )
    return Service(
        backend,
        parts.clock,
        places=places,
        access=None if access is None else GrpcAccess(access.accounts, access.guard),
        body_size_max=parts.store.settings.message_size_max,
    )


def _tls(settings: TlsSettings) -> ServerTls | None:
    """The certificate of the port; None where none can be made, so that plain text works."""
    try:
        return grpc_tls(settings)
    except ConfigError as error:
        if settings.server_mode == "enforcing" or settings.server_cert:
            raise
        log.warning("gRPC clients can use plain text only: %s", error)
        return None
