"""ReceiveMessage: give out messages, and wait for the first.

Nothing is lost when a caller leaves: messages that were found for a call that is gone, or that it
did not take any more, are visible again after a second.
"""

from __future__ import annotations

import asyncio
from typing import Final

from contrailmq.clock import Clock
from contrailmq.errors import ContrailError
from contrailmq.grpc import checks
from contrailmq.grpc.backend import Backend, Need, PopAnswer, PopRequest, Taken, awaited
from contrailmq.grpc.call import CallGone
from contrailmq.grpc.caller import Caller
from contrailmq.grpc.calls_route import consuming
from contrailmq.grpc.clients import ClientTable
from contrailmq.grpc.codes import Code, Refusal, ok, status_of
from contrailmq.grpc.converting import delivered
from contrailmq.grpc.in_hand import Held
from contrailmq.grpc.messages import (
    Moment,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    Status,
)
from contrailmq.grpc.protobuf import codec_of
from contrailmq.grpc.settling import filter_of
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.filter.tags import TYPE_TAG, parse_tags
from contrailmq.protocol.pop import POP_COUNT_MAX

POLL_MS_MIN: Final = 5_000
POLL_MS_MAX: Final = 20_000
RENEWED_MS: Final = 60_000
REQUEST_TIMEOUT_MS: Final = 3_000
FIRST_POLLING_CODE: Final = "5.0.3"  # older clients do not know code 40018
_ENCODE: Final = codec_of(ReceiveMessageResponse).encode


class ReceiveCalls:
    """ReceiveMessage."""

    def __init__(self, backend: Backend, clients: ClientTable, clock: Clock) -> None:
        self._backend = backend
        self._clients = clients
        self._clock = clock

    def needs(self, request: ReceiveMessageRequest) -> list[Need]:
        """The group consumes the topic."""
        queue = request.message_queue
        return [consuming(queue.topic if queue is not None else None, request.group)]

    async def receive(self, context: Caller, request: ReceiveMessageRequest) -> None:
        """Serve one call: a status, messages if there are any, and the time of delivery."""
        write = context.call.write
        try:
            wish = await self._wish(context, request)
            group = await awaited(self._backend.find_group(wish.group))
            config = group if group is not None else SubscriptionGroupConfig()
            wish.order = config.consume_message_orderly
            answer = await self._backend.pop(wish)
        except CallGone:
            raise
        except ContrailError as error:
            await write(_ENCODE(ReceiveMessageResponse(status_of(error))))
            await write(self._end())
            return
        await self._deliver(context, request, wish=wish, answer=answer, config=config)

    async def _deliver(
        self, context: Caller, request: ReceiveMessageRequest, *,
        wish: PopRequest, answer: PopAnswer, config: SubscriptionGroupConfig,
    ) -> None:  # fmt: skip
        write = context.call.write
        waiting = list(answer.messages)
        try:
            messages = await self._sifted(waiting, wish, config)
            waiting = list(messages)
            await write(_ENCODE(ReceiveMessageResponse(_status(answer, messages))))
            client = self._clients.find(context.client_id)
            now_ms = self._clock.now_ms()
            for taken in messages:
                message = delivered(
                    taken.record, wish.topic,
                    handle=taken.receipt.text(), attempt=taken.attempt,
                )  # fmt: skip
                await write(_ENCODE(ReceiveMessageResponse(None, message)))
                del waiting[0]
                if request.auto_renew and client is not None:
                    assert message.system_properties is not None
                    client.in_hand.add(
                        message.system_properties.message_id,
                        Held(wish.group, wish.topic, taken.receipt, now_ms, taken.attempt),
                    )
        except (CallGone, asyncio.CancelledError):
            self._backend.give_back(wish.group, wish.topic, [taken.receipt for taken in waiting])
            raise
        await write(self._end())

    async def _sifted(
        self, messages: list[Taken], wish: PopRequest, config: SubscriptionGroupConfig
    ) -> list[Taken]:
        """Messages without those tried too often, and those whose tag only has the same hash."""
        tags = parse_tags(wish.expression) if wish.expression_type == TYPE_TAG else None
        kept = []
        for taken in list(messages):
            record = taken.record
            if record.reconsume_times > config.retry_max_times and not wish.order:
                message_id = record.unique_key or record.offset_message_id
                await awaited(
                    self._backend.bury(wish.group, wish.topic, taken.receipt, message_id=message_id)
                )
            elif tags is not None and not tags.matches(record.tags):
                await awaited(self._backend.ack(wish.group, wish.topic, taken.receipt))
            else:
                kept.append(taken)
                continue
            messages.remove(taken)
        return kept

    async def _wish(self, context: Caller, request: ReceiveMessageRequest) -> PopRequest:
        wait_ms = self._poll_ms(context, request)
        queue = request.message_queue
        topic = checks.topic_of(queue.topic if queue is not None else None)
        group = checks.group_of(request.group)
        if request.auto_renew:
            invisible_ms = RENEWED_MS
        else:
            invisible_ms = checks.invisible_ms(
                request.invisible_duration, least_ms=checks.INVISIBLE_MS_MIN
            )
        expression_type, expression = filter_of(request.filter_expression)
        broker = queue.broker if queue is not None else None
        return PopRequest(
            broker_name=broker.name if broker is not None else "",
            group=group,
            topic=topic,
            count=min(max(request.batch_size, 0), POP_COUNT_MAX),
            invisible_ms=invisible_ms,
            wait_ms=wait_ms,
            attempt_id=request.attempt_id or None,
            expression=expression,
            expression_type=expression_type,
        )

    def _poll_ms(self, context: Caller, request: ReceiveMessageRequest) -> int:
        deadline = context.call.deadline
        left_ms: int | None = None
        if deadline is not None:
            left_ms = int((deadline - asyncio.get_running_loop().time()) * 1000)
        if request.long_polling_timeout is not None:
            poll_ms = request.long_polling_timeout.ms
        elif left_ms is not None:
            client = self._clients.find(context.client_id)
            timeout = client.settings.request_timeout if client is not None else None
            poll_ms = left_ms - (timeout.ms if timeout is not None else REQUEST_TIMEOUT_MS) // 2
        else:
            poll_ms = POLL_MS_MAX
        poll_ms = min(max(poll_ms, POLL_MS_MIN), POLL_MS_MAX)
        if left_ms is not None and poll_ms > left_ms:
            if left_ms < POLL_MS_MIN:
                is_new = context.version >= FIRST_POLLING_CODE
                raise Refusal(
                    Code.ILLEGAL_POLLING_TIME if is_new else Code.BAD_REQUEST,
                    "The deadline time remaining is not enough for polling, please check network "
                    "condition",
                )
            poll_ms = left_ms
        return poll_ms

    def _end(self) -> bytes:
        now = Moment.of_ms(self._clock.now_ms())
        return _ENCODE(ReceiveMessageResponse(None, None, now))


def _status(answer: PopAnswer, messages: list[Taken]) -> Status:
    if messages:
        return ok()
    if answer.is_full:
        return Status(Code.TOO_MANY_REQUESTS, "polling full")
    return Status(Code.MESSAGE_NOT_FOUND, "no new message")
