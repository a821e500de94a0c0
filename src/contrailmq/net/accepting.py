"""A listening port whose connections are accepted as long as there is room for them.

A loop's own server accepts whatever comes, and closing a connection again is all its owner can do.
Here the listening sockets are read by the owner of the room: up to ``ACCEPTS_A_TURN`` connections
per turn of the loop and, when there is no room, none.  Peers then wait in the system's backlog
until a connection ends.  A process that has no descriptor left pauses in the same way.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from contrailmq.lifecycle import Tasks

log = logging.getLogger(__name__)

ACCEPTS_A_TURN: Final = 32
RETRY_S: Final = 0.5  # after the system had no descriptor or no memory for a connection
HANDSHAKE_S: Final = 10.0
_SHORTAGE: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
Factory = Callable[[], asyncio.BaseProtocol]


def unlimited() -> int:
    """Room for any number of connections."""
    return 1 << 30


class AcceptingListener:
    """Listening sockets of the running loop.

    ``room`` tells how many further connections the owner would take.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        factory: Factory,
        *,
        tls: ssl.SSLContext | None,
        room: Callable[[], int],
    ) -> None:
        self._sockets = sockets
        self._factory = factory
        self._tls = tls
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._pending = 0
        self._is_paused = True
        self._is_closed = False
        self._retry: asyncio.TimerHandle | None = None
        self.port: int = sockets[0].getsockname()[1]
        self.resume()

    @property
    def is_paused(self) -> bool:
        """Whether no connection is accepted for now."""
        return self._is_paused

    def resume(self) -> None:
        """There may be room again."""
        if self._is_paused and not self._is_closed and self._room() > self._pending:
            self._is_paused = False
            for listening in self._sockets:
                self._loop.add_reader(listening.fileno(), self._accept, listening)

    def close(self) -> None:
        """Take no more connections."""
        if self._is_closed:
            return
        self._pause()
        self._is_closed = True
        if self._retry is not None:
            self._retry.cancel()
        for listening in self._sockets:
            listening.close()

    async def wait_closed(self) -> None:
        """Return when every connection that was accepted is its protocol's."""
        await self._tasks.aclose(drain_s=0.1)

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            for listening in self._sockets:
                self._loop.remove_reader(listening.fileno())

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_A_TURN):
            if self._room() <= self._pending:  # those accepted and not yet made count too
                self._pause()
                return
            try:
                taken, _ = listening.accept()
            except OSError as error:
                if error.errno in _SHORTAGE:
                    self._run_short(error)
                return
            taken.setblocking(False)
            if taken.family in (socket.AF_INET, socket.AF_INET6):
                taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pending += 1
            self._tasks.start(self._make(taken), name="accepted")

    async def _make(self, taken: socket.socket) -> None:
        loop = self._loop
        try:
            if self._tls is None:
                await loop.connect_accepted_socket(self._factory, sock=taken)
            else:
                await loop.connect_accepted_socket(
                    self._factory, sock=taken, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_S
                )
        except (OSError, TimeoutError) as error:
            log.debug("connection was not made: error=%s", error)
            taken.close()
        finally:
            self._pending -= 1
            self.resume()

    def _run_short(self, error: OSError) -> None:
        """Wait a moment: what is short belongs to the whole process, or to the machine."""
        self._pause()
        log.error(
            "no connection is accepted for now: error=%s retry_s=%s; raise the limit of open files "
            "(ulimit -n) or lower netConnectionsMax",
            error,
            RETRY_S,
        )
        self._retry = self._loop.call_later(RETRY_S, self.resume)


async def bound_sockets(host: str, port: int, *, backlog: int) -> list[socket.socket]:
    """Sockets that listen on every address of ``host``; raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.setblocking(False)
            listening.bind(address)
            listening.listen(backlog)
    except BaseException:
        for listening in sockets:
            listening.close()
        raise
    return sockets
