"""What all connections of one server, or of one client, share."""

from __future__ import annotations

import asyncio
import logging
import select
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from contrailmq._native.net.turns import Turns
from contrailmq.lifecycle import Tasks
from contrailmq.net.budget import MemoryBudget
from contrailmq.net.meter import Meter
from contrailmq.net.noise import Noise
from contrailmq.net.settings import Lane, Limits
from contrailmq.net.watch import LoopWatch
from contrailmq.protocol.command import Command

log = logging.getLogger(__name__)

C = TypeVar("C")
C_contra = TypeVar("C_contra", contravariant=True)
Buffer = bytes | bytearray | memoryview

READ_SIZE: Final = 256 * 1024
TURN_S: Final = 0.01  # for handlers; behind it each connection has one request handled per turn


class Sender(Protocol):
    """What writes encoded frames: a connection."""

    def send(self, buffers: Sequence[Buffer], /) -> None:
        """Write frames, in order."""
        ...


class FastLane(Protocol[C_contra]):
    """A compiled loop that handles runs of common requests by itself."""

    def run(
        self, buffer: bytearray, start: int, end: int, connection: C_contra, out: list[Buffer], /
    ) -> int:
        """Handle whole frames from ``start`` as far as it can, append their answers to ``out``.

        Returns the position of the first frame it leaves to the ordinary path, or of an
        unfinished one; ``start`` when it does nothing.  ``buffer`` is used again after the call.
        """
        ...


class Requests(Protocol[C_contra]):
    """What becomes of a request: the dispatcher."""

    def __call__(
        self, request: Command, connection: C_contra, /
    ) -> Command | Awaitable[Command | None] | None:
        """Answer now, later, or not."""
        ...

    def failure(self, request: Command, error: BaseException, /) -> Command:
        """The response of a request whose awaitable failed."""
        ...


class Endpoint(Generic[C]):
    """Dispatcher, bounds, read buffer and the set of open connections.

    One read buffer serves all connections: a loop fills it and calls ``buffer_updated`` without
    anything in between, and what is left over is copied out before the next read.
    """

    def __init__(
        self,
        dispatcher: Requests[C],
        limits: Limits,
        *,
        noise: Noise,
        lanes: Mapping[int, Lane] | None = None,
        lane: FastLane[C] | None = None,
        connections_max: int = 1_000_000,
        on_open: Callable[[C], None] | None = None,
    ) -> None:
        self.dispatcher = dispatcher
        self.limits = limits
        self._noise = noise
        self.watch = LoopWatch(noise)
        self.now: Callable[[], float] = _loop_time  # a client may be made before its loop runs
        self.soon: Callable[[Callable[[], None]], object] = _call_soon
        self._turn_end = 0.0
        self.lanes: dict[int, Lane] = {int(code): value for code, value in (lanes or {}).items()}
        self.lane = lane
        self.tasks = Tasks()
        self.awaited: dict[asyncio.Future[Command | None], None] = {}  # answers to come
        self.connections: dict[C, None] = {}
        self.buffer = bytearray(READ_SIZE)
        self.view = memoryview(self.buffer)
        self._connections_max = connections_max
        self._on_open = on_open
        self.meter: Meter | None = None  # hears of every request that went through a handler
        self.budget: MemoryBudget | None = None  # of a server's connections
        self.on_gone: Callable[[], None] | None = None  # a connection that was opened has ended
        self._turns: Turns | None = None

    def turn_end(self) -> float:
        """Until when handlers of one turn of the loop may work; all connections share it."""
        if not self._turn_end:
            self._turn_end = self.now() + TURN_S
            self.soon(self._end_turn)
        return self._turn_end

    def _end_turn(self) -> None:
        self._turn_end = 0.0

    def opened(self, connection: C) -> str | None:
        """Note a new connection; at the bound, the reason to refuse it."""
        if len(self.connections) >= self._connections_max:
            return f"{len(self.connections)} connections, at most {self._connections_max}"
        self.connections[connection] = None
        if self._on_open is not None:
            self._on_open(connection)
        return None

    def closed(self, connection: C) -> None:
        """Forget a connection that has ended."""
        if self.connections.pop(connection, self) is None and self.on_gone is not None:
            self.on_gone()

    def turns(self) -> Turns | None:
        """The set that reads the sockets of a server; None leaves that to the transports."""
        if not self.limits.is_server or not hasattr(select, "epoll"):
            return None
        if self._turns is None:
            loop = asyncio.get_running_loop()
            self._turns = Turns(loop.time)
            loop.add_reader(self._turns.fd, self._turns.run)
        return self._turns

    def close_turns(self) -> None:
        """All connections are closed."""
        if self._turns is not None:
            asyncio.get_running_loop().remove_reader(self._turns.fd)
            self._turns.close()
            self._turns = None

    def complain(self, peer: str, reason: str) -> None:
        """Log that a connection is closed for a fault of its peer, not too often per host."""
        held_back = self._noise.held_back(peer.rpartition(":")[0])
        if held_back is not None:
            log.warning("connection closed: peer=%s reason=%s similar=%s", peer, reason, held_back)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _call_soon(act: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_soon(act)
