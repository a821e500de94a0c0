"""Where topics are, for gRPC clients: the own part from the tables, the rest by name server.

The own part is always fresh.  The others' is kept for 20 seconds, and is left out when no name
server answers.
"""

from __future__ import annotations

from typing import Final

from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.identity import Identity
from contrailmq.broker.services.registration import Registration
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.clock import Clock
from contrailmq.errors import NetworkError, RemoteProtocolError, TopicNotExist
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.route import GetRouteInfoRequest

KEPT_MS: Final = 20_000
KEPT_MAX: Final = 10_000
TIMEOUT_S: Final = 2.0


class GrpcRoutes:
    """Routes of topics."""

    def __init__(
        self, topics: TopicTable, registration: Registration, client: RemotingClient, *,
        live: LiveSettings, identity: Identity, clock: Clock,
    ) -> None:  # fmt: skip
        self._topics = topics
        self._registration = registration
        self._client = client
        self._live = live
        self._identity = identity
        self._clock = clock
        self._kept: dict[str, tuple[int, TopicRouteData]] = {}

    async def route(self, topic: str) -> TopicRouteData:
        """Where a topic is; raises TopicNotExist."""
        others = await self._of_others(topic)
        own = self._identity.broker_name
        queues = [data for data in others.queue_datas if data.broker_name != own]
        brokers = [data for data in others.broker_datas if data.broker_name != own]
        config = self._topics.find(topic)
        if config is not None:
            data = QueueData(
                broker_name=own,
                perm=config.perm & self._live.permission.bits,
                read_queue_nums=config.read_queue_nums,
                write_queue_nums=config.write_queue_nums,
                topic_sys_flag=config.topic_sys_flag,
            )
            queues.insert(0, data)
            known = next((each for each in others.broker_datas if each.broker_name == own), None)
            addresses = dict(known.broker_addrs) if known is not None else {}
            addresses[self._identity.broker_id] = self._identity.address
            cluster = self._identity.cluster_name
            brokers.insert(0, BrokerData(broker_addrs=addresses, broker_name=own, cluster=cluster))
        if not queues:
            raise TopicNotExist(f"No topic route info in name server for the topic: {topic}")
        return TopicRouteData(broker_datas=brokers, queue_datas=queues)

    async def _of_others(self, topic: str) -> TopicRouteData:
        now_ms = self._clock.monotonic_ms()
        kept = self._kept.get(topic)
        if kept is not None and now_ms - kept[0] < KEPT_MS:
            return kept[1]
        header = GetRouteInfoRequest(topic=topic, accept_standard_json_only=True)
        for address in self._registration.addresses:
            command = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
            try:
                answer = await self._client.call(address, command, timeout_s=TIMEOUT_S)
                if answer.code != 0:
                    return TopicRouteData()
                route = TopicRouteData.decode(answer.body)
            except (NetworkError, RemoteProtocolError):
                continue
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[topic] = (now_ms, route)
            return route
        return TopicRouteData()
