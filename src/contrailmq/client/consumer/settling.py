"""What becomes of messages once a loop or a handler is done with them.

Concurrent: an acknowledged message is settled; a failed one goes back to the broker and is settled
when the broker has it, or is tried here again after 5 s.  Ordered: a failed message keeps its
place, its whole queue waits and then goes on with it; after too many attempts the broker buries
it.  Broadcast: nobody else would get a failed message, so it is dropped with a warning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contrailmq.client.consumer.queue_work import Inbox, QueueWork
from contrailmq.client.consumer.send_back import SendBack
from contrailmq.client.consumer.trace import ConsumerTrace
from contrailmq.client.crew import Crew
from contrailmq.client.message import DEAD_LETTER_S, ReceivedMessage
from contrailmq.client.settings import ConsumerSettings
from contrailmq.clock import Clock
from contrailmq.net.noise import Noise

log = logging.getLogger(__name__)

_LOCAL_RETRY_S: Final = 5.0
_SUSPEND_MIN_S: Final = 0.01
_SUSPEND_MAX_S: Final = 30.0
_EXPIRED_LEVEL: Final = 3


@dataclass(slots=True)
class Tally:
    """How often messages of a topic were consumed and failed since the start."""

    ok: int = 0
    failed: int = 0


class Settling:
    """Settles the messages of one consumer."""

    def __init__(
        self,
        inbox: Inbox,
        settings: ConsumerSettings,
        *,
        errands: Crew,
        send_back: SendBack,
        ordered: bool,
        broadcast: bool,
        clock: Clock,
    ) -> None:
        self._inbox = inbox
        self._settings = settings
        self._errands = errands
        self._send_back = send_back
        self._ordered = ordered
        self._broadcast = broadcast
        self._noise = Noise(clock)
        self.tallies: dict[str, Tally] = {}
        self.trace: ConsumerTrace | None = None

    @property
    def is_plain(self) -> bool:
        """Whether a message the user is done with needs no more than to be settled."""
        return not self._ordered and self.trace is None

    def begin(self, messages: list[ReceivedMessage]) -> None:
        """Messages are handed to the user."""
        if self.trace is not None:
            self.trace.begin(messages)

    def done(self, messages: list[ReceivedMessage]) -> None:
        """The user is done with messages of one queue; some may have asked for a retry."""
        if self.trace is not None:
            self.trace.end(messages)
        if self._ordered:
            self._done_in_order(messages)
            return
        first = messages[0]
        if len(messages) == 1 and not first.retry_asked and self.trace is None:
            self.done_one(first)
            return
        work = first.origin
        assert isinstance(work, QueueWork)
        if any(message.retry_asked for message in messages):
            for message in messages:
                if message.retry_asked:
                    self._retry(message)
                else:
                    work.settle(message, self._settings)
        else:
            work.settle_all(messages, self._settings)
        self._count(messages[0].topic, len(messages), 0)

    def done_one(self, message: ReceivedMessage) -> None:
        """``done`` for a single message, which is the usual case."""
        if message.retry_asked or self._ordered or self.trace is not None:
            self.done([message])
            return
        work: QueueWork = message.origin  # type: ignore[assignment]  # they come from an inbox
        work.cache.settle(message)
        if work.stalled:
            work.go_on(self._settings)
        tally = self.tallies.get(message.topic)
        if tally is None:
            tally = self._tally(message.topic)
        tally.ok += 1

    def done_many(self, work: QueueWork, topic: str, count: int) -> None:
        """So many messages of a queue were settled where they were handled."""
        if work.stalled:
            work.go_on(self._settings)
        self._tally(topic).ok += count

    def failed(self, messages: list[ReceivedMessage], error: BaseException) -> None:
        """The user's code raised: all of them are consumed again.

        The same error from the same line is shown with its trace once in ten seconds, and then
        with the number of those that were not.
        """
        first = messages[0]
        similar = self._noise.held_back(f"{first.topic} {_place(error)}")
        if similar is not None:
            log.warning(
                "consuming failed, %s: group=%s topic=%s id=%s keys=%s attempt=%s messages=%s"
                " not_shown=%s",
                self._fate(first), first.origin.group, first.topic, first.message_id, first.keys,
                first.attempt, len(messages), similar, exc_info=error,
            )  # fmt: skip
        elif log.isEnabledFor(logging.DEBUG):
            log.debug("consuming failed again topic=%s id=%s", first.topic, first.message_id)
        for message in messages:
            if not message.retry_asked:
                message.retry()
        self.done(messages)
        self._count(messages[0].topic, -len(messages), len(messages))

    def expired(self, message: ReceivedMessage) -> None:
        """A message was in somebody's hands for too long: give it back, do not wait for them."""
        log.warning(
            "consuming takes too long, given back topic=%s id=%s limit_s=%s",
            message.topic, message.message_id, self._settings.consume_timeout_s,
        )  # fmt: skip
        self._errands.spawn(self._give(message, level=_EXPIRED_LEVEL), name="expired")

    def abandon(self, messages: Sequence[ReceivedMessage]) -> None:
        """The hands are gone without a word (cancelled): not settled, so not committed."""
        work = messages[0].origin
        assert isinstance(work, QueueWork)
        work.finish()

    # -- inside

    def _retry(self, message: ReceivedMessage) -> None:
        if self._broadcast:
            log.warning(
                "a broadcast message failed and is dropped topic=%s id=%s",
                message.topic, message.message_id,
            )  # fmt: skip
            self._settle(message)
        else:
            self._errands.spawn(self._give(message, after_s=message.retry_after_s), name="retry")

    async def _give(
        self, message: ReceivedMessage, *, after_s: float | None = None, level: int | None = None
    ) -> None:
        if await self._send_back.give(message, after_s=after_s, level=level):
            if self._is_last(message):
                self._note_dead_letter(message)
            self._settle(message)
            return
        await asyncio.sleep(_LOCAL_RETRY_S)
        work = message.origin
        assert isinstance(work, QueueWork)
        if not work.dropped:
            message.retry_asked = False
            work.cache.put_back([message])
            self._inbox.offer(work)

    def _is_last(self, message: ReceivedMessage) -> bool:
        """Whether a message that fails now becomes a dead letter."""
        if message.retry_after_s == DEAD_LETTER_S:
            return True
        if self._ordered:
            return 0 <= self._settings.retries_max <= message.reconsume_times
        return message.reconsume_times >= self._send_back.retries_max

    def _fate(self, message: ReceivedMessage) -> str:
        if self._broadcast:
            return "is dropped (broadcast)"
        return "becomes a dead letter" if self._is_last(message) else "will be tried again"

    def _note_dead_letter(self, message: ReceivedMessage) -> None:
        log.warning(
            "dead letter: group=%s topic=%s id=%s keys=%s attempt=%s queue=%s offset=%s",
            message.origin.group, message.topic, message.message_id, message.keys,
            message.attempt, message.queue, message.queue_offset,
        )  # fmt: skip

    def _settle(self, message: ReceivedMessage) -> None:
        work = message.origin
        assert isinstance(work, QueueWork)
        work.settle(message, self._settings)

    def _done_in_order(self, messages: Sequence[ReceivedMessage]) -> None:
        work = messages[0].origin
        assert isinstance(work, QueueWork)
        for index, message in enumerate(messages):
            if message.retry_asked:
                self._errands.spawn(self._suspend(work, messages[index:]), name="suspend")
                break
            work.settle(message, self._settings)
        else:
            work.finish()
            self._inbox.offer(work)
        self._count(messages[0].topic, len(messages), 0)

    async def _suspend(self, work: QueueWork, rest: Sequence[ReceivedMessage]) -> None:
        """Hold the queue back; its first message is the one that failed."""
        first = rest[0]
        after_s = first.retry_after_s
        if after_s is None:
            after_s = self._settings.suspend_ordered_s
        is_last = self._is_last(first)
        for message in rest:
            message.retry_asked, message.retry_after_s = False, None
        if is_last and not self._broadcast:
            is_asked = after_s == DEAD_LETTER_S
            bury = self._send_back.bury if is_asked else self._send_back.copy
            if await bury(first):
                self._note_dead_letter(first)
                work.settle(first, self._settings)
                rest, after_s = rest[1:], 0.0
        else:
            first.reconsume_times += 1
        work.cache.put_back(rest)
        work.suspended = True
        await asyncio.sleep(min(max(after_s, _SUSPEND_MIN_S), _SUSPEND_MAX_S))
        work.suspended = False
        work.finish()
        self._inbox.offer(work)

    def _count(self, topic: str, ok: int, failed: int) -> None:
        tally = self._tally(topic)
        tally.ok += ok
        tally.failed += failed

    def _tally(self, topic: str) -> Tally:
        tally = self.tallies.get(topic)
        if tally is None:
            tally = self.tallies[topic] = Tally()
        return tally


def _place(error: BaseException) -> str:
    """What kind of error it is, and the line it came from."""
    trace = error.__traceback__
    if trace is None:
        return type(error).__qualname__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{type(error).__qualname__} {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
