"""A broker in controller mode: it is what a controller says (ReplicasManager).

Theory of operation.  At the start the broker takes no messages, serves no reads, and is registered
nowhere.  It gets an id (kept in ``brokerIdentity``), registers with the controller, and asks to be
elected when there is no primary.  From then on its part is changed by the answers to its own
questions, every few seconds, and by notices of the controller (1008).  A message with an epoch that
is not newer is no change.  Changes are made one at a time.

A primary tells the controller which replicas are in sync and acts on its grants.  One that has
heard of no controller for ``controllerHeartBeatTimeoutMills`` takes no messages until it hears
again that it is primary: another may have been elected.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Final, NamedTuple, Protocol

from contrailmq.broker.identity import Identity
from contrailmq.broker.services.controllers import Controllers, Master
from contrailmq.broker.services.group_role import GroupRole
from contrailmq.clock import Clock
from contrailmq.errors import BrokerError, ConfigError, NetworkError, ProtocolError
from contrailmq.ha.settings import HaSettings
from contrailmq.protocol.bodies.stats import SyncStateSet
from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.headers.admin import NotifyBrokerRoleChangedRequest
from contrailmq.protocol.headers.controller import (
    AlterSyncStateSetRequest,
    ApplyBrokerIdRequest,
    ElectMasterRequest,
    MasterInfo,
    RegisterToControllerRequest,
)
from contrailmq.protocol.headers.route import BrokerHeartbeatRequest

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
LOOK_S: Final = 0.2
_REFUSALS: Final = (NetworkError, BrokerError, ProtocolError)


class SmallFiles(Protocol):
    """What this module needs of the files."""

    def read(self, path: str) -> bytes | None:
        """The whole of a small file; None when it is not there."""
        ...

    def replace(self, path: str, data: bytes, *, backup: bool = False) -> None:
        """Write a small file whole, durably."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...


class Told(NamedTuple):
    """What a controller said last."""

    master_id: int | None
    address: str
    epoch: int
    members: frozenset[int] | None
    set_epoch: int


