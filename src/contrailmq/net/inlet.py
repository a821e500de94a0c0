"""The reading side of a connection: every whole frame of a read, in order, before the next read.

The compiled ``Reads`` takes the short way from a read to the fast lane and back to the transport,
while nothing is in its way.  What is not so simple is done here: frames the lane left, bytes of a
frame whose rest has not come yet, a peer that reads slowly, a close in between.
"""

from __future__ import annotations

import logging
from typing import Generic, Protocol, TypeVar

from contrailmq._native.net.reads import Reads
from contrailmq.net.budget import HELD_REQUEST_SIZE, SMALL_SIZE
from contrailmq.net.calls import Calls
from contrailmq.net.endpoint import Buffer, Endpoint, Sender
from contrailmq.net.intake import Intake
from contrailmq.net.outlet import Outlet
from contrailmq.net.serving import Serving
from contrailmq.net.wire import bad_size
from contrailmq.protocol.command import RESPONSE_FLAG, Command, decode
from contrailmq.protocol.frame import LENGTH_SIZE

log = logging.getLogger(__name__)


class Owner(Sender, Protocol):
    """What this module needs of a connection."""

    calls: Calls
    close_reason: str | None
    peer: str

    @property
    def held_size(self) -> int:
        """Bytes of memory it holds."""
        ...

    def overrun(self, reason: str, /) -> None:
        """Close at once for what it holds."""
        ...

    def steer_reading(self) -> None:
        """Whether to read may have changed."""
        ...

    def reject(self, error: Exception, /) -> None:
        """A read failed: close."""
        ...


C = TypeVar("C", bound=Owner)


class Inlet(Generic[C]):
    """Takes the frames of one connection; ``is_stopped`` once a graceful close has begun."""

    __slots__ = (
        "_connection",
        "_endpoint",
        "_intake",
        "_limits",
        "_outlet",
        "is_resting",
        "is_stopped",
        "reads",
        "serving",
    )

    def __init__(self, endpoint: Endpoint[C], connection: C, reads: Reads) -> None:
        self._endpoint = endpoint
        self._connection = connection
        self._limits = endpoint.limits
        self._outlet: Outlet | None = None
        self._intake = Intake(endpoint.buffer, endpoint.view)
        self.serving = Serving(endpoint, connection)
        self.reads = reads
        reads.owner = self
        self.is_stopped = False
        self.is_resting = False

    @property
    def held_size(self) -> int:
        """Bytes of an unfinished frame, and of the requests whose answers are to come."""
        return self._intake.size + HELD_REQUEST_SIZE * self.serving.in_flight

    def open(self, outlet: Outlet) -> None:
        """The socket is there."""
        self._outlet = outlet
        self.reads.outlet = outlet
        self.steer()

    def close(self) -> None:
        """The socket is gone."""
        self._outlet = None
        self._intake.clear()
        self.steer()

    def steer(self) -> None:
        """Where the next read goes, and whether the lane may have it straight away."""
        self.reads.room = self._intake.room()
        self.reads.is_straight = (
            self._outlet is not None
            and not self._outlet.is_paused
            and self._endpoint.lane is not None
            and self._limits.is_server
            and not self.is_stopped
            and self._connection.close_reason is None
            and self._intake.is_empty
        )

    def resume(self) -> None:
        """The peer takes answers again: take the frames that were left."""
        kept = self._intake.kept()
        is_open = self._outlet is not None
        if kept is not None and is_open and self.reads.out is None and self._limits.is_server:
            self._take(*kept)
        self.steer()

    # -- what the compiled half leaves

    def take(self, nbytes: int) -> None:
        """A read has come in that the lane must not have straight away."""
        self._take(*self._intake.filled(nbytes))

    def go_on(self, nbytes: int, position: int, out: list[Buffer]) -> None:
        """The lane has left off at ``position`` of a read; its answers are in ``out``."""
        self._finish(self._endpoint.buffer, nbytes, position, out=out, is_asked=True)

    def give_up(self, out: list[Buffer], error: Exception) -> None:
        """A read failed: write what was answered, and close."""
        self._write(out)
        self._connection.reject(error)

    def look(self) -> None:
        """The peer has stopped taking answers: is it hopeless?"""
        if self._outlet is not None:
            self._outlet.check()

    def _take(self, buffer: bytearray, end: int) -> None:
        """Handle all whole frames of a buffer and write what they answer."""
        if self._connection.close_reason is None:
            out: list[Buffer] = []
            self.reads.out = out
            self._finish(buffer, end, 0, out=out, is_asked=False)

    def _finish(
        self, buffer: bytearray, end: int, position: int, *, out: list[Buffer], is_asked: bool
    ) -> None:
        try:
            position = self._handle_frames(buffer, end, position, out=out, is_asked=is_asked)
        except Exception as error:
            self.give_up(out, error)
            return
        self._write(out)
        if self._connection.close_reason is None:
            self._intake.keep(buffer, position, end)
            if self._intake.size > SMALL_SIZE and self._endpoint.budget is not None:
                self._endpoint.budget.stir(self._connection)
            self.steer()

    def _write(self, out: list[Buffer]) -> None:
        self.reads.out = None
        if out and self._outlet is not None:
            self._outlet.flush()
            self._outlet.write(out)

    def _handle_frames(
        self, buffer: bytearray, end: int, position: int, *, out: list[Buffer], is_asked: bool
    ) -> int:
        """Handle whole frames from ``position`` on; returns where the rest begins."""
        lane, high = self._endpoint.lane, self._limits.write_high_size
        size_max = self._limits.frame_size_max - LENGTH_SIZE
        is_server, outlet, connection = self._limits.is_server, self._outlet, self._connection
        assert outlet is not None
        counted = pending = 0
        turn_end, budget = 0.0, self._endpoint.budget
        while end - position >= LENGTH_SIZE and connection.close_reason is None:
            if is_server and (outlet.is_paused or self.is_stopped):
                break
            if budget is not None and budget.is_over:
                self._rest()
                break
            if lane is not None and not is_asked:
                position = lane.run(buffer, position, end, connection, out)
                if position == end:
                    break
            is_asked = False
            start = position + LENGTH_SIZE
            if start <= end:
                size = int.from_bytes(buffer[position:start], "big", signed=True)
                if not LENGTH_SIZE <= size <= size_max:
                    raise bad_size(bytes(buffer[position:start]), size_max)
                if start + size > end:
                    break
                position = start + size
                turn_end = turn_end or self._endpoint.turn_end()
                self._handle(decode(memoryview(buffer)[start:position]), out)
                if is_server and position < end and self._endpoint.now() >= turn_end:
                    self._rest()
                    break
            for index in range(counted, len(out)):
                pending += len(out[index])
            counted = len(out)
            if pending >= high:
                outlet.flush()
                outlet.write(out)
                out.clear()
                counted = pending = 0
        return position

    def _rest(self) -> None:
        """Let the others have their turn; nothing is read meanwhile."""
        if not self.is_resting:
            self.is_resting = True
            self._endpoint.soon(self._go_on)
            self._connection.steer_reading()

    def _go_on(self) -> None:
        self.is_resting = False
        self.resume()
        if not self.is_resting:
            self._connection.steer_reading()

    def _handle(self, command: Command, out: list[Buffer]) -> None:
        if not command.flag & RESPONSE_FLAG:
            self.serving.serve(command, out)
        elif not self._connection.calls.settle(command):
            log.debug(
                "answer to an unknown request: peer=%s opaque=%s",
                self._connection.peer,
                command.opaque,
            )
