"""Requests that take long are named, and those behind them let the others have their turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from contrailmq.clock import SystemClock
from contrailmq.net.connection import Connection
from contrailmq.net.endpoint import TURN_S
from contrailmq.net.noise import Noise
from contrailmq.net.watch import HELD_S, LoopWatch
from contrailmq.protocol.command import Command


def test_a_request_that_holds_the_loop_is_named(
    world: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: Any) -> None:
        shift = [0.0]

        def slow(request: Command, connection: Connection) -> Command:
            shift[0] += 1.5 * HELD_S
            return request.reply()

        server = await world.serve({7: slow, 8: lambda request, connection: request.reply()})
        endpoint = server._endpoint
        now = endpoint.now
        endpoint.now = lambda: now() + shift[0]
        peer = await world.peer()
        for code in (7, 8, 7):
            peer.transport.write(Command(code, opaque=code, body=b"xyz").encode())
            await asyncio.sleep(1)
        lines = [line for line in caplog.messages if "held the loop" in line]
        assert len(lines) == 1, "the second one of the same code is held back"
        assert "code=7" in lines[0]
        assert "body=3 ms=75" in lines[0]
        assert endpoint.watch.count == 2

    with caplog.at_level(logging.WARNING):
        world(scenario)


def test_many_slow_requests_of_one_read_take_turns(world: Callable[..., None]) -> None:
    async def scenario(world: Any) -> None:
        shift: list[float] = [0.0]
        events: list[object] = []

        def slow(request: Command, connection: Connection) -> Command:
            shift[0] += 0.6 * TURN_S
            events.append(request.opaque)
            return request.reply()

        server = await world.serve({7: slow})
        endpoint = server._endpoint
        now, soon = endpoint.now, endpoint.soon
        endpoint.now = lambda: now() + shift[0]

        def watched(callback: Any) -> None:
            if callback.__name__ == "_go_on":
                events.append("turn")
            soon(callback)

        endpoint.soon = watched
        peer = await world.peer()
        peer.transport.write(b"".join(Command(7, opaque=number).encode() for number in range(1, 7)))
        await asyncio.sleep(1)
        assert [event for event in events if event != "turn"] == [1, 2, 3, 4, 5, 6]
        assert events.count("turn") >= 2
        assert [answer.opaque for answer in peer.commands()] == [1, 2, 3, 4, 5, 6]

    world(scenario)


def test_a_slow_answer_is_named(caplog: pytest.LogCaptureFixture) -> None:
    watch = LoopWatch(Noise(SystemClock()))
    watch.slow(1.5, code=310, peer="1.2.3.4:5", size=7)
    watch.slow(1.5, code=310, peer="1.2.3.4:5", size=7)  # not again so soon
    assert [record.getMessage() for record in caplog.records] == [
        "slow request: code=310 peer=1.2.3.4:5 body=7 ms=1500 similar=0"
    ]
