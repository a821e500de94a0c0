"""Calls to gRPC servers: one connection per address, made when it is needed.

Theory of operation.  A ``Channel`` has at most one connection that takes new calls.  One that was
lost, or whose server has said goodbye, is replaced by the next call; calls under way at a server
that says goodbye end where they are.  What fails is a NetworkError, as everywhere in this package,
and a status other than OK is a ``GrpcError``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from contrailmq._native.grpc import faults
from contrailmq._native.grpc.hpack import HeaderDecoder
from contrailmq._native.grpc.stream import Stream
from contrailmq.errors import ConnectFailed, ConnectionLost, RequestTimeout
from contrailmq.grpc.call import CallGone, GrpcError, GrpcStatus
from contrailmq.grpc.http2.blocks import percent_decoded
from contrailmq.grpc.http2.connection import Http2Connection, Owner
from contrailmq.grpc.http2.encoder import HeaderEncoder
from contrailmq.grpc.http2.limits import Http2Limits
from contrailmq.net.budget import MemoryBudget
from contrailmq.net.network import Network

DATA, HEADERS, END_STREAM, END_HEADERS = 0, 1, 1, 4
LAST_ID: Final = 0x7FFFFFF0
READ_SIZE: Final = 64 * 1024
CONNECT_S: Final = 3.0
Fields = Sequence[tuple[str, str]]


class ClientCall:
    """One call under way: write, half-close, read, cancel."""

    def __init__(self, connection: ClientConnection, stream: Stream) -> None:
        self._connection = connection
        self._stream = stream

    async def read(self) -> bytes | None:
        """The next message; None after the last. Raises GrpcError or ConnectionLost."""
        return await self._connection.read(self._stream)

    async def write(self, message: bytes, *, is_last: bool = False) -> None:
        """Send a message; waits while the server takes no more. Raises as ``read`` does."""
        await self._connection.write(self._stream, message, is_last=is_last)

    def end(self) -> None:
        """Send no more."""
        self._connection.half_close(self._stream)

    def cancel(self) -> None:
        """Give up; whoever reads gets CallGone. Nothing happens when it is over already."""
        self._connection.cancel(self._stream)


class ClientConnection(Http2Connection):
    """The client's end of a connection. A stream's ``state`` is how it ended, None until then."""

    def __init__(self, owner: Owner) -> None:
        super().__init__(owner)
        self._encoder = HeaderEncoder()
        self._next_id = 1
        self._streams_max = 100  # until the server has said how many
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.is_leaving = False
        self.session.credit = 1 << 60  # the server is whom the caller chose

    @property
    def is_usable(self) -> bool:
        """Whether new calls may begin here."""
        return not (self.closed or self.is_leaving or self._next_id > LAST_ID)

    async def begin(self, method: str, lasting: Fields, passing: Fields) -> Stream:
        """Open a call; waits while the server takes no more of them."""
        while len(self.session.streams) >= self._streams_max and not self.closed:
            waiter = self.loop.create_future()
            self._waiting.append(waiter)
            await waiter
        if self.closed:
            raise ConnectionLost(f"{self.peer}: {self.close_reason}")
        session = self.session
        stream = Stream(session, self._next_id, method, {})
        self._next_id += 2
        stream.send_left = session.stream_window
        stream.receive_left = session.window
        stream.messages = []
        session.streams[stream.number] = stream
        session.last_id = stream.number
        if not session.frames.can_enter:
            self._encoder.keep_no_table()
        block = session.frames.opening() + self._encoder.encode(
            [
                (":method", "POST"),
                (":scheme", "https" if self.is_tls else "http"),
                (":path", method),
                *lasting,
            ],
            passing,
        )
        session.frames.frame(HEADERS, END_HEADERS, stream.number, block)
        return stream

    # -- what calls use

    async def read(self, stream: Stream) -> bytes | None:
        """The next message of a call."""
        while True:
            message = self.session.next_message(stream)
            if message is not None:
                return message
            if stream.state is not None:
                _raise_if_failed(stream.state)
                return None
            stream.waiter = self.loop.create_future()
            try:
                await stream.waiter
            finally:
                stream.waiter = None

    async def write(self, stream: Stream, message: bytes, *, is_last: bool = False) -> None:
        """Send a message of a call."""
        self._check(stream)
        await self._until_written(stream)
        if is_last:
            stream.last = b""
        self.session.write(stream, message)
        await self._until_written(stream)

    def half_close(self, stream: Stream) -> None:
        """Send no more of a call."""
        if stream.state is not None or stream.last is not None:
            return
        stream.last = b""
        if stream.pending is None:
            self.session.frames.frame(DATA, END_STREAM, stream.number, b"")

    def cancel(self, stream: Stream) -> None:
        """Give a call up."""
        if stream.state is None:
            if not self.closed:
                self.session.put_reset(stream.number, faults.CANCEL)
            self._over(stream, CallGone(f"{stream.method} was given up"))

    async def _until_written(self, stream: Stream) -> None:
        while stream.pending is not None:
            if stream.writer is None or stream.writer.done():
                stream.writer = self.loop.create_future()
            await asyncio.shield(stream.writer)
            self._check(stream)

    def _check(self, stream: Stream) -> None:
        if stream.state is not None:
            _raise_if_failed(stream.state)
            raise CallGone(f"{stream.method} is over")

    # -- what the session calls

    def answered(
        self, stream: Stream, fields: dict[str, str], decoder: HeaderDecoder, has_ended: bool
    ) -> None:
        """Headers have come: the first ones of an answer, or its last."""
        if decoder.status is not None and decoder.status != "200":
            text = f"HTTP status {decoder.status}, expected 200: no gRPC server is there"
            self._finish(stream, GrpcError(GrpcStatus.UNAVAILABLE, text), has_ended)
        elif has_ended:
            self._finish(stream, _status_of(fields), has_ended)

    def wake(self, stream: Stream) -> None:
        """A message has come, or the end without a status."""
        if stream.has_ended and stream.state is None:
            text = "the server ended the call without a status"
            self._finish(stream, GrpcError(GrpcStatus.UNKNOWN, text), True)
        elif stream.waiter is not None and not stream.waiter.done():
            stream.waiter.set_result(None)

    def wake_writer(self, stream: Stream) -> None:
        """All that was written has left."""
        if stream.writer is not None and not stream.writer.done():
            stream.writer.set_result(None)

    def unreadable(self, stream: Stream, flag: int, size: int) -> None:
        """A message that is too large, or compressed."""
        limit = self.limits.message_size_max
        text = f"answer of {size} bytes with flag {flag}; at most {limit}, not compressed"
        self._finish(stream, GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, text), False)

    def gone(self, stream: Stream) -> None:
        """The connection is over, or the stream was not served."""
        self._over(stream, ConnectionLost(f"{self.peer}: {self.close_reason or 'call was reset'}"))

    def on_reset(self, stream: Stream, code: int) -> None:
        """The server ends a stream."""
        if code == faults.REFUSED_STREAM:
            error: Exception = ConnectionLost(f"{self.peer}: the server takes no more calls")
        else:
            error = GrpcError(GrpcStatus.INTERNAL, f"{self.peer} reset the call, code {code}")
        self._over(stream, error)

    def on_go_away(self, last_id: int) -> None:
        """The server serves no streams after one."""
        self.is_leaving = True
        for stream in list(self.session.streams.values()):
            if stream.number > last_id:
                self._over(stream, ConnectionLost(f"{self.peer} is closing down"))
        self._close_if_left()

    def on_streams_max(self, count: int) -> None:
        """The server takes so many streams at a time."""
        self._streams_max = max(count, 1)
        self._let_in()

    def on_end(self) -> None:
        """It is over: nobody waits for room here."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _finish(self, stream: Stream, outcome: Any, has_ended: bool) -> None:
        if not has_ended or stream.last is None or stream.pending is not None:
            self.session.put_reset(stream.number, faults.CANCEL)  # we had more to say, or it has
        self._over(stream, outcome)

    def _over(self, stream: Stream, outcome: Any) -> None:
        if stream.state is not None:
            return
        stream.state = outcome
        self.session.drop(stream)
        for waiter in (stream.waiter, stream.writer):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
        self._let_in()
        self._close_if_left()

    def _let_in(self) -> None:
        room = self._streams_max - len(self.session.streams)
        while self._waiting and room > 0:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                room -= 1

    def _close_if_left(self) -> None:
        if self.is_leaving and not self.session.streams and not self.closed:
            self.loop.call_soon(self.close, "the server said goodbye")


