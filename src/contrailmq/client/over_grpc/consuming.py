"""A consumer's requests, carried out by calls."""

from __future__ import annotations

from contrailmq.client.over_grpc.calls import SERVICE, Calls
from contrailmq.client.over_grpc.popping import InHand, handle_of, receive_request, record_of
from contrailmq.client.over_grpc.statuses import code_of, error_of_call, remark_of
from contrailmq.clock import Clock
from contrailmq.grpc import messages
from contrailmq.grpc.call import GrpcError
from contrailmq.grpc.codes import Code
from contrailmq.grpc.messages import Moment, Resource, Status
from contrailmq.grpc.protobuf import codec_of
from contrailmq.protocol.bodies.queues import BatchAckMessageRequest
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.pop import (
    AckMessageRequest,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
)
from contrailmq.protocol.headers.send import ConsumerSendMsgBackRequest


class ConsumerRequests:
    """Pops, acknowledgements, changes and dead letters of one client."""

    def __init__(self, calls: Calls, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock
        self._in_hand = InHand()

    async def pop(self, address: str, command: Command, timeout_s: float) -> Command:
        """Receive messages, and answer with them as a broker answers a pop."""
        fields = command.fields
        request = receive_request(fields)
        encoded = codec_of(messages.ReceiveMessageRequest).encode(request)
        codec = codec_of(messages.ReceiveMessageResponse)
        broker = fields.get("bname", "")
        handle = handle_of(
            broker, now_ms=self._clock.now_ms(), invisible_ms=int(fields["invisibleTime"])
        )
        status: Status | None = None
        records: list[bytes] = []
        call = await self._calls.channel(address).open(
            SERVICE + "ReceiveMessage", passing=self._calls.passing(), timeout_s=timeout_s
        )
        try:
            await call.write(encoded, is_last=True)
            while (data := await call.read()) is not None:
                part = codec.decode(data)
                if part.status is not None:
                    status = part.status
                elif part.message is not None:
                    records.append(record_of(part.message, self._in_hand, handle=handle))
        except GrpcError as error:
            if not records:
                raise error_of_call(error, address) from None
        finally:
            call.cancel()
        code = code_of(status)
        if code and not records:
            return command.refuse(code, remark_of(status))
        return command.reply(body=b"".join(records))

    async def ack(self, address: str, command: Command, timeout_s: float) -> Command:
        """Settle one message."""
        header = AckMessageRequest.from_fields(command.fields)
        return await self._settle(
            address, command, header.consumer_group, [header.offset], timeout_s=timeout_s
        )

    async def ack_many(self, address: str, command: Command, timeout_s: float) -> Command:
        """Settle several messages."""
        body = BatchAckMessageRequest.decode(bytes(command.body))
        answer = command.reply()
        groups: dict[tuple[str, str], list[int]] = {}
        for ack in body.acks:
            groups.setdefault((ack.consumer_group, ack.topic), []).extend(ack.offsets())
        for (group, _), serials in groups.items():
            one = await self._settle(address, command, group, serials, timeout_s=timeout_s)
            answer = one if one.code else answer
        return answer

    async def _settle(
        self, address: str, command: Command, group: str, serials: list[int], *, timeout_s: float
    ) -> Command:
        known = [(serial, self._in_hand.find(serial)) for serial in serials]
        held = [(serial, one) for serial, one in known if one is not None]
        if not held:
            return command.reply()  # forwarded, or settled before
        request = messages.AckMessageRequest(
            Resource(name=group),
            Resource(name=held[0][1].topic),
            [messages.AckMessageEntry(one.message_id, one.receipt_handle) for _, one in held],
        )
        answer = await self._calls.ask(
            address, "AckMessage", request, messages.AckMessageResponse, timeout_s=timeout_s
        )
        status = answer.status
        if status is not None and status.code == Code.MULTIPLE_RESULTS:
            bad = [one.status for one in answer.entries if code_of(one.status)]
            status = bad[0] if bad else None
        if code_of(status):
            return command.refuse(code_of(status), remark_of(status))
        for serial, _ in held:
            self._in_hand.settle(serial)
        return command.reply()

    async def change(self, address: str, command: Command, timeout_s: float) -> Command:
        """Hide a message for another while."""
        header = ChangeInvisibleTimeRequest.from_fields(command.fields)
        held = self._in_hand.get(header.offset)
        request = messages.ChangeInvisibleDurationRequest(
            Resource(name=header.consumer_group),
            Resource(name=held.topic),
            held.receipt_handle,
            Moment.of_ms(header.invisible_time),
            held.message_id,
        )
        answer = await self._calls.ask(
            address,
            "ChangeInvisibleDuration",
            request,
            messages.ChangeInvisibleDurationResponse,
            timeout_s=timeout_s,
        )
        if code_of(answer.status):
            return command.refuse(code_of(answer.status), remark_of(answer.status))
        self._in_hand.replace(header.offset, answer.receipt_handle)
        return command.reply(
            ChangeInvisibleTimeResponse(
                pop_time=self._clock.now_ms(),
                invisible_time=header.invisible_time,
                revive_qid=0,
            )
        )

    async def forward(self, address: str, command: Command, timeout_s: float) -> Command:
        """Put a message to the dead letters."""
        header = ConsumerSendMsgBackRequest.from_fields(command.fields)
        serial, held = self._in_hand.by_id(header.origin_msg_id or "")
        request = messages.ForwardRequest(
            Resource(name=header.group),
            Resource(name=held.topic),
            held.receipt_handle,
            held.message_id,
            held.attempt,
            held.attempt,
        )
        answer = await self._calls.carry_out(
            address, command, "ForwardMessageToDeadLetterQueue", request, timeout_s=timeout_s
        )
        if answer.code == 0:
            self._in_hand.settle(serial)
        return answer
