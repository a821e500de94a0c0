"""POP for callers: take messages, wait for them, settle them, hide them longer.

This is what the handlers of the wire call, and what a server of another protocol in the same
process calls.  ``take`` gives its outcome at once or, when it has to wait for a message or for the
disk, later to ``answer``; ``pop`` is the same to be awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from contrailmq.broker.pop.order import OrderTable
from contrailmq.broker.pop.plan import PopPlan, PopPlanner
from contrailmq.broker.pop.polls import Kind, Peer, PopPolls, PopWaiter
from contrailmq.broker.pop.popping import PopCall, Popped, Popping
from contrailmq.broker.pop.settling import Settling
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.clock import Clock
from contrailmq.errors import BrokerError, ServiceNotAvailable
from contrailmq.protocol.names import pop_retry_topic, pop_retry_topic_v2
from contrailmq.protocol.pop import Handle


@dataclass(slots=True, kw_only=True)
class PopWish:
    """A pop and its filter."""

    call: PopCall
    expression: str | None = None
    expression_type: str | None = None
    peer_name: str = ""


@dataclass(slots=True)
class Outcome:
    """What came of a wish: messages or none, or the refusal; ``is_full``: it could not wait."""

    popped: Popped | None = None
    error: BrokerError | None = None
    is_full: bool = False


Answer = Callable[[Outcome], None]


class PopService:
    """All of POP on one broker. Owned by the event loop."""

    def __init__(
        self,
        popping: Popping,
        settling: Settling,
        polls: PopPolls,
        *,
        planner: PopPlanner,
        order: OrderTable,
        topics: TopicTable,
        wait_flushed: Callable[[int], asyncio.Future[Any] | None],
        clock: Clock,
    ) -> None:
        self.popping = popping
        self.settling = settling
        self.polls = polls
        self.planner = planner
        self._order = order
        self._topics = topics
        self._wait_flushed = wait_flushed
        self._clock = clock

    async def pop(self, wish: PopWish, *, peer: Peer, wait_s: float) -> Popped:
        """Take messages, waiting for the first; an empty result when none came in time."""
        later: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def answer(outcome: Outcome) -> None:
            if not later.done():
                later.set_result(outcome)

        outcome = self.take(wish, peer=peer, wait_s=wait_s, answer=answer)
        outcome = outcome if outcome is not None else await later
        if outcome.error is not None:
            raise outcome.error
        assert outcome.popped is not None
        return outcome.popped

    def ack(self, group: str, topic: str, handle: Handle) -> asyncio.Future[Any] | None:
        """Settle one message of a topic it really lies in; the disk's future, or None."""
        self.settling.check(topic, handle.queue_id, handle.offset)
        return self.durable(
            self.settling.ack(group, topic, handle.queue_id, offset=handle.offset, handle=handle)
        )

    def change_invisible(
        self, group: str, topic: str, handle: Handle, *, invisible_ms: int
    ) -> Handle:
        """Hide one message for another while; its new handle."""
        self.settling.check(topic, handle.queue_id, handle.offset)
        changed, _ = self.settling.change(
            group, topic, handle.queue_id,
            offset=handle.offset, handle=handle, invisible_ms=invisible_ms,
        )  # fmt: skip
        return changed

    def plan(self, wish: PopWish) -> PopPlan:
        """What the wish's group may do; raises its refusal."""
        call = wish.call
        return self.planner.plan(
            call.group, call.topic, call.queue_id,
            expression=wish.expression, expression_type=wish.expression_type, peer=wish.peer_name,
        )  # fmt: skip

    def take(self, wish: PopWish, *, peer: Peer, wait_s: float, answer: Answer) -> Outcome | None:
        """Take messages; None when ``answer`` is called later. Raises a refusal made at once."""
        popped = self.popping.pop(wish.call, self.plan(wish))
        if popped.loading is not None:
            popped.loading.add_done_callback(lambda _: self._take_later(wish, peer, wait_s, answer))
            return None
        if popped.count:
            return self._given(wish, popped, answer)
        outcome = Outcome(popped)
        if wait_s > 0:
            if self._hold(wish, peer, wait_s, answer):
                return None
            outcome.is_full = True
        return outcome

    def durable(self, log_end: int) -> asyncio.Future[Any] | None:
        """The future of the disk's certainty; None when there is nothing to wait for."""
        return self._wait_flushed(log_end) if log_end else None

    def has_message(self, call: PopCall) -> bool:
        """Whether a pop would find a message, filters aside."""
        topic_config = self._topics.find(call.topic)
        queues = 0 if topic_config is None else topic_config.read_queue_nums
        wanted = [call.queue_id] if call.queue_id >= 0 else list(range(queues))
        if any(self._has_message(call, call.topic, queue_id) for queue_id in wanted):
            return True
        for name in (
            pop_retry_topic(call.topic, call.group), pop_retry_topic_v2(call.topic, call.group)
        ):  # fmt: skip
            config = self._topics.find(name)
            for queue_id in range(0 if config is None else config.read_queue_nums):
                if self._has_message(call, name, queue_id):
                    return True
        return False

    def wake_when_free(self, call: PopCall) -> None:
        """See that an ordered request that waits is tried when the next block ends by time."""
        soonest = None
        for topic, group, queue_id, info in self._order.of_group(call.group, call.topic):
            wait_ms = info.free_at_ms() - self._clock.now_ms()
            if wait_ms > 0 and (soonest is None or wait_ms < soonest[0]):
                soonest = (wait_ms, topic, group, queue_id)
        if soonest is not None:
            wait_ms, topic, group, queue_id = soonest
            loop = asyncio.get_running_loop()
            loop.call_later(wait_ms / 1000, self.polls.wake_free, topic, group, queue_id)

    def _has_message(self, call: PopCall, topic: str, queue_id: int) -> bool:
        if call.order and self._order.is_blocked(
            call.group, call.topic, queue_id, attempt_id=call.attempt_id, invisible_ms=0
        ):
            return False
        return self.popping.waiting(call.group, topic, queue_id) > 0

    def _take_later(self, wish: PopWish, peer: Peer, wait_s: float, answer: Answer) -> None:
        try:
            outcome = self.take(wish, peer=peer, wait_s=wait_s, answer=answer)
        except BrokerError as error:
            outcome = Outcome(error=error)
        if outcome is not None:
            answer(outcome)

    def _given(self, wish: PopWish, popped: Popped, answer: Answer) -> Outcome | None:
        """Messages are out: let the next waiter have the rest, and wait for the disk if need be."""
        if popped.rest > 0:
            call = wish.call
            self.polls.wake_one(call.topic, call.group, call.queue_id)
        flushed = self.durable(popped.log_end)
        if flushed is None:
            return Outcome(popped)

        def settle(done: asyncio.Future[Any]) -> None:
            if done.cancelled() or done.exception() is not None:
                answer(
                    Outcome(
                        error=ServiceNotAvailable(
                            "the store stopped before the message was flushed"
                        )
                    )
                )
            else:
                answer(Outcome(popped))

        flushed.add_done_callback(settle)
        return None

    def _hold(self, wish: PopWish, peer: Peer, wait_s: float, answer: Answer) -> bool:
        call = wish.call

        def attempt(*, is_last: bool) -> bool:
            try:
                popped = self.popping.pop(call, self.plan(wish))
            except BrokerError as error:
                answer(Outcome(error=error))
                return True
            if popped.count:
                outcome = self._given(wish, popped, answer)
                if outcome is not None:
                    answer(outcome)
                return True
            if is_last:
                answer(Outcome(popped))
                return True
            if popped.loading is not None:
                popped.loading.add_done_callback(
                    lambda _: self.polls.wake_one(call.topic, call.group, call.queue_id)
                )
            elif call.order:
                self.wake_when_free(call)
            return False

        waiter = PopWaiter(
            (Kind.POP, call.topic, call.group), call.queue_id, peer,
            retry=lambda: attempt(is_last=False), expire=lambda: void(attempt(is_last=True)),
        )  # fmt: skip
        is_held = self.polls.hold(waiter, timeout_s=wait_s)
        if is_held and call.order:
            self.wake_when_free(call)
        return is_held


def void(_: object) -> None:
    """Drop a value where none is wanted."""
