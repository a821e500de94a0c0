"""Brokers register, say that they are alive, and leave: codes 103, 104, 322, 901, 904."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from contrailmq.clock import Clock
from contrailmq.errors import SystemFailure
from contrailmq.namesrv.kv import ORDER_NAMESPACE, KvConfig
from contrailmq.namesrv.registration import MinIdChange, Registration
from contrailmq.namesrv.routes import Routes
from contrailmq.namesrv.settings import NameServerSettings
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.route import BrokerMemberGroup, GetBrokerMemberGroupResponse
from contrailmq.protocol.bodies.topic import (
    RegisterBrokerBody,
    TopicConfigAndMappingWrapper,
    body_crc32,
)
from contrailmq.protocol.bodies.version import DataVersion
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.route import (
    BrokerHeartbeatRequest,
    GetBrokerMemberGroupRequest,
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
)
from contrailmq.protocol.versions import V3_0_11, V5_0_0

log = logging.getLogger(__name__)

ZONE_NAME: Final = "__ZONE_NAME"


class Brokers:
    """The handlers of what brokers tell us. ``on_change`` is told when a smallest id changed."""

    def __init__(
        self,
        routes: Routes,
        kv: KvConfig,
        *,
        settings: Callable[[], NameServerSettings],
        clock: Clock,
        on_change: Callable[[MinIdChange], None],
    ) -> None:
        self._routes = routes
        self._kv = kv
        self._settings = settings
        self._clock = clock
        self._on_change = on_change

    def register(self, request: Command, connection: Connection) -> Command:
        """Code 103. The lease lives as long as this connection, at most."""
        header = RegisterBrokerRequest.from_fields(request.fields)
        if header.body_crc32 and header.body_crc32 != body_crc32(request.body):
            raise SystemFailure("crc32 not match")
        body = _registered_body(request, is_compressed=header.compressed)
        settings = self._settings()
        result = self._routes.register(
            Registration(
                cluster=header.cluster_name,
                broker_name=header.broker_name,
                address=header.broker_addr,
                broker_id=header.broker_id,
                ha_address=header.ha_server_addr,
                lease_ms=header.heartbeat_timeout_millis,
                acting_master=header.enable_acting_master,
                zone=request.fields.get(ZONE_NAME),
                version=body.data_version,
                topics=body.topics,
                mappings=body.topic_config_serialize_wrapper.topic_queue_mapping_info_map,
                filters=body.filter_server_list if request.version >= V3_0_11 else None,
                owner=connection,
                refuse_single_topic=request.version >= V5_0_0,
            ),
            self._clock.monotonic_ms(),
            delete_missing=settings.delete_missing,
        )
        if result.is_new:
            log.info(
                "broker registered: name=%s id=%s address=%s cluster=%s",
                header.broker_name,
                header.broker_id,
                header.broker_addr,
                header.cluster_name,
            )
        elif result.is_ignored:
            log.warning(
                "registration ignored, a newer broker has this id: name=%s id=%s address=%s",
                header.broker_name,
                header.broker_id,
                header.broker_addr,
            )
        self._tell(result.change)
        order = self._kv.namespace(ORDER_NAMESPACE) if settings.return_order_config else None
        return request.reply(
            RegisterBrokerResponse(
                ha_server_addr=result.primary_ha_address, master_addr=result.primary_address
            ),
            body=order.encode() if order is not None else b"",
        )

    def unregister(self, request: Command, connection: Connection) -> Command:
        """Code 104. Done when it is answered; the original does it a moment later."""
        header = UnregisterBrokerRequest.from_fields(request.fields)
        log.info("broker unregistered: name=%s address=%s", header.broker_name, header.broker_addr)
        self._tell(
            self._routes.unregister(header.cluster_name, header.broker_addr, header.broker_name)
        )
        return request.reply()

    def heartbeat(self, request: Command, connection: Connection) -> Command:
        """Code 904: only the time is noted."""
        header = BrokerHeartbeatRequest.from_fields(request.fields)
        self._routes.heard(header.cluster_name, header.broker_addr, self._clock.monotonic_ms())
        return request.reply()

    def query_version(self, request: Command, connection: Connection) -> Command:
        """Code 322: does the broker have to register again?"""
        header = QueryDataVersionRequest.from_fields(request.fields)
        asked = DataVersion.decode(request.body) if request.body else DataVersion()
        known = self._routes.version(header.cluster_name, header.broker_addr)
        self._routes.heard(header.cluster_name, header.broker_addr, self._clock.monotonic_ms())
        return request.reply(
            QueryDataVersionResponse(changed=known != asked),
            body=known.encode(legacy=request.version < V5_0_0) if known is not None else b"",
        )

    def members(self, request: Command, connection: Connection) -> Command:
        """Code 901: all addresses of a broker name."""
        header = GetBrokerMemberGroupRequest.from_fields(request.fields)
        broker = self._routes.brokers.get(header.broker_name)
        group = BrokerMemberGroup(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_addrs=dict(broker.broker_addrs) if broker is not None else {},
        )
        return request.reply(body=GetBrokerMemberGroupResponse(broker_member_group=group).encode())

    def connection_closed(self, connection: Connection) -> None:
        """All brokers that spoke over this connection are gone."""
        for (cluster, address), lease in self._routes.owned_by(connection):
            log.info(
                "broker lost: name=%s address=%s reason=%s",
                lease.broker_name,
                address,
                connection.close_reason,
            )
            self._tell(self._routes.unregister(cluster, address, lease.broker_name))

    def scan(self) -> None:
        """End the leases of brokers that were silent for too long, and close their connections."""
        for (cluster, address), lease in self._routes.expired(self._clock.monotonic_ms()):
            log.warning(
                "broker expired: name=%s address=%s silent_ms=%s",
                lease.broker_name,
                address,
                lease.lease_ms,
            )
            self._tell(self._routes.unregister(cluster, address, lease.broker_name))
            if isinstance(lease.owner, Connection):
                lease.owner.close(f"the broker {address} was silent for {lease.lease_ms} ms")

    def _tell(self, change: MinIdChange | None) -> None:
        if change is not None and self._settings().notify_min_id:
            self._on_change(change)


def _registered_body(request: Command, *, is_compressed: bool) -> RegisterBrokerBody:
    if not request.body:
        return RegisterBrokerBody()
    if request.version < V3_0_11:
        wrapper = TopicConfigAndMappingWrapper.decode(request.body)
        return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
    if is_compressed:
        return RegisterBrokerBody.decode_compressed(request.body)
    return RegisterBrokerBody.decode(request.body)
