"""Handlers of messages and the workers that call them (``loops`` has the other form, iterators).

What is cached can be handed out without waiting for anything; so that heartbeats, pulls and the
user's own tasks do not stand still meanwhile, workers let others run every ten milliseconds.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from types import CoroutineType, coroutine
from typing import Any

from contrailmq._native.client.delivery import Hand
from contrailmq.client.consumer.queue_work import TURN_S, Inbox
from contrailmq.client.consumer.settling import Settling
from contrailmq.client.crew import Crew
from contrailmq.client.message import ReceivedMessage
from contrailmq.errors import RequestTimeout

log = logging.getLogger(__name__)

Handler = Callable[[ReceivedMessage], Awaitable[None] | None]
BatchHandler = Callable[[list[ReceivedMessage]], Awaitable[None] | None]


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
        self._turn_ends = 0.0
        self.count = count

    def start(self, crew: Crew) -> None:
        """Start all workers."""
        single = self._handler.handler if isinstance(self._handler, OneByOne) else None
        if self._batch > 1 or not self._settling.is_plain:
            single = None
        for number in range(self.count):
            work = self._run() if single is None else self._run_single(single)
            crew.start(work, name=f"worker {number}")

    async def _run_single(self, handler: Handler) -> None:
        """``_run`` for handlers of single messages: as many in a row as need not wait."""
        inbox, settling = self._inbox, self._settling
        alarm = Alarm(self._timeout_s)
        hand = Hand(handler, asyncio.get_running_loop().time)
        try:
            while not inbox.closed:
                work = inbox.front()
                if work is None:
                    await inbox.wait()
                    continue
                error: BaseException | None = None
                try:
                    hand.run(work.cache, inbox.turn_left(work), self._turn_ends)
                except BaseException as raised:
                    error = raised
                inbox.took(work, hand.count if hand.message is None else hand.count + 1)
                if hand.count:
                    settling.done_many(work, hand.topic, hand.count)
                if hand.message is not None:
                    await self._finish(hand, alarm, error)
                    error = None
                    hand.clear()
                if hand.since > self._turn_ends:
                    await asyncio.sleep(0)
                    self._turn_ends = hand.since + TURN_S
        finally:
            alarm.close()
            inbox.pass_on()

    async def _finish(self, hand: Hand, alarm: Alarm, error: BaseException | None) -> None:
        """See the message in hand to its end: the handler waits, has failed or wants a retry."""
        message: ReceivedMessage = hand.message
        try:
            if error is not None:
                raise error
            if hand.rest is not None:
                alarm.begin(hand.since)
                self._inbox.pass_on()
                await (going_on(hand.rest, hand.awaited) if hand.is_begun else hand.rest)
        except BaseException as raised:
            self._ended_badly([message], alarm, raised)
        else:
            alarm.end()
            self._settling.done_one(message)

    async def _run(self) -> None:
        """Take, call the handler, settle; written out in one piece, it runs for every message."""
        inbox, settling, handler = self._inbox, self._settling, self._handler
        alarm = Alarm(self._timeout_s)
        try:
            while not inbox.closed:
                messages = inbox.take(self._batch)
                if not messages:
                    await inbox.wait()
                    continue
                if settling.trace is not None:
                    settling.begin(messages)
                begun = alarm.begin()
                try:
                    result = handler(messages)
                    if result is not None and (
                        type(result) is CoroutineType or inspect.isawaitable(result)
                    ):
                        await result
                except BaseException as error:
                    self._ended_badly(messages, alarm, error)
                else:
                    alarm.end()
                    settling.done(messages)
                if begun > self._turn_ends:
                    await asyncio.sleep(0)
                    self._turn_ends = begun + TURN_S
        finally:
            alarm.close()

    def _ended_badly(
        self, messages: list[ReceivedMessage], alarm: Alarm, error: BaseException
    ) -> None:
        """The handler raised, was cut short, or is cancelled with the worker."""
        if isinstance(error, asyncio.CancelledError) and alarm.expired():
            error = self._late(error)
        alarm.end()
        if isinstance(error, Exception):
            self._settling.failed(messages, error)
        else:
            self._settling.abandon(messages)
            raise error

    async def call(self, messages: list[ReceivedMessage]) -> None:
        """Call the handler; raises what it raises, or RequestTimeout when it takes too long."""
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                result = self._handler(messages)
                if inspect.isawaitable(result):
                    await result
        except TimeoutError as error:
            if limit.expired():
                raise self._late(error) from error
            raise

    def _late(self, cause: BaseException) -> RequestTimeout:
        error = RequestTimeout(
            f"the handler took more than {self._timeout_s:g} s (consume_timeout_s)"
        )
        return error.with_traceback(cause.__traceback__)


class Alarm:
    """A limit on how long a task is at one thing, with one timer for many things.

    ``asyncio.timeout`` arms a timer each time, which costs more than a quick handler does.
    ``begin`` and ``end`` only note the time; the timer looks now and then, and when a thing has
    taken too long, the task is cancelled.  ``expired`` tells that cancellation from another.
    """

    __slots__ = ("_limit_s", "_loop", "_now", "_task", "_timer", "rang", "since")

    def __init__(self, limit_s: float) -> None:
        task = asyncio.current_task()
        assert task is not None, "an alarm belongs to a task"
        self._task: asyncio.Task[Any] = task
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._limit_s = limit_s
        self._timer: asyncio.TimerHandle | None = None
        self.since: float | None = None
        self.rang = False  # the task was cancelled, and nobody has taken note of it yet

    def begin(self, since: float | None = None) -> float:
        """The thing begins, or began ``since``; the loop's time then."""
        now = self.since = self._now() if since is None else since
        if self._timer is None:
            self._timer = self._loop.call_later(self._limit_s, self._look)
        return now

    def end(self) -> None:
        """It is over, in time or not."""
        self.since = None
        if self.rang:  # whoever was cancelled did not mind
            self.rang = False
            self._task.uncancel()

    def expired(self) -> bool:
        """Whether the cancellation in hand is this alarm's, and nobody else's too."""
        if not self.rang:
            return False
        self.rang = False
        return self._task.uncancel() == 0

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if self.since is None:
            return
        left_s = self.since + self._limit_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._look)
        else:
            self.rang = True
            self._task.cancel()


@coroutine
def going_on(begun: Coroutine[Any, Any, Any], awaited: Any) -> Generator[Any, Any, None]:
    """Await a coroutine that was run by hand until it yielded ``awaited``."""
    while True:
        try:
            sent = yield awaited
        except GeneratorExit:
            begun.close()
            raise
        except BaseException as error:
            step = partial(begun.throw, error)
        else:
            step = partial(begun.send, sent)
        try:
            awaited = step()
        except StopIteration:
            return


class OneByOne:
    """A handler of single messages as a handler of batches."""

    __slots__ = ("handler",)

    def __init__(self, handler: Handler) -> None:
        self.handler = handler

    async def __call__(self, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            result = self.handler(message)
            if result is not None and inspect.isawaitable(result):
                await result
