"""One HTTP/2 connection at either end: its socket, its settings, its life.

Theory of operation.  A read is walked at once by the ``Session``; all it answers leaves in one
write.  Frames that come between reads (answers that took longer, windows) are gathered until the
end of the loop's turn.

A peer that reads slowly fills our write buffer.  Above ``write_high_size`` a server reads nothing
more of that peer and answers stay in their streams; above ``write_size_max`` the connection ends.

States: open -> leaving (GOAWAY; calls under way end) -> closed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, Protocol, cast

from contrailmq._native.grpc import faults
from contrailmq._native.grpc.faults import Http2Fault
from contrailmq._native.grpc.session import Session
from contrailmq._native.grpc.stream import Stream
from contrailmq.grpc.http2.limits import Http2Limits
from contrailmq.net.budget import SMALL_SIZE, MemoryBudget
from contrailmq.net.peer import host_text, keep_alive

log = logging.getLogger(__name__)

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_SIZE: Final = 9
ID_MAX: Final = 0x7FFFFFFF
ACK: Final = 1
RESET_COST: Final = 7  # besides the one that every control frame costs

PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY = 2, 3, 4, 5, 6, 7
TABLE_SIZE, ENABLE_PUSH, STREAMS_MAX, WINDOW, FRAME_MAX, LIST_MAX = 1, 2, 3, 4, 5, 6
DEFAULT_TABLE_SIZE: Final = 4096


class Owner(Protocol):
    """What a connection needs of the server or the client that made it."""

    limits: Http2Limits
    view: memoryview
    budget: MemoryBudget | None
    unary: dict[str, Any]
    streaming: dict[str, Any]

    def complain(self, peer: str, reason: str) -> None:
        """A peer was shut out for what it did."""
        ...


class Http2Connection(asyncio.BufferedProtocol):
    """What both ends have in common.

    ``close_reason`` is None while it is open.  ``peer`` and ``local`` are ``ip:port``.
    """

    def __init__(self, owner: Owner, source: tuple[str, int] | None = None) -> None:
        self.owner = owner
        self.limits = owner.limits
        self.loop = asyncio.get_running_loop()
        self.session = Session(self, owner.unary, owner.streaming, owner.limits)
        self.session.read_at = self.loop.time()
        self.transport: asyncio.Transport | None = None
        self.close_reason: str | None = None
        self.peer = self.local = "?"
        self.is_tls = False
        self._source = source
        self._timer: asyncio.TimerHandle | None = None
        self._until_closed: asyncio.Future[None] | None = None

    # -- what owners use

    @property
    def closed(self) -> bool:
        """Whether it has ended, or is about to."""
        return self.close_reason is not None

    @property
    def held_size(self) -> int:
        """Bytes of memory it holds."""
        transport = self.transport
        if transport is None:
            return 0
        return self.session.held + transport.get_write_buffer_size()

    def overrun(self, reason: str) -> None:
        """Close at once for what the peer makes us hold, and say so."""
        self.owner.complain(self.peer, reason)
        self.abort(reason)

    def go_away(self, last_id: int, code: int = faults.NO_ERROR, text: str = "") -> None:
        """Tell the peer which stream is the last that is served."""
        payload = last_id.to_bytes(4, "big") + code.to_bytes(4, "big") + text.encode()[:200]
        self.session.frames.frame(GOAWAY, 0, 0, payload)

    def close(self, reason: str) -> None:
        """Let out what is written, then close; calls under way are gone."""
        self.flush()
        self._end(reason)
        if self.transport is not None and not self.transport.is_closing():
            self._set_timer(self.limits.close_timeout_s, self._abort)
            self.transport.close()

    def abort(self, reason: str) -> None:
        """Close at once; what is written and not yet sent is lost."""
        self._end(reason)
        self._abort()

    async def wait_closed(self) -> None:
        """Return when the socket is gone."""
        if self.transport is not None:
            if self._until_closed is None:
                self._until_closed = self.loop.create_future()
            await asyncio.shield(self._until_closed)

    # -- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there: say what we take."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self.limits.write_high_size)
        self.is_tls = transport.get_extra_info("ssl_object") is not None
        self.peer = host_text(self._source or transport.get_extra_info("peername"))
        self.local = host_text(transport.get_extra_info("sockname"))
        keep_alive(transport)
        limits, session = self.limits, self.session
        values = {
            STREAMS_MAX: limits.streams_max,
            WINDOW: limits.window,
            LIST_MAX: limits.header_size_max,
        }
        if limits.is_client:
            del values[STREAMS_MAX]
            values[ENABLE_PUSH] = 0
            session.frames.out += PREFACE
        payload = b"".join(
            name.to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in values.items()
        )
        session.frames.frame(SETTINGS, 0, 0, payload)
        session.frames.window(0, limits.wide_window - 65535)
        self.flush()
        self._set_timer(self._look_s, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._end("closed by the peer" if exc is None else f"{type(exc).__name__}: {exc}")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.transport = None
        if self._until_closed is not None and not self._until_closed.done():
            self._until_closed.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next read goes."""
        return self.owner.view

    def buffer_updated(self, nbytes: int) -> None:
        """One read has come in."""
        self.take(self.owner.view, nbytes)

    def eof_received(self) -> bool:
        """The peer sends no more: neither do we."""
        return False

    def pause_writing(self) -> None:
        """The write buffer is above its mark."""
        self.session.is_write_paused = True
        transport = self.transport
        if transport is not None and not self.limits.is_client and not transport.is_closing():
            transport.pause_reading()

    def resume_writing(self) -> None:
        """The write buffer has drained."""
        self.session.is_write_paused = False
        self.session.push_all()
        self.flush()
        transport = self.transport
        if (
            transport is not None
            and not self.limits.is_client
            and not self.session.is_write_paused
            and not transport.is_closing()
        ):
            transport.resume_reading()

    # -- bytes

    def take(self, view: memoryview, size: int) -> None:
        """Walk what has come, and send what it is answered."""
        session = self.session
        try:
            session.take(view, size, self.loop.time())
        except Http2Fault as fault:
            self.fail(fault)
        except Exception:
            log.exception("connection failed: peer=%s", self.peer)
            self.fail(Http2Fault(faults.INTERNAL_ERROR, "an error of this server"))
        self.flush()
        if session.held > SMALL_SIZE and self.owner.budget is not None and not self.closed:
            self.owner.budget.stir(self)

    def plan_flush(self) -> None:
        """Frames wait that no read will send: send them at the end of this turn."""
        self.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what waits."""
        frames, transport = self.session.frames, self.transport
        if not frames.out or transport is None:
            return
        if transport.is_closing():
            frames.take()
            return
        transport.write(frames.take())
        if self.session.is_write_paused:
            waiting = transport.get_write_buffer_size()
            if waiting > self.limits.write_size_max:
                self.overrun(f"{waiting} bytes wait for it, at most {self.limits.write_size_max}")
            elif self.owner.budget is not None:
                self.owner.budget.stir(self)

    def fail(self, fault: Http2Fault) -> None:
        """End the connection for what the peer did."""
        if self.closed:
            return
        self.owner.complain(self.peer, str(fault))
        self.go_away(self.session.last_id, fault.code, str(fault))
        self.close(str(fault))

    # -- control frames

    def control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """A frame that is neither headers nor data; raises Http2Fault."""
        if kind == SETTINGS:
            self._on_settings(flags, number, payload)
        elif kind == PING:
            self._on_ping(flags, number, payload)
        elif kind == RST_STREAM:
            self._on_reset(number, payload)
        elif kind == GOAWAY:
            if number != 0 or len(payload) < 8:
                raise Http2Fault(faults.PROTOCOL_ERROR, "GOAWAY of a stream, or cut short")
            self.on_go_away(int.from_bytes(payload[:4], "big") & ID_MAX)
        elif kind == PRIORITY:
            self._on_priority(number, payload)
        elif kind == PUSH_PROMISE:
            raise Http2Fault(faults.PROTOCOL_ERROR, "a push, which nobody may send here")

    def on_go_away(self, last_id: int) -> None:
        """The peer opens no more streams, or serves none after one."""

    def on_streams_max(self, count: int) -> None:
        """The peer takes so many streams at a time."""

    def _on_settings(self, flags: int, number: int, payload: bytes) -> None:
        if number != 0:
            raise Http2Fault(faults.PROTOCOL_ERROR, f"settings of stream {number}")
        if len(payload) % 6 or (flags & ACK and payload):
            raise Http2Fault(faults.FRAME_SIZE_ERROR, f"settings of {len(payload)} bytes")
        if flags & ACK:
            return
        for at in range(0, len(payload), 6):
            name = int.from_bytes(payload[at : at + 2], "big")
            self._set(name, int.from_bytes(payload[at + 2 : at + 6], "big"))
        self.session.frames.frame(SETTINGS, ACK, 0, b"")

    def _set(self, name: int, value: int) -> None:
        session = self.session
        if name == WINDOW:
            if value > ID_MAX:
                raise Http2Fault(faults.FLOW_CONTROL_ERROR, f"window {value}, at most {ID_MAX}")
            step = value - session.stream_window
            session.stream_window = value
            for stream in session.streams.values():
                stream.send_left += step
                if stream.send_left > ID_MAX:
                    raise Http2Fault(faults.FLOW_CONTROL_ERROR, "a window beyond 2^31 - 1")
            if step > 0:
                session.push_all()
        elif name == FRAME_MAX:
            if not 16384 <= value <= 16777215:
                raise Http2Fault(faults.PROTOCOL_ERROR, f"frame size {value}, at least 16384")
            session.frame_max = min(value, 65536)
        elif name == ENABLE_PUSH:
            if value > 1 or (value and self.limits.is_client):
                raise Http2Fault(faults.PROTOCOL_ERROR, f"push {value}")
        elif name == TABLE_SIZE:
            if value < DEFAULT_TABLE_SIZE:
                session.frames.keep_no_table()
        elif name == STREAMS_MAX:
            self.on_streams_max(value)

    def _on_ping(self, flags: int, number: int, payload: bytes) -> None:
        if number != 0:
            raise Http2Fault(faults.PROTOCOL_ERROR, f"ping of stream {number}")
        if len(payload) != 8:
            raise Http2Fault(faults.FRAME_SIZE_ERROR, f"ping of {len(payload)} bytes, not 8")
        if not flags & ACK:
            self.session.frames.frame(PING, ACK, 0, payload)

    def _on_reset(self, number: int, payload: bytes) -> None:
        session = self.session
        if number == 0 or number > session.last_id:
            raise Http2Fault(faults.PROTOCOL_ERROR, f"reset of stream {number}, which is idle")
        if len(payload) != 4:
            raise Http2Fault(faults.FRAME_SIZE_ERROR, f"reset of {len(payload)} bytes, not 4")
        session.spend(RESET_COST)
        stream = session.streams.get(number)
        if stream is not None:
            self.on_reset(stream, int.from_bytes(payload, "big"))

    def on_reset(self, stream: Stream, code: int) -> None:
        """The peer ends a stream."""
        self.session.lose(stream)

    def _on_priority(self, number: int, payload: bytes) -> None:
        if number == 0:
            raise Http2Fault(faults.PROTOCOL_ERROR, "a priority of stream 0")
        stream = self.session.streams.get(number)
        code = faults.NO_ERROR
        if len(payload) != 5:
            code = faults.FRAME_SIZE_ERROR
        elif int.from_bytes(payload[:4], "big") & ID_MAX == number:
            code = faults.PROTOCOL_ERROR
        if code == faults.NO_ERROR:
            return
        if stream is None:
            self.session.put_reset(number, code)
        else:
            self.session.reset(stream, code)

    # -- the life of it

    def gone(self, stream: Stream) -> None:
        """Nobody waits for a stream any more."""

    @property
    def _look_s(self) -> float:
        limits = self.limits
        return min(limits.idle_s / 4, limits.ping_s / 2, limits.stall_s)

    def _look(self) -> None:
        if self.closed:
            return
        self.look(self.loop.time())
        if not self.closed:
            self._set_timer(self._look_s, self._look)

    def look(self, now: float) -> None:
        """Once in a while: is the peer there, and does it go on?"""
        silent_s = now - self.session.read_at
        if not self.session.streams:
            return
        if silent_s >= self.limits.silent_s:
            self.abort(f"no byte came for {silent_s:.0f} s while calls were under way")
        elif silent_s >= self.limits.ping_s:
            self.session.frames.frame(PING, 0, 0, bytes(8))

    def _end(self, reason: str) -> None:
        if self.close_reason is not None:
            return
        self.close_reason = reason
        log.debug("connection ended: peer=%s reason=%s", self.peer, reason)
        self.session.is_closed = True
        for stream in list(self.session.streams.values()):
            self.session.lose(stream)
        self.on_end()

    def on_end(self) -> None:
        """It is over."""

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _set_timer(self, delay_s: float, action: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(delay_s, action)
