"""The server's end of one HTTP/2 connection: handlers, deadlines, refusals.

A call's handler runs at once (unary) or in a task.  A call is *gone* when its peer has reset it,
when its connection has ended or when its deadline has passed: whoever waits in ``read`` or
``write`` gets CallGone, any other task is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, Protocol

from contrailmq._native.grpc import faults
from contrailmq._native.grpc.faults import Http2Fault
from contrailmq._native.grpc.hpack import HeaderDecoder
from contrailmq._native.grpc.stream import Stream
from contrailmq.grpc.call import CallGone, GrpcError, GrpcStatus
from contrailmq.grpc.http2.blocks import http_block, status_block
from contrailmq.grpc.http2.connection import (
    HEAD_SIZE,
    ID_MAX,
    PREFACE,
    SETTINGS,
    Http2Connection,
    Owner,
)
from contrailmq.lifecycle import Tasks

log = logging.getLogger(__name__)

LINGER_S: Final = 5.0  # what a handler has to end after read or write told it that all is over
TIMER_S_MAX: Final = 7 * 24 * 3600.0  # deadlines beyond it are none


class Awaited:
    """The unary calls of a server whose answers are still to come."""

    def __init__(self) -> None:
        self._streams: dict[Stream, None] = {}
        self._none_left: asyncio.Future[None] | None = None

    def add(self, stream: Stream) -> None:
        """An answer is still to come."""
        self._streams[stream] = None

    def discard(self, stream: Stream) -> None:
        """It has come, or nobody waits for it."""
        self._streams.pop(stream, None)
        if not self._streams and self._none_left is not None and not self._none_left.done():
            self._none_left.set_result(None)

    async def drain(self, timeout_s: float) -> None:
        """Return when all have come, or after a while."""
        if self._streams:
            self._none_left = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._none_left,), timeout=timeout_s)


class ServerOwner(Owner, Protocol):
    """What a server's connection needs of its server."""

    tasks: Tasks
    awaited: Awaited

    def opened(self, connection: ServerConnection) -> str | None:
        """A connection is there; a text refuses it."""
        ...

    def ended(self, connection: ServerConnection) -> None:
        """A connection is over."""
        ...


