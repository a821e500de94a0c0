"""The routes a client knows: fetched once, shared by all who ask, refreshed on a timer.

Two callers that need the same unknown route share one question.  A route that the name server no
longer has is kept until it is replaced: brokers that still run are better than none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from contrailmq.client import routes
from contrailmq.client.name_servers import NameServers
from contrailmq.client.routes import PublishRoute
from contrailmq.errors import NoRoute, error_of
from contrailmq.protocol.bodies.route import TopicRouteData
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.route import GetRouteInfoRequest
from contrailmq.protocol.names import MASTER_ID
from contrailmq.protocol.queue import MessageQueue

log = logging.getLogger(__name__)


class RouteBook:
    """Routes by topic, and the addresses of all brokers in them."""

    def __init__(self, name_servers: NameServers, *, timeout_s: float) -> None:
        self._name_servers = name_servers
        self._timeout_s = timeout_s
        self._routes: dict[str, TopicRouteData] = {}
        self._publish: dict[str, PublishRoute] = {}
        self._subscribe: dict[str, list[MessageQueue]] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._asking: dict[str, asyncio.Future[bool]] = {}
        self.on_change: Callable[[str], None] | None = None

    def topics(self) -> list[str]:
        """Every topic somebody asked for."""
        return list(self._routes)

    def brokers(self) -> dict[str, dict[int, str]]:
        """All known brokers: name, then id and address."""
        return self._brokers

    def brokers_of(self, topic: str) -> list[str]:
        """Names of the brokers that have a topic."""
        route = self._routes.get(topic)
        return [broker.broker_name for broker in route.broker_datas] if route else []

    def find_master(self, broker_name: str) -> str | None:
        """The address of a broker that can be written to."""
        return self._brokers.get(broker_name, {}).get(MASTER_ID)

    def find_reader(
        self, broker_name: str, broker_id: int = 0, *, only_this: bool = False
    ) -> tuple[int, str] | None:
        """The id and address of a broker to read from."""
        return routes.reading_address(
            self._brokers.get(broker_name, {}), broker_id, only_this=only_this
        )

    def find_publish(self, topic: str) -> PublishRoute | None:
        """The queues to send to, if they are known and there are any."""
        return self._publish.get(topic)

    def find_subscribe(self, topic: str) -> list[MessageQueue] | None:
        """The readable queues of a topic, sorted, if its route is known."""
        return self._subscribe.get(topic)

    async def publish(self, topic: str, *, default_topic: str, queue_count: int) -> PublishRoute:
        """The queues to send to; a topic that does not exist yet gets the default topic's."""
        found = self._publish.get(topic)
        if found is not None:
            return found
        known = await self.refresh(topic)
        if not known:
            inherited = await self._ask(default_topic)
            if inherited is None:
                raise NoRoute(self._absent(topic, default_topic))
            self._note(topic, routes.inherited(inherited, queue_count))
        found = self._publish.get(topic)
        if found is None:
            raise NoRoute(
                f"topic {topic!r} has no queue that can be written: its brokers"
                f" ({', '.join(self.brokers_of(topic)) or 'none'}) are read-only for it or have"
                " no master; look at it with"
                f" `contrail topic show {topic} -n '{self._name_servers}'`"
            )
        return found

    async def subscribe(self, topic: str) -> list[MessageQueue] | None:
        """The readable queues of a topic, sorted; None while it does not exist."""
        if topic not in self._routes and not await self.refresh(topic):
            return None
        return self._subscribe.get(topic)

    async def refresh(self, topic: str) -> bool:
        """Ask for a route now; whether the topic is known. Raises when nobody answers."""
        asking = self._asking.get(topic)
        if asking is not None:
            return await asyncio.shield(asking)
        asking = self._asking[topic] = asyncio.get_running_loop().create_future()
        try:
            route = await self._ask(topic)
            if route is not None:
                self._note(topic, route)
            asking.set_result(route is not None)
            return route is not None
        except BaseException as error:
            asking.set_exception(error)
            asking.exception()  # those who shared the question fetch it themselves
            raise
        finally:
            del self._asking[topic]

    async def _ask(self, topic: str) -> TopicRouteData | None:
        header = GetRouteInfoRequest(topic=topic, accept_standard_json_only=True)
        request = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        answer = await self._name_servers.ask(request, timeout_s=self._timeout_s)
        if answer.code == ResponseCode.SUCCESS:
            return TopicRouteData.decode(answer.body)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        raise error_of(answer.code, answer.remark)

    def _note(self, topic: str, route: TopicRouteData) -> None:
        old = self._routes.get(topic)
        if old is not None and routes.is_same(old, route):
            return
        self._routes.pop(topic, None)
        self._routes[topic] = route  # last, so that the newest route has the last word below
        self._brokers = {
            broker.broker_name: dict(broker.broker_addrs)
            for known in self._routes.values()
            for broker in known.broker_datas
        }  # a broker that is in no route any more is forgotten
        published = routes.publish_route(topic, route)
        if published.queues:
            self._publish[topic] = published
        else:
            self._publish.pop(topic, None)
        self._subscribe[topic] = routes.subscribe_queues(topic, route)
        log.info("route changed topic=%s brokers=%s", topic, self.brokers_of(topic))
        if self.on_change is not None:
            self.on_change(topic)

    def _absent(self, topic: str, default_topic: str) -> str:
        return (
            f"no route for topic {topic!r} at {self._name_servers}: the topic does not exist there"
            f" and automatic creation is off (no route for {default_topic} either), or no broker"
            " has registered; create it with"
            f" `contrail topic create {topic} -n '{self._name_servers}'`"
        )
