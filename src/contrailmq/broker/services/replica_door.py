"""The door of the HA port: who may connect as a replica, and TLS between brokers of ours.

The original asks nobody: whoever reaches the port gets the log.  Here an address must be in
``haAllowed``.  With access control and no such list it must be the address of a replica that the
name servers know; for an address that is new they are asked, and a replica that is refused
meanwhile comes again.  One that shows a certificate which the server has checked may come from
anywhere.

With ``haTls`` the port serves TLS as ``tls.server.mode`` says, and replicas of ours speak it.  The
first byte decides, so in permissive mode replicas of the original, which cannot, are served too.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, cast

from contrailmq.clock import Clock
from contrailmq.errors import ContrailError
from contrailmq.net.accepting import Factory, unlimited
from contrailmq.net.front import Front, Porter
from contrailmq.net.network import Listener, Network
from contrailmq.net.noise import Noise
from contrailmq.net.tls import ServerTls
from contrailmq.net.tls_transport import names_of
from contrailmq.security.addresses import AddressPatterns

log = logging.getLogger(__name__)

IDLE_S: Final = 20.0
WAITING_MAX: Final = 256
NOISE_MS: Final = 60_000
ASK_S: Final = 1.0


class ReplicaDoor:
    """Decides who may be a replica; ``on_refusal`` is told of each who may not.

    ``members`` asks for the hosts of the replicas that are known.  Without it and without
    ``allowed`` everybody may.
    """

    def __init__(
        self,
        allowed: AddressPatterns | None,
        *,
        clock: Clock,
        members: Callable[[], Awaitable[set[str]]] | None = None,
    ) -> None:
        self._allowed = allowed
        self._members = members
        self._hosts: set[str] = set()
        self._is_wanted = asyncio.Event()
        self._noise = Noise(clock, interval_ms=NOISE_MS)
        self.on_refusal: Callable[[str, str], None] = lambda peer, reason: None

    def admits(self, peer: str, session: ssl.SSLObject | None) -> bool:
        """Whether a peer may have the log."""
        host = peer.rpartition(":")[0]
        if self._allowed is None:
            if self._members is None or host in self._hosts:
                return True
            self._is_wanted.set()
        elif self._allowed.matches(host):
            return True
        if session is not None and names_of(session.getpeercert()):
            return True
        reason = "no replica is known there (haAllowed)"
        self.on_refusal(peer, reason)
        held_back = self._noise.held_back(host)
        if held_back is not None:
            log.warning("replica refused: peer=%s reason=%s similar=%s", peer, reason, held_back)
        return False

    async def run(self) -> None:
        """Ask for the replicas when one comes that is not known, until cancelled."""
        while self._members is not None:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            try:
                self._hosts = await self._members()
            except ContrailError as error:
                log.warning("replicas cannot be asked for: error=%s", error)
            await asyncio.sleep(ASK_S)
        await asyncio.get_running_loop().create_future()


class ReplicaNetwork:
    """A network whose listening side serves TLS, by the first byte of each connection."""

    def __init__(self, inner: Network, tls: ServerTls, *, clock: Clock) -> None:
        self._inner = inner
        self._tls = tls
        self._clock = clock

    async def connect(self, factory: Factory, host: str, port: int) -> asyncio.BaseProtocol:
        """Connect as the network inside does."""
        return await self._inner.connect(factory, host, port)

    async def listen(
        self,
        factory: Factory,
        host: str,
        port: int,
        *,
        backlog: int = 1024,
        room: Callable[[], int] = unlimited,
    ) -> Listener:
        """Listen; a porter stands before each connection."""
        front = Front(
            lambda source: cast(asyncio.BufferedProtocol, factory()),
            tls=self._tls,
            proxies=None,
            noise=Noise(self._clock, interval_ms=NOISE_MS),
            idle_s=IDLE_S,
            waiting_max=WAITING_MAX,
        )
        return await self._inner.listen(
            lambda: Porter(front), host, port, backlog=backlog, room=room
        )
