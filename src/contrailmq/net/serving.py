"""The requests of one peer: given to the dispatcher, and counted until they are answered.

A request is in flight from the moment its handler returned without an answer until the answer is
there.  At the bound of its lane a request is refused with SYSTEM_BUSY before its handler sees it;
the remark names the bound.  Lanes do not count against each other: pulls that wait do not keep
sends out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from contrailmq.net.budget import Holder
from contrailmq.net.endpoint import Buffer, Endpoint, Sender
from contrailmq.net.meter import Result
from contrailmq.net.settings import Lane
from contrailmq.net.watch import HELD_S
from contrailmq.net.wire import reply_buffers
from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.command import ONEWAY_FLAG, Command


class HoldingSender(Sender, Holder, Protocol):
    """A connection that answers requests."""


HELD_LOOK: Final = 8  # requests in flight
C = TypeVar("C", bound=HoldingSender)
Later = Awaitable[Command | None]


class Serving(Generic[C]):
    """Serves the requests of one connection."""

    __slots__ = (
        "_answered",
        "_connection",
        "_endpoint",
        "_held",
        "_limits",
        "counts",
        "in_flight",
    )

    def __init__(self, endpoint: Endpoint[C], connection: C) -> None:
        self._endpoint = endpoint
        self._connection = connection
        self._limits = endpoint.limits.in_flight_max
        self.counts = [0, 0, 0]  # requests in flight, by lane
        # By opaque, of requests for which ``reply`` will be called: lane, code, when it came.
        self._held: dict[int, tuple[Lane, int, float]] = {}
        self._answered: int | None = None
        self.in_flight = 0

    def serve(self, request: Command, out: list[Buffer]) -> None:
        """Call the handler; an answer given at once is appended to ``out``."""
        is_oneway = bool(request.flag & ONEWAY_FLAG)
        lane = self._endpoint.lanes.get(request.code, Lane.ADMIN)
        if self.in_flight and self.counts[lane] >= self._limits[lane]:
            if not is_oneway:
                out.extend(reply_buffers(self._refusal(request, lane)))
            return
        self._answered = None
        began = self._endpoint.now()
        result = self._endpoint.dispatcher(request, self._connection)
        took_s = self._endpoint.now() - began
        meter = self._endpoint.meter
        if took_s >= HELD_S:
            size, peer = len(request.body), getattr(self._connection, "peer", "?")
            self._endpoint.watch.look(took_s, code=request.code, peer=peer, size=size)
        if isinstance(result, Command):
            if not is_oneway:
                out.extend(reply_buffers(result))
            if meter is not None:
                kind = Result.ONEWAY if is_oneway else Result.SUCCESS
                meter.served(request.code, result.code, took_s, kind)
        elif result is not None:
            self._await_answer(request, result, lane, began)
        elif not is_oneway and self._answered != request.opaque:
            self._hold(request, lane, began)
        elif meter is not None:
            kind = Result.ONEWAY if is_oneway else Result.SUCCESS
            meter.served(request.code, ResponseCode.SUCCESS, took_s, kind)

    def release(self, opaque: int, answer: int) -> None:
        """``reply`` was called for this request, with an answer of this code."""
        held = self._held.pop(opaque, None)
        if held is None:
            self._answered = opaque
            return
        lane, code, began = held
        self._land(lane)
        if self._endpoint.meter is not None:
            self._endpoint.meter.released(code, answer, self._endpoint.now() - began)

    def _refusal(self, request: Command, lane: Lane) -> Command:
        return request.refuse(
            ResponseCode.SYSTEM_BUSY,
            f"[OVERLOAD]system busy: {self.counts[lane]} {lane.name.lower()} requests of this "
            f"connection are in flight, at most {self._limits[lane]}",
        )

    def _hold(self, request: Command, lane: Lane, began: float) -> None:
        if request.opaque not in self._held:  # a peer may use a number twice; it counts once
            self._held[request.opaque] = (lane, request.code, began)
            self._take_off(lane)

    def _await_answer(self, request: Command, later: Later, lane: Lane, began: float) -> None:
        self._take_off(lane)
        future = later if isinstance(later, asyncio.Future) else None
        if future is None:
            future = self._endpoint.tasks.start(_wait(later), name=f"code-{request.code}")
        self._endpoint.awaited[future] = None
        future.add_done_callback(partial(self._answer, request, lane, began))

    def _answer(
        self, request: Command, lane: Lane, began: float, future: asyncio.Future[Command | None]
    ) -> None:
        self._land(lane)
        self._endpoint.awaited.pop(future, None)
        result = Result.ONEWAY if request.flag & ONEWAY_FLAG else Result.SUCCESS
        if future.cancelled():
            result = Result.CANCELLED
            reply: Command | None = request.refuse(
                ResponseCode.SERVICE_NOT_AVAILABLE, "the server is stopping"
            )
        else:
            error = future.exception()
            result = result if error is None else Result.FAILED
            failure = self._endpoint.dispatcher.failure
            reply = future.result() if error is None else failure(request, error)
        if reply is not None and not request.flag & ONEWAY_FLAG:
            self._connection.send(reply_buffers(reply))
        took_s = self._endpoint.now() - began
        if took_s >= self._endpoint.limits.slow_s:
            size, peer = len(request.body), getattr(self._connection, "peer", "?")
            self._endpoint.watch.slow(took_s, code=request.code, peer=peer, size=size)
        if self._endpoint.meter is not None:
            answer = ResponseCode.SUCCESS if reply is None else reply.code
            self._endpoint.meter.served(request.code, answer, took_s, result)

    def _take_off(self, lane: Lane) -> None:
        self.counts[lane] += 1
        self.in_flight += 1
        if not self.in_flight % HELD_LOOK and self._endpoint.budget is not None:
            self._endpoint.budget.stir(self._connection)

    def _land(self, lane: Lane) -> None:
        self.counts[lane] -= 1
        self.in_flight -= 1


async def _wait(later: Later) -> Command | None:
    return await later
