"""Requests we have sent on one connection and whose answers are awaited.

Each connection numbers its own requests.  One timer serves all of them: it is armed for the
earliest deadline, and since most calls have the same timeout it goes off rarely.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from contrailmq.errors import NetworkError, RequestTimeout, TooManyRequests
from contrailmq.protocol.command import Command

OPAQUE_MAX = 0x7FFFFFFF


class Waiter(Protocol):
    """What waits for an answer: a future, or what passes it on to one."""

    def done(self) -> bool:
        """Whether nobody waits any more."""
        ...

    def set_result(self, result: Command, /) -> None:
        """The answer."""
        ...

    def set_exception(self, exception: BaseException, /) -> None:
        """There will be no answer."""
        ...

    def exception(self) -> BaseException | None:
        """Mark the error as fetched."""
        ...


class _Call(NamedTuple):
    future: Waiter
    deadline: float
    timeout_s: float
    code: int


class Calls:
    """The calls of one connection, by opaque. At ``limit`` calls, another is refused.

    A client's lane takes the calls it answers out of ``pending`` itself.
    """

    __slots__ = ("_armed", "_limit", "_loop", "_on_timeout", "_opaque", "_timer", "pending")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        limit: int,
        on_timeout: Callable[[float], None],
    ) -> None:
        self._loop = loop
        self._limit = limit
        self._on_timeout = on_timeout
        self._opaque = 0
        self.pending: dict[int, _Call] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._armed = 0.0

    def __len__(self) -> int:
        return len(self.pending)

    def next_opaque(self) -> int:
        """A number that no call under way has."""
        opaque = self._opaque
        while opaque in self.pending:
            opaque = (opaque + 1) & OPAQUE_MAX
        self._opaque = (opaque + 1) & OPAQUE_MAX
        return opaque

    def begin(self, command: Command, timeout_s: float) -> asyncio.Future[Command]:
        """Give ``command`` its opaque and return the future of its answer."""
        future: asyncio.Future[Command] = self._loop.create_future()
        command.opaque = self.enter(future, command.code, timeout_s)
        return future

    def enter(self, future: Waiter, code: int, timeout_s: float) -> int:
        """Note who waits for the answer to a request with this code; returns its opaque."""
        if len(self.pending) >= self._limit:
            raise TooManyRequests(f"{len(self.pending)} calls await answers, at most {self._limit}")
        opaque = self.next_opaque()
        deadline = self._loop.time() + timeout_s
        self.pending[opaque] = _Call(future, deadline, timeout_s, code)
        if self._timer is None or deadline < self._armed:
            self._arm(deadline)
        return opaque

    def settle(self, response: Command) -> bool:
        """Hand an answer to its caller; False when nobody waits for it (any more)."""
        call = self.pending.pop(response.opaque, None)
        if call is None or call.future.done():
            return False
        call.future.set_result(response)
        return True

    def forget(self, opaque: int) -> None:
        """Nobody waits for this answer any more."""
        self.pending.pop(opaque, None)

    def fail(self, error: NetworkError) -> None:
        """The connection is gone: every call fails now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pending, self.pending = self.pending, {}
        for call in pending.values():
            if not call.future.done():
                call.future.set_exception(type(error)(f"{error} (code {call.code})"))
                # A caller that was cancelled meanwhile does not fetch it; that is no error.
                call.future.exception()

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed = deadline
        self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time() + 0.0005  # uvloop's timers count whole milliseconds
        late = [(opaque, call) for opaque, call in self.pending.items() if call.deadline <= now]
        for opaque, call in late:
            del self.pending[opaque]
            if not call.future.done():
                call.future.set_exception(
                    RequestTimeout(f"no answer to code {call.code} within {call.timeout_s:g} s")
                )
                call.future.exception()
        if self.pending:
            self._arm(min(call.deadline for call in self.pending.values()))
        if late:
            self._on_timeout(max(call.timeout_s for _, call in late))
