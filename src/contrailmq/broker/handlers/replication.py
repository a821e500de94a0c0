"""Replication as administrators see it: codes 906, 907, 1007, 1008; and what a replica refuses."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from contrailmq.broker.identity import Identity
from contrailmq.broker.parts import Parts
from contrailmq.broker.services.replication import Replication
from contrailmq.errors import SystemFailure
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Handler
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.admin import ExchangeHAResponse, NotifyBrokerRoleChangedRequest
from contrailmq.store.store import Store

# What a replica would lose again at the next round of its tables; 5.x takes them and loses them.
PRIMARY_ONLY: Final = (
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
)


def replication_handlers(parts: Parts, replication: Replication) -> dict[int, Handler]:
    """The handlers of replication."""
    state = ReplicationState(parts.store, parts.identity, replication)
    return {
        RequestCode.EXCHANGE_BROKER_HA_INFO: state.exchange,
        RequestCode.GET_BROKER_HA_STATUS: state.status,
        RequestCode.GET_BROKER_EPOCH_CACHE: state.epochs,
        RequestCode.NOTIFY_BROKER_ROLE_CHANGED: state.role_changed,
    }


def replica_guards(handlers: dict[int, Handler], identity: Identity) -> dict[int, Handler]:
    """The handlers, of which some refuse on a replica."""
    return handlers | {
        int(code): PrimaryOnly(handlers[code], identity)
        for code in PRIMARY_ONLY
        if code in handlers
    }


class PrimaryOnly:
    """A request that changes a table: a replica refuses it."""

    def __init__(self, handler: Handler, identity: Identity) -> None:
        self._handler = handler
        self._identity = identity

    def __call__(
        self, request: Command, connection: Connection
    ) -> Command | Awaitable[Command | None] | None:
        """Serve it on a primary."""
        if not self._identity.is_master:
            raise SystemFailure(
                "Can't modify topic or subscription group from slave broker, "
                "please execute it from master broker."
            )
        return self._handler(request, connection)


class ReplicationState:
    """Request codes 906 and 907."""

    def __init__(self, store: Store, identity: Identity, replication: Replication) -> None:
        self._store = store
        self._identity = identity
        self._replication = replication

    def exchange(self, request: Command, connection: Connection) -> Command:
        """Code 906: where the primary is, and what it has flushed."""
        return request.reply(
            ExchangeHAResponse(
                master_address=self._identity.address,
                master_ha_address=self._identity.ha_address,
                master_flush_offset=self._store.flushed_offset,
            )
        )

    def status(self, request: Command, connection: Connection) -> Command:
        """Code 907: who is how far."""
        return request.reply(body=self._replication.status().encode())

    def epochs(self, request: Command, connection: Connection) -> Command:
        """Code 1007: under which primaries the log was written."""
        if self._replication.mode is None:
            raise SystemFailure("this broker is not in controller mode (enableControllerMode)")
        return request.reply(body=self._replication.epoch_list().encode())

    def role_changed(self, request: Command, connection: Connection) -> Command:
        """Code 1008: a controller says who is primary."""
        mode = self._replication.mode
        if mode is not None:
            header = NotifyBrokerRoleChangedRequest.from_fields(request.fields)
            mode.notified(header, bytes(request.body))
        return request.reply()
