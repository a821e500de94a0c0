"""The composition root of a broker: the only module that sees all its parts.

Starting: lock and recover the store, read the tables, listen, run the services, register.
Stopping is the reverse, and is what leaving the ``async with`` block does; a service that fails
cancels the block, so that a broker never goes on without one of its parts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

from contrailmq.broker.config.configuration import Configuration
from contrailmq.broker.config.saving import Saving, load_tables, save_tables
from contrailmq.broker.config.settings import BrokerSettings, completed
from contrailmq.broker.grpc.door import Doorway, open_door
from contrailmq.broker.grpc.settings import GrpcSettings
from contrailmq.broker.handlers.admin import admin_handlers
from contrailmq.broker.handlers.replication import replica_guards, replication_handlers
from contrailmq.broker.handlers.special import special_handlers
from contrailmq.broker.handlers.table import LANES, client_handlers
from contrailmq.broker.identifying import FAST_PORT_OFFSET, identify
from contrailmq.broker.identity import Identity
from contrailmq.broker.keeping import keep_tables, restore_topics, use_kinds
from contrailmq.broker.lanes.send import BrokerLane
from contrailmq.broker.metrics.telling import BrokerTelling
from contrailmq.broker.parts import Parts, Tables, build_lane, build_parts
from contrailmq.broker.replicating import (
    build_replication,
    listen_to_replicas,
    run_replication,
)
from contrailmq.broker.services.access import Defences, guarded, signer
from contrailmq.broker.services.audited import audited
from contrailmq.broker.services.replication import Replication
from contrailmq.broker.services.self_check import SelfCheck
from contrailmq.broker.tables.versions import VersionCounter
from contrailmq.clock import Clock, SystemClock
from contrailmq.errors import ConfigError
from contrailmq.ha.settings import HaSettings
from contrailmq.lifecycle import running
from contrailmq.logs import set_level
from contrailmq.metrics.settings import MetricsSettings
from contrailmq.metrics.told import Told
from contrailmq.net.budget import MemoryBudget
from contrailmq.net.client import RemotingClient
from contrailmq.net.descriptors import Descriptors
from contrailmq.net.dispatch import Dispatcher, Handler
from contrailmq.net.network import AsyncioNetwork, Network
from contrailmq.net.server import Server
from contrailmq.net.settings import ClientNetSettings, ServerSettings
from contrailmq.net.tls_settings import TlsSettings
from contrailmq.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from contrailmq.security.accounts import account_path
from contrailmq.security.addresses import patterns_of
from contrailmq.store.files import Files, OsFiles
from contrailmq.store.layout import Layout
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.usage import listen_fault

log = logging.getLogger(__name__)

CLIENT_SCAN_S: Final = 10.0
FIRST_REGISTRATION_S: Final = 3.0


class Broker:
    """One broker: ``async with Broker(settings, ...) as broker`` serves until the block ends."""

    def __init__(
        self,
        settings: BrokerSettings,
        store_settings: StoreSettings,
        *,
        ha_settings: HaSettings | None = None,
        server_settings: ServerSettings | None = None,
        client_settings: ClientNetSettings | None = None,
        clock: Clock | None = None,
        network: Network | None = None,
        files: Files | None = None,
        rng: random.Random | None = None,
        config_path: str | None = None,
        tls: TlsSettings | None = None,
        metrics: MetricsSettings | None = None,
        beside: Sequence[Told] = (),
        grpc: GrpcSettings | None = None,
    ) -> None:
        self._settings = completed(settings)
        self._metrics = metrics or MetricsSettings()
        self._beside = beside
        self._tls = tls or TlsSettings()
        self._grpc = grpc
        self.grpc_port = 0
        self._config_path = config_path
        self._store_settings = store_settings
        self._ha_settings = ha_settings or HaSettings()
        self._server_settings = server_settings or ServerSettings()
        self._client_settings = client_settings or ClientNetSettings()
        self._clock = clock if clock is not None else SystemClock()
        home, root = os.environ.get("ROCKETMQ_HOME"), Layout(store_settings).root
        path = account_path(config_path, home, root, given=settings.acl_file)
        self._defences = Defences(self._settings, self._tls, path=path, store_root=root)
        self._network: Network = network if network is not None else self._defences.sockets()
        self._plain: Network = network if network is not None else AsyncioNetwork()  # replicas
        self._files: Files = files if files is not None else OsFiles()
        self._rng = rng if rng is not None else random.Random()
        self._stack = AsyncExitStack()
        self._parts: Parts | None = None
        self._server: Server | None = None
        self._servers: list[Server] = []
        self.telling: BrokerTelling | None = None
        self.metrics_address = ""
        self._lane: BrokerLane | None = None
        self.self_check: SelfCheck | None = None
        self.replication: Replication | None = None

    @property
    def parts(self) -> Parts:
        """What the broker is made of, once it runs."""
        assert self._parts is not None, "the broker has not started"
        return self._parts

    @property
    def identity(self) -> Identity:
        """Who this broker is."""
        return self.parts.identity

    @property
    def address(self) -> str:
        """What clients connect to."""
        return self.parts.identity.address

    @property
    def port(self) -> int:
        """The port clients connect to, also where it was chosen freely."""
        assert self._server is not None, "the broker has not started"
        return self._server.port

    @property
    def connection_count(self) -> int:
        """How many clients are connected."""
        return self._server.connection_count if self._server is not None else 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Serve; call ``aclose`` from the same task. Raises ConfigError, StoreError."""
        try:
            await self._start()
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Stop, in the reverse order of starting; raises what a service has failed with."""
        try:
            await self._stack.aclose()
        except BaseExceptionGroup as group:
            raise _first_error(group) from group

    async def _start(self) -> None:
        stack = self._stack
        identity = await identify(self._settings, self._network)
        store = Store(self._store_settings, files=self._files, clock=self._clock)
        await store.open()
        stack.push_async_callback(store.aclose)
        await stack.enter_async_context(running(store.run(), name="store"))
        saving = Saving(self._files, Layout(self._store_settings).config)
        tables = Tables(self._settings, self._clock, lambda: store.flushed_offset)
        use_kinds(tables, store)
        self._defences.start(self._clock, tables.revision.bump)
        self._load(saving, tables, identity)
        restore_topics(saving, tables, store)
        await stack.enter_async_context(running(saving.run(), name="saving"))
        client = RemotingClient(
            self._client_settings,
            clock=self._clock,
            network=self._network,
            rng=self._rng,
            sign=signer(self._settings.inner_credentials),
        )
        stack.push_async_callback(client.aclose)
        parts = self._parts = build_parts(
            tables, store, saving,
            identity=identity, client=client,
            configuration=self._configuration(tables, store), rng=self._rng,
        )  # fmt: skip
        self._connect_parts(parts)
        keep_tables(parts)
        await stack.enter_async_context(running(self._defences.run(), name="defences"))
        between = self._defences.replicas(self._ha_settings, self._plain, self._clock)
        replication = self.replication = build_replication(
            parts, self._ha_settings, network=between, files=self._files
        )
        door = self._defences.guard_replicas(replication.primary, parts)
        await stack.enter_async_context(running(door.run(), name="replica door"))
        replication.begin(self._store_settings.broker_role)
        stack.push_async_callback(replication.finish)
        await self._listen(parts, replication)
        if self._grpc is not None:
            self.grpc_port = await open_door(
                stack, parts,
                Doorway(
                    settings=self._grpc, host=self._settings.bind_address, network=self._network,
                    tls=self._tls, access=self._defences.access,
                ),
            )  # fmt: skip
        for part in (parts.polls, parts.filter_work, parts.pop):
            stack.callback(part.close)
        await stack.enter_async_context(run_replication(replication, parts.registration))
        stack.push_async_callback(replication.primary.aclose)
        port = await listen_to_replicas(
            replication.primary, identity, host=self._settings.bind_address, network=between
        )
        identity.ha_address = f"{self._settings.ha_ip}:{port}"
        await stack.enter_async_context(running(self._scan_clients(parts), name="clients"))
        await self._join_cluster(parts)
        log.info("broker serves: name=%s address=%s", identity.broker_name, identity.address)

    def reload(self) -> None:
        """Look at certificates and accounts now (SIGHUP)."""
        self._defences.reload()

    def _configuration(self, tables: Tables, store: Store) -> Configuration:
        return Configuration(
            tables.live,
            store,
            ha=self._ha_settings,
            server=self._server_settings,
            client=self._client_settings,
            metrics=self._metrics,
            version=VersionCounter(self._clock),
            path=self._config_path,
        )

    def _load(self, saving: Saving, tables: Tables, identity: Identity) -> None:
        load_tables(
            saving,
            tables.topics,
            tables.groups,
            offsets=tables.offsets,
            filters=tables.filters,
        )
        save_tables(
            saving,
            tables.topics,
            tables.groups,
            offsets=tables.offsets,
            filters=tables.filters,
            clock=self._clock,
            offsets_interval_s=self._settings.flush_offsets_ms / 1000,
            hold_back=tables.hold_back,
        )
        tables.topics.install_system_topics(self._settings, identity)
        tables.groups.install_system_groups()

    def _connect_parts(self, parts: Parts) -> None:
        """Who hears of what: information flows up by callback."""
        tables, saving, registration = parts.tables, parts.saving, parts.registration

        def on_topic(topic: str) -> None:
            saving.changed()
            registration.changed()

        def on_settings(old: BrokerSettings, new: BrokerSettings) -> None:
            if new.log_level != old.log_level:
                set_level(new.log_level)
            if new.permission != old.permission:
                tables.topics.version.bump()  # name servers see changed permissions only so
            queues, creates = new.default_topic_queue_nums, new.auto_create_topic
            if creates and (queues, creates) != (
                old.default_topic_queue_nums, old.auto_create_topic
            ):  # fmt: skip
                tables.topics.set_template(queues)
            registration.changed()

        def on_store_settings(settings: StoreSettings) -> None:
            parts.putting.use(settings)
            tables.revision.bump()  # the fast lanes keep limits of the store

        tables.topics.on_change = on_topic
        tables.groups.on_change = lambda group: saving.changed()
        tables.live.on_change = on_settings
        parts.configuration.on_store = on_store_settings
        if self._settings.calc_filter_bitmap:
            parts.store.derivation.bitmap_of = tables.filters.bitmap

        def on_readable(topic: str, queue_id: int, offset: int) -> None:
            parts.polls.wake(topic, queue_id, offset)
            parts.pop.wake(topic, queue_id)
            if topic == SCHEDULE_TOPIC:
                parts.delay.wake(topic, queue_id, offset)
            elif topic == TIMER_TOPIC:
                parts.timers.wake()

        parts.store.on_readable = on_readable
        parts.store.follower.awaited = parts.polls.awaited

    def handlers(self, parts: Parts) -> dict[int, Handler]:
        """Request code to handler, of everything this broker can do."""
        assert self.replication is not None
        found = client_handlers(parts) | special_handlers(parts)
        found |= replica_guards(admin_handlers(parts, self._files), parts.identity)
        found |= replication_handlers(parts, self.replication)
        access = self._defences.access
        found = found if access is None else guarded(found, access, parts)
        audit = self._defences.audit
        return found if audit is None else audited(found, audit)

    async def _listen(self, parts: Parts, replication: Replication) -> None:
        check = self._defences.check
        dispatcher = Dispatcher(self.handlers(parts), check=check)
        self._lane = build_lane(parts, self._defences.gate)
        port = int(parts.identity.address.rpartition(":")[2])
        # The fast port serves the same; Java clients with VIP channels and Java replicas use it.
        descriptors = Descriptors()
        budget = MemoryBudget(self._server_settings.memory_size_max)
        for number in (port, port - FAST_PORT_OFFSET):
            server = Server(
                dispatcher,
                self._server_settings,
                clock=self._clock,
                network=self._network,
                lanes=LANES,
                descriptors=descriptors,
                budget=budget,
                lane=None if self._lane is None else self._lane.entry,
                tls=self._defences.tls,
                proxies=patterns_of(self._server_settings.proxy_from),
            )
            self._defences.watch(server)
            try:
                await server.start(self._settings.bind_address, number)
            except OSError as error:
                host = self._settings.bind_address
                fault = listen_fault(error, host=host, port=number, option="--port")
                if number != port:
                    fault += f" ({number} is the VIP port of a broker on {port}: two below it)"
                raise ConfigError(fault) from error
            self._stack.push_async_callback(server.aclose)
            self._servers.append(server)
        self._server = self._servers[0]
        telling = self.telling = BrokerTelling(
            self._metrics, parts, replication, servers=self._servers, lane=self._lane, budget=budget
        )
        self.metrics_address = await self._stack.enter_async_context(
            telling.run(self._plain, self._beside, replication.unready_reason)
        )

    async def _join_cluster(self, parts: Parts) -> None:
        assert self._server is not None
        registration = parts.registration
        if not registration.addresses:
            log.warning("no name server is configured (namesrvAddr): clients cannot find topics")
            return
        try:
            async with asyncio.timeout(FIRST_REGISTRATION_S):
                await registration.register()
        except TimeoutError:
            log.warning("no name server has answered yet: namesrv=%s", registration.addresses)
        self._stack.push_async_callback(registration.unregister)
        await self._stack.enter_async_context(running(registration.run(), name="registration"))
        check = self.self_check = SelfCheck(
            parts.client, registration, self._server, identity=parts.identity
        )
        await self._stack.enter_async_context(running(check.run(), name="self-check"))

    async def _scan_clients(self, parts: Parts) -> None:
        while True:
            await asyncio.sleep(CLIENT_SCAN_S)
            parts.clients.expire()
            parts.tables.filters.clean()
            parts.stats.sample(self._clock.now_ms())
            parts.runtime.sample()


def _first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error a group of services failed with, without the groups around it."""
    first = group.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first
