"""Receives of gRPC clients: pops of this broker, settled by its own POP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from contrailmq.broker.pop.build import PopParts
from contrailmq.broker.pop.popping import INIT_MAX, PopCall, Popped
from contrailmq.broker.pop.service import Outcome, PopWish
from contrailmq.errors import BrokerError, IllegalMessage, NoMessage, SystemFailure
from contrailmq.grpc.backend import PopAnswer, PopRequest, Soon, Taken
from contrailmq.grpc.codes import Code, Refusal
from contrailmq.grpc.converting import ReceiptHandle
from contrailmq.protocol.message import decode_records
from contrailmq.protocol.pop import Handle, real_topic

GIVEN_BACK_MS = 1_000


class _Waiting:
    """The place of one waiting receive in the polls; it ends when the call does."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Any], None]] = []

    def on_close(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def close(self) -> None:
        for callback in self._callbacks:
            callback(self)


class GrpcReceiving:
    """Pops and settles for gRPC clients."""

    def __init__(self, pop: PopParts, *, broker_name: str) -> None:
        self._service = pop.service
        self._timers = pop.timers
        self._broker_name = broker_name

    async def pop(self, request: PopRequest) -> PopAnswer:
        """Give out messages, waiting for the first."""
        self._service.planner.check_readable("pop")
        if not self._timers.is_enabled:
            raise SystemFailure("receiving is forbidden because timerWheelEnable is false")
        self._timers.check(request.invisible_ms)
        call = PopCall(
            group=request.group,
            topic=request.topic,
            count=request.count,
            invisible_ms=request.invisible_ms,
            init_mode=INIT_MAX,
            order=request.order,
            attempt_id=request.attempt_id,
        )
        wish = PopWish(
            call=call,
            expression=request.expression,
            expression_type=request.expression_type,
        )
        outcome = await self._take(wish, request)
        if outcome.error is not None:
            raise outcome.error
        assert outcome.popped is not None
        return PopAnswer(self._messages(outcome.popped), outcome.is_full)

    async def _take(self, wish: PopWish, request: PopRequest) -> Outcome:
        later: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def answer(outcome: Outcome) -> None:
            if later.done():
                self._return(request, outcome)
            else:
                later.set_result(outcome)

        waiting = _Waiting()
        try:
            outcome = self._service.take(
                wish, peer=waiting, wait_s=request.wait_ms / 1000, answer=answer
            )
            return outcome if outcome is not None else await later
        except asyncio.CancelledError:
            if later.done() and not later.cancelled():
                self._return(request, later.result())
            raise
        finally:
            waiting.close()

    def _return(self, request: PopRequest, outcome: Outcome) -> None:
        """Messages were found for a caller that is gone."""
        if outcome.popped is not None:
            taken = self._messages(outcome.popped)
            self.give_back(request.group, request.topic, [each.receipt for each in taken])

    def give_back(self, group: str, topic: str, receipts: Sequence[ReceiptHandle]) -> None:
        """Make messages visible again in a second."""
        for receipt in receipts:
            with contextlib.suppress(BrokerError):
                self._service.change_invisible(
                    group, _topic(group, topic, receipt), receipt.handle, invisible_ms=GIVEN_BACK_MS
                )

    def ack(self, group: str, topic: str, receipt: ReceiptHandle) -> Soon[None]:
        """Settle a message."""
        self._check(receipt)
        try:
            return self._service.ack(group, _topic(group, topic, receipt), receipt.handle)
        except (IllegalMessage, NoMessage) as error:
            raise _void(error) from None

    def change(
        self, group: str, topic: str, receipt: ReceiptHandle, *, invisible_ms: int
    ) -> ReceiptHandle:
        """Hide a message for another while."""
        self._check(receipt)
        try:
            changed = self._service.change_invisible(
                group, _topic(group, topic, receipt), receipt.handle, invisible_ms=invisible_ms
            )
        except (IllegalMessage, NoMessage) as error:
            raise _void(error) from None
        return ReceiptHandle(changed, receipt.log_offset)

    def _check(self, receipt: ReceiptHandle) -> None:
        name = receipt.handle.broker_name
        if name != self._broker_name:
            raise Refusal(
                Code.BAD_REQUEST, f"the handle is of broker {name!r}, this is {self._broker_name!r}"
            )

    def _messages(self, popped: Popped) -> list[Taken]:
        times = _times(popped.order_info)
        found = []
        for part, records in zip(popped.found, popped.records, strict=True):
            for record in decode_records(records):
                offset = record.queue_offset
                handle = Handle(
                    part.start_offset, popped.pop_ms, popped.invisible_ms, popped.revive_queue,
                    part.flag, self._broker_name, part.queue_id, offset,
                )  # fmt: skip
                attempt = record.reconsume_times + 1
                if popped.order_info:
                    attempt = times.get((part.queue_id, offset), 0) + 1
                receipt = ReceiptHandle(handle, record.commit_log_offset)
                found.append(Taken(record, receipt, attempt))
        return found


def _topic(group: str, topic: str, receipt: ReceiptHandle) -> str:
    return real_topic(topic, group, receipt.handle.flag)


def _void(error: BrokerError) -> Refusal:
    """An acknowledgement that can never succeed: clients repeat all others for ever."""
    return Refusal(Code.INVALID_RECEIPT_HANDLE, error.remark)


def _times(order_info: Sequence[str]) -> dict[tuple[int, int], int]:
    """How often each message of an ordered pop was given out before."""
    found = {}
    for text in order_info:
        _, place, count = text.split(" ")
        if place.startswith("qo"):
            queue_id, offset = place[2:].split("%")
            found[int(queue_id), int(offset)] = int(count)
    return found
