# cython: annotation_typing=False
# ruff: noqa: ERA001
"""The shortest way from a socket read to its answer.

A transport asks a protocol where a read may go and then tells it how much has come.  Here both are
compiled.  Where the transport has a plain socket, it does not read at all: ``Turns`` finds out in
one call which of a server's sockets have something, and ``receive`` reads it.

While a connection is ``is_straight`` (its reads begin with a frame in the shared buffer, its peer
takes answers, it is not about to close) a read goes to the fast lane at once, and if the lane took
all of it, its answers go out at once: to the socket itself where the transport has one and nothing
that waits to be sent, or else to the transport.  What the socket does not take goes to the
transport, too, and so does an answer to a socket that is broken: the transport tells its protocol
what became of it.  Everything else is the owner's, an ``Inlet``: ``take`` for a read that is not
straight, ``go_on`` for one the lane did not finish, ``give_up`` when it failed, ``look`` when the
peer has stopped taking answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contrailmq._native import raw, system


class Reads:
    """The reading end of one connection.

    ``room`` is where the next read goes, ``read_at`` the loop's time of the last one.  ``out`` is
    the list of answers of the read being handled, None between reads.  ``fd`` is the socket, below
    0 where bytes must go through the transport; ``waiting`` tells how many wait in the transport.
    """

    def __init__(
        self, connection: Any, shared: bytearray, lane: Any, now: Callable[[], float]
    ) -> None:
        self.connection = connection
        self.shared = shared
        self.run_lane: Any = None if lane is None else lane.run
        self.now = now
        self.owner: Any = None
        self.room = memoryview(shared)
        self._shared_address = raw.at_address(self.room)
        self._shared_size = len(shared)
        self.out: list[Any] | None = None
        self.write: Any = None
        self.waiting: Any = None
        self.fd = -1
        self.outlet: Any = None
        self.is_straight = False
        self.read_at = now()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next read goes."""
        return self.room

    def buffer_updated(self, nbytes: int) -> None:
        """One read has come in."""
        self.read_at = self.now()
        self._handle(nbytes)

    def receive(self, now: float) -> bool:
        """Read from the socket; False when it has ended or is broken, which the transport tells."""
        if self.is_straight:
            got = system.receive(self.fd, self._shared_address, self._shared_size)
        else:
            got = self._receive_rest()
        if got > 0:
            self.read_at = now
            self._handle(got)
        return got != 0

    def _receive_rest(self) -> int:
        view = self.room
        return system.receive(self.fd, raw.at_address(view), len(view))

    def _handle(self, nbytes: int) -> None:
        if not self.is_straight:
            self.owner.take(nbytes)
            return
        out: list[Any] = []
        self.out = out
        try:
            position = self.run_lane(self.shared, 0, nbytes, self.connection, out)
        except Exception as error:
            self.owner.give_up(out, error)
            return
        if position != nbytes or self.outlet.later:
            self.owner.go_on(nbytes, position, out)
        elif len(out) == 0:
            self.out = None
        elif self.fd >= 0 and self.waiting() == 0:
            left = system.send_now(self.fd, out)
            if left == 0:
                self.out = None
            else:
                self.owner.go_on(nbytes, position, _last_bytes(out, left))
        elif len(out) > 1:
            self.owner.go_on(nbytes, position, out)
        else:
            self.out = None
            self.write(out[0])
            if self.outlet.is_paused:
                self.owner.look()

    def answer(self, reply: Any) -> None:
        """Write an answer that comes later than its read, at once if nothing stands before it."""
        if not self.is_straight or self.out is not None or self.outlet.later:
            self.connection.send([reply])
        elif self.fd >= 0 and self.waiting() == 0:
            left = system.send_now(self.fd, [reply])
            if left > 0:
                self.connection.send(_last_bytes([reply], left))
        else:
            self.write(reply)
            if self.outlet.is_paused:
                self.owner.look()


def _last_bytes(buffers: list[Any], left: int) -> list[Any]:
    """The last ``left`` bytes of all buffers."""
    found: list[Any] = []
    for buffer in reversed(buffers):
        size = min(left, len(buffer))
        found.append(buffer if size == len(buffer) else memoryview(buffer)[len(buffer) - size :])
        left -= size
        if left == 0:
            break
    found.reverse()
    return found
