"""POP on the wire: request codes 200050 to 200055 and 200151.

Every answer of a pop carries its header, zeros where nothing was done; so do the refusals.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from contrailmq.broker.identity import Identity
from contrailmq.broker.pop.polls import Kind, PopWaiter
from contrailmq.broker.pop.popping import PopCall
from contrailmq.broker.pop.service import Outcome, PopService, PopWish, void
from contrailmq.broker.pop.timers import PopTimers
from contrailmq.clock import Clock
from contrailmq.errors import (
    BrokerError,
    InvalidParameter,
    NoMessage,
    PollingTimeout,
    SystemFailure,
)
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.queues import BatchAckMessageRequest
from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.pop import (
    AckMessageRequest,
    ChangeInvisibleTimeRequest,
    NotificationRequest,
    PeekMessageRequest,
    PollingInfoRequest,
    PopMessageRequest,
)
from contrailmq.protocol.pop import (
    POP_COUNT_MAX,
    Handle,
    msg_offset_info,
    parse_handle,
    real_topic,
    start_offset_info,
)

LATE_MS: Final = 500  # a request so long behind its own waiting time is not served any more
ANSWER_BEFORE_MS: Final = 50  # an answer is on its way before its client gives up
BITS_SIZE_MAX: Final = 4096  # no pop gives out messages farther apart
UNSET: Final = "not set any response code"  # what the original says where it says nothing
_NO_POP: Final = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0", "restNum": "0"}
_NO_CHANGE: Final = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0"}


T = TypeVar("T")
Reply = Command | Awaitable[Command | None] | None
Answerer = Callable[[T, Command, Connection], Reply]


def carrying(
    fields: Mapping[str, str],
) -> Callable[
    [Callable[[T, Command, Connection], Reply]], Callable[[T, Command, Connection], Reply]
]:
    """Make a handler whose refusals carry these header fields too."""

    def decorate(
        handler: Answerer[T],
    ) -> Answerer[T]:
        @functools.wraps(handler)
        def guarded(self: T, request: Command, connection: Connection) -> Reply:
            try:
                return handler(self, request, connection)
            except BrokerError as error:
                return request.reply(code=error.code, remark=error.remark, fields=fields)

        return guarded

    return decorate


class PopMessages:
    """Request codes 200050, 200052, 200054 and 200055."""

    def __init__(
        self, service: PopService, timers: PopTimers, *,
        identity: Identity, clock: Clock,
    ) -> None:  # fmt: skip
        self._service = service
        self._timers = timers
        self._identity = identity
        self._clock = clock

    @carrying(_NO_POP)
    def pop(self, request: Command, connection: Connection) -> Command | None:
        """Code 200050: take messages, and wait for the first of them."""
        header = PopMessageRequest.from_fields(request.fields)
        wait_ms = self._wait_ms(header.born_time, header.poll_time)
        ip = self._identity.address.rpartition(":")[0]
        if wait_ms < -LATE_MS:
            raise PollingTimeout(f"the broker[{ip}] pop message is timeout too much")
        self._service.planner.check_readable("pop")
        if header.max_msg_nums > POP_COUNT_MAX:
            raise SystemFailure(f"the broker[{ip}] pop message's num is greater than 32")
        if not self._timers.is_enabled:
            raise SystemFailure(
                f"the broker[{ip}] pop message is forbidden because timerWheelEnable is false"
            )
        self._timers.check(header.invisible_time)
        call = PopCall(
            group=header.consumer_group,
            topic=header.topic,
            queue_id=header.queue_id,
            count=header.max_msg_nums,
            invisible_ms=header.invisible_time,
            init_mode=header.init_mode,
            order=bool(header.order),
            attempt_id=header.attempt_id,
        )
        wish = PopWish(
            call=call,
            expression=header.exp,
            expression_type=header.exp_type,
            peer_name=str(connection.peer),
        )

        def answer(outcome: Outcome) -> None:
            connection.reply(_pop_reply(request, call, outcome))

        wait_s = (wait_ms - ANSWER_BEFORE_MS) / 1000 if header.poll_time > 0 else 0.0
        outcome = self._service.take(wish, peer=connection, wait_s=wait_s, answer=answer)
        return None if outcome is None else _pop_reply(request, call, outcome)

    @carrying(_NO_POP)
    def peek(self, request: Command, connection: Connection) -> Command:
        """Code 200052: messages a pop would find, without taking them."""
        header = PeekMessageRequest.from_fields(request.fields)
        self._service.planner.check_readable("peeking")
        call = PopCall(
            group=header.consumer_group,
            topic=header.topic,
            queue_id=header.queue_id,
            count=header.max_msg_nums,
        )
        plan = self._service.plan(PopWish(call=call, peer_name=str(connection.peer)))
        records, rest = self._service.popping.peek(call, plan)
        code = ResponseCode.SUCCESS if records else ResponseCode.PULL_NOT_FOUND
        remark = "FOUND" if records else "NO_MESSAGE_IN_QUEUE"
        fields = {**_NO_POP, "restNum": str(rest)}
        return request.reply(code=code, remark=remark, fields=fields, body=b"".join(records))

    @carrying({"hasMsg": "false"})
    def notify(self, request: Command, connection: Connection) -> Command | None:
        """Code 200054: wait until there is something to pop."""
        header = NotificationRequest.from_fields(request.fields)
        service = self._service
        service.planner.check_readable("peeking")
        call = PopCall(
            group=header.consumer_group,
            topic=header.topic,
            queue_id=header.queue_id,
            order=bool(header.order),
            attempt_id=header.attempt_id,
        )
        service.plan(PopWish(call=call, peer_name=str(connection.peer)))
        if service.has_message(call):
            return _notice(request, has_message=True)
        wait_ms = self._wait_ms(header.born_time, header.poll_time) - ANSWER_BEFORE_MS
        if header.poll_time <= 0 or wait_ms <= 0:
            return _notice(request, has_message=False)

        def attempt(*, is_last: bool) -> bool:
            has_message = service.has_message(call)
            if has_message or is_last:
                connection.reply(_notice(request, has_message=has_message))
                return True
            if call.order:
                service.wake_when_free(call)
            return False

        waiter = PopWaiter(
            (Kind.NOTIFICATION, call.topic, call.group), call.queue_id, connection,
            retry=lambda: attempt(is_last=False), expire=lambda: void(attempt(is_last=True)),
        )  # fmt: skip
        if not service.polls.hold(waiter, timeout_s=wait_ms / 1000):
            return _notice(request, has_message=False)
        if call.order:
            service.wake_when_free(call)
        return None

    @carrying({"pollingNum": "0"})
    def polling(self, request: Command, connection: Connection) -> Command:
        """Code 200055: how many pops wait with exactly these."""
        header = PollingInfoRequest.from_fields(request.fields)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        self._service.planner.check_readable("peeking")
        self._service.planner.plan(group, topic, queue_id, peer=connection.peer)
        number = self._service.polls.waiting(topic, group, queue_id)
        return request.reply(remark=UNSET, fields={"pollingNum": str(number)})

    def _wait_ms(self, born_ms: int, poll_ms: int) -> int:
        """How much of the waiting time is left; negative when it is over."""
        now_ms = self._clock.now_ms()
        return (born_ms or now_ms) + poll_ms - now_ms


class AckMessages:
    """Request codes 200051, 200053 and 200151."""

    def __init__(self, service: PopService, timers: PopTimers) -> None:
        self._service = service
        self._timers = timers
        self._settling = service.settling

    def ack(self, request: Command, connection: Connection) -> Command | Awaitable[Command | None]:
        """Code 200051: one message is settled."""
        header = AckMessageRequest.from_fields(request.fields)
        settling = self._settling
        settling.check(header.topic, header.queue_id, header.offset, peer=connection.peer)
        handle = parse_handle(header.extra_info)
        log_end = settling.ack(
            header.consumer_group, header.topic, header.queue_id,
            offset=header.offset, handle=handle,
        )  # fmt: skip
        return self._when_durable(log_end, request.reply())

    def ack_many(
        self, request: Command, connection: Connection
    ) -> Command | Awaitable[Command | None]:
        """Code 200151: messages of several checkpoints are settled."""
        body = BatchAckMessageRequest.decode_request(request.body or b"{}")
        if not body.acks:
            return request.refuse(ResponseCode.NO_MESSAGE, "no acknowledgements in the body")
        log_end = 0
        for entry in body.acks:
            if len(entry.bits) > BITS_SIZE_MAX:
                raise InvalidParameter(
                    f"bit set of {len(entry.bits)} bytes, at most {BITS_SIZE_MAX}"
                )
            handle = Handle(
                entry.start_offset,
                entry.pop_time,
                entry.invisible_time,
                entry.revive_queue_id,
                entry.retry,
                body.broker_name,
            )
            end = self._settling.ack_many(
                entry.consumer_group,
                real_topic(entry.topic, entry.consumer_group, entry.retry),
                entry.queue_id,
                offsets=entry.offsets(),
                handle=handle,
            )
            log_end = max(log_end, end)
        return self._when_durable(log_end, request.reply())

    @carrying(_NO_CHANGE)
    def change(
        self, request: Command, connection: Connection
    ) -> Command | Awaitable[Command | None]:
        """Code 200053: hide one message for another while, from now."""
        header = ChangeInvisibleTimeRequest.from_fields(request.fields)
        settling = self._settling
        try:
            settling.check(header.topic, header.queue_id, header.offset, peer=connection.peer)
        except NoMessage as error:
            raise NoMessage(UNSET) from error
        self._timers.check(header.invisible_time)
        changed, log_end = settling.change(
            header.consumer_group, header.topic, header.queue_id,
            offset=header.offset, handle=parse_handle(header.extra_info),
            invisible_ms=header.invisible_time,
        )  # fmt: skip
        fields = {
            "popTime": str(changed.pop_ms),
            "invisibleTime": str(changed.invisible_ms),
            "reviveQid": str(changed.revive_queue),
        }
        return self._when_durable(log_end, request.reply(remark=UNSET, fields=fields))

    def _when_durable(self, log_end: int, answer: Command) -> Command | Awaitable[Command]:
        flushed = self._service.durable(log_end)
        return answer if flushed is None else _after(flushed, answer)


async def _after(flushed: asyncio.Future[Any], answer: Command) -> Command:
    await flushed
    return answer


def _notice(request: Command, *, has_message: bool) -> Command:
    return request.reply(remark=UNSET, fields={"hasMsg": "true" if has_message else "false"})


def _pop_reply(request: Command, call: PopCall, outcome: Outcome) -> Command:
    error, popped = outcome.error, outcome.popped
    if error is not None or popped is None:
        assert error is not None
        return request.reply(code=error.code, remark=error.remark, fields=_NO_POP)
    fields = {
        "popTime": str(popped.pop_ms),
        "invisibleTime": str(popped.invisible_ms),
        "reviveQid": str(popped.revive_queue),
        "restNum": str(popped.rest),
        "startOffsetInfo": start_offset_info(popped.found),
        "msgOffsetInfo": msg_offset_info(popped.found),
    }
    if call.order:
        fields["orderCountInfo"] = ";".join(popped.order_info)
    if popped.count:
        records = popped.records
        body = records[0] if len(records) == 1 else b"".join(records)
        return request.reply(remark="FOUND", fields=fields, body=body)
    code = ResponseCode.POLLING_FULL if outcome.is_full else ResponseCode.POLLING_TIMEOUT
    return request.reply(code=code, remark="NO_MESSAGE_IN_QUEUE", fields=fields)
