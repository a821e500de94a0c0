"""POP beside the original: pops of 32 messages and their acknowledgements, 16 connections, 1 each.

Every connection pops up to 32 messages and settles them, by one batch request or by 32 single
ones, before it pops again.  The runs of both brokers alternate; the ratio of their medians counts,
not the figures.

    python -m bench.broker.pop --seconds 8 --runs 3
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.broker.brokers import BrokerProcess, JavaBroker, OurBroker
from contrailmq.protocol.batch import BatchMessage, encode_batch
from contrailmq.protocol.bodies.queues import BatchAck, BatchAckMessageRequest
from contrailmq.protocol.pop import parse_offsets

CONNECTIONS = 16
COUNT = 32
QUEUES = 8
TOPIC, GROUP = "bench", "bench-pop"


def frame(code: int, fields: dict[str, str], opaque: int, body: bytes = b"") -> bytes:
    """One request as the Java client writes it."""
    header = json.dumps(
        {"code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": opaque,
         "serializeTypeCurrentRPC": "JSON", "version": 453}
    ).encode()  # fmt: skip
    return struct.pack(">II", len(header) + 4 + len(body), len(header)) + header + body


async def answer(reader: asyncio.StreamReader) -> tuple[dict[str, object], int]:
    """The header of the next answer, and the size of its body."""
    size, word = struct.unpack(">II", await reader.readexactly(8))
    data = await reader.readexactly(size - 4)
    length = word & 0xFFFFFF
    return json.loads(data[:length]), len(data) - length


async def fill(port: int, count: int) -> None:
    """Messages of 100 bytes in all queues, in batches of 200."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    topic = {"topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": str(QUEUES),
             "writeQueueNums": str(QUEUES), "perm": "6", "topicFilterType": "SINGLE_TAG",
             "topicSysFlag": "0", "order": "false"}  # fmt: skip
    writer.write(frame(17, topic, 1))
    await answer(reader)
    body = encode_batch([BatchMessage(b"x" * 100)] * 200)
    for number in range(count // 200):
        fields = {"a": "p", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(number % QUEUES),
                  "f": "0", "g": str(int(time.time() * 1000)), "h": "0", "i": "", "j": "0",
                  "k": "false", "m": "true"}  # fmt: skip
        writer.write(frame(320, fields, number, body))
        found, _ = await answer(reader)
        assert found["code"] == 0, found
    writer.close()


async def member(port: int, until: float, *, single: bool) -> int:
    """One connection: pop, settle, and again; how many messages it settled."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    settled = opaque = 0
    while time.monotonic() < until:
        opaque += 1
        ask = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "maxMsgNums": str(COUNT),
               "invisibleTime": "60000", "pollTime": "0", "initMode": "0", "expType": "TAG",
               "bornTime": str(int(time.time() * 1000)), "exp": "*",
               "order": "false"}  # fmt: skip
        writer.write(frame(200050, ask, opaque))
        found, _ = await answer(reader)
        if found["code"] != 0:
            await asyncio.sleep(0.01)
            continue
        fields = found["extFields"]
        assert isinstance(fields, dict)
        parts = parse_offsets(fields["startOffsetInfo"], fields["msgOffsetInfo"])
        if single:
            requests = [
                frame(200051, {
                    "consumerGroup": GROUP, "topic": TOPIC, "queueId": str(part.queue_id),
                    "offset": str(offset),
                    "extraInfo": f"{part.start_offset} {fields['popTime']} 60000 "
                    f"{fields['reviveQid']} 0 broker-a {part.queue_id} {offset}",
                }, opaque)
                for part in parts for offset in part.offsets
            ]  # fmt: skip
        else:
            acks = [
                BatchAck(
                    consumer_group=GROUP, topic=TOPIC, start_offset=part.start_offset,
                    queue_id=part.queue_id, revive_queue_id=int(fields["reviveQid"]),
                    pop_time=int(fields["popTime"]), invisible_time=60_000,
                    bits=BatchAck.bits_of(list(part.offsets), part.start_offset),
                )
                for part in parts
            ]  # fmt: skip
            body = BatchAckMessageRequest(acks=acks, broker_name="broker-a").encode()
            requests = [frame(200151, {}, opaque, body)]
        for request in requests:  # one in flight, as a client that waits
            writer.write(request)
            done, _ = await answer(reader)
            assert done["code"] == 0, done
        settled += sum(len(part.offsets) for part in parts)
    writer.close()
    return settled


async def measure(port: int, seconds: float, *, single: bool) -> float:
    """Messages popped and settled per second."""
    until = time.monotonic() + seconds
    work = [member(port, until, single=single) for _ in range(CONNECTIONS)]
    return sum(await asyncio.gather(*work)) / seconds


def main() -> None:
    """Alternate between the two brokers and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--single", action="store_true", help="32 single acknowledgements")
    parser.add_argument("--ours", action="store_true", help="leave the Java broker out")
    given = parser.parse_args()
    rates: dict[str, list[float]] = {}
    makers: list[Callable[[Path, dict[str, str]], BrokerProcess]] = [OurBroker]
    if not given.ours:
        makers.append(lambda home, conf: JavaBroker(home, conf, "5.2.0"))
    for _ in range(given.runs):
        for make in makers:
            home = Path(tempfile.mkdtemp(prefix="pop-bench-")) / "broker"
            with make(home, {"brokerName": "broker-a"}) as broker:
                asyncio.run(fill(broker.port, 600_000 if not given.single else 200_000))
                rate = asyncio.run(measure(broker.port, given.seconds, single=given.single))
            rates.setdefault(broker.name, []).append(rate)
            print(f"{broker.name}: {rate:,.0f} messages/s", flush=True)
            home.parent.rmdir()
    medians = {name: statistics.median(values) for name, values in rates.items()}
    if len(medians) == 2:
        ours, java = medians.values()
        print(f"ratio of medians: {ours / java:.2f}")


if __name__ == "__main__":
    main()
