"""The gRPC service of one broker, built of its parts."""

from __future__ import annotations

from collections.abc import Mapping

from contrailmq.broker.grpc.access import GrpcAccess
from contrailmq.broker.grpc.local import LocalBroker
from contrailmq.broker.grpc.receiving import GrpcReceiving
from contrailmq.broker.grpc.routes import GrpcRoutes
from contrailmq.broker.grpc.sending import GrpcSending
from contrailmq.broker.grpc.settings import GrpcSettings
from contrailmq.broker.parts import Parts
from contrailmq.broker.services.access import Access
from contrailmq.grpc.calls_route import Places
from contrailmq.grpc.service import Service
from contrailmq.net.dispatch import Handler


def build_service(
    parts: Parts, handlers: Mapping[int, Handler], settings: GrpcSettings, *,
    access: Access | None, port: int,
) -> Service:  # fmt: skip
    """The calls over this broker; nothing listens yet."""
    tables, identity = parts.tables, parts.identity
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
        handlers=handlers,
        live=tables.live,
        store_host=identity.store_host,
    )
    places = Places(
        identity.broker_name, identity.address.rpartition(":")[0], port, settings.places()
    )
    guard = None if access is None else GrpcAccess(access.accounts, access.guard)
    return Service(
        backend,
        parts.clock,
        places=places,
        access=guard,
        body_size_max=parts.store.settings.message_size_max,
    )
