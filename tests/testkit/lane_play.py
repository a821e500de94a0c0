"""The same stream of requests played with the fast lane and without it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from contrailmq.broker.app import Broker
from contrailmq.protocol.command import Command, decode
from contrailmq.protocol.frame import FrameDecoder
from contrailmq.protocol.message import Record, decode_records
from testkit.broker_world import BROKER_IP, World, run


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
        """What the broker has answered so far."""
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
    """A record without what no two runs share."""
    properties = {n: v for n, v in record.properties.items() if n != "UNIQ_KEY" or v == "7F0001"}
    return (
        record.topic, record.queue_id, record.queue_offset, record.commit_log_offset, record.flag,
        record.sys_flag, record.born_ms, bytes(record.body), record.reconsume_times, properties,
    )  # fmt: skip


def both(
    directory: Path, stream: bytes, cuts: list[int], *, accounts: str = "", **conf: str
) -> tuple[Any, Any]:
    """The outcome with the lane, and without; ``accounts`` are the text of plain_acl.yml."""
    found: dict[bool, Any] = {}
    for has_lane in (True, False):
        if accounts:
            path = directory / f"{has_lane}.yml"
            path.write_text(accounts)
            path.chmod(0o600)
            conf = {**conf, "aclEnable": "true", "aclFile": str(path)}

        async def scenario(world: World, has_lane: bool = has_lane) -> None:
            found[has_lane] = await play(world, stream, cuts, has_lane=has_lane)

        run(1, directory / str(has_lane), scenario, **conf)
    return found[True], found[False]
