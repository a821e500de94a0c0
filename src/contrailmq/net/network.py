"""The outside world as an argument: how connections are made and taken.

``AsyncioNetwork`` uses the running loop's sockets.  Simulations put another ``Network`` in its
place and run servers and clients unchanged.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol

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
    """A listening socket of the running loop."""

    def __init__(self, server: asyncio.AbstractServer, port: int) -> None:
        self._server = server
        self._port = port

    @property
    def port(self) -> int:
        """The port listened on."""
        return self._port

    def close(self) -> None:
        """Take no more connections."""
        self._server.close()

    async def wait_closed(self) -> None:
        """Return when the loop has let go of the socket."""
        await self._server.wait_closed()


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
        return AsyncioListener(server, server.sockets[0].getsockname()[1])


def split_address(address: str) -> tuple[str, int]:
    """``host:port`` as its parts; an IPv6 host may have brackets. Raises ValueError."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"address {address!r}: expected host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
