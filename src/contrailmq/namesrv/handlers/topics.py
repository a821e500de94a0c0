"""Routes and lists: codes 105, 106, 205, 206, 216, 217, 224, 304, 311, 312, 313, 327."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from contrailmq.clock import Clock
from contrailmq.errors import SystemFailure, TopicNotExist
from contrailmq.namesrv.kv import ORDER_NAMESPACE, KvConfig
from contrailmq.namesrv.routes import Routes
from contrailmq.namesrv.settings import NameServerSettings
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.route import ClusterInfo, TopicRouteData
from contrailmq.protocol.bodies.topic import TopicList
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.route import (
    AddWritePermOfBrokerRequest,
    AddWritePermOfBrokerResponse,
    DeleteTopicFromNamesrvRequest,
    GetRouteInfoRequest,
    GetTopicsByClusterRequest,
    RegisterTopicRequest,
    WipeWritePermOfBrokerRequest,
    WipeWritePermOfBrokerResponse,
)
from contrailmq.protocol.versions import V5_0_0

log = logging.getLogger(__name__)

VERSION_STANDARD_JSON: Final = 401  # MQVersion.V4_9_4
UNIT_FLAG: Final = 1  # TopicSysFlag.FLAG_UNIT
UNIT_SUB_FLAG: Final = 2  # TopicSysFlag.FLAG_UNIT_SUB
NO_ROUTE: Final = (
    "No topic route info in name server for the topic: {}\n"
    "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
)


class Topics:
    """The handlers of what clients and tools ask."""

    def __init__(
        self,
        routes: Routes,
        kv: KvConfig,
        *,
        settings: Callable[[], NameServerSettings],
        clock: Clock,
    ) -> None:
        self._routes = routes
        self._kv = kv
        self._settings = settings
        self._clock = clock
        self._started_ms = clock.monotonic_ms()

    def route(self, request: Command, connection: Connection) -> Command:
        """Code 105. Clients that read only standard JSON get quoted keys."""
        header = GetRouteInfoRequest.from_fields(request.fields)
        settings = self._settings()
        if settings.wait_for_service:
            waited_ms = self._clock.monotonic_ms() - self._started_ms
            if waited_ms < settings.wait_seconds * 1000:
                raise SystemFailure("name server not ready")
        found = self._routes.find_route(header.topic, acting_master=settings.acting_master)
        if found is None:
            raise TopicNotExist(NO_ROUTE.format(header.topic))
        if settings.order_message:
            found.order_topic_conf = self._kv.find(ORDER_NAMESPACE, header.topic)
        standard = _wants_standard_json(request) or bool(header.accept_standard_json_only)
        return request.reply(body=found.encode(standard=standard, legacy=request.version < V5_0_0))

    def clusters(self, request: Command, connection: Connection) -> Command:
        """Code 106. Java's own tools get Java's own form, with integers as keys."""
        found = ClusterInfo(
            broker_addr_table=dict(self._routes.brokers),
            cluster_addr_table={name: list(n) for name, n in self._routes.clusters.items()},
        )
        standard = request.language != "JAVA"
        return request.reply(body=found.encode(standard=standard, legacy=request.version < V5_0_0))

    def all_topics(self, request: Command, connection: Connection) -> Command:
        """Code 206."""
        if not self._settings().all_topic_list:
            raise SystemFailure("disable")
        return _topic_list(request, list(self._routes.topics))

    def topics_of_cluster(self, request: Command, connection: Connection) -> Command:
        """Code 224; a topic of several brokers is named once."""
        self._check_lists()
        header = GetTopicsByClusterRequest.from_fields(request.fields)
        names = self._routes.clusters.get(header.cluster, {})
        found = [
            t for t, queues in self._routes.topics.items() if not names.keys().isdisjoint(queues)
        ]
        return _topic_list(request, found)

    def system_topics(self, request: Command, connection: Connection) -> Command:
        """Code 304: names of clusters and brokers, and the address of some broker."""
        found: list[str] = []
        for cluster, names in self._routes.clusters.items():
            found += [cluster, *names]
        addresses = (a for b in self._routes.brokers.values() for a in b.broker_addrs.values())
        body = TopicList(topic_list=found, broker_addr=next(addresses, None))
        return request.reply(body=body.encode())

    def unit_topics(self, request: Command, connection: Connection) -> Command:
        """Code 311."""
        return self._flagged(request, lambda flag: bool(flag & UNIT_FLAG))

    def unit_sub_topics(self, request: Command, connection: Connection) -> Command:
        """Code 312."""
        return self._flagged(request, lambda flag: bool(flag & UNIT_SUB_FLAG))

    def unit_sub_ununit_topics(self, request: Command, connection: Connection) -> Command:
        """Code 313."""
        return self._flagged(
            request, lambda flag: bool(flag & UNIT_SUB_FLAG) and not flag & UNIT_FLAG
        )

    def delete(self, request: Command, connection: Connection) -> Command:
        """Code 216."""
        header = DeleteTopicFromNamesrvRequest.from_fields(request.fields)
        self._routes.delete_topic(header.topic, header.cluster_name)
        log.info("topic deleted: topic=%s cluster=%s", header.topic, header.cluster_name)
        return request.reply()

    def add(self, request: Command, connection: Connection) -> Command:
        """Code 217: routes that name an unknown broker are left out whole, and answered with 0."""
        header = RegisterTopicRequest.from_fields(request.fields)
        if request.body:
            queues = TopicRouteData.decode_request(request.body).queue_datas
            if not self._routes.add_topic(header.topic, queues):
                log.warning("routes not added, a broker is unknown: topic=%s", header.topic)
        return request.reply()

    def wipe_write(self, request: Command, connection: Connection) -> Command:
        """Code 205."""
        header = WipeWritePermOfBrokerRequest.from_fields(request.fields)
        count = self._routes.wipe_write(header.broker_name)
        log.info("write permission wiped: broker=%s topics=%s", header.broker_name, count)
        return request.reply(WipeWritePermOfBrokerResponse(wipe_topic_count=count))

    def add_write(self, request: Command, connection: Connection) -> Command:
        """Code 327."""
        header = AddWritePermOfBrokerRequest.from_fields(request.fields)
        count = self._routes.add_write(header.broker_name)
        log.info("write permission added: broker=%s topics=%s", header.broker_name, count)
        return request.reply(AddWritePermOfBrokerResponse(add_topic_count=count))

    def _check_lists(self) -> None:
        if not self._settings().topic_list:
            raise SystemFailure("disable")

    def _flagged(self, request: Command, wanted: Callable[[int], bool]) -> Command:
        self._check_lists()
        found = [
            topic
            for topic, queues in self._routes.topics.items()
            if wanted(next(iter(queues.values())).topic_sys_flag)
        ]
        return _topic_list(request, found)


def _topic_list(request: Command, topics: list[str]) -> Command:
    return request.reply(body=TopicList(topic_list=topics).encode())


def _wants_standard_json(request: Command) -> bool:
    return request.version >= VERSION_STANDARD_JSON or request.language != "JAVA"
