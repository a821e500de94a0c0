"""The outside world as an argument: how connections are made and taken.

``AsyncioNetwork`` uses the running loop's sockets.  Simulations put another ``Network`` in its
place and run servers and clients unchanged.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final, Protocol

EARS: Final = 32
Factory = Callable[[], asyncio.BaseProtocol]


class Listener(Protocol):
    """A port that is listened on."""

    @property
    def port(self) -> int:
        """The port, also where the operating system chose it."""
        ...

    def close(self) -> None:
        """Take no more connections; those taken stay."""
        ...

    async def wait_closed(self) -> None:
        """Return when the port is free again."""
        ...


class Network(Protocol):
    """Where connections come from."""

    async def connect(self, factory: Factory, host: str, port: int) -> asyncio.BaseProtocol:
        """Connect the protocol ``factory`` makes; raises OSError. The name is resolved anew."""
        ...

    async def listen(
        self, factory: Factory, host: str, port: int, *, backlog: int = 1024
    ) -> Listener:
        """Make a protocol for each connection to ``host:port``; raises OSError."""
        ...


class AsyncioListener:
    """A listening socket of the running loop, with as many ears as there are ``servers``."""

    def __init__(self, servers: list[asyncio.Server], port: int) -> None:
        self._servers = servers
        self._port = port

    @property
    def port(self) -> int:
        """The port listened on."""
        return self._port

    async def add_ears(self, factory: Factory, *, backlog: int, tls: ssl.SSLContext | None) -> None:
        """Take up to ``EARS`` connections in one turn of a loop that takes one a socket.

        Each ear is another descriptor of the same socket.  With one alone, connections that come
        together would wait, one turn each, behind the requests of those that were taken before.
        """
        loop = asyncio.get_running_loop()
        for shared in list(self._servers[0].sockets) * (EARS - 1):
            ear = socket.socket(fileno=os.dup(shared.fileno()))
            try:
                server = await loop.create_server(factory, sock=ear, backlog=backlog, ssl=tls)
            except BaseException:
                ear.close()
                self.close()
                raise
            self._servers.append(server)

    def close(self) -> None:
        """Take no more connections."""
        for server in self._servers:
            server.close()

    async def wait_closed(self) -> None:
        """Return when the loop has let go of the socket."""
        for server in self._servers:
            await server.wait_closed()


class AsyncioNetwork:
    """Sockets of the running loop. TCP_NODELAY is set by the loop itself (asyncio and uvloop).

    ``client_tls`` makes every connection we make speak TLS, ``server_tls`` every one we take.
    """

    def __init__(
        self,
        *,
        client_tls: ssl.SSLContext | None = None,
        server_tls: ssl.SSLContext | None = None,
    ) -> None:
        self._client_tls = client_tls
        self._server_tls = server_tls

    async def connect(self, factory: Factory, host: str, port: int) -> asyncio.BaseProtocol:
        """Connect over TCP; every call asks the resolver again."""
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(factory, host, port, ssl=self._client_tls)
        return protocol

    async def listen(
        self, factory: Factory, host: str, port: int, *, backlog: int = 1024
    ) -> AsyncioListener:
        """Listen on TCP; port 0 lets the operating system choose."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            factory, host, port, backlog=backlog, reuse_address=True, ssl=self._server_tls
        )
        listener = AsyncioListener([server], server.sockets[0].getsockname()[1])
        if not isinstance(loop, asyncio.BaseEventLoop):  # uvloop takes one in each turn
            await listener.add_ears(factory, backlog=backlog, tls=self._server_tls)
        return listener