class Channel:
    """Calls to one address. ``lasting`` are headers of every call."""

    def __init__(self, address: str, network: Network, *, lasting: Fields = ()) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self._host, self._port = host.strip("[]"), int(port)
        self._network = network
        self._lasting = (
            (":authority", address),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            *lasting,
        )
        self.limits = Http2Limits(is_client=True)
        self.view = memoryview(bytearray(READ_SIZE))
        self.budget: MemoryBudget | None = None
        self.unary: dict[str, Any] = {}
        self.streaming: dict[str, Any] = {}
        self._connections: dict[ClientConnection, None] = {}
        self._current: ClientConnection | None = None
        self._lock = asyncio.Lock()
        self._is_closed = False

    async def call(
        self, method: str, message: bytes, *, passing: Fields = (), timeout_s: float
    ) -> bytes:
        """One request and its answer; raises NetworkError or GrpcError."""
        call: ClientCall | None = None
        try:
            async with asyncio.timeout(timeout_s):
                call = await self.open(method, passing=passing, timeout_s=timeout_s)
                await call.write(message, is_last=True)
                answer = await call.read()
                if answer is not None:
                    await call.read()  # the status
        except TimeoutError:
            raise RequestTimeout(f"{self.address}: no answer within {timeout_s:g} s") from None
        finally:
            if call is not None:
                call.cancel()
        if answer is None:
            raise GrpcError(GrpcStatus.INTERNAL, f"{self.address} answered {method} with nothing")
        return answer

    async def open(
        self, method: str, *, passing: Fields = (), timeout_s: float | None = None
    ) -> ClientCall:
        """Begin a call; ``timeout_s`` is told to the server. Raises NetworkError."""
        connection = await self._connected()
        if timeout_s is not None:
            passing = (*passing, ("grpc-timeout", f"{max(int(timeout_s * 1000), 1)}m"))
        stream = await connection.begin(method, self._lasting, passing)
        return ClientCall(connection, stream)

    async def aclose(self) -> None:
        """Close; calls under way are lost."""
        self._is_closed = True
        for connection in list(self._connections):
            connection.go_away(0)
            connection.close("closed here")
            await connection.wait_closed()

    def complain(self, peer: str, reason: str) -> None:
        """A server broke a rule: its calls have failed with the reason."""

    async def _connected(self) -> ClientConnection:
        while True:
            if self._is_closed:
                raise ConnectionLost(f"{self.address}: closed here")
            if self._current is not None and self._current.is_usable:
                return self._current
            async with self._lock:
                if self._current is None or not self._current.is_usable:
                    self._current = await self._connect()

    async def _connect(self) -> ClientConnection:
        for connection in list(self._connections):
            if connection.closed:
                del self._connections[connection]
        made = ClientConnection(self)
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._network.connect(lambda: made, self._host, self._port)
        except TimeoutError:
            raise ConnectFailed(f"{self.address}: no connection within {CONNECT_S:g} s") from None
        except OSError as error:
            raise ConnectFailed(f"{self.address}: {error.strerror or error}") from error
        self._connections[made] = None
        return made


def _raise_if_failed(outcome: Any) -> None:
    if isinstance(outcome, Exception):
        raise outcome


def _status_of(fields: dict[str, str]) -> Any:
    text = fields.get("grpc-status", "")
    if text == "0":
        return GrpcStatus.OK
    message = percent_decoded(fields.get("grpc-message", "")) or "the server gave no reason"
    try:
        status = GrpcStatus(int(text))
    except ValueError:
        return GrpcError(GrpcStatus.UNKNOWN, f"status {text!r}: {message}")
    return GrpcError(status, message)
