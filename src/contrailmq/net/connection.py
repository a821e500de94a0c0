"""One connection: requests, answers and oneways in both directions.

Theory of operation.  The bytes of one socket read are taken at once: every complete frame in them
is handled, one after another, and what they answer is written with one call at the end (``inlet``,
``outlet``).  The fast lane, if there is one, is asked first and again after every frame it left to
the ordinary path, so answers given at once keep the order of their requests.

A server reads its plain sockets itself, all that have something in one turn of the loop
(``_native.turns``); under TLS, and at the client, the transport reads.

A handler's answer may come at once, or later (an awaitable, or ``reply``).  Later answers are "in
flight"; at the bound of a lane its further requests are answered with SYSTEM_BUSY (``serving``).

A peer that reads slowly fills our write buffer.  Above ``write_high_size`` a server stops taking
that peer's frames (those already read stay where they are) until the buffer has drained; above
``write_size_max`` the connection is closed.  A client never stops reading, or two peers could wait
for each other; its callers wait instead.

States: open -> closing (nothing more is read; what is written goes out) -> closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, cast

from contrailmq._native.net.reads import Reads
from contrailmq._native.net.turns import Turns
from contrailmq.errors import (
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    TooManyRequests,
)
from contrailmq.net.calls import Calls
from contrailmq.net.endpoint import Buffer, Endpoint
from contrailmq.net.inlet import Inlet
from contrailmq.net.outlet import Outlet
from contrailmq.net.peer import host_bytes, host_text, keep_alive, plain_socket
from contrailmq.net.tls_transport import TlsTransport, names_of
from contrailmq.net.wire import buffers_of, reply_buffers
from contrailmq.protocol.command import ONEWAY_FLAG, Command

log = logging.getLogger(__name__)


class Connection(asyncio.BufferedProtocol):
    """A socket that speaks the remoting protocol; made by ``Server`` and ``RemotingClient``.

    ``peer`` and ``local`` are ``ip:port``, ``peer_host`` the peer as a message record stores it.
    ``lane_state`` and ``visitor`` belong to the fast lane, ``answer`` writes an answer it has held
    back.
    ``close_reason`` is None while the connection is open.
    ``calls`` are our own requests that await answers.  ``principals`` are the names in the
    certificate a peer has shown, none without one.
    """

    __slots__ = (
        "_close_callbacks",
        "_endpoint",
        "_inlet",
        "_is_reading",
        "_limits",
        "_loop",
        "_outlet",
        "_reads",
        "_timer",
        "_transport",
        "_turns",
        "_until_closed",
        "_writable",
        "answer",
        "buffer_updated",
        "calls",
        "close_reason",
        "get_buffer",
        "lane_state",
        "local",
        "peer",
        "peer_host",
        "principals",
        "said_by_proxy",
        "visitor",
    )

    def __init__(
        self, endpoint: Endpoint[Connection], said_by_proxy: tuple[str, int] | None = None
    ) -> None:
        self.said_by_proxy = said_by_proxy
        self._endpoint = endpoint
        self._limits = endpoint.limits
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._outlet: Outlet | None = None
        self.calls = Calls(
            self._loop, limit=self._limits.calls_max, on_timeout=self._on_call_timeout
        )
        self._reads = Reads(self, endpoint.buffer, endpoint.lane, self._loop.time)
        self._inlet = Inlet(endpoint, self, self._reads)
        self.get_buffer = self._reads.get_buffer  # type: ignore[method-assign]
        self.buffer_updated = self._reads.buffer_updated  # type: ignore[method-assign]
        self.answer: Callable[[Buffer], None] = self._reads.answer
        self._is_reading = True
        self._turns: Turns | None = None  # who reads the socket, if it is not the transport
        self._writable: asyncio.Future[None] | None = None
        self._until_closed: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None  # the idle limit, later that of closing
        self._close_callbacks: list[Callable[[Connection], None]] = []
        self.close_reason: str | None = None
        self.peer = self.local = "?"
        self.peer_host = b""
        self.lane_state: Any = None
        self.visitor: Any = None
        self.principals: tuple[str, ...] = ()

    # -- what owners and handlers use

    @property
    def closed(self) -> bool:
        """Whether it has ended, or is about to: nothing more is read or answered."""
        return self.close_reason is not None

    @property
    def in_flight_count(self) -> int:
        """Requests of the peer whose answers are still to come."""
        return self._inlet.serving.in_flight

    @property
    def is_write_paused(self) -> bool:
        """Whether the peer reads more slowly than we write."""
        return self._outlet is not None and self._outlet.is_paused

    @property
    def held_size(self) -> int:
        """Bytes of memory it holds: an unfinished frame, answers not read, requests in flight."""
        if self._outlet is None or self.close_reason is not None:
            return 0
        return self._inlet.held_size + self._outlet.waiting_size

    @property
    def in_flight(self) -> Sequence[int]:
        """Its requests whose answers are to come, by lane."""
        return self._inlet.serving.counts

    async def call(self, command: Command, *, timeout_s: float) -> Command:
        """Send a request and return its answer; raises a NetworkError. Sets ``command.opaque``."""
        if self._outlet is not None and self._outlet.is_paused:
            timeout_s = await self._wait_writable(timeout_s)
        future = self.submit(command, timeout_s=timeout_s)
        try:
            return await future
        except asyncio.CancelledError:
            self.calls.forget(command.opaque)
            raise

    def submit(self, command: Command, *, timeout_s: float) -> asyncio.Future[Command]:
        """Send a request at once; the future holds its answer or a NetworkError."""
        self._check_open()
        future = self.calls.begin(command, timeout_s)
        try:
            self.send(buffers_of(command))
        except LocalProtocolError:
            self.calls.forget(command.opaque)
            raise
        return future

    def oneway(self, command: Command) -> None:
        """Send a request nobody answers; raises ConnectionLost or TooManyRequests."""
        self._check_open()
        command.flag |= ONEWAY_FLAG
        command.opaque = self.calls.next_opaque()
        self.send(buffers_of(command))

    def reply(self, command: Command) -> None:
        """Answer a request its handler returned None for; a closed connection drops it."""
        self._inlet.serving.release(command.opaque, command.code)
        self.send(reply_buffers(command))

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Write encoded frames; within a read they join its other answers, in order.

        The buffers belong to the transport from here on and must not change.
        """
        out = self._reads.out
        if out is not None:
            out.extend(buffers)
        elif self.close_reason is None and self._outlet is not None:
            self._outlet.send(buffers)

    def close(self, reason: str) -> None:
        """Read no more, let out what is written, then close; calls under way fail now."""
        self._end(reason)
        if self._transport is not None and not self._transport.is_closing():
            if self._outlet is not None:
                self._outlet.flush()
            self._set_timer(self._limits.close_timeout_s, self._abort)
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close at once; what is written and not yet sent is lost."""
        self._end(reason)
        self._abort()

    def on_close(self, callback: Callable[[Connection], None]) -> None:
        """Call back once when the connection ends (``close_reason`` is set); at once if it has."""
        if self.close_reason is not None:
            callback(self)
        else:
            self._close_callbacks.append(callback)

    async def wait_closed(self) -> None:
        """Return when the socket is gone."""
        if self._transport is not None:
            if self._until_closed is None:
                self._until_closed = self._loop.create_future()
            await asyncio.shield(self._until_closed)

    def stop_reading(self) -> None:
        """Take no more requests: the first half of a graceful close."""
        self._inlet.is_stopped = True
        self._inlet.steer()
        self.steer_reading()

    def __repr__(self) -> str:
        state = self.close_reason or "open"
        return (
            f"<Connection {self.local} <-> {self.peer} {state!r} in_flight={self.in_flight_count}>"
        )

    # -- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        self._outlet = Outlet(
            self._loop, self._transport, self._limits, on_overflow=self.overrun, on_held=self._stir
        )
        self._reads.write = self._transport.write
        self._reads.waiting = self._transport.get_write_buffer_size
        self._reads.fd = plain_socket(transport)
        if self._reads.fd < 0 and self._limits.is_server:
            session = transport.get_extra_info("ssl_object")
            self.principals = () if session is None else names_of(session.getpeercert())
        peer = self.said_by_proxy or transport.get_extra_info("peername")
        self.peer, self.peer_host = host_text(peer), host_bytes(peer)
        self.local = host_text(transport.get_extra_info("sockname"))
        keep_alive(transport)
        self._set_timer(self._limits.idle_s, self._check_idle)
        self._inlet.open(self._outlet)
        refusal = self._endpoint.opened(self)
        if refusal is not None:
            self._endpoint.complain(self.peer, refusal)
            self.abort(refusal)
        else:
            self._loop.call_soon(self._read_in_turns)  # when the transport has begun to read

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._end("closed by the peer" if exc is None else f"{type(exc).__name__}: {exc}")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._transport = self._outlet = self._reads.write = None
        self._reads.fd = -1
        self._inlet.close()
        self._endpoint.closed(self)
        if self._until_closed is not None and not self._until_closed.done():
            self._until_closed.set_result(None)

    def pause_writing(self) -> None:
        """The write buffer is above its mark."""
        if self._outlet is not None:
            self._outlet.is_paused = True
        self._inlet.steer()
        self.steer_reading()

    def resume_writing(self) -> None:
        """The write buffer has drained: take the frames that were left, then read on."""
        if self._outlet is not None:
            self._outlet.is_paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._inlet.resume()
        self.steer_reading()

    def overrun(self, reason: str) -> None:
        """Close at once for what the peer makes us hold, and say so."""
        self._endpoint.complain(self.peer, reason)
        self.abort(reason)

    def _stir(self) -> None:
        if self._endpoint.budget is not None:
            self._endpoint.budget.stir(self)

    def steer_reading(self) -> None:
        """Read, unless a graceful close has begun or the peer of a server reads slowly."""
        inlet = self._inlet
        is_held = inlet.is_stopped or inlet.is_resting or self.is_write_paused
        wanted = not (is_held and self._limits.is_server)
        transport = self._transport
        if wanted == self._is_reading or transport is None or transport.is_closing():
            return
        self._is_reading = wanted
        if self._turns is not None:
            (self._turns.add if wanted else self._turns.remove)(self._reads)
        elif wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def _read_in_turns(self) -> None:
        """From now on the endpoint reads the socket, together with its others."""
        transport = self._transport
        if self.close_reason is not None or transport is None or transport.is_closing():
            return
        if isinstance(transport, TlsTransport):
            turns = self._endpoint.turns()
            if turns is not None:
                transport.join(turns)
            return
        if self._reads.fd < 0 or transport.get_protocol() is not self:
            return  # somebody stands between us and the socket
        self._turns = self._endpoint.turns()
        if self._turns is not None and self._is_reading:
            transport.pause_reading()
            self._turns.add(self._reads)

    def give_back(self) -> None:
        """The socket has ended or is broken: let the transport find out how."""
        self._turns = None
        if self._is_reading and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    async def _wait_writable(self, timeout_s: float) -> float:
        """Wait until the peer reads; returns what is left of the timeout."""
        deadline = self._loop.time() + timeout_s
        while self.is_write_paused and self.close_reason is None:
            if self._writable is None or self._writable.done():
                self._writable = self._loop.create_future()
            left = deadline - self._loop.time()
            if left <= 0:
                raise RequestTimeout(f"{self.peer} took no bytes within {timeout_s:g} s")
            await asyncio.wait((self._writable,), timeout=left)
        return max(deadline - self._loop.time(), 0.001)

    def _check_open(self) -> None:
        outlet = self._outlet
        if self.close_reason is not None or outlet is None:
            raise ConnectionLost(f"{self.peer}: {self.close_reason or 'not connected yet'}")
        if outlet.is_paused and outlet.is_overfull:
            raise TooManyRequests(f"{self.peer}: {outlet.waiting_size} bytes wait to be sent")

    def reject(self, error: Exception) -> None:
        """A read failed: close, and say why."""
        if not isinstance(error, RemoteProtocolError):
            log.error("connection failed: peer=%s", self.peer, exc_info=error)
        self._endpoint.complain(self.peer, str(error))
        self.close(str(error))

    def _end(self, reason: str) -> None:
        if self.close_reason is not None:
            return
        self.close_reason = reason
        self._reads.is_straight = False
        if self._turns is not None:
            self._turns.remove(self._reads)
        log.debug("connection ended: peer=%s reason=%s", self.peer, reason)
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self.calls.fail(ConnectionLost(f"{self.peer}: {reason}"))
        callbacks, self._close_callbacks = self._close_callbacks, []
        for callback in callbacks:
            callback(self)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _set_timer(self, delay_s: float, action: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, action)

    def _check_idle(self) -> None:
        written_at = self._outlet.written_at if self._outlet is not None else 0.0
        left = max(self._reads.read_at, written_at) + self._limits.idle_s - self._loop.time()
        if left <= 0.001:
            self.close(f"idle for {self._limits.idle_s:g} s")
        else:
            self._set_timer(left, self._check_idle)

    def _on_call_timeout(self, timeout_s: float) -> None:
        """A client gives up a peer that sent nothing at all for so long: it may be gone."""
        silent_s = self._loop.time() - self._reads.read_at
        if not self._limits.is_server and silent_s >= self._limits.dead_after_s <= timeout_s:
            self.abort(f"no byte came for {silent_s:.1f} s while an answer was awaited")
