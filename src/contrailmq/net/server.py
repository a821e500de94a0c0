"""A listening port whose connections are served by one dispatcher."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from contrailmq.clock import Clock
from contrailmq.net.budget import MemoryBudget
from contrailmq.net.connection import Connection
from contrailmq.net.descriptors import Descriptors
from contrailmq.net.dispatch import Dispatcher
from contrailmq.net.endpoint import Endpoint, FastLane
from contrailmq.net.front import Front, Hosts, Porter
from contrailmq.net.meter import Meter
from contrailmq.net.network import AsyncioNetwork, Listener, Network
from contrailmq.net.noise import Noise
from contrailmq.net.settings import Lane, ServerSettings
from contrailmq.net.tls import ServerTls

log = logging.getLogger(__name__)


class Server:
    """Takes connections and answers their requests until closed.

    ``lanes`` says which request code belongs to which lane (ADMIN if it says nothing); ``lane`` is
    the compiled fast lane.  ``on_open`` is called with each new connection.  Servers of one process
    share ``descriptors`` and ``budget``.  ``tls`` and ``proxies``, addresses whose PROXY lines are
    believed, put a porter before each connection.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        settings: ServerSettings,
        *,
        clock: Clock,
        network: Network | None = None,
        lane: FastLane[Connection] | None = None,
        lanes: Mapping[int, Lane] | None = None,
        on_open: Callable[[Connection], None] | None = None,
        descriptors: Descriptors | None = None,
        budget: MemoryBudget | None = None,
        tls: ServerTls | None = None,
        proxies: Hosts | None = None,
    ) -> None:
        self._settings = settings
        self._descriptors = descriptors
        self._on_open = on_open
        self._network: Network = network if network is not None else AsyncioNetwork()
        self._endpoint: Endpoint[Connection] = Endpoint(
            dispatcher,
            settings.limits(),
            noise=Noise(clock),
            lanes=lanes,
            lane=lane,
            connections_max=settings.connections_max,
            on_open=self._opened,
        )
        self._endpoint.on_gone = self._gone
        self._endpoint.budget = budget or MemoryBudget(settings.memory_size_max)
        self._listener: Listener | None = None
        self.front: Front | None = None
        if tls is not None or proxies is not None:
            self.front = Front(
                lambda source: Connection(self._endpoint, source),
                tls=tls,
                proxies=proxies,
                noise=Noise(clock, interval_ms=60_000),
                idle_s=float(settings.idle_s),
                waiting_max=settings.connections_max,
            )

    @property
    def port(self) -> int:
        """The port listened on, also where the operating system chose it."""
        assert self._listener is not None, "the server has not started"
        return self._listener.port

    @property
    def connections(self) -> list[Connection]:
        """The open connections, oldest first."""
        return list(self._endpoint.connections)

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._endpoint.connections)

    def measure(self, meter: Meter) -> None:
        """Tell ``meter`` of every request from now on."""
        self._endpoint.meter = meter

    async def start(self, host: str, port: int) -> None:
        """Listen; raises OSError when the address is taken. Port 0 lets the system choose."""
        if self._descriptors is None:
            self._descriptors = Descriptors()
        front = self.front

        def plain() -> asyncio.BaseProtocol:
            return Connection(self._endpoint)

        self._listener = await self._network.listen(
            plain if front is None else lambda: Porter(front),
            host,
            port,
            backlog=self._settings.backlog,
            room=self._room,
        )
        log.info("listening: host=%s port=%s", host, self._listener.port)

    async def aclose(self) -> None:
        """Stop listening, let requests under way be answered for a moment, close, await all."""
        if self._listener is not None:
            self._listener.close()
        if self.front is not None:
            self.front.close()
        await drain(self._endpoint, drain_s=self._settings.drain_ms / 1000)
        self._endpoint.close_turns()
        if self._endpoint.budget is not None:
            self._endpoint.budget.close()
        if self._listener is not None:
            await self._listener.wait_closed()

    def _room(self) -> int:
        """How many further connections the descriptors of the process allow."""
        assert self._descriptors is not None
        room = self._descriptors.room()
        if room <= 0:
            self._descriptors.wait(self._resume)
        return room

    def _resume(self) -> None:
        if self._listener is not None:
            self._listener.resume()

    def _opened(self, connection: Connection) -> None:
        descriptors = self._descriptors
        assert descriptors is not None
        descriptors.take()
        if self._on_open is not None:
            self._on_open(connection)

    def _gone(self) -> None:
        assert self._descriptors is not None
        self._descriptors.give_back()


async def drain(endpoint: Endpoint[Connection], *, drain_s: float) -> None:
    """Close every connection of an endpoint: finish, flush, close, and abort what lingers."""
    for connection in list(endpoint.connections):
        connection.stop_reading()
    if endpoint.awaited:  # requests held until ``reply``, such as long polls, are not waited for
        await asyncio.wait(list(endpoint.awaited), timeout=drain_s)
    await endpoint.tasks.aclose()
    connections = list(endpoint.connections)
    for connection in connections:
        connection.close("closing down")
    if not connections:
        return
    waits = [endpoint.tasks.start(connection.wait_closed()) for connection in connections]
    _, late = await asyncio.wait(waits, timeout=max(drain_s, 0.1))
    if late:
        for connection in connections:
            connection.abort("closing down")
        await asyncio.wait(waits)
