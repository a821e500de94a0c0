"""Frames, commands, headers and bodies: one JSON line a case.

    python -m bench micro.protocol [seconds a case]

``per_s`` is calls a second of processor time on one core (frames a second where a call cuts
several), the median of five rounds.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from contrailmq.protocol.bodies.heartbeat import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from contrailmq.protocol.bodies.queues import ConsumerOffsets
from contrailmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from contrailmq.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from contrailmq.protocol.command import Command, Serialization, decode
from contrailmq.protocol.frame import LENGTH_SIZE, FrameDecoder
from contrailmq.protocol.headers.pull import PullMessageRequest
from contrailmq.protocol.headers.send import (
    SendMessageRequestV2,
    SendMessageResponse,
)
from contrailmq.protocol.queue import MessageQueue

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5
FRAMES = 64
PROPERTIES = "KEYS\x01order-4711\x02UNIQ_KEY\x01" + "7F" * 16 + "\x02WAIT\x01true\x02TAGS\x01TagA"

SEND = SendMessageRequestV2(
    producer_group="ProducerGroup",
    topic="TopicTest",
    queue_id=3,
    born_timestamp=1_700_000_000_000,
    properties=PROPERTIES,
    reconsume_times=0,
    unit_mode=False,
    batch=False,
    broker_name="broker-a",
)
SENT = SendMessageResponse(msg_id="7F" * 16, queue_id=3, queue_offset=123_456, region="Default")
PULL = PullMessageRequest(
    consumer_group="ConsumerGroup",
    topic="TopicTest",
    queue_id=3,
    queue_offset=123_456,
    max_msg_nums=32,
    sys_flag=2,
    commit_offset=0,
    suspend_timeout_millis=15_000,
    sub_version=1_700_000_000_000,
    expression_type="TAG",
    broker_name="broker-a",
)

Case = tuple[str, int, Callable[[], object]]


def command_cases() -> Iterator[Case]:
    """Frames and commands, in both header forms."""
    body = b"x" * 128
    for form in Serialization:
        request = Command.request(310, SEND, body=body)
        request.serialization = form
        reply = request.reply(SENT)
        frame = request.encode()
        yield f"encode send, {form.name}", 1, request.encode
        yield f"encode reply, {form.name}", 1, reply.encode
        yield f"decode send, {form.name}", 1, lambda raw=frame[LENGTH_SIZE:]: decode(raw)
        yield (
            f"decode send without copying, {form.name}",
            1,
            lambda raw=frame[LENGTH_SIZE:]: decode(raw, copy_body=False),
        )
        stream = frame * FRAMES
        yield f"cut {FRAMES} frames, {form.name}", FRAMES, lambda s=stream: FrameDecoder().feed(s)


def header_cases() -> Iterator[Case]:
    """Typed headers of the hot codes."""
    for name, header in (("send V2", SEND), ("pull", PULL)):
        fields = header.to_fields()
        yield f"header {name} from fields", 1, lambda h=header, f=fields: type(h).from_fields(f)
        yield f"header {name} to fields", 1, header.to_fields
    yield "header reply to fields", 1, SENT.to_fields


def body_cases() -> Iterator[Case]:
    """Bodies that travel often, and the two slow roads: object keys and int keys."""
    subscriptions = [
        SubscriptionData(topic=f"Topic{i}", sub_string="*", sub_version=1_700_000_000_000)
        for i in range(3)
    ]
    heartbeat = HeartbeatData(
        client_id="10.0.0.1@4711#1",
        producer_data_set=[ProducerData(group_name="ProducerGroup")],
        consumer_data_set=[
            ConsumerData(group_name="ConsumerGroup", subscription_data_set=subscriptions)
        ],
    )
    route = TopicRouteData(
        broker_datas=[BrokerData(broker_addrs={0: "10.0.0.1:10911"}, broker_name="broker-a")],
        queue_datas=[QueueData(broker_name="broker-a", perm=6)],
    )
    table = ConsumeStats(
        offset_table={
            MessageQueue("TopicTest", "broker-a", i): OffsetWrapper(broker_offset=i)
            for i in range(16)
        }
    )
    offsets = ConsumerOffsets(
        offset_table={f"Topic{i}@Group": dict.fromkeys(range(16), 9) for i in range(100)}
    )
    for name, body in (
        ("heartbeat", heartbeat),
        ("route", route),
        ("consume stats of 16 queues", table),
        ("1600 offsets", offsets),
    ):
        yield f"body {name} encode", 1, body.encode
        encoded = body.encode()
        yield f"body {name} decode", 1, lambda b=body, raw=encoded: type(b).decode(raw)


def measure(call: Callable[[], object], seconds: float) -> float:
    """Calls a second: the median of a few rounds."""
    call()
    count = 1
    while True:
        start = time.process_time()
        for _ in range(count):
            call()
        if time.process_time() - start > seconds / ROUNDS / 4:
            break
        count *= 2
    rates = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(count * 4):
            call()
        rates.append(count * 4 / (time.process_time() - start))
    return statistics.median(rates)


def main() -> None:
    """Run every case."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    for cases in (command_cases, header_cases, body_cases):
        for name, things, call in cases():
            rate = measure(call, seconds) * things
            print(json.dumps({"case": name, "per_s": round(rate), "us": round(1e6 / rate, 3)}))


if __name__ == "__main__":
    main()
