"""A listening port that serves gRPC, over TLS and in plain text, to any number of peers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from contrailmq.clock import Clock
from contrailmq.grpc.call import Methods, Unary
from contrailmq.grpc.http2.limits import Http2Limits
from contrailmq.grpc.http2.serving import Awaited, ServerConnection
from contrailmq.lifecycle import Tasks
from contrailmq.net.budget import MemoryBudget
from contrailmq.net.descriptors import Descriptors
from contrailmq.net.front import READ_SIZE, Front, Hosts, Porter
from contrailmq.net.network import AsyncioNetwork, Listener, Network
from contrailmq.net.noise import Noise
from contrailmq.net.tls import ServerTls

log = logging.getLogger(__name__)


class GrpcServer:
    """Takes connections and serves their calls until closed.

    A method that is not in ``methods`` is UNIMPLEMENTED.  With ``tls`` each connection may speak
    TLS or plain text, as its first byte says.  Servers of one process share ``descriptors`` and
    ``budget``; without one this server has its own.
    """

    def __init__(
        self,
        methods: Methods,
        limits: Http2Limits,
        *,
        clock: Clock,
        network: Network | None = None,
        descriptors: Descriptors | None = None,
        budget: MemoryBudget | None = None,
        tls: ServerTls | None = None,
        proxies: Hosts | None = None,
    ) -> None:
        self.limits = limits
        self.budget: MemoryBudget | None = budget or MemoryBudget(limits.memory_size_max)
        self.view = memoryview(bytearray(READ_SIZE))  # every read is handled before the next
        self.unary: dict[str, Any] = {}
        self.streaming: dict[str, Any] = {}
        for path, method in methods.items():
            table = self.unary if isinstance(method, Unary) else self.streaming
            table[path] = method.handler
        self.tasks = Tasks()
        self.awaited = Awaited()
        self._noise = Noise(clock)
        self._network: Network = network if network is not None else AsyncioNetwork()
        self._descriptors = descriptors
        self._connections: dict[ServerConnection, None] = {}
        self._listener: Listener | None = None
        self.front: Front | None = None
        if tls is not None or proxies is not None:
            self.front = Front(
                lambda source: ServerConnection(self, source),
                tls=tls,
                proxies=proxies,
                noise=Noise(clock, interval_ms=60_000),
                idle_s=limits.idle_s,
                waiting_max=limits.connections_max,
            )

    @property
    def port(self) -> int:
        """The port listened on, also where the operating system chose it."""
        assert self._listener is not None, "the server has not started"
        return self._listener.port

    @property
    def connections(self) -> list[ServerConnection]:
        """The open connections, oldest first."""
        return list(self._connections)

    async def start(self, host: str, port: int) -> None:
        """Listen; raises OSError when the address is taken. Port 0 lets the system choose."""
        if self._descriptors is None:
            self._descriptors = Descriptors()
        front = self.front

        def plain() -> asyncio.BaseProtocol:
            return ServerConnection(self)

        self._listener = await self._network.listen(
            plain if front is None else lambda: Porter(front),
            host,
            port,
            backlog=self.limits.backlog,
            room=self._room,
        )
        log.info("listening for gRPC: host=%s port=%s", host, self._listener.port)

    async def aclose(self) -> None:
        """Stop listening, let calls under way end for a moment, close, await all.

        Each peer is told twice: first that it should go, then which of its calls was the last.
        """
        if self._listener is not None:
            self._listener.close()
        if self.front is not None:
            self.front.close()
        for connection in self.connections:
            connection.leave()
        await self.awaited.drain(self.limits.drain_s)
        await self.tasks.aclose()
        left = self.connections
        for connection in left:
            connection.finish("closing down")
        if left:
            waits = [self.tasks.start(connection.wait_closed()) for connection in left]
            _, late = await asyncio.wait(waits, timeout=max(self.limits.drain_s, 0.1))
            if late:
                for connection in left:
                    connection.abort("closing down")
                await asyncio.wait(waits)
        if self.budget is not None:
            self.budget.close()
        if self._listener is not None:
            await self._listener.wait_closed()

    # -- what connections call

    def complain(self, peer: str, reason: str) -> None:
        """Say why a connection is closed, once in a while per host."""
        held_back = self._noise.held_back(peer.rpartition(":")[0])
        if held_back is not None:
            log.warning("connection closed: peer=%s reason=%s similar=%s", peer, reason, held_back)

    def opened(self, connection: ServerConnection) -> str | None:
        """A connection is there; a text refuses it."""
        assert self._descriptors is not None
        self._descriptors.take()
        self._connections[connection] = None
        if len(self._connections) > self.limits.connections_max:
            return f"{len(self._connections)} connections, at most {self.limits.connections_max}"
        return None

    def ended(self, connection: ServerConnection) -> None:
        """A connection is over."""
        if connection in self._connections:
            del self._connections[connection]
            assert self._descriptors is not None
            self._descriptors.give_back()

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
