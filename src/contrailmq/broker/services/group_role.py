"""Changing this broker's part in its group, while connections stay.

**To primary.**  A record that is not whole is cut, the epoch is noted at the end of the log, all
of the log is confirmed and derived; then messages are taken, and what only a primary does begins.
**To replica.**  The reverse; the log and the tables of the new primary are followed.

Between the two, and before the first, the broker takes no messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from contrailmq.broker.identity import Identity
from contrailmq.broker.services.primary_services import PrimaryServices
from contrailmq.broker.services.registration import Registration
from contrailmq.broker.services.table_sync import TableSync
from contrailmq.broker.tables.revision import Revision
from contrailmq.errors import BrokerError, NetworkError, ProtocolError
from contrailmq.ha.auto_replica import AutoReplica
from contrailmq.ha.epochs import EpochList
from contrailmq.ha.in_sync import InSyncSet
from contrailmq.ha.primary import Primary
from contrailmq.lifecycle import Tasks
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.admin import ExchangeHAResponse
from contrailmq.protocol.names import MASTER_ID
from contrailmq.store.store import Store

log = logging.getLogger(__name__)

UNKNOWN: Final = "this broker waits for a controller to say whether it is primary"
REPLICA: Final = "this broker is a replica: its primary takes messages"
ADDRESS_S: Final = 0.3
AHEAD_S: Final = 0.05
ADDRESS_TIMEOUT_S: Final = 2.0


class GroupRole:
    """The part of this broker. One change at a time; its owner sees to that."""

    def __init__(
        self,
        store: Store,
        identity: Identity,
        *,
        primary: Primary,
        replica: AutoReplica,
        epochs: EpochList,
        in_sync: InSyncSet,
        tables: TableSync,
        services: PrimaryServices,
        registration: Registration,
        client: RemotingClient,
        revision: Revision,
    ) -> None:
        self._store = store
        self._identity = identity
        self._epochs = epochs
        self._in_sync = in_sync
        self._tables = tables
        self._services = services
        self._registration = registration
        self._client = client
        self._revision = revision
        self._tasks = Tasks()
        self.primary = primary
        self.replica = replica
        self.own_id = 0
        self.epoch = 0
        self.is_primary = False
        self.fenced: str | None = None
        self.before_primary: Callable[[], None] = lambda: None
        self.set_version: Callable[[int], None] = lambda epoch: None

    def begin(self) -> None:
        """Nothing is known yet."""
        self._store.stand_by(UNKNOWN)
        self._store.on_flushed = self.replica.flushed
        self._registration.is_held = True
        self._identity.is_known = False

    def set_id(self, own_id: int) -> None:
        """The id the controller gave."""
        self.own_id = self.replica.broker_id = self._in_sync.own_id = own_id

    @property
    def set_epoch(self) -> int:
        """The epoch of the in-sync set that was granted."""
        return self._in_sync.epoch

    def position(self) -> tuple[int, int, int]:
        """Last epoch, end of the log, what is confirmed: what heartbeats tell."""
        store = self._store
        confirmed = store.max_offset if store.bound is None else store.bound
        return self._epochs.last_epoch, store.max_offset, confirmed

    async def become_primary(self, epoch: int, members: frozenset[int], set_epoch: int) -> None:
        """Take messages from now on; or go on, under another epoch."""
        if epoch < self._epochs.last_epoch:
            log.error(
                "epoch is older than the log's: epoch=%s last=%s", epoch, self._epochs.last_epoch
            )
            return
        store = self._store
        if not self.is_primary:
            store.stand_by(UNKNOWN)
            await self._tasks.aclose()
            self._tables.follow("")
            await self.replica.stop_following()
            await store.cut(store.whole_end())
        self.epoch = epoch
        # Primary of this epoch before: it began where it began, replicas have it so.
        if epoch != self._epochs.last_epoch:
            self._epochs.append(epoch, store.max_offset)
        self._in_sync.grant(members, set_epoch)
        if not self.is_primary:
            store.bind(store.max_offset)
            await store.settle()
            self._identity.broker_id = MASTER_ID
            self._identity.may_read = True
            self.is_primary = True
            self.before_primary()
            store.replicas = self.primary
            self.primary.serve()
            self.fenced = None
            store.stand_by(None)
            self._services.want(True)
        self.grant(members, set_epoch)
        self.set_version(epoch)
        self._told()
        log.warning("this broker is primary: epoch=%s end=%s", epoch, store.max_offset)

    async def become_replica(self, epoch: int, address: str) -> None:
        """Follow another broker from now on."""
        store = self._store
        await self._tasks.aclose()
        store.stand_by(REPLICA)
        self.is_primary = False
        self.fenced = None
        self.epoch = epoch
        self._identity.broker_id = self.own_id
        store.replicas = None
        self.primary.stop("no longer primary")
        await self._services.stopped()
        if store.bound is None:
            store.bind(min(store.confirmed_at_start, store.max_offset))
        self._identity.may_read = not self._is_ahead()
        if not self._identity.may_read:
            self._tasks.start(self._await_confirmation(), name="what is confirmed")
        await self.replica.stop_following()
        self._tables.follow(address)
        self._tasks.start(self._find_ha_address(address), name="where the primary sends its log")
        self._told()
        log.warning("this broker is a replica: epoch=%s primary=%s", epoch, address)

    def grant(self, members: frozenset[int], set_epoch: int) -> None:
        """This is the in-sync set now."""
        if set_epoch >= self._in_sync.epoch:
            self._in_sync.grant(members, set_epoch)
        self.primary.update_confirmed()
        self.primary.settle()
        self._steer()

    def refused(self) -> None:
        """The set that was asked for was not granted."""
        self._in_sync.refused()
        self.primary.settle()

    def has_lost_member(self) -> bool:
        """Whether a member of the set has no connection."""
        linked = {link.hello.broker_id for link in self.primary.links if link.hello is not None}
        return bool(self._in_sync.granted - linked - {self.own_id})

    def wanted_set(self) -> frozenset[int] | None:
        """The in-sync set to ask for; None when it is right as it is."""
        store = self._store
        wanted = self._in_sync.wanted(
            list(self.primary.links),
            confirmed=store.max_offset if store.bound is None else store.bound,
            epoch_start=self._epochs.last_start,
            end=store.max_offset,
            now=asyncio.get_running_loop().time(),
        )
        if wanted == self._in_sync.granted:
            return None
        self._in_sync.ask(wanted)
        return wanted

    def fence(self, reason: str) -> None:
        """Take no messages: another broker may be primary by now."""
        if self.is_primary and self.fenced is None:
            self.fenced = reason
            log.error("this primary is fenced: reason=%s", reason)
            self._steer()

    def unfence(self) -> None:
        """A controller says that this broker is still primary."""
        if self.fenced is not None:
            self.fenced = None
            log.warning("this primary takes messages again")
            self._steer()

    def _steer(self) -> None:
        """Whether a primary takes messages: not when fenced, nor with too few in sync."""
        if not self.is_primary:
            return
        least, count = self.primary.settings.min_in_sync_replicas, len(self._in_sync.granted)
        few = f"{count} replicas in sync, at least {least} (minInSyncReplicas)"
        reason = self.fenced or (few if count < least else None)
        if reason != self._store.standby:
            self._store.stand_by(reason)
            self._store.follower.on_appended = self.primary.appended

    def _is_ahead(self) -> bool:
        """Whether readers would see more than what is confirmed: the tail of a start."""
        store = self._store
        return store.bound is not None and store.derivation.derived_offset > store.bound

    async def _await_confirmation(self) -> None:
        """Serve no reads until the primary has confirmed, or cut, what this broker had."""
        while self._is_ahead():  # noqa: ASYNC110
            await asyncio.sleep(AHEAD_S)
        self._identity.may_read = True
        self._revision.bump()

    def _told(self) -> None:
        """Everybody hears of the new part."""
        self._identity.is_known = True
        self._revision.bump()
        self._registration.is_held = False
        self._registration.changed()

    async def _find_ha_address(self, address: str) -> None:
        """Ask the primary where it sends its log from, until it says so."""
        while True:
            command = Command.request(RequestCode.EXCHANGE_BROKER_HA_INFO)
            try:
                answer = await self._client.call(address, command, timeout_s=ADDRESS_TIMEOUT_S)
                found = ExchangeHAResponse.from_fields(answer.fields).master_ha_address
                if answer.code == 0 and found:
                    self.replica.follow(found)
                    return
            except (NetworkError, BrokerError, ProtocolError) as error:
                log.info("primary does not answer yet: address=%s error=%s", address, error)
            await asyncio.sleep(ADDRESS_S)

    async def aclose(self) -> None:
        """Stop what is under way."""
        await self._tasks.aclose()
