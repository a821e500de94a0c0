"""Messages for the user's own loops: asynchronous iterators over the inbox of one consumer.

An iterator acknowledges what it handed out last when it is asked for the next.  Several loops may
iterate over one consumer; each has an iterator of its own.  Like workers, they let others run
every ten milliseconds.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

from contrailmq._native.client.delivery import Grip
from contrailmq.client.consumer.queue_work import TURN_S, Inbox, QueueWork
from contrailmq.client.consumer.settling import Settling
from contrailmq.client.crew import Crew
from contrailmq.client.message import ReceivedMessage

T = TypeVar("T")


class Loop(AsyncIterator[T], Generic[T]):
    """Hands out messages of one consumer to one loop; ``now`` is the event loop's time."""

    def __init__(
        self, inbox: Inbox, settling: Settling, *, crew: Crew, now: Callable[[], float]
    ) -> None:
        self._inbox = inbox
        self._settling = settling
        self._crew = crew
        self._now = now
        self._turn_ends = 0.0

    def __aiter__(self) -> Loop[T]:
        return self

    @abstractmethod
    async def __anext__(self) -> T:
        """Settle what was handed out last and wait for the next."""

    @abstractmethod
    def held_since(self) -> float | None:
        """The loop's time at which what is in hand was handed out; None with empty hands."""

    @abstractmethod
    def release(self) -> list[ReceivedMessage]:
        """What is in hand, which is whoever asks to settle from now on."""

    async def _others_turn(self) -> None:
        now = self._now()
        if now > self._turn_ends:
            await asyncio.sleep(0)
            self._turn_ends = now + TURN_S

    async def _wait(self) -> None:
        """Wait until there may be something to take; raises when there will be nothing."""
        self._crew.check()
        if self._inbox.closed:
            raise StopAsyncIteration
        await self._inbox.wait()


class Lists(Loop[list[ReceivedMessage]]):
    """Lists of up to ``count`` messages of one queue."""

    def __init__(
        self,
        inbox: Inbox,
        settling: Settling,
        *,
        crew: Crew,
        now: Callable[[], float],
        count: int,
    ) -> None:
        super().__init__(inbox, settling, crew=crew, now=now)
        self._count = count
        self._held: list[ReceivedMessage] = []
        self._since = 0.0

    async def __anext__(self) -> list[ReceivedMessage]:
        if self._held:
            self._settling.done(self.release())
        await self._others_turn()
        while not (taken := self._inbox.take(self._count)):
            await self._wait()
        self._held = taken
        self._since = self._now()
        self._settling.begin(taken)
        return taken

    def held_since(self) -> float | None:
        """As of all loops."""
        return self._since if self._held else None

    def release(self) -> list[ReceivedMessage]:
        """As of all loops."""
        held, self._held = self._held, []
        return held


class OneOfList(Loop[ReceivedMessage]):
    """Single messages, for consumers that do more with them than to settle them."""

    def __init__(
        self, inbox: Inbox, settling: Settling, *, crew: Crew, now: Callable[[], float]
    ) -> None:
        super().__init__(inbox, settling, crew=crew, now=now)
        self._lists = Lists(inbox, settling, crew=crew, now=now, count=1)

    async def __anext__(self) -> ReceivedMessage:
        return (await self._lists.__anext__())[0]

    def held_since(self) -> float | None:
        """As of all loops."""
        return self._lists.held_since()

    def release(self) -> list[ReceivedMessage]:
        """As of all loops."""
        return self._lists.release()


class Singles(Loop[ReceivedMessage]):
    """Single messages of a concurrent consumer: most go from one to the next in compiled code."""

    def __init__(
        self, inbox: Inbox, settling: Settling, *, crew: Crew, now: Callable[[], float]
    ) -> None:
        super().__init__(inbox, settling, crew=crew, now=now)
        self._grip = Grip(inbox, self._now)
        self._work: QueueWork | None = None
        self._topic = ""

    async def __anext__(self) -> ReceivedMessage:
        message: ReceivedMessage | None = self._grip.take()
        return message if message is not None else await self._next()

    def held_since(self) -> float | None:
        """As of all loops."""
        return self._grip.since if self._grip.held is not None else None

    def release(self) -> list[ReceivedMessage]:
        """As of all loops."""
        count = self._grip.count
        held: ReceivedMessage | None = self._grip.let_go()
        if count:
            assert self._work is not None
            self._inbox.took(self._work, count)
            self._settling.done_many(self._work, self._topic, count)
        return [held] if held is not None else []

    async def _next(self) -> ReceivedMessage:
        """The next message wherever it is."""
        for message in self.release():
            self._settling.done_one(message)
        await self._others_turn()
        inbox = self._inbox
        while (work := inbox.front()) is None:
            await self._wait()
        left = inbox.turn_left(work)
        message = work.cache.ready.popleft()
        inbox.took(work, 1)
        inbox.pass_on()  # whoever waits: this loop may do something else for long
        self._work, self._topic = work, message.topic
        self._grip.begin(work.cache, message, left - 1, self._turn_ends)
        return message
