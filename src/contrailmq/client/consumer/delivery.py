"""How messages get into the user's hands: an asynchronous iterator, or a handler with workers.

An iterator acknowledges what it handed out last when it is asked for the next.  Several loops may
iterate over one consumer; each has an iterator of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

from contrailmq.client.consumer.settling import Settling
from contrailmq.client.consumer.work import Inbox
from contrailmq.client.crew import Crew
from contrailmq.client.message import ReceivedMessage
from contrailmq.clock import Clock
from contrailmq.errors import RequestTimeout

log = logging.getLogger(__name__)

Handler = Callable[[ReceivedMessage], Awaitable[None] | None]
BatchHandler = Callable[[list[ReceivedMessage]], Awaitable[None] | None]
T = TypeVar("T")


class Hands:
    """The messages one loop holds."""

    __slots__ = ("held", "since_ms")

    def __init__(self) -> None:
        self.held: list[ReceivedMessage] = []
        self.since_ms = 0


class Deliveries(AsyncIterator[T], Generic[T]):
    """Hands out messages of one consumer to one loop."""

    def __init__(
        self,
        inbox: Inbox,
        settling: Settling,
        *,
        crew: Crew,
        clock: Clock,
        count: int,
        shape: Callable[[list[ReceivedMessage]], T],
    ) -> None:
        self._inbox = inbox
        self._settling = settling
        self._crew = crew
        self._now_ms = clock.monotonic_ms
        self._count = count
        self._shape = shape
        self.hands = Hands()

    def __aiter__(self) -> Deliveries[T]:
        return self

    async def __anext__(self) -> T:
        hands = self.hands
        if hands.held:
            held, hands.held = hands.held, []
            self._settling.done(held)
        taken = self._inbox.take(self._count)
        while not taken:
            self._crew.check()
            if self._inbox.closed:
                raise StopAsyncIteration
            await self._inbox.wait()
            taken = self._inbox.take(self._count)
        hands.held = taken
        hands.since_ms = self._now_ms()
        if self._settling.trace is not None:
            self._settling.begin(taken)
        return self._shape(taken)


class Workers:
    """Runs a handler over messages with a bound on how many at a time."""

    def __init__(
        self,
        inbox: Inbox,
        settling: Settling,
        *,
        handler: BatchHandler,
        count: int,
        batch: int,
        timeout_s: float,
    ) -> None:
        self._inbox = inbox
        self._settling = settling
        self._handler = handler
        self._batch = batch
        self._timeout_s = timeout_s
        self.count = count

    def start(self, crew: Crew) -> None:
        """Start all workers."""
        for number in range(self.count):
            crew.start(self._run(), name=f"worker {number}")

    async def _run(self) -> None:
        while not self._inbox.closed:
            messages = self._inbox.take(self._batch)
            if messages:
                await self.handle(messages)
            else:
                await self._inbox.wait()

    async def handle(self, messages: list[ReceivedMessage]) -> None:
        """Call the handler and settle what it was given."""
        self._settling.begin(messages)
        try:
            await self.call(messages)
        except asyncio.CancelledError:
            self._settling.abandon(messages)
            raise
        except Exception as error:
            self._settling.failed(messages, error)
        else:
            self._settling.done(messages)

    async def call(self, messages: list[ReceivedMessage]) -> None:
        """Call the handler; raises what it raises, or RequestTimeout when it takes too long."""
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                result = self._handler(messages)
                if inspect.isawaitable(result):
                    await result
        except TimeoutError as error:
            if limit.expired():
                raise RequestTimeout(
                    f"the handler took more than {self._timeout_s:g} s (consume_timeout_s)"
                ) from error
            raise


def one_by_one(handler: Handler) -> BatchHandler:
    """A handler of single messages as a handler of batches."""

    async def call(messages: list[ReceivedMessage]) -> None:
        for message in messages:
            result = handler(message)
            if inspect.isawaitable(result):
                await result

    return call
