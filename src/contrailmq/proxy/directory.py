"""What a proxy knows of its cluster: routes, kinds of topics, groups; asked again after a while."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from contrailmq.clock import Clock
from contrailmq.errors import (
    BrokerError,
    CodeNotSupported,
    NetworkError,
    NoRoute,
    TopicNotExist,
    error_of,
)
from contrailmq.grpc.codes import Code, Refusal
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.bodies.route import TopicRouteData
from contrailmq.protocol.bodies.topic import PERM_READ, PERM_WRITE, TopicConfig
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.header import RpcRequest
from contrailmq.protocol.headers.group import GetSubscriptionGroupConfigRequest
from contrailmq.protocol.headers.route import GetRouteInfoRequest
from contrailmq.protocol.headers.topic import GetTopicConfigRequest
from contrailmq.protocol.names import MASTER_ID

KEPT_MS: Final = 20_000
KEPT_MAX: Final = 10_000  # answers of each kind; beyond, all are asked for again
TIMEOUT_S: Final = 3.0
NORMAL: Final = "NORMAL"


class Kept:
    """Answers that stay true for a while. Bounded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[str, tuple[int, Any]] = {}

    def find(self, name: str) -> Any:
        """What was noted, or None."""
        found = self._found.get(name)
        if found is None or self._clock.monotonic_ms() - found[0] >= KEPT_MS:
            return None
        return found[1]

    def note(self, name: str, value: Any) -> None:
        """Remember an answer."""
        if len(self._found) >= KEPT_MAX:
            self._found.clear()
        self._found[name] = (self._clock.monotonic_ms(), value)


class Directory:
    """Where topics are, and what they and the groups are."""

    def __init__(
        self, client: RemotingClient, name_servers: Sequence[str], *,
        clock: Clock, rng: random.Random,
    ) -> None:  # fmt: skip
        self.client = client
        self._name_servers = list(name_servers)
        self._rng = rng
        self._routes = Kept(clock)
        self._types = Kept(clock)
        self._groups = Kept(clock)
        self._addresses: dict[str, str] = {}  # of primaries by broker name, as routes said
        self._turn = rng.randrange(1000)

    @property
    def primaries(self) -> dict[str, str]:
        """The addresses of all primaries that a route has named."""
        return dict(self._addresses)

    def name_of(self, address: str) -> str:
        """The broker name of a primary's address; empty if none has it."""
        return next((name for name, at in self._addresses.items() if at == address), "")

    async def ask(
        self, address: str, code: RequestCode, header: RpcRequest, *,
        body: bytes = b"", timeout_s: float = TIMEOUT_S,
    ) -> Command:  # fmt: skip
        """Ask a server; raises its refusal, or NetworkError."""
        command = Command.request(code, header, body=body)
        answer = await self.client.call(address, command, timeout_s=timeout_s)
        if answer.code != 0:
            raise error_of(answer.code, answer.remark)
        return answer

    async def route(self, topic: str) -> TopicRouteData:
        """Where a topic is; raises TopicNotExist."""
        found = self._routes.find(topic)
        if isinstance(found, TopicRouteData):
            return found
        header = GetRouteInfoRequest(topic=topic, accept_standard_json_only=True)
        fault: NetworkError | None = None
        for address in self._name_servers:
            try:
                answer = await self.ask(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
            except NetworkError as error:
                fault = error
                continue
            route = TopicRouteData.decode(answer.body)
            self._routes.note(topic, route)
            for broker in route.broker_datas:
                primary = broker.broker_addrs.get(MASTER_ID)
                if primary is not None:
                    self._addresses[broker.broker_name] = primary
            return route
        raise fault or NoRoute("no name server is configured")

    async def message_type(self, topic: str) -> str:
        """A topic's kind; NORMAL at brokers that know no attributes."""
        found = self._types.find(topic)
        if isinstance(found, str):
            return found
        address = await self._any_primary(topic)
        kind = NORMAL
        try:
            header = GetTopicConfigRequest(topic=topic)
            answer = await self.ask(address, RequestCode.GET_TOPIC_CONFIG, header)
            kind = TopicConfig.decode(answer.body).attributes.get("message.type", NORMAL)
        except CodeNotSupported:
            pass  # a broker of 4.9
        self._types.note(topic, kind)
        return kind

    async def find_group(self, group: str) -> SubscriptionGroupConfig | None:
        """A group's configuration at the first primary that has it."""
        found = self._groups.find(group)
        if isinstance(found, SubscriptionGroupConfig):
            return found
        for address in self.primaries.values():
            try:
                header = GetSubscriptionGroupConfigRequest(group=group)
                answer = await self.ask(address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
            except (BrokerError, NetworkError):
                continue
            config = SubscriptionGroupConfig.decode(answer.body)
            self._groups.note(group, config)
            return config
        return None

    async def writable(self, topic: str) -> list[tuple[str, str, int]]:
        """Every queue a message can go to: broker, address and number; refuses if there is none."""
        route = await self.route(topic)
        found = [
            (queues.broker_name, self._addresses[queues.broker_name], number)
            for queues in sorted(route.queue_datas, key=lambda each: each.broker_name)
            if queues.perm & PERM_WRITE and queues.broker_name in self._addresses
            for number in range(queues.write_queue_nums)
        ]
        if not found:
            raise Refusal(Code.FORBIDDEN, "no writable queue")
        return found

    async def readable(self, topic: str, broker_name: str) -> tuple[str, str]:
        """The broker to receive from: the one that was named, else one after another."""
        route = await self.route(topic)
        names = [
            queues.broker_name
            for queues in route.queue_datas
            if queues.perm & PERM_READ and queues.broker_name in self._addresses
        ]
        if broker_name in names:
            return broker_name, self._addresses[broker_name]
        if not names:
            raise Refusal(Code.FORBIDDEN, "no readable queue")
        self._turn += 1
        name = names[self._turn % len(names)]
        return name, self._addresses[name]

    async def address_of(self, broker_name: str, topic: str) -> str:
        """The primary of a broker name; refuses one that no route has."""
        if broker_name not in self._addresses:
            await self.route(topic)
        found = self._addresses.get(broker_name)
        if found is None:
            raise Refusal(Code.BAD_REQUEST, f"broker {broker_name!r} is not known here")
        return found

    async def _any_primary(self, topic: str) -> str:
        route = await self.route(topic)
        for queues in route.queue_datas:
            address = self._addresses.get(queues.broker_name)
            if address is not None:
                return address
        raise TopicNotExist(f"no primary has topic[{topic}] now")
