"""The parts of replication, put together: part of the composition of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from contrailmq.broker.identity import Identity
from contrailmq.broker.keeping import restore_newer_topics
from contrailmq.broker.parts import Parts
from contrailmq.broker.services.controller_mode import ControllerMode
from contrailmq.broker.services.controllers import Controllers
from contrailmq.broker.services.group_role import GroupRole
from contrailmq.broker.services.primary_services import PrimaryServices
from contrailmq.broker.services.registration import Registration
from contrailmq.broker.services.replication import Replication, classic_quorum
from contrailmq.broker.services.table_sync import TableSync
from contrailmq.errors import ConfigError
from contrailmq.ha.auto_replica import AutoReplica
from contrailmq.ha.epochs import EpochList
from contrailmq.ha.in_sync import InSyncSet
from contrailmq.ha.primary import Primary
from contrailmq.ha.replica import Replica
from contrailmq.ha.settings import HaSettings
from contrailmq.lifecycle import running
from contrailmq.net.network import Network
from contrailmq.store.files import Files
from contrailmq.usage import listen_fault

HA_PORT_OFFSET: Final = 1
LOST_S: Final = 2.0  # a replica that knows no primary asks the name servers so often


def build_replication(
    parts: Parts, settings: HaSettings, *, network: Network, files: Files
) -> Replication:
    """Everything of replication; nothing runs yet."""
    tables, store, clock = parts.tables, parts.store, parts.clock
    sync = _table_sync(parts)
    is_auto = settings.controller_mode
    epochs = _epochs(parts, settings, files) if is_auto else None
    in_sync = InSyncSet(settings) if is_auto else None
    primary = Primary(
        store,
        settings,
        quorum=in_sync or classic_quorum(settings, store.settings.broker_role),
        epochs=epochs,
        in_sync=in_sync,
    )
    services = PrimaryServices(
        [
            ("delay levels", parts.delay.run),
            ("transactions", parts.checks.run),
            ("timers", parts.timers.run),
            ("revive", parts.pop.revive.run),
        ]
    )
    if epochs is None or in_sync is None:
        replica = Replica(store, settings, network=network, clock=clock)
    else:
        replica = AutoReplica(store, settings, epochs, network=network, clock=clock)
    replication = Replication(
        store,
        parts.identity,
        settings=settings,
        primary=primary,
        replica=replica,
        tables=sync,
        services=services,
        revision=tables.revision,
    )

    def before_primary() -> None:
        if is_auto:
            restore_newer_topics(tables, store, since=sync.topics_end)
        parts.checks.correct_cursors()
        parts.timers.start()
        parts.pop.recover(since_ms=tables.offsets.saved_ms)

    replication.before_primary = before_primary
    replication.at_end = parts.timers.finish
    parts.registration.on_primary = replication.on_primary
    if epochs is not None and in_sync is not None and isinstance(replica, AutoReplica):
        role = GroupRole(
            store,
            parts.identity,
            primary=primary,
            replica=replica,
            epochs=epochs,
            in_sync=in_sync,
            tables=sync,
            services=services,
            registration=parts.registration,
            client=parts.client,
            revision=tables.revision,
        )
        role.before_primary = before_primary
        role.set_version = tables.topics.set_state_version
        replication.epochs = epochs
        replication.mode = _mode(parts, settings, role, files)
    return replication


def _table_sync(parts: Parts) -> TableSync:
    tables = parts.tables
    return TableSync(
        parts.client,
        tables.topics,
        tables.groups,
        offsets=tables.offsets,
        delay=parts.delay,
        timers=parts.wheel,
        saving=parts.saving,
        registration=parts.registration,
        clock=parts.clock,
        log_end=lambda: parts.store.max_offset,
    )


def _mode(parts: Parts, settings: HaSettings, role: GroupRole, files: Files) -> ControllerMode:
    return ControllerMode(
        Controllers(parts.client, settings.controller_addresses(), clock=parts.clock),
        role,
        parts.identity,
        settings=settings,
        files=files,
        identity_path=settings.identity_file or f"{parts.store.layout.root}/brokerIdentity",
        clock=parts.clock,
        rng=parts.rng,
    )


def _epochs(parts: Parts, settings: HaSettings, files: Files) -> EpochList:
    path = settings.epoch_file or f"{parts.store.layout.root}/epochFileCheckpoint"
    return EpochList(files, path)


async def listen_to_replicas(
    primary: Primary, identity: Identity, *, host: str, network: Network
) -> int:
    """Let replicas connect; the port. One nobody asked for may be another: name servers tell it."""
    given = primary.settings.listen_port
    port = given or int(identity.address.rpartition(":")[2]) + HA_PORT_OFFSET
    try:
        return await primary.listen(network, host, port)
    except OSError as error:
        if given:
            fault = listen_fault(error, host=host, port=port, option="--set haListenPort")
            raise ConfigError(f"{fault} (haListenPort)") from error
        return await primary.listen(network, host, 0)


@asynccontextmanager
async def run_replication(
    replication: Replication, registration: Registration
) -> AsyncIterator[None]:
    """Run what replication consists of for the length of a block."""
    async with AsyncExitStack() as stack:
        for name, service in (
            ("primary services", replication.services.run()),
            ("replica", replication.replica.run()),
            ("tables of the primary", replication.tables.run()),
            ("looking for a primary", _look(replication, registration)),
        ):
            await stack.enter_async_context(running(service, name=name))
        if replication.mode is not None:
            mode = replication.mode
            stack.push_async_callback(mode.aclose)
            await stack.enter_async_context(running(mode.run(), name="controller mode"))
        yield


async def _look(replication: Replication, registration: Registration) -> None:
    while replication.may_follow:
        await asyncio.sleep(LOST_S)
        if replication.is_lost:
            registration.changed()
    await asyncio.get_running_loop().create_future()
