"""POP in virtual time: short words for what its consumers ask."""

from __future__ import annotations

from typing import Any, NamedTuple

from contrailmq.net.client import RemotingClient
from contrailmq.protocol.bodies.queues import BatchAck, BatchAckMessageRequest
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.message import Record, decode_records
from contrailmq.protocol.pop import (
    Handle,
    parse_handle,
    parse_offsets,
    real_topic,
)
from contrailmq.testing.sim import SimClock
from testkit.broker_world import ADDRESS

BROKER = "broker-a"


class Given(NamedTuple):
    """One message a pop gave."""

    record: Record
    handle: Handle
    group: str
    topic: str

    @property
    def body(self) -> bytes:
        return bytes(self.record.body)

    @property
    def real_topic(self) -> str:
        return real_topic(self.topic, self.group, self.handle.flag)


async def pop(client: RemotingClient, topic: str = "T", **more: Any) -> Command:
    """Code 200050; keywords are wire names."""
    fields = {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": -1,
        "maxMsgNums": 32,
        "invisibleTime": 10_000,
        "pollTime": 0,
        "bornTime": SimClock().now_ms(),
        "initMode": 0,
        "expType": "TAG",
        "exp": "*",
        "order": "false",
        **more,
    }
    request = Command(
        RequestCode.POP_MESSAGE, fields={name: str(value) for name, value in fields.items()}
    )
    return await client.call(ADDRESS, request, timeout_s=100)


def given(answer: Command, *, topic: str = "T", group: str = "g") -> list[Given]:
    """The messages of an answer with their handles, as the original's client makes them."""
    if answer.code == 210:
        return []
    assert answer.code == 0, (answer.code, answer.remark)
    fields = answer.fields
    places = {
        (part.flag, part.queue_id, offset): part.start_offset
        for part in parse_offsets(fields["startOffsetInfo"], fields["msgOffsetInfo"])
        for offset in part.offsets
    }
    found = []
    for record in decode_records(answer.body):
        text = record.properties.get("POP_CK")
        if text is None:
            start = places["0", record.queue_id, record.queue_offset]
            handle = Handle(
                start, int(fields["popTime"]), int(fields["invisibleTime"]),
                int(fields["reviveQid"]), "0", BROKER, record.queue_id, record.queue_offset,
            )  # fmt: skip
        else:
            handle = parse_handle(text)
        found.append(Given(record, handle, group, topic))
    return found


async def take(client: RemotingClient, topic: str = "T", **more: Any) -> list[Given]:
    """Pop, and have what came."""
    group = more.get("consumerGroup", "g")
    return given(await pop(client, topic, **more), topic=topic, group=group)


async def ack(client: RemotingClient, message: Given, **more: Any) -> Command:
    """Code 200051."""
    fields = {
        "consumerGroup": message.group,
        "topic": message.real_topic,
        "queueId": message.handle.queue_id,
        "offset": message.handle.offset,
        "extraInfo": message.handle.text(),
        **more,
    }
    request = Command(
        RequestCode.ACK_MESSAGE, fields={name: str(value) for name, value in fields.items()}
    )
    return await client.call(ADDRESS, request, timeout_s=10)


async def change(client: RemotingClient, message: Given, invisible_ms: int) -> Given:
    """Code 200053; the message with its new handle."""
    fields = {
        "consumerGroup": message.group,
        "topic": message.real_topic,
        "queueId": message.handle.queue_id,
        "offset": message.handle.offset,
        "extraInfo": message.handle.text(),
        "invisibleTime": invisible_ms,
    }
    request = Command(
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
        fields={name: str(value) for name, value in fields.items()},
    )
    answer = await client.call(ADDRESS, request, timeout_s=10)
    assert answer.code == 0, answer
    handle = message.handle._replace(
        start_offset=message.handle.offset,
        pop_ms=int(answer.fields["popTime"]),
        invisible_ms=int(answer.fields["invisibleTime"]),
        revive_queue=int(answer.fields["reviveQid"]),
    )
    return message._replace(handle=handle)


async def ack_all(client: RemotingClient, messages: list[Given]) -> Command:
    """Code 200151: one request for all of them."""
    groups: dict[tuple[int, int, str, int], list[Given]] = {}
    for message in messages:
        handle = message.handle
        key = (handle.start_offset, handle.pop_ms, handle.flag, handle.queue_id)
        groups.setdefault(key, []).append(message)
    entries = [
        BatchAck(
            bits=BatchAck.bits_of([each.handle.offset for each in same], start),
            consumer_group=same[0].group,
            invisible_time=same[0].handle.invisible_ms,
            pop_time=pop_ms,
            queue_id=queue_id,
            retry=flag,
            revive_queue_id=same[0].handle.revive_queue,
            start_offset=start,
            topic=same[0].topic,
        )
        for (start, pop_ms, flag, queue_id), same in groups.items()
    ]
    body = BatchAckMessageRequest(acks=entries, broker_name=BROKER).encode()
    request = Command(RequestCode.BATCH_ACK_MESSAGE, body=body)
    return await client.call(ADDRESS, request, timeout_s=10)
