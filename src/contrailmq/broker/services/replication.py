"""Which part this broker has in its replica group, and everything that follows from it.

A primary takes messages, sends its log to replicas, and runs what only a primary does.  A replica
takes the log and the tables of its primary, and no messages; consumers may read from it.  This is
fixed by ``brokerRole``, or given and taken by a controller while connections stay.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from contrailmq.broker.identity import Identity
from contrailmq.broker.services.controller_mode import ControllerMode
from contrailmq.broker.services.primary_services import PrimaryServices
from contrailmq.broker.services.table_sync import TableSync
from contrailmq.broker.tables.revision import Revision
from contrailmq.ha.epochs import NO_END, EpochList
from contrailmq.ha.primary import AnyReplicas, Primary
from contrailmq.ha.replica import Replica
from contrailmq.ha.settings import HaSettings
from contrailmq.protocol.bodies.stats import (
    EpochEntry,
    EpochEntryCache,
    HAClientRuntimeInfo,
    HARuntimeInfo,
)
from contrailmq.store.settings import BrokerRole
from contrailmq.store.store import Store

log = logging.getLogger(__name__)

STANDBY: Final = "this broker is a replica (brokerRole=SLAVE): its primary takes messages"


async def nothing() -> None:
    """Nothing is to be left in order."""


def classic_quorum(settings: HaSettings, role: BrokerRole) -> AnyReplicas:
    """How many replicas a send waits for; none unless SYNC_MASTER.

    Without ``inSyncReplicas`` one, as in 4.9; with it one less, for it counts the primary.
    """
    needed = 0
    if role is BrokerRole.SYNC_MASTER:
        needed = settings.in_sync_replicas - 1 if settings.in_sync_replicas else 1
    return AnyReplicas(needed, behind_max=settings.behind_max)


class Replication:
    """The part of this broker in its group. Owned by the loop."""

    def __init__(
        self,
        store: Store,
        identity: Identity,
        *,
        settings: HaSettings,
        primary: Primary,
        replica: Replica,
        tables: TableSync,
        services: PrimaryServices,
        revision: Revision,
    ) -> None:
        self._store = store
        self._identity = identity
        self._settings = settings
        self._revision = revision
        self.services = services
        self.primary = primary
        self.replica = replica
        self.tables = tables
        self.mode: ControllerMode | None = None
        self.epochs: EpochList | None = None
        self.before_primary: Callable[[], None] = lambda: None  # cursors are put right
        self.at_end: Callable[[], Awaitable[None]] = nothing

    async def finish(self) -> None:
        """Leave what only a primary has in good order."""
        if self._identity.is_master:
            await self.at_end()

    def begin(self, role: BrokerRole) -> None:
        """Take the part that ``brokerRole`` says, for good; or wait for a controller's word."""
        if self.mode is not None:
            self.mode.begin()
            self._revision.bump()
            return
        if role is BrokerRole.SLAVE:
            self._store.stand_by(STANDBY)
            self._store.on_flushed = self.replica.flushed
            self.replica.follow(self._settings.primary_address)
        else:
            waits = role is BrokerRole.SYNC_MASTER and self._settings.in_sync_replicas != 1
            self._store.replicas = self.primary if waits else None
            self.primary.serve()
            self.before_primary()
            self.services.want(True)
        self._revision.bump()

    def on_primary(self, address: str, ha_address: str) -> None:
        """A name server says where the primary is."""
        if self._identity.is_master or not address or address == self._identity.address:
            return
        if self.mode is not None:  # the controller says whom to follow
            return
        self.tables.follow(address)
        if ha_address and not self._settings.primary_address:
            self.replica.follow(ha_address)

    @property
    def may_follow(self) -> bool:
        """Whether this broker is a replica, or may become one."""
        return not self._identity.is_master and self.mode is None

    @property
    def is_lost(self) -> bool:
        """Whether this broker is a replica that knows no primary."""
        return not self._identity.is_master and not (self.replica.address and self.tables.primary)

    def unready_reason(self) -> str | None:
        """Why a probe is to keep clients away; a replica that follows a primary is well."""
        reason, identity = self._store.writeable_reason(), self._identity
        is_replica = identity.is_known and not identity.is_master and bool(self.replica.address)
        if is_replica and reason == self._store.standby:
            return self._store.refusal
        return reason

    def status(self) -> HARuntimeInfo:
        """What code 907 answers."""
        end = self._store.max_offset
        links = self.primary.connections()
        is_master = self._identity.is_master
        return HARuntimeInfo(
            ha_client_runtime_info=HAClientRuntimeInfo() if is_master else self.replica.status(),
            ha_connection_info=links,
            in_sync_slave_nums=sum(1 for link in links if link.in_sync),
            master=is_master,
            master_commit_log_max_offset=end if is_master else 0,
        )

    def epoch_list(self) -> EpochEntryCache:
        """What code 1007 answers."""
        entries = [] if self.epochs is None else self.epochs.entries
        ends = [entry.start for entry in entries[1:]] + [NO_END]
        return EpochEntryCache(
            broker_id=self._identity.broker_id,
            broker_name=self._identity.broker_name,
            cluster_name=self._identity.cluster_name,
            epoch_list=[
                EpochEntry(epoch=entry.epoch, start_offset=entry.start, end_offset=end)
                for entry, end in zip(entries, ends, strict=False)
            ],
            max_offset=self._store.max_offset,
        )
