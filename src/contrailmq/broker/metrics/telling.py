"""The figures of a broker put together, and told for as long as it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager

from contrailmq.broker.figures import BrokerFigures
from contrailmq.broker.lanes.send import BrokerLane
from contrailmq.broker.metrics.progress import GroupProgress, GroupTables
from contrailmq.broker.metrics.rpc import RpcTimes
from contrailmq.broker.metrics.state import BrokerState
from contrailmq.broker.metrics.traffic import Traffic
from contrailmq.broker.parts import Parts
from contrailmq.broker.services.replication import Replication
from contrailmq.metrics.settings import Exporter, MetricsSettings
from contrailmq.metrics.told import Told
from contrailmq.net.budget import MemoryBudget
from contrailmq.net.connection import Connection
from contrailmq.net.exporting import World, exporting
from contrailmq.net.network import Network
from contrailmq.net.server import Server
from contrailmq.protocol.codes import RequestCode

SCOPE = "broker-meter"


class BrokerTelling:
    """What a broker tells of itself. ``figures`` answer whoever shares its process."""

    def __init__(
        self,
        settings: MetricsSettings,
        parts: Parts,
        replication: Replication,
        *,
        servers: Sequence[Server],
        lane: BrokerLane | None,
        budget: MemoryBudget,
    ) -> None:
        self._settings = settings
        self._parts = parts
        self._replication = replication
        self._servers = servers
        tables = parts.tables
        self._progress = GroupProgress(
            GroupTables(tables.groups, tables.topics, tables.offsets),
            parts.store,
            parts.pop.in_flight,
            clock=parts.clock,
            hides_zero=settings.suppress_zero_lag,
        )
        self.figures = BrokerFigures(
            tables.topics, parts.store, parts.stats, progress=self._progress
        )
        self._rpc = RpcTimes()
        if lane is not None:
            self._rpc.lanes[RequestCode.SEND_MESSAGE_V2] = lane.sends.times
            self._rpc.lanes[RequestCode.SEND_BATCH_MESSAGE] = lane.batches.times
            self._rpc.lanes[RequestCode.PULL_MESSAGE] = lane.pulls.core.times
        if settings.exporter is not Exporter.DISABLE:
            for server in servers:
                server.measure(self._rpc)
        self._state = BrokerState(
            parts, self._rpc, connections=self._connections, replicas=self._lacking, budget=budget
        )

    def run(
        self, network: Network, beside: Sequence[Told], ready: Callable[[], str | None]
    ) -> AbstractAsyncContextManager[str]:
        """Tell for the length of a block; ``beside`` are other servers of the process."""
        parts = self._parts
        identity = parts.identity
        common = {
            "cluster": identity.cluster_name,
            "node_id": identity.broker_name,
            "node_type": "broker",
        }
        sources = [
            Traffic(parts.tables.counters, parts.tables.topics).source,
            self._progress.source,
            self._rpc.source,
            self._state.source,
        ]
        world = World(clock=parts.clock, network=network, ready=ready)
        return exporting(self._settings, [Told(SCOPE, common, sources), *beside], world)

    def _connections(self) -> Iterable[Connection]:
        for server in self._servers:
            yield from server.connections

    def _lacking(self) -> Iterable[tuple[str, int]]:
        """Address and missing bytes of each replica."""
        for link in self._replication.primary.connections():
            yield link.addr, max(link.diff, 0)
