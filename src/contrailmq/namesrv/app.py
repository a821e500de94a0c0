"""The name server put together: tables, handlers, the port, the scan for silent brokers."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from contrailmq.clock import Clock
from contrailmq.errors import NetworkError
from contrailmq.lifecycle import Tasks
from contrailmq.metrics.settings import Exporter
from contrailmq.namesrv.access import NameServerAccess
from contrailmq.namesrv.files import read_newest
from contrailmq.namesrv.handlers.brokers import Brokers
from contrailmq.namesrv.handlers.config import Keeper, KvHandlers, OwnConfig
from contrailmq.namesrv.handlers.topics import Topics
from contrailmq.namesrv.kv import KvConfig
from contrailmq.namesrv.metrics import NameServerFigures
from contrailmq.namesrv.registration import Bounds, MinIdChange
from contrailmq.namesrv.routes import Routes
from contrailmq.namesrv.settings import Configuration, NameServerSettings
from contrailmq.net.client import RemotingClient
from contrailmq.net.dispatch import Dispatcher, Handler
from contrailmq.net.exporting import World, exporting
from contrailmq.net.network import AsyncioNetwork, Network
from contrailmq.net.server import Server
from contrailmq.net.tls import ServerTls, client_context
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.route import NotifyMinBrokerIdChangeRequest
from contrailmq.security.accounts import Accounts
from contrailmq.security.addresses import patterns_of
from contrailmq.security.files import AccountFiles

log = logging.getLogger(__name__)


class NameServer:
    """A name server; ``async with`` it, or ``start`` and ``aclose``.

    Several of them need not know each other: brokers register with each.  ``accounts`` are the
    files of an access control list, for ``aclEnable=true``.
    """

    def __init__(
        self,
        configuration: Configuration | NameServerSettings,
        *,
        clock: Clock,
        network: Network | None = None,
        rng: random.Random | None = None,
        accounts: AccountFiles | None = None,
    ) -> None:
        if isinstance(configuration, NameServerSettings):
            configuration = Configuration(settings=configuration)
        settings = configuration.settings
        self._settings = settings
        self.routes = Routes(
            Bounds(topics_max=settings.topics_max, brokers_max=settings.brokers_max)
        )
        self.kv = KvConfig(entries_max=settings.kv_entries_max)
        self._own = OwnConfig(configuration)
        self._brokers = Brokers(
            self.routes,
            self.kv,
            settings=self._own.settings,
            clock=clock,
            on_change=self._notify,
        )
        topics = Topics(self.routes, self.kv, settings=self._own.settings, clock=clock)
        kv = KvHandlers(self.kv, Keeper(settings.kv_config_path, self.kv.encode))
        self._access: NameServerAccess | None = None
        if accounts is not None and settings.acl_enable:
            self._access = NameServerAccess(Accounts(accounts, clock=clock), settings.trusted())
        self._tls = ServerTls.of(configuration.tls)
        if network is None and configuration.tls.enable:
            network = AsyncioNetwork(client_tls=client_context(configuration.tls))
        table = handlers(self._brokers, topics, kv, own=self._own)
        self._server = Server(
            Dispatcher(table, check=None if self._access is None else self._access.check),
            configuration.server,
            clock=clock,
            network=network,
            tls=self._tls,
            proxies=patterns_of(configuration.server.proxy_from),
            on_open=lambda connection: connection.on_close(self._brokers.connection_closed),
        )
        self._client = RemotingClient(clock=clock, network=network, rng=rng)
        self.figures = NameServerFigures(self.routes, self._server, clock=clock)
        self._metrics = configuration.metrics
        self._world = World(clock=clock, network=network or AsyncioNetwork(), ready=lambda: None)
        self._stack = AsyncExitStack()
        self.metrics_address = ""
        self._tasks = Tasks()
        self._scan_timer: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """The port listened on."""
        return self._server.port

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return self._server.connection_count

    async def start(self) -> None:
        """Read what was kept, listen, begin to watch the brokers; raises ConfigError, OSError."""
        if self._settings.kv_config_path:
            read_newest(Path(self._settings.kv_config_path), self.kv.load)
        if self._tls is not None:
            self._tasks.start(self._tls.run(), name="certificates")
        if self._access is not None:
            self._access.accounts.start()
            self._tasks.start(self._access.accounts.run(), name="accounts")
        await self._server.start(self._settings.bind_address, self._settings.listen_port)
        if self._metrics.exporter is not Exporter.DISABLE:
            told = self.figures.told(f"{self._settings.bind_address}:{self.port}")
            self.metrics_address = await self._stack.enter_async_context(
                exporting(self._metrics, [told], self._world)
            )
        self._scan_later()

    def reload(self) -> None:
        """Look at certificates and accounts now (SIGHUP)."""
        if self._tls is not None:
            self._tls.look(always=True)
        if self._access is not None:
            self._access.accounts.look()

    async def aclose(self) -> None:
        """Stop watching, answer what is under way, close all connections."""
        if self._scan_timer is not None:
            self._scan_timer.cancel()
            self._scan_timer = None
        await self._stack.aclose()
        await self._server.aclose()
        await self._tasks.aclose()
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _scan_later(self) -> None:
        delay_s = self._settings.scan_interval_ms / 1000
        self._scan_timer = asyncio.get_running_loop().call_later(delay_s, self._scan)

    def _scan(self) -> None:
        self._scan_later()
        self._brokers.scan()

    def _notify(self, change: MinIdChange) -> None:
        for address in change.targets:
            self._tasks.start(self._notify_one(address, change), name=f"notify-{address}")

    async def _notify_one(self, address: str, change: MinIdChange) -> None:
        header = NotifyMinBrokerIdChangeRequest(
            min_broker_id=change.min_id,
            broker_name=change.broker_name,
            min_broker_addr=change.min_address,
            offline_broker_addr=change.offline_address,
            ha_broker_addr=change.ha_address,
        )
        command = Command.request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header, oneway=True)
        try:
            await self._client.oneway(address, command)
        except NetworkError as error:
            log.warning(
                "broker not told of a new smallest id: address=%s reason=%s", address, error
            )


def handlers(
    brokers: Brokers, topics: Topics, kv: KvHandlers, *, own: OwnConfig
) -> dict[int, Handler]:
    """Which request goes where: the name server's table of contents."""
    return {
        RequestCode.PUT_KV_CONFIG: kv.put,
        RequestCode.GET_KV_CONFIG: kv.get,
        RequestCode.DELETE_KV_CONFIG: kv.delete,
        RequestCode.GET_KVLIST_BY_NAMESPACE: kv.namespace,
        RequestCode.REGISTER_BROKER: brokers.register,
        RequestCode.UNREGISTER_BROKER: brokers.unregister,
        RequestCode.QUERY_DATA_VERSION: brokers.query_version,
        RequestCode.BROKER_HEARTBEAT: brokers.heartbeat,
        RequestCode.GET_BROKER_MEMBER_GROUP: brokers.members,
        RequestCode.GET_ROUTEINFO_BY_TOPIC: topics.route,
        RequestCode.GET_BROKER_CLUSTER_INFO: topics.clusters,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: topics.all_topics,
        RequestCode.GET_TOPICS_BY_CLUSTER: topics.topics_of_cluster,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: topics.system_topics,
        RequestCode.GET_UNIT_TOPIC_LIST: topics.unit_topics,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: topics.unit_sub_topics,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: topics.unit_sub_ununit_topics,
        RequestCode.DELETE_TOPIC_IN_NAMESRV: topics.delete,
        RequestCode.REGISTER_TOPIC_IN_NAMESRV: topics.add,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER: topics.wipe_write,
        RequestCode.ADD_WRITE_PERM_OF_BROKER: topics.add_write,
        RequestCode.UPDATE_NAMESRV_CONFIG: own.update,
        RequestCode.GET_NAMESRV_CONFIG: own.get,
    }
