"""Answers a lane has held back: in order with all others, within the bounds of a slow reader."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from contrailmq.net.connection import Connection
from contrailmq.net.settings import ServerSettings
from contrailmq.protocol.command import RESPONSE_FLAG, Command

Run = Callable[[Callable[[Any], Awaitable[None]]], None]


class HoldingLane:
    """Takes every request and answers none; ``during`` is called within the read."""

    def __init__(self) -> None:
        self.during: Callable[[Connection, list[Any]], None] = lambda connection, out: None
        self.taken = 0

    def run(
        self, buffer: bytearray, start: int, end: int, connection: Connection, out: list[Any]
    ) -> int:
        self.taken += 1
        self.during(connection, out)
        return end


def _answer(number: int, size: int = 3) -> bytes:
    return bytes(Command(0, opaque=number, flag=RESPONSE_FLAG, body=b"a" * size).encode())


async def _opened(world: Any, lane: Any, settings: ServerSettings | None = None) -> Any:
    server = await world.serve({}, settings, lane=lane)
    peer = await world.peer()
    (connection,) = server.connections
    return server, peer, connection


def test_an_answer_is_written_at_once_and_behind_what_waits(world: Run) -> None:
    async def scenario(world: Any) -> None:
        _, peer, connection = await _opened(world, HoldingLane())
        connection.answer(_answer(0))
        connection.send([_answer(1)])
        connection.send([_answer(2)])  # collected: it is the second of this turn
        connection.answer(_answer(3))
        connection.answer(_answer(4))
        await world.settle()
        assert [answer.opaque for answer in peer.commands()] == [0, 1, 2, 3, 4]

    world(scenario)


def test_within_a_read_it_joins_the_answers_of_the_read(world: Run) -> None:
    async def scenario(world: Any) -> None:
        lane = HoldingLane()
        _, peer, connection = await _opened(world, lane)

        def during(inner: Connection, out: list[Any]) -> None:
            assert inner is connection
            out.append(_answer(0))
            inner.answer(_answer(1))
            out.append(_answer(2))

        lane.during = during
        peer.transport.write(_answer(9))
        await world.settle()
        assert lane.taken == 1
        assert [answer.opaque for answer in peer.commands()] == [0, 1, 2]

    world(scenario)


@pytest.mark.parametrize("end", ["close", "abort", "lost"])
def test_nothing_is_written_to_a_connection_that_has_ended(world: Run, end: str) -> None:
    async def scenario(world: Any) -> None:
        _, peer, connection = await _opened(world, HoldingLane())
        connection.answer(_answer(0))
        await world.settle()
        if end == "lost":
            peer.transport.abort()
            await world.settle()
        else:
            getattr(connection, end)("for a test")
        connection.answer(_answer(1))
        await world.settle()
        assert [answer.opaque for answer in peer.commands()] == [0]

    world(scenario)


def test_a_reader_that_is_hopeless_is_closed(world: Run) -> None:
    async def scenario(world: Any) -> None:
        settings = ServerSettings(write_high_size=100_000, write_size_max=400_000)
        server, peer, connection = await _opened(world, HoldingLane(), settings)
        peer.transport.pause_reading()
        for number in range(100):
            connection.answer(_answer(number, 20_000))
            await world.settle()
        assert connection.closed
        assert "slow reader" in (connection.close_reason or "")
        assert not server.connections

    world(scenario)
