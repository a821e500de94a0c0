"""From a pulled record to a handler and to its acknowledgement, without a step of Python's between.

``Hand`` calls a handler with the messages of one queue, one after another.  A handler that never
waits (a plain function, or a coroutine that ends when it is first run) costs no task, no future and
no exception.  The first that waits, fails or asks for a retry ends the run, and is the caller's.

``Grip`` is the same for a loop, which comes back for each message itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CoroutineType
from typing import Any

from contrailmq._native import system
from contrailmq._native.records import RecordFields
from contrailmq._native.store import scan

_COMPRESSED = 1
_COROUTINE = CoroutineType


class DeliveryFields(RecordFields):
    """A decoded record on its way to a consumer; ``adopt`` gives all of these a value."""

    __slots__ = ("origin", "retry_after_s", "retry_asked", "started_ms", "trace_id")

    origin: Any
    retry_asked: bool
    retry_after_s: float | None
    started_ms: int
    trace_id: str


def adopt(messages: list[Any], origin: Any) -> bool:
    """Say of fresh messages where they come from; whether the body of one is compressed."""
    flags = 0
    for message in messages:
        message.origin = origin
        message.retry_asked = False
        message.retry_after_s = None
        message.started_ms = 0
        message.trace_id = ""
        flags |= message.sys_flag
    return flags & _COMPRESSED != 0


def find_bad_bodies(messages: list[Any]) -> list[int]:
    """Return the places of messages whose body does not have the checksum it was stored with."""
    bad: list[int] = []
    number = 0
    for message in messages:
        body = message.body
        data = body
        crc = scan.crc32_at(data, 0, len(body))
        if crc & 0x7FFFFFFF != message.body_crc:
            bad.append(number)
        number += 1
    return bad


class Hand:
    """Calls one handler with messages of a queue, and settles those it is done with.

    After ``run``: ``count`` messages of ``topic`` are settled; ``since`` is the loop's time at
    which the last one began.  ``message`` is None, or the one that is not settled, because the
    handler raised (and ``run`` with it), waits (``rest`` is what to await, or, when ``is_begun``,
    a coroutine that yielded ``awaited``), or asked for a retry (``rest`` is None).
    """

    def __init__(self, handler: Callable[[Any], Any], now: Callable[[], float]) -> None:
        self.handler = handler
        self.now = now
        self.since = 0.0
        self.clear()

    def clear(self) -> None:
        """Hold nothing."""
        self.message: Any = None
        self.topic: Any = None
        self.rest: Any = None
        self.awaited: Any = None
        self.is_begun = False
        self.count = 0

    def run(self, cache: Any, count: int, until: float) -> None:
        """Hand out up to ``count`` messages of one topic that are ready in a ``ProcessQueue``.

        Ends with the first message that begins after ``until``.
        """
        self.clear()
        ready = cache.ready
        order = cache.order
        settled = cache.settled
        size = 0
        done = 0
        try:
            while done < count and ready:
                message = ready.popleft()
                if done == 0:
                    self.topic = message.topic
                elif message.topic is not self.topic and message.topic != self.topic:
                    ready.appendleft(message)
                    break
                self.message = message
                self.since = self.now()
                if not self._call(message) or message.retry_asked:
                    return
                first = -1
                if not settled and order:
                    first = order.popleft()
                    if first != message.queue_offset:
                        order.appendleft(first)
                        first = -1
                if first >= 0:
                    size += message.store_size
                else:
                    cache.settle(message)
                done += 1
                if self.since > until:
                    break
            self.message = None
        finally:
            self.count = done
            if size:
                cache.size -= size

    def _call(self, message: Any) -> bool:
        result = self.handler(message)
        if result is None:
            return True
        if type(result) is _COROUTINE:
            awaited = system.step(result)
            if awaited is result:
                return True
            self.awaited = awaited
            self.is_begun = True
        elif not inspect.isawaitable(result):
            return True
        self.rest = result
        return False


class Grip:
    """The message a loop has in hand, and its way to the next ones of the same queue.

    ``held`` is None, or a message handed out at the loop's time ``since``; ``count`` messages
    before it were settled here since ``begin``.
    """

    def __init__(self, inbox: Any, now: Callable[[], float]) -> None:
        self.inbox = inbox
        self.now = now
        self.held: Any = None
        self.since = 0.0
        self.until = 0.0
        self.cache: Any = None
        self.ready: Any = None
        self.left = 0
        self.count = 0
        self.size = 0

    def begin(self, cache: Any, message: Any, left: int, until: float) -> None:
        """Hold a message just taken from a cache; ``left`` more may follow until ``until``."""
        self.cache = cache
        self.ready = cache.ready
        self.held = message
        self.since = self.now()
        self.left = left
        self.until = until

    def take(self) -> Any:
        """Settle the message in hand and take the next; None when there is more to do than that.

        The last message of a queue is not taken here: its queue has to leave the line.
        """
        held = self.held
        if held is None or held.retry_asked or self.left == 0 or len(self.ready) < 2:
            return None
        if self.inbox.closed:
            return None
        now = self.now()
        if now > self.until:
            return None
        message = self.ready.popleft()
        if message.topic is not held.topic and message.topic != held.topic:
            self.ready.appendleft(message)
            return None
        self._settle(held)
        self.left -= 1
        self.count += 1
        self.held = message
        self.since = now
        return message

    def let_go(self) -> Any:
        """The message in hand, which is no longer; the cache's bytes are right from now on."""
        held = self.held
        self.held = None
        self.count = 0
        if self.size:
            self.cache.size -= self.size
            self.size = 0
        return held

    def _settle(self, held: Any) -> None:
        order = self.cache.order
        if order and not self.cache.settled:
            first = order.popleft()
            if first == held.queue_offset:
                self.size += held.store_size
                return
            order.appendleft(first)
        self.cache.settle(held)
