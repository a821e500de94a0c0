"""What a connection says first: TLS, a PROXY line, or plain frames. Its first byte decides, once.

Theory of operation. A server that serves TLS, or is behind a proxy, gives each new connection to a
``Porter``. Its first byte decides: 0x16 begins a TLS handshake, ``PROXY`` or its binary form is
read when it comes from a named address, everything else is plain. A plain connection is handed
over to the protocol as if the porter had never been there, and costs nothing from then on. Under
TLS the porter stays between the socket and the protocol (``TlsTransport``).

The first byte may come alone, the rest later. A handshake has 10 seconds; at most 64 are under way
at a time, those beyond wait unread. Its arithmetic takes a millisecond, so one step of one
handshake is done per turn of the loop: a crowd of new connections does not stall those that are
there.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, cast

from contrailmq.net.noise import Noise
from contrailmq.net.peer import host_text
from contrailmq.net.proxy_line import ProxyLine, parse_proxy_line
from contrailmq.net.tls import ServerTls
from contrailmq.net.tls_transport import HandshakeFailed, TlsTransport

log = logging.getLogger(__name__)

HANDSHAKE_S: Final = 10.0
HANDSHAKES_MAX: Final = 64
READ_SIZE: Final = 256 * 1024
CLOSING: Final = "closing down"
HELLO: Final = 0x16
PROXY_FIRST: Final = (0x50, 0x0D)  # "P" of PROXY, and the first byte of the binary form


Source = tuple[str, int]
Make = Callable[[Source | None], asyncio.BufferedProtocol]


class Hosts(Protocol):
    """A set of addresses."""

    def matches(self, host: str, /) -> bool:
        """Whether an address is in it."""
        ...


class Front:
    """What the porters of one server share."""

    def __init__(
        self,
        make: Make,
        *,
        tls: ServerTls | None,
        proxies: Hosts | None,
        noise: Noise,
        idle_s: float,
        waiting_max: int,
    ) -> None:
        self.make = make
        self.tls = tls
        self.proxies = proxies
        self.idle_s = idle_s
        self.waiting_max = waiting_max
        self.porters: set[Porter] = set()
        self.shaking = 0
        self.queue: deque[Porter] = deque()
        self._steps: deque[tuple[Porter, bytes]] = deque()  # at most one of each handshake
        self.buffer = bytearray(READ_SIZE)  # every read is handled before the next
        self.view = memoryview(self.buffer)
        self._noise = noise
        self.on_failed: Callable[[str, str], None] = lambda peer, reason: None

    def complain(self, peer: str, reason: str) -> None:
        """Say why a connection is closed before it was one, once in a while per host."""
        self.on_failed(peer, reason)
        held_back = self._noise.held_back(peer.rpartition(":")[0])
        if held_back is not None:
            log.warning("connection closed: peer=%s reason=%s similar=%s", peer, reason, held_back)

    def close(self) -> None:
        """Close what has not yet said what it is."""
        for porter in list(self.porters):
            porter.close(CLOSING)

    def enter(self, porter: Porter) -> bool:
        """Begin a handshake, or wait for one to end."""
        if self.shaking < HANDSHAKES_MAX:
            self.shaking += 1
            return True
        self.queue.append(porter)
        return False

    def step(self, porter: Porter, data: bytes) -> None:
        """Do the next step of a handshake when its turn comes."""
        self._steps.append((porter, data))
        if len(self._steps) == 1:
            asyncio.get_running_loop().call_soon(self._next_step)

    def _next_step(self) -> None:
        porter, data = self._steps[0]
        try:
            porter.go_on(data)
        finally:
            self._steps.popleft()
            if self._steps:
                asyncio.get_running_loop().call_soon(self._next_step)

    def leave(self) -> None:
        """A handshake has ended: the next one may begin."""
        self.shaking -= 1
        while self.queue and self.shaking < HANDSHAKES_MAX:
            waiting = self.queue.popleft()
            if waiting.is_waiting:
                self.shaking += 1
                waiting.begin()


class Porter(asyncio.BufferedProtocol):
    """Stands at the door of one connection until it is known what it speaks."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._kept = b""
        self._transport: asyncio.Transport | None = None
        self._tls: TlsTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._peer = "?"
        self._proxy: ProxyLine | None = None
        self._in_handshake = False
        self._is_gone = False
        self.is_waiting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there."""
        self._transport = cast(asyncio.Transport, transport)
        self._peer = host_text(transport.get_extra_info("peername"))
        front = self._front
        if len(front.porters) >= front.waiting_max:
            front.complain(self._peer, f"{len(front.porters)} connections have said nothing yet")
            self._transport.abort()
            return
        front.porters.add(self)
        self._limit(front.idle_s, f"nothing came for {front.idle_s:g} s")

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._is_gone = True
        self._leave()
        if self._tls is not None:
            self._tls.lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next read goes."""
        return self._front.view

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        data = self._front.view[:nbytes]
        if self._tls is not None and not self.is_waiting:
            if self._in_handshake:
                self._step(bytes(data))
            else:
                self._feed(data)
            return
        self._kept += bytes(data)
        if not self.is_waiting:
            self._decide()

    def eof_received(self) -> bool:
        """The peer sends no more."""
        return False if self._tls is None else self._tls.ended()

    def pause_writing(self) -> None:
        """The peer reads slowly."""
        if self._tls is not None:
            self._tls.pause_writing()

    def resume_writing(self) -> None:
        """The peer has caught up."""
        if self._tls is not None:
            self._tls.resume_writing()

    def close(self, reason: str) -> None:
        """Give up a connection that has not become one."""
        if self._transport is not None:
            if reason != CLOSING:
                self._front.complain(self._peer, reason)
            self._transport.abort()

    def begin(self) -> None:
        """A handshake may begin: feed it what has come."""
        self.is_waiting = False
        self._in_handshake = True
        self._limit(HANDSHAKE_S, f"no handshake within {HANDSHAKE_S:g} s")
        first, self._kept = self._kept, b""
        self._step(first)

    def go_on(self, data: bytes) -> None:
        """The turn has come for bytes of a handshake."""
        if self._is_gone or self._transport is None or self._transport.is_closing():
            return
        self._transport.resume_reading()
        self._feed(memoryview(data))

    def _step(self, data: bytes) -> None:
        """Wait for the turn, and read nothing until it has come."""
        assert self._transport is not None
        self._transport.pause_reading()
        self._front.step(self, data)

    def _decide(self) -> None:
        front, first = self._front, self._kept[0]
        if first in PROXY_FIRST and self._proxy is None and self._is_a_proxy():
            found = parse_proxy_line(memoryview(self._kept))
            if isinstance(found, str):
                self.close(found)
            elif found is not None:
                self._take_proxy_line(found)
            return
        if first == HELLO and front.tls is not None:
            self._begin_tls(front.tls)
        elif front.tls is not None and front.tls.is_enforcing:
            self.close("plain bytes at a port that serves TLS only; set -Dtls.enable=true")
        else:
            self._hand_over()

    def _is_a_proxy(self) -> bool:
        proxies = self._front.proxies
        return proxies is not None and proxies.matches(self._peer.rpartition(":")[0])

    def _take_proxy_line(self, line: ProxyLine) -> None:
        self._proxy = line
        self._kept = self._kept[line.size :]
        if self._kept:
            self._decide()

    def _begin_tls(self, tls: ServerTls) -> None:
        assert self._transport is not None
        self._tls = TlsTransport(
            self._transport, tls.context, self._make, buffer=self._front.buffer
        )
        if self._front.enter(self):
            self.begin()
        else:
            self.is_waiting = True
            self._transport.pause_reading()

    def _feed(self, data: memoryview) -> None:
        assert self._tls is not None
        try:
            self._tls.feed(data)
        except (ssl.SSLError, HandshakeFailed, OSError) as error:
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            self._tls.flush()  # the alert that says why
            self._front.complain(self._peer, f"TLS: {reason}")
            if self._transport is not None:
                self._tls.is_broken = True
                self._transport.close()
            return
        if self._in_handshake and self._tls.is_open:
            self._leave()

    def _hand_over(self) -> None:
        """Plain: the protocol takes the socket, and what has come."""
        assert self._transport is not None
        self._leave()
        protocol = self._make()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        kept, self._kept = self._kept, b""
        position = 0
        while position < len(kept):
            room = memoryview(protocol.get_buffer(-1))
            size = min(len(room), len(kept) - position)
            room[:size] = kept[position : position + size]
            position += size
            protocol.buffer_updated(size)

    def _make(self) -> asyncio.BufferedProtocol:
        return self._front.make(None if self._proxy is None else self._proxy.source)

    def _leave(self) -> None:
        self._front.porters.discard(self)
        self.is_waiting = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._in_handshake:
            self._in_handshake = False
            self._front.leave()

    def _limit(self, delay_s: float, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(delay_s, self.close, reason)