class ControllerMode:
    """Keeps this broker's part in its group as the controller has it. A service."""

    def __init__(
        self,
        controllers: Controllers,
        role: GroupRole,
        identity: Identity,
        *,
        settings: HaSettings,
        files: SmallFiles,
        identity_path: str,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._controllers = controllers
        self._role = role
        self._identity = identity
        self._settings = settings
        self._files = files
        self._path = identity_path
        self._clock = clock
        self._rng = rng
        self._told: Told | None = None
        self._wake = asyncio.Event()
        role.primary.on_change = lambda link: self._wake.set()
        self.is_known = asyncio.Event()  # this broker has its first part

    def begin(self) -> None:
        """Take no messages, serve no reads, register nowhere until a controller has spoken."""
        self._role.begin()

    def notified(self, header: NotifyBrokerRoleChangedRequest, body: bytes) -> None:
        """A controller says that something has changed (1008)."""
        members = SyncStateSet.decode(body) if body else None
        self._hear(
            MasterInfo(
                master_broker_id=header.master_broker_id,
                master_address=header.master_address,
                master_epoch=header.master_epoch,
                sync_state_set_epoch=header.sync_state_set_epoch,
            ),
            members,
        )
        self._wake.set()

    async def run(self) -> None:
        """Follow the controllers until cancelled."""
        await self._get_id()
        await self._introduce()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat(), name="heartbeats to controllers")
            group.create_task(self._ask(), name="who is primary")
            group.create_task(self._lead(), name="which controller leads")
            group.create_task(self._follow(), name="part in the group")

    async def aclose(self) -> None:
        """Stop what is under way."""
        await self._role.aclose()

    # The beginning

    async def _get_id(self) -> None:
        """Find the id of this broker, or get one."""
        cluster, name = self._identity.cluster_name, self._identity.broker_name
        found = self._files.read(self._path)
        if found:
            parts = found.decode().strip().split("#")
            if parts[:2] != [cluster, name] or len(parts) != 3 or not parts[2].isdecimal():
                raise ConfigError(
                    f"{self._path} says {found.decode().strip()!r} and this broker is "
                    f"{cluster}#{name}: another store directory, or another brokerName"
                )
            self._role.set_id(int(parts[2]))
            return
        while True:
            try:
                await self._apply_for_id(cluster, name)
            except _REFUSALS as error:
                log.warning("no id yet: error=%s", error)
                await asyncio.sleep(RETRY_S * self._rng.random())
            else:
                return

    async def _apply_for_id(self, cluster: str, name: str) -> None:
        temporary = f"{self._path}-temp"
        kept = (self._files.read(temporary) or b"").decode().strip().split("#")
        if len(kept) == 4 and kept[:2] == [cluster, name] and kept[2].isdecimal():
            own_id, code = int(kept[2]), kept[3]
        else:
            own_id = await self._controllers.next_id(cluster, name)
            code = f"{self._identity.address};{self._clock.now_ms()}"
            self._files.replace(temporary, f"{cluster}#{name}#{own_id}#{code}".encode())
        try:
            await self._controllers.apply_id(
                ApplyBrokerIdRequest(
                    cluster_name=cluster,
                    broker_name=name,
                    applied_broker_id=own_id,
                    register_check_code=code,
                )
            )
        except BrokerError as error:
            if error.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID:
                self._files.remove(temporary)
            raise
        self._files.replace(self._path, f"{cluster}#{name}#{own_id}".encode())
        self._files.remove(temporary)
        self._role.set_id(own_id)

    async def _introduce(self) -> None:
        """Register with the controller; be elected if there is no primary."""
        while True:
            try:
                await self._register()
                if self._told is not None and self._told.master_id is not None:
                    return
            except _REFUSALS as error:
                log.warning("not registered with a controller yet: error=%s", error)
            await asyncio.sleep(RETRY_S * self._rng.random())

    async def _register(self) -> None:
        identity = self._identity
        self._hear(
            *await self._controllers.register(
                RegisterToControllerRequest(
                    cluster_name=identity.cluster_name,
                    broker_name=identity.broker_name,
                    broker_id=self._role.own_id,
                    broker_address=identity.address,
                    invoke_time=self._clock.now_ms(),
                )
            )
        )
        await self._controllers.heartbeat(self._heartbeat())
        if self._told is None or self._told.master_id is None:
            self._hear(*await self._elect())

    async def _elect(self) -> Master:
        return await self._controllers.elect(
            ElectMasterRequest(
                cluster_name=self._identity.cluster_name,
                broker_name=self._identity.broker_name,
                broker_id=self._role.own_id,
                designate_elect=False,
                invoke_time=self._clock.now_ms(),
            )
        )

    # What goes on

    async def _beat(self) -> None:
        while True:
            await self._controllers.heartbeat(self._heartbeat())
            await asyncio.sleep(self._settings.heartbeat_to_controller_ms / 1000)

    async def _lead(self) -> None:
        while True:
            await asyncio.sleep(self._settings.find_controller_ms / 1000)
            await self._controllers.find_leader()

    async def _ask(self) -> None:
        """Ask who is primary, often enough to know in time that no controller answers."""
        timeout_s = self._settings.controller_timeout_ms / 1000
        while True:
            await asyncio.sleep(min(self._settings.ask_controller_ms / 1000, timeout_s / 3))
            try:
                header, members = await self._controllers.replica_info(self._identity.broker_name)
                self._hear(header, members)
                if header.master_broker_id is None:
                    self._hear(*await self._elect())
                elif header.master_broker_id == self._role.own_id:
                    self._role.unfence()
            except BrokerError as error:
                if error.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST:
                    await self._try_register()
            except (NetworkError, ProtocolError) as error:
                log.info("no controller answers: error=%s", error)
            silent_s = asyncio.get_running_loop().time() - self._controllers.answered_at
            if silent_s > timeout_s:
                self._role.fence(f"no controller has answered for {timeout_s:g} seconds")

    async def _try_register(self) -> None:
        try:
            await self._register()
        except _REFUSALS as error:
            log.warning("not registered with the controller: error=%s", error)

    async def _follow(self) -> None:
        """Make every change, and look after the in-sync set."""
        checked_at = 0.0
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            told = self._told
            if told is not None and told.master_id is not None:
                await self._become(told)
            if self._role.is_primary and (
                self._role.has_lost_member() or loop.time() - checked_at >= LOOK_S
            ):
                checked_at = loop.time()
                await self._look_at_set()
            try:
                async with asyncio.timeout(LOOK_S if self._role.is_primary else None):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _become(self, told: Told) -> None:
        role = self._role
        if told.epoch > role.epoch:
            if told.master_id == role.own_id:
                await role.become_primary(
                    told.epoch, told.members or frozenset({role.own_id}), told.set_epoch
                )
            else:
                await role.become_replica(told.epoch, told.address)
            self.is_known.set()
        elif (
            told.epoch == role.epoch
            and role.is_primary
            and told.members
            and told.set_epoch > role.set_epoch
        ):
            role.grant(told.members, told.set_epoch)

    async def _look_at_set(self) -> None:
        role = self._role
        wanted = role.wanted_set()
        if wanted is None:
            return
        header = AlterSyncStateSetRequest(
            broker_name=self._identity.broker_name,
            master_broker_id=role.own_id,
            master_epoch=role.epoch,
            invoke_time=self._clock.now_ms(),
        )
        body = SyncStateSet(sync_state_set=sorted(wanted), sync_state_set_epoch=role.set_epoch)
        epoch = role.epoch
        try:
            granted = await self._controllers.alter(header, body)
        except _REFUSALS as error:
            role.refused()
            log.warning("in-sync set is not changed: wanted=%s error=%s", sorted(wanted), error)
            await self._refresh()
            return
        if role.is_primary and role.epoch == epoch:
            role.grant(wanted, granted)
            log.info("in-sync set: members=%s epoch=%s", sorted(wanted), granted)

    async def _refresh(self) -> None:
        try:
            self._hear(*await self._controllers.replica_info(self._identity.broker_name))
        except _REFUSALS:
            await asyncio.sleep(LOOK_S)

    def _hear(self, header: MasterInfo, members: SyncStateSet | None) -> None:
        """Take in what a controller said, unless it is older than what it said before."""
        epoch = header.master_epoch or 0
        if header.master_broker_id is None or epoch < self._role.epoch:
            return
        if self._told is not None and epoch < self._told.epoch:
            return
        set_epoch = header.sync_state_set_epoch
        found: frozenset[int] | None = None
        if members is not None and members.sync_state_set:
            found = frozenset(members.sync_state_set)
            set_epoch = members.sync_state_set_epoch or set_epoch
        if self._told is not None and epoch == self._told.epoch and found is None:
            found, set_epoch = self._told.members, self._told.set_epoch
        self._told = Told(
            header.master_broker_id, header.master_address or "", epoch, found, set_epoch or 0
        )
        self._wake.set()

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        identity = self._identity
        epoch, end, confirmed = self._role.position()
        return BrokerHeartbeatRequest(
            cluster_name=identity.cluster_name,
            broker_addr=identity.address,
            broker_name=identity.broker_name,
            broker_id=self._role.own_id,
            epoch=epoch,
            max_offset=end,
            confirm_offset=confirmed,
            heartbeat_timeout_mills=self._settings.controller_timeout_ms,
            election_priority=self._settings.election_priority,
        )
