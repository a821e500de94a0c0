"""How an administrator reaches name servers and brokers; the families of calls build on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from contrailmq.client.access import name_server_list
from contrailmq.client.acl import sign
from contrailmq.client.name_servers import NameServers
from contrailmq.client.settings import ClientSettings, World, network_of
from contrailmq.errors import ClientError, NetworkError, NoRoute, TopicNotExist, error_of
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.bodies.route import BrokerData, ClusterInfo, TopicRouteData
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.header import Header
from contrailmq.protocol.headers.route import GetRouteInfoRequest
from contrailmq.protocol.names import MASTER_ID

log = logging.getLogger(__name__)

T = TypeVar("T")
CALL_TIMEOUT_S: Final = 5.0


class AdminCaller:
    """A connection to a cluster: ``async with`` it, or await ``aclose`` at the end.

    Every call raises a BrokerError for an answer other than SUCCESS and a NetworkError when there
    is none.  Requests are signed when the settings hold credentials.
    """

    def __init__(
        self,
        name_servers: str | Sequence[str] | None = None,
        *,
        settings: ClientSettings | None = None,
        world: World | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        self.settings = settings if settings is not None else ClientSettings()
        self.world = world if world is not None else World()
        self.timeout_s = timeout_s
        self._remoting = RemotingClient(
            self.settings.net,
            clock=self.world.clock,
            network=network_of(self.settings, self.world),
            rng=self.world.rng,
        )
        self.name_servers = NameServers(
            name_server_list(name_servers), caller=self, rng=self.world.rng
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._remoting.aclose()

    async def call(self, address: str, command: Command, *, timeout_s: float) -> Command:
        """The answer, whatever its code; raises a NetworkError."""
        command.serialization = self.settings.serialization
        if self.settings.credentials is not None:
            sign(command, self.settings.credentials)
        return await self._remoting.call(address, command, timeout_s=timeout_s)

    async def ask(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        *,
        body: bytes = b"",
        timeout_s: float | None = None,
    ) -> Command:
        """The answer of one server if it is SUCCESS; raises the BrokerError of any other code."""
        command = Command.request(code, header, body=body)
        return self.check(await self.call(address, command, timeout_s=timeout_s or self.timeout_s))

    def check(self, answer: Command) -> Command:
        """The same answer if it is SUCCESS; raises the BrokerError of any other code."""
        if answer.code != 0:
            raise error_of(answer.code, answer.remark)
        return answer

    async def ask_name_server(
        self, code: RequestCode, header: Header | None = None, *, body: bytes = b""
    ) -> Command:
        """The answer of the first name server that can be reached; raises if it is a refusal."""
        command = Command.request(code, header, body=body)
        return self.check(await self.name_servers.ask(command, timeout_s=self.timeout_s))

    async def ask_name_servers(
        self, code: RequestCode, header: Header | None = None, *, body: bytes = b""
    ) -> dict[str, Command]:
        """The answers of all name servers, by address; the first failure is raised."""
        addresses = self.name_servers.addresses
        if not addresses:
            raise ClientError("no name server is known: give one, or set NAMESRV_ADDR")
        answers = await asyncio.gather(
            *(self.ask(address, code, header, body=body) for address in addresses)
        )
        return dict(zip(addresses, answers, strict=True))

    async def cluster_info(self) -> ClusterInfo:
        """All clusters and brokers."""
        answer = await self.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        return ClusterInfo.decode(answer.body)

    async def broker_list(self, cluster: str | None = None) -> list[BrokerData]:
        """Return the brokers of a cluster, or of all, by name; an unknown cluster is an error."""
        info = await self.cluster_info()
        if cluster is None:
            names = sorted(info.broker_addr_table)
        elif cluster in info.cluster_addr_table:
            names = sorted(info.cluster_addr_table[cluster])
        else:
            known = ", ".join(sorted(info.cluster_addr_table)) or "none"
            raise ClientError(f"no cluster [{cluster}]; there is {known}")
        return [info.broker_addr_table[name] for name in names if name in info.broker_addr_table]

    async def masters(self, cluster: str | None = None) -> dict[str, str]:
        """Broker name to the address of its master, of a cluster or of all."""
        return {
            data.broker_name: data.broker_addrs[MASTER_ID]
            for data in await self.broker_list(cluster)
            if MASTER_ID in data.broker_addrs
        }

    async def ask_masters(
        self, ask: Callable[[str], Awaitable[T]], cluster: str | None = None
    ) -> dict[str, T]:
        """Ask every master by its address. Returns the answers by broker name.

        A broker that cannot be reached is named in the log and left out; if none can, its error is
        raised.
        """
        found: dict[str, T] = {}
        failure: NetworkError | None = None
        for name, address in (await self.masters(cluster)).items():
            try:
                found[name] = await ask(address)
            except NetworkError as error:
                log.warning("broker %s does not answer and is left out: %s", name, error)
                failure = error
        if failure is not None and not found:
            raise failure
        return found

    async def address_of(self, broker_name: str) -> str:
        """The address of a broker's master, or of its member with the smallest id."""
        info = await self.cluster_info()
        data = info.broker_addr_table.get(broker_name)
        if data is None or not data.broker_addrs:
            known = ", ".join(sorted(info.broker_addr_table)) or "none"
            raise ClientError(f"no broker [{broker_name}]; there is {known}")
        return data.broker_addrs[min(data.broker_addrs)]

    async def route(self, topic: str) -> TopicRouteData:
        """Where a topic lives; raises NoRoute when no broker has it."""
        header = GetRouteInfoRequest(topic=topic)
        try:
            answer = await self.ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        except TopicNotExist as error:
            raise NoRoute(f"no broker has the topic [{topic}]") from error
        return TopicRouteData.decode(answer.body)

    async def masters_of(self, topic: str) -> dict[str, str]:
        """Broker name to address of the brokers that have a topic, masters where there are any."""
        return {
            data.broker_name: data.broker_addrs[min(data.broker_addrs)]
            for data in (await self.route(topic)).broker_datas
            if data.broker_addrs
        }
