"""A real network with switches: refuse connections, delay what comes in, or lose it.

``FaultyNetwork`` stands between a server and its sockets.  The switches act on everything that
server listens on, at once, and on connections that are already open.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any, cast

from contrailmq.net.accepting import Factory, unlimited
from contrailmq.net.network import AsyncioNetwork, Listener, Network

_READ_SIZE = 64 * 1024


class Switches:
    """What goes wrong at one server now; ``heal`` ends all of it."""

    def __init__(self) -> None:
        self.refusing = False
        self.dropping = False
        self.delay_s = 0.0
        self._open: weakref.WeakSet[_FaultyProtocol] = weakref.WeakSet()

    def refuse(self) -> None:
        """Break all connections and take no new ones: the server seems to be down."""
        self.refusing = True
        for protocol in list(self._open):
            protocol.abort()

    def drop(self) -> None:
        """Lose all that comes in: the server seems to hang."""
        self.dropping = True

    def delay(self, seconds: float) -> None:
        """Hold back all that comes in for a while: the server is slow."""
        self.delay_s = seconds

    def cut(self) -> None:
        """Break all connections once; new ones are taken."""
        for protocol in list(self._open):
            protocol.abort()

    def heal(self) -> None:
        """Everything works again."""
        self.refusing = self.dropping = False
        self.delay_s = 0.0

    def joined(self, protocol: _FaultyProtocol) -> None:
        """A connection is open."""
        self._open.add(protocol)


class FaultyNetwork:
    """A network whose listeners obey switches; connections made outwards are left alone."""

    def __init__(self, switches: Switches, network: Network | None = None) -> None:
        self._switches = switches
        self._network: Network = network if network is not None else AsyncioNetwork()

    async def connect(self, factory: Factory, host: str, port: int) -> asyncio.BaseProtocol:
        """Connect as ever."""
        return await self._network.connect(factory, host, port)

    async def listen(
        self,
        factory: Factory,
        host: str,
        port: int,
        *,
        backlog: int = 1024,
        room: Callable[[], int] = unlimited,
    ) -> Listener:
        """Listen, with the switches in between."""
        return await self._network.listen(
            lambda: _FaultyProtocol(cast(Any, factory()), self._switches),
            host,
            port,
            backlog=backlog,
            room=room,
        )


class _FaultyProtocol(asyncio.Protocol):
    """Hands bytes on to a server's protocol, unless a switch says otherwise."""

    def __init__(self, inner: Any, switches: Switches) -> None:
        self._inner = inner
        self._switches = switches
        self._transport: asyncio.Transport | None = None
        self._ready_at = 0.0

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._switches.joined(self)
        self._inner.connection_made(transport)
        if self._switches.refusing:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        if self._switches.dropping:
            return
        due = loop.time() + self._switches.delay_s
        if self._switches.delay_s > 0 or self._ready_at > loop.time():
            self._ready_at = max(due, self._ready_at)  # later bytes never overtake earlier ones
            loop.call_at(self._ready_at, self._deliver, data)
        else:
            self._deliver(data)

    def eof_received(self) -> bool | None:
        return cast("bool | None", self._inner.eof_received())

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)

    def _deliver(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            buffer = self._inner.get_buffer(len(view))
            size = min(len(buffer), len(view))
            buffer[:size] = view[:size]
            self._inner.buffer_updated(size)
            view = view[size:]
