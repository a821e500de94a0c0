"""One client's life with its cluster: identity, connections, routes, heartbeats.

Theory of operation.  A session belongs to one producer or consumer, the *member*.  It keeps the
routes of all topics the member asked for fresh, tells every broker in them that the member lives,
and at once when a connection is new: a broker forgets a client whose connection ends.  Everything
a broker asks of the client comes in through ``handlers``.

``start`` contacts nobody but checks that somebody could be; the first question brings the first
connection.  ``aclose`` unregisters and then closes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from contrailmq.client import routes
from contrailmq.client.access import name_server_list, places
from contrailmq.client.acl import sign
from contrailmq.client.crew import Crew
from contrailmq.client.name_servers import NameServers, discover
from contrailmq.client.route_book import RouteBook
from contrailmq.client.settings import ClientSettings, World, network_of
from contrailmq.errors import ClientError, ContrailError, NetworkError, error_of
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Handler
from contrailmq.net.endpoint import FastLane
from contrailmq.protocol.bodies.heartbeat import HeartbeatData
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.client import UnregisterClientRequest
from contrailmq.protocol.hosts import split_address
from contrailmq.protocol.names import MASTER_ID

log = logging.getLogger(__name__)

_DISCOVERY_FIRST_S: Final = 10.0
_UNREGISTER_TIMEOUT_S: Final = 3.0


class Remote(Protocol):
    """What carries requests to addresses: remoting, or a bridge to gRPC."""

    async def call(self, address: str, command: Command, *, timeout_s: float) -> Command:
        """The answer, whatever its code; raises a NetworkError."""
        ...

    async def oneway(self, address: str, command: Command, *, timeout_s: float) -> None:
        """Send a request nobody answers."""
        ...

    def find_connection(self, address: str) -> Connection | None:
        """The open connection to an address, if there is one now."""
        ...

    def drop(self, address: str, reason: str) -> None:
        """Close the connection to an address."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class Session:
    """Connections, routes and heartbeats of one member."""

    def __init__(
        self,
        name: str,
        *,
        name_servers: str | Sequence[str] | None,
        settings: ClientSettings,
        world: World,
        stable_id: bool = False,
        endpoints: str | Sequence[str] | None = None,
    ) -> None:
        self.settings = settings
        self.world = world
        self.client_ip = settings.client_ip or ""
        self.crew = Crew(name)
        self.versions: dict[str, int] = {}  # what each broker's last heartbeat answer spoke
        self._handlers: dict[int, Handler] = {}
        self._remoting: Remote | None = None
        self._over_grpc = endpoints is not None
        self._given = places(name_servers, endpoints)
        self._stable_id = stable_id
        self._beat: Callable[[], HeartbeatData | None] | None = None
        self._beat_again = asyncio.Event()
        self.client_id = ""
        self.name_servers = NameServers(self._given, caller=self, rng=world.rng)
        self.routes = RouteBook(self.name_servers, timeout_s=settings.call_timeout_s)

    async def start(
        self,
        handlers: Mapping[int, Handler],
        *,
        beat: Callable[[], HeartbeatData | None],
        lane: FastLane[Connection] | None = None,
    ) -> None:
        """Find the name servers and begin the periodic duties; ``beat`` says who we are."""
        self._handlers.update(handlers)
        self._beat = beat
        if not self._given:
            await self._discover()
        self.client_ip = self.client_ip or local_ip(self.name_servers.addresses)
        self.client_id = self._make_id()
        self._remoting = (
            self._bridge()
            if self._over_grpc
            else RemotingClient(
                self.settings.net,
                handlers=self._handlers,
                network=network_of(self.settings, self.world),
                clock=self.world.clock,
                rng=self.world.rng,
                on_open=self._on_open,
                lane=lane,
            )
        )
        self.crew.start(self._keep_routes(), name="routes")
        self.crew.start(self._keep_alive(), name="heartbeats")
        if not self._given:
            self.crew.start(self._keep_discovering(), name="discovery")

    async def aclose(self, *, producer_group: str = "", consumer_group: str = "") -> None:
        """Stop the duties, leave the groups at every broker, close the connections."""
        await self.crew.aclose()
        if self._remoting is None:
            return
        try:
            await self._unregister(producer_group or None, consumer_group or None)
        finally:
            await self._remoting.aclose()

    # -- calls

    async def call(self, address: str, command: Command, *, timeout_s: float) -> Command:
        """The answer, whatever its code; raises a NetworkError."""
        if self._remoting is None:
            raise ClientError("the client is not started; use `async with`, or await start()")
        self.sign(command)
        return await self._remoting.call(address, command, timeout_s=timeout_s)

    async def ask(
        self, address: str, command: Command, *, timeout_s: float | None = None
    ) -> Command:
        """The answer if it is SUCCESS; raises the BrokerError of any other code."""
        timeout_s = self.settings.call_timeout_s if timeout_s is None else timeout_s
        answer = await self.call(address, command, timeout_s=timeout_s)
        if answer.code != 0:
            raise error_of(answer.code, answer.remark)
        return answer

    async def oneway(self, address: str, command: Command) -> None:
        """Send a request nobody answers."""
        if self._remoting is None:
            raise ClientError("the client is not started; use `async with`, or await start()")
        self.sign(command)
        await self._remoting.oneway(address, command, timeout_s=self.settings.call_timeout_s)

    def oneway_on(self, connection: Connection, command: Command) -> None:
        """Send a request nobody answers back to whoever asked us something."""
        self.sign(command)
        connection.oneway(command)

    def find_connection(self, address: str) -> Connection | None:
        """The open connection to an address, if there is one now."""
        return self._remoting.find_connection(address) if self._remoting is not None else None

    def writer(self, broker_name: str) -> str:
        """The address to write to a broker; raises when it has no master."""
        address = self.find_writer(broker_name)
        if address is None:
            raise NetworkError(f"broker {broker_name} has no master in the routes known here")
        return address

    def find_writer(self, broker_name: str) -> str | None:
        """The address to write to a broker, if it has a master."""
        address = self.routes.find_master(broker_name)
        if address is None or not self.settings.vip_channel:
            return address
        return routes.vip(address)

    def pick(self, broker_names: Sequence[str]) -> str:
        """One of several brokers, at random; raises when there is none."""
        if not broker_names:
            raise NetworkError("no broker is known for this topic")
        return broker_names[self.world.rng.randrange(len(broker_names))]

    def keeper(self, broker_name: str) -> str:
        """The address for offsets and locks: the master, else any member of the broker."""
        found = self.routes.find_reader(broker_name)
        if found is None:
            raise NetworkError(f"broker {broker_name} is in no route known here")
        return routes.vip(found[1]) if self.settings.vip_channel else found[1]

    def sign(self, command: Command) -> Command:
        """Make a request ours: header encoding and signature. Nothing may change after it."""
        command.serialization = self.settings.serialization
        if self.settings.credentials is not None:
            sign(command, self.settings.credentials)
        return command

    # -- heartbeats

    async def heartbeat(self) -> None:
        """Tell all brokers known now that we are here; failures are logged, not raised."""
        body = self._beat() if self._beat is not None else None
        if body is None:
            return
        all_members = bool(body.consumer_data_set)
        encoded = body.encode()
        addresses = [
            address
            for members in self.routes.brokers().values()
            for broker_id, address in sorted(members.items())
            if all_members or broker_id == MASTER_ID
        ]
        beats = [self._heartbeat_to(address, encoded) for address in dict.fromkeys(addresses)]
        await asyncio.gather(*beats)

    def beat_soon(self) -> None:
        """Send a heartbeat now rather than at the next interval."""
        self._beat_again.set()

    async def introduce(self) -> None:
        """Make sure that every known broker has heard from us."""
        known = (a for members in self.routes.brokers().values() for a in members.values())
        if any(address not in self.versions for address in known):
            await self.heartbeat()

    async def _heartbeat_to(self, address: str, body: bytes) -> None:
        request = Command.request(RequestCode.HEART_BEAT, body=body)
        try:
            answer = await self.ask(address, request)
            self.versions[address] = answer.version
        except ContrailError as error:
            log.warning("heartbeat failed broker=%s error=%s", address, error)

    def _on_open(self, address: str, connection: Connection) -> None:
        # A new connection is a stranger to its broker until it has heard from us on it.
        if address not in self.name_servers.addresses:
            self._beat_again.set()

    async def _keep_alive(self) -> None:
        while True:
            self._beat_again.clear()
            await self.heartbeat()
            await wait_event(self._beat_again, self.settings.heartbeat_interval_s)

    async def _keep_routes(self) -> None:
        while True:
            await asyncio.sleep(self.settings.route_interval_s)
            for topic in self.routes.topics():
                try:
                    await self.routes.refresh(topic)
                except ContrailError as error:
                    log.warning("route not refreshed topic=%s error=%s", topic, error)
                    break

    async def _unregister(self, producer_group: str | None, consumer_group: str | None) -> None:
        addresses = {
            address for members in self.routes.brokers().values() for address in members.values()
        }
        header = UnregisterClientRequest(
            client_id=self.client_id,
            producer_group=producer_group,
            consumer_group=consumer_group,
        )
        assert self._remoting is not None
        known = [a for a in sorted(addresses) if self._remoting.find_connection(a) is not None]
        await asyncio.gather(*(self._unregister_at(address, header) for address in known))

    async def _unregister_at(self, address: str, header: UnregisterClientRequest) -> None:
        try:
            request = Command.request(RequestCode.UNREGISTER_CLIENT, header)
            await self.ask(address, request, timeout_s=_UNREGISTER_TIMEOUT_S)
        except ContrailError as error:
            log.info("not unregistered broker=%s error=%s", address, error)

    def _bridge(self) -> Remote:
        from contrailmq.client.over_grpc.bridge import ALPN, GrpcBridge  # others need none of it

        settings, world = self.settings, self.world
        return GrpcBridge(
            client_id=self.client_id,
            handlers=self._handlers,
            network=network_of(settings, world, alpn=ALPN),
            clock=world.clock,
            rng=world.rng,
            credentials=settings.credentials,
        )

    # -- identity and discovery

    def _make_id(self) -> str:
        settings = self.settings
        name = settings.instance_name
        if name is None:
            unique = f"{os.getpid()}#{self.world.rng.getrandbits(48)}"
            name = "DEFAULT" if self._stable_id else unique
        unit = f"@{settings.unit_name}" if settings.unit_name else ""
        return f"{self.client_ip}@{name}{unit}"

    async def _discover(self) -> None:
        url = self.settings.discovery_url
        if url is None:
            raise ClientError(
                "no name server is known: give name_servers='host:9876', set NAMESRV_ADDR, or set"
                " discovery_url in ClientSettings"
            )
        found = name_server_list(await discover(url, unit_name=self.settings.unit_name))
        before = self.name_servers.addresses
        if found and self.name_servers.replace(found):
            log.info("name servers changed addresses=%s", self.name_servers)
            for address in set(before) - set(found):
                if self._remoting is not None:
                    self._remoting.drop(address, "no longer a name server")

    async def _keep_discovering(self) -> None:
        await asyncio.sleep(_DISCOVERY_FIRST_S)
        while True:
            try:
                await self._discover()
            except ContrailError as error:
                log.warning("discovery failed error=%s", error)
            await asyncio.sleep(self.settings.discovery_interval_s)


async def wait_event(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait until an event is set; False when that took too long."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


def local_ip(peers: Sequence[str]) -> str:
    """The address this machine uses towards the first peer; loopback when it has no network."""
    for peer in peers:
        try:
            host, port = split_address(peer)
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((host, port))
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return "127.0.0.1"
