"""The lane and the ordinary path are one broker: the same bytes get the same answers and records.

Every scenario is played twice, with the fast lane and without it, over the same stream of requests,
cut into reads at random or at every byte.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from contrailmq.broker.app import Broker
from contrailmq.protocol.command import Command, Serialization, decode
from contrailmq.protocol.frame import FrameDecoder
from contrailmq.protocol.message import Record, decode_records
from testkit.broker_world import BROKER_IP, World, run

FIELDS = {
    "a": "producers", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000",
    "h": "0", "i": "UNIQ_KEY\x017F0001\x02WAIT\x01true\x02TAGS\x01A\x02", "j": "0", "k": "false",
    "m": "false",
}  # fmt: skip
ODD: tuple[dict[str, str], ...] = (
    {"i": "TAGS\x01A\x02"},  # no unique key
    {"i": "UNIQ_KEY\x01U\x02DELAY\x013\x02"},
    {"b": "another"},  # made by the send
    {"e": "99"},  # no such queue
    {"e": "-1"},  # any queue
    {"b": ""},  # refused
    {"j": "2"},
    {"k": "true"},
    {"i": "UNIQ_KEY\x01U\x02a\x01b\x01c\x02"},
)


class Peer(asyncio.Protocol):
    """Writes what it is told, keeps what it gets."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.received = bytearray()
        self.is_lost = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        self._buffer = bytearray(65536)
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def answers(self) -> list[Command]:
        return [decode(frame) for frame in FrameDecoder().feed(self.received)]


class Counting:
    """The broker's own lane; ``taken`` are the bytes it took."""

    def __init__(self, lane: Any) -> None:
        self._lane = lane
        self.taken = 0

    def run(self, buffer: bytearray, start: int, end: int, connection: Any, out: list[Any]) -> int:
        position: int = self._lane.run(buffer, start, end, connection, out)
        self.taken += position - start
        return position


def requests(rng: random.Random, count: int) -> list[bytes]:
    """Mostly plain sends, with everything else in between."""
    found = []
    for number in range(count):
        command = Command(310, fields=dict(FIELDS), body=b"%d" % number * rng.randint(1, 40))
        kind = rng.random()
        if kind < 0.15:
            command.fields |= rng.choice(ODD)
        elif kind < 0.25:
            command.flag = 2  # nobody waits for an answer
        elif kind < 0.35:
            command.serialization = Serialization.ROCKETMQ
        elif kind < 0.4:
            command = Command(34, fields={})  # a heartbeat without a body: refused
        command.opaque = number
        command.fields.setdefault("e", "0")
        if command.code == 310 and "e" in command.fields and kind >= 0.15:
            command.fields["e"] = str(rng.randrange(4))
        found.append(bytes(command.encode()))
    return found


async def play(world: World, stream: bytes, cuts: list[int], *, has_lane: bool) -> Any:
    """What a broker answers to a stream cut into these reads, and what it stores."""
    async with world.broker(namesrvAddr="") as broker:
        assert broker._server is not None
        lane = Counting(broker._server._endpoint.lane)
        broker._server._endpoint.lane = lane if has_lane else None
        peer = Peer()
        await world.network.host("10.0.2.9").connect(lambda: peer, BROKER_IP, broker.port)
        (connection,) = broker._server.connections
        start = 0
        for end in [*cuts, len(stream)]:
            while start < end:  # as a transport reads
                room = connection.get_buffer(-1)
                size = min(len(room), end - start)
                room[:size] = stream[start : start + size]
                connection.buffer_updated(size)
                start += size
            if start % 7 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(2)
        assert (lane.taken > len(stream) // 3) == has_lane
        found = outcome(broker, peer)
        peer.transport.abort()
        return found


def outcome(broker: Broker, peer: Peer) -> tuple[list[Any], list[Any]]:
    """Answers and records without what no two runs share: times, ports, made-up keys."""
    assert not peer.is_lost
    answers = [
        (
            answer.opaque, answer.code, answer.remark, answer.serialization,
            {name: value for name, value in answer.fields.items() if name != "transactionId"},
        )
        for answer in peer.answers()
    ]  # fmt: skip
    store = broker.parts.store
    records = []
    offset = store.min_offset
    while offset < store.max_offset:
        data = store.record_at(offset)
        assert data is not None
        (record,) = decode_records(data)
        records.append(plain(record))
        offset += len(data)
    assert store.derivation.derived_offset == store.max_offset
    return answers, records


def plain(record: Record) -> Any:
    properties = {n: v for n, v in record.properties.items() if n != "UNIQ_KEY" or v == "7F0001"}
    return (
        record.topic, record.queue_id, record.queue_offset, record.commit_log_offset, record.flag,
        record.sys_flag, record.born_ms, bytes(record.body), record.reconsume_times, properties,
    )  # fmt: skip


def both(directory: Path, stream: bytes, cuts: list[int], **conf: str) -> tuple[Any, Any]:
    """The outcome with the lane, and without."""
    found: dict[bool, Any] = {}
    for has_lane in (True, False):

        async def scenario(world: World, has_lane: bool = has_lane) -> None:
            found[has_lane] = await play(world, stream, cuts, has_lane=has_lane)

        run(1, directory / str(has_lane), scenario, **conf)
    return found[True], found[False]


@pytest.mark.parametrize("seed", range(6))
def test_lane_and_ordinary_path_answer_and_store_the_same(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    stream = b"".join(requests(rng, 60))
    cuts = sorted(rng.sample(range(1, len(stream)), 25)) if seed else []
    conf = {"flushDiskType": "SYNC_FLUSH"} if seed == 5 else {}
    quick, slow = both(tmp_path, stream, cuts, **conf)
    if conf:  # answers that wait for the disk and those that do not may change places
        quick[0].sort(key=lambda answer: answer[0])
        slow[0].sort(key=lambda answer: answer[0])
    assert quick == slow
    assert len(quick[1]) > 30


def test_frames_cut_at_every_byte(tmp_path: Path) -> None:
    stream = b"".join(requests(random.Random(11), 6))
    quick, slow = both(tmp_path, stream, list(range(1, len(stream))))
    assert quick == slow
    assert quick[1]
