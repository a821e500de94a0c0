"""The outside world as an argument: how connections are made and taken.

``AsyncioNetwork`` uses the running loop's sockets.  Simulations put another ``Network`` in its
place and run servers and clients unchanged.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol

from contrailmq.net.accepting import AcceptingListener, Factory, bound_sockets, unlimited


class Listener(Protocol):
    """A port that is listened on."""

    @property
    def port(self) -> int:
        """The port, also where the operating system chose it."""
        ...

    def resume(self) -> None:
        """There may be room for connections again, after there was none."""
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
        self,
        factory: Factory,
        host: str,
        port: int,
        *,
        backlog: int = 1024,
        room: Callable[[], int] = unlimited,
    ) -> Listener:
        """Make a protocol for each connection to ``host:port``; raises OSError.

        ``room`` tells how many further connections may be taken; the others wait.
        """
        ...


class AsyncioNetwork:
    """Sockets of the running loop. TCP_NODELAY is set by the loop, or where one is accepted.

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
        self,
        factory: Factory,
        host: str,
        port: int,
        *,
        backlog: int = 1024,
        room: Callable[[], int] = unlimited,
    ) -> AcceptingListener:
        """Listen on TCP; port 0 lets the operating system choose."""
        sockets = await bound_sockets(host, port, backlog=backlog)
        return AcceptingListener(sockets, factory, tls=self._server_tls, room=room)