class ServerConnection(Http2Connection):
    """One peer of a server."""

    owner: ServerOwner

    def __init__(self, owner: ServerOwner, source: tuple[str, int] | None = None) -> None:
        super().__init__(owner, source)
        self._first: bytes | None = b""  # until the preface and the head of the settings are there
        self._seen_id = 0
        self._idle_from = self.loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there: take it, or say no."""
        super().connection_made(transport)
        refusal = self.owner.opened(self)
        if refusal is not None:
            self.overrun(refusal)

    def take(self, view: memoryview, size: int) -> None:
        """Walk what has come, after the preface."""
        if self._first is None:
            super().take(view, size)
            return
        self._first += bytes(view[:size])
        first = self._first
        if not PREFACE.startswith(first[: len(PREFACE)]):
            self.fail(Http2Fault(faults.PROTOCOL_ERROR, "no HTTP/2: its preface was expected"))
        elif len(first) >= len(PREFACE) + HEAD_SIZE:
            if first[len(PREFACE) + 3] != SETTINGS:
                self.fail(Http2Fault(faults.PROTOCOL_ERROR, "settings must come first"))
                return
            self._first = None
            rest = memoryview(first)[len(PREFACE) :]
            super().take(rest, len(rest))

    # -- what the session calls

    def odd(self, stream: Stream, decoder: HeaderDecoder) -> None:
        """A call that no handler gets."""
        if decoder.method != "POST":
            self.session.end(stream, http_block(405))
        elif not stream.metadata.get("content-type", "").startswith("application/grpc"):
            self.session.end(stream, http_block(415))
        elif decoder.is_too_large:
            limit = self.limits.header_size_max
            self.refuse(stream, GrpcStatus.RESOURCE_EXHAUSTED, f"headers above {limit} bytes")
        else:
            path = stream.method[:200]
            self.refuse(stream, GrpcStatus.UNIMPLEMENTED, f"method {path} is not served here")

    def unreadable(self, stream: Stream, flag: int, size: int) -> None:
        """A message that is too large, or compressed."""
        if flag == 1:
            self.refuse(stream, GrpcStatus.UNIMPLEMENTED, "compressed messages are not taken")
        elif flag:
            self.refuse(stream, GrpcStatus.INTERNAL, f"message flag {flag}, expected 0")
        else:
            limit = self.limits.message_size_max
            self.refuse(
                stream,
                GrpcStatus.RESOURCE_EXHAUSTED,
                f"message of {size} bytes, at most {limit} (grpcMaxInboundMessageSize)",
            )
        self._give_up(stream)

    def failed(self, stream: Stream, error: Exception | None) -> None:
        """A handler raised, or the request is not one whole message."""
        if error is None:
            self.refuse(stream, GrpcStatus.INTERNAL, "expected one whole message, then the end")
        elif isinstance(error, GrpcError):
            self.refuse(stream, error.status, error.text)
        elif not isinstance(error, CallGone):
            log.error("call failed: method=%s peer=%s", stream.method, self.peer, exc_info=error)
            self.refuse(stream, GrpcStatus.INTERNAL, f"an error of this server: {type(error)}")

    def later(self, stream: Stream, answer: Any) -> None:
        """A unary handler's answer is still to come."""
        self._arm(stream)
        self.owner.awaited.add(stream)
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(lambda done: self._settle(stream, done))
        else:
            stream.task = self.owner.tasks.start(self._await(stream, answer))

    def begin(self, stream: Stream) -> None:
        """A streaming call: its handler gets a task."""
        self._arm(stream)
        stream.task = self.owner.tasks.start(self._run(stream))

    def gone(self, stream: Stream) -> None:
        """Tell the handler of a call that nobody waits for it."""
        self.owner.awaited.discard(stream)
        if stream.timer is not None:
            stream.timer.cancel()
            stream.timer = None
        for callback in stream.take_callbacks():
            try:
                callback()
            except Exception:
                log.exception("a callback of a call failed: method=%s", stream.method)
        self._give_up(stream)

    def wake(self, stream: Stream) -> None:
        """A message has come, or the last one has."""
        if stream.waiter is not None and not stream.waiter.done():
            stream.waiter.set_result(None)

    def wake_writer(self, stream: Stream) -> None:
        """All that was written has left."""
        if stream.writer is not None and not stream.writer.done():
            stream.writer.set_result(None)

    # -- what a call's handler waits for

    async def read(self, stream: Stream) -> bytes | None:
        """The next message of a call."""
        while True:
            message = self.session.next_message(stream)
            if message is not None:
                return message
            if stream.is_gone or stream.is_done:
                raise CallGone(f"{stream.method} of {self.peer} is over")
            if stream.has_ended:
                return None
            stream.waiter = self.loop.create_future()
            try:
                await stream.waiter
            finally:
                stream.waiter = None

    async def write(self, stream: Stream, message: bytes) -> None:
        """Send a message of a call; waits until all of it has left."""
        await self._until_written(stream)
        self.session.write(stream, message)
        await self._until_written(stream)

    async def _until_written(self, stream: Stream) -> None:
        """Return when nothing of a call waits to be sent."""
        while True:
            if stream.is_gone or stream.is_done:
                raise CallGone(f"{stream.method} of {self.peer} is over")
            if stream.pending is None:
                return
            if stream.writer is None or stream.writer.done():
                stream.writer = self.loop.create_future()
            await asyncio.shield(stream.writer)

    # -- ends

    def refuse(self, stream: Stream, status: GrpcStatus, text: str) -> None:
        """End a call with a status other than OK."""
        is_begun = bool(stream.has_begun)
        self.session.end(stream, status_block(status, text, is_begun=is_begun))

    def leave(self) -> None:
        """The first half of a graceful end: no new connections' worth of calls, please."""
        if not self.closed:
            self.go_away(ID_MAX)

    def finish(self, reason: str) -> None:
        """The second half: name the last call that is served, and close."""
        if not self.closed:
            self.session.accepts = False
            self.go_away(self.session.last_id)
            self.close(reason)

    def look(self, now: float) -> None:
        """Once in a while: end what is idle, reset what does not go on."""
        session = self.session
        if session.streams or session.last_id != self._seen_id:
            self._seen_id = session.last_id
            self._idle_from = now
        elif now - self._idle_from >= self.limits.idle_s:
            self.finish(f"idle for {self.limits.idle_s:g} s")
            return
        for stream in list(session.streams.values()):
            is_stuck = stream.pending is not None or (stream.is_unary and not stream.has_ended)
            if is_stuck and stream.state == (stream.held, stream.send_left):
                session.put_reset(stream.number, faults.CANCEL)
                session.lose(stream)
            stream.state = (stream.held, stream.send_left) if is_stuck else None
        super().look(now)

    def on_end(self) -> None:
        """It is over: so is its place at the server."""
        self.owner.ended(self)

    def _arm(self, stream: Stream) -> None:
        deadline = stream.deadline
        if deadline is not None and deadline - self.loop.time() < TIMER_S_MAX:
            stream.timer = self.loop.call_at(deadline, self._expire, stream)

    def _expire(self, stream: Stream) -> None:
        stream.timer = None
        if stream.is_gone or (stream.is_done and stream.pending is None):
            return
        if stream.pending is None:
            self.refuse(stream, GrpcStatus.DEADLINE_EXCEEDED, "the deadline of the call has passed")
        else:
            self.session.put_reset(stream.number, faults.CANCEL)
        self.session.lose(stream)

    def _give_up(self, stream: Stream) -> None:
        """Wake whoever waits for a call that is over, and cancel its task."""
        is_waiting = False
        for waiter in (stream.waiter, stream.writer):
            if waiter is not None and not waiter.done():
                is_waiting = True
                waiter.set_result(None)
        task = stream.task
        if task is None or task.done() or task is asyncio.current_task():
            return
        if is_waiting:
            self.loop.call_later(LINGER_S, task.cancel)
        else:
            task.cancel()

    async def _await(self, stream: Stream, answer: Any) -> None:
        try:
            message = await answer
        except asyncio.CancelledError:
            self._cancelled(stream)
            raise
        except Exception as error:
            self.failed(stream, error)
        else:
            self._answer(stream, message)
        finally:
            stream.task = None
            self.owner.awaited.discard(stream)

    def _settle(self, stream: Stream, done: asyncio.Future[bytes]) -> None:
        self.owner.awaited.discard(stream)
        if done.cancelled():
            self._cancelled(stream)
        elif (error := done.exception()) is None:
            self._answer(stream, done.result())
        elif isinstance(error, Exception):
            self.failed(stream, error)

    def _answer(self, stream: Stream, message: object) -> None:
        if isinstance(message, bytes):
            self.session.answer(stream, message)
        else:
            self.failed(stream, TypeError(f"a handler answered with {type(message).__name__}"))

    async def _run(self, stream: Stream) -> None:
        try:
            await stream.handler(stream)
        except asyncio.CancelledError:
            self._cancelled(stream)
            raise
        except Exception as error:
            self.failed(stream, error)
        else:
            self.session.end(stream, None)
        finally:
            stream.task = None
            stream.take_callbacks()

    def _cancelled(self, stream: Stream) -> None:
        if not stream.is_gone and not self.closed:
            self.refuse(stream, GrpcStatus.UNAVAILABLE, "the server is closing down")
