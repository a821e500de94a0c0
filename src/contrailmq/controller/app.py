"""The composition root of a controller: ledger, decisions, handlers, server."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Self

from contrailmq.clock import Clock, SystemClock
from contrailmq.controller.decisions import Decisions
from contrailmq.controller.etcd import SCHEME, EtcdLedger, split_ledger
from contrailmq.controller.etcd_client import EtcdClient
from contrailmq.controller.groups import Group
from contrailmq.controller.handlers import ControllerHandlers
from contrailmq.controller.ledger import FileLedger, Ledger
from contrailmq.controller.settings import ControllerSettings
from contrailmq.errors import ConfigError, NetworkError
from contrailmq.lifecycle import Tasks
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Dispatcher
from contrailmq.net.network import Network
from contrailmq.net.server import Server
from contrailmq.net.settings import ServerSettings
from contrailmq.protocol.bodies.stats import SyncStateSet
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.admin import NotifyBrokerRoleChangedRequest
from contrailmq.usage import listen_fault

log = logging.getLogger(__name__)

HEARTBEATS_S: Final = 5.0  # brokers send one per second


class Controller:
    """One controller: ``async with Controller(settings) as controller``."""

    def __init__(
        self,
        settings: ControllerSettings,
        *,
        ledger: Ledger | None = None,
        clock: Clock | None = None,
        network: Network | None = None,
    ) -> None:
        clock = clock if clock is not None else SystemClock()
        self._settings = settings
        self._ledger: Ledger = ledger if ledger is not None else _ledger_of(settings)
        self.decisions = Decisions(self._ledger, settings)
        self.decisions.on_primary = self._tell
        handlers = ControllerHandlers(self.decisions)
        self._server = Server(
            Dispatcher(handlers.table()),
            ServerSettings(),
            clock=clock,
            network=network,
            on_open=lambda connection: connection.on_close(self._closed),
        )
        self._client = RemotingClient(clock=clock, network=network)
        self._tasks = Tasks()
        self._is_closing = False

    @property
    def address(self) -> str:
        """What brokers connect to."""
        if self._settings.advertised:
            return self._settings.advertised
        host = self._settings.bind_address
        return f"{'127.0.0.1' if host == '0.0.0.0' else host}:{self._server.port}"

    async def __aenter__(self) -> Self:
        await self.decisions.open()
        host, port = self._settings.bind_address, self._settings.listen_port
        try:
            await self._server.start(host, port)
        except OSError as error:
            fault = listen_fault(error, host=host, port=port, option="--port")
            raise ConfigError(fault) from error
        follow = self._ledger.follow(self.address, self.decisions.heard)
        self._tasks.start(follow, name="ledger")
        self._tasks.start(self._scan(), name="scan of brokers")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_closing = True
        await self._server.aclose()
        await self._tasks.aclose()
        await self._client.aclose()
        await self._ledger.aclose()

    async def _scan(self) -> None:
        scan_s = self._settings.scan_ms / 1000
        await asyncio.sleep(min(HEARTBEATS_S, scan_s))  # who lives is not known before
        while True:
            self.decisions.leading.clear()
            await self.decisions.scan()
            try:
                async with asyncio.timeout(scan_s):
                    await self.decisions.leading.wait()
            except TimeoutError:
                continue

    def _closed(self, connection: Connection) -> None:
        if not self._is_closing:
            self._tasks.start(self.decisions.closed(connection), name="a broker has gone")

    def _tell(self, group: Group, alive: list[int]) -> None:
        if not self.decisions.settings.notifies:
            return
        for broker_id in alive:
            address = group.brokers[broker_id].address
            self._tasks.start(self._tell_one(address, group), name=f"tell {address}")

    async def _tell_one(self, address: str, group: Group) -> None:
        assert group.primary is not None
        header = NotifyBrokerRoleChangedRequest(
            master_address=group.brokers[group.primary].address,
            master_epoch=group.epoch,
            sync_state_set_epoch=group.set_epoch,
            master_broker_id=group.primary,
        )
        body = SyncStateSet(
            sync_state_set=list(group.in_sync), sync_state_set_epoch=group.set_epoch
        )
        code = RequestCode.NOTIFY_BROKER_ROLE_CHANGED
        command = Command.request(code, header, body=body.encode(), oneway=True)
        try:
            await self._client.oneway(address, command)
        except NetworkError as error:
            log.warning("broker not told of an election: address=%s error=%s", address, error)


def _ledger_of(settings: ControllerSettings) -> Ledger:
    if not settings.ledger.startswith(SCHEME):
        return FileLedger(settings.ledger)
    endpoints, prefix = split_ledger(settings.ledger)
    client = EtcdClient(endpoints, user=settings.ledger_user, password=settings.ledger_password)
    return EtcdLedger(client, prefix=prefix)
