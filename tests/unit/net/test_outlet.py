"""Few writes, in order; and requests under way are answered before a server closes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from contrailmq.net.connection import Connection
from contrailmq.net.settings import ServerSettings
from contrailmq.protocol.command import Command

Run = Callable[[Callable[[Any], Awaitable[None]]], None]
ECHO, HELD = 1, 2


def _count_writes(connection: Connection) -> list[int]:
    writes: list[int] = []
    transport: Any = connection._transport
    write, writelines = transport.write, transport.writelines
    transport.write = lambda data: (writes.append(len(data)), write(data))
    transport.writelines = lambda data: (writes.append(sum(map(len, data))), writelines(data))
    return writes


def test_answers_of_one_turn_are_written_with_two_calls(world: Run) -> None:
    async def scenario(world: Any) -> None:
        held: list[tuple[Command, Connection]] = []
        server = await world.serve({HELD: lambda request, c: held.append((request, c))})
        peer = await world.peer()
        for number in range(100):
            peer.transport.write(Command(HELD, opaque=number).encode())
        await world.settle()
        writes = _count_writes(server.connections[0])
        for request, connection in held:
            connection.reply(request.reply(body=b"x" * request.opaque))
        assert len(writes) == 1  # the first at once
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(writes) == 2  # the others with the second
        await world.settle()
        assert [answer.opaque for answer in peer.commands()] == list(range(100))
        held[0][1].oneway(Command(ECHO))
        assert len(writes) == 3  # another turn: at once again

    world(scenario)


def test_a_turn_with_much_to_write_does_not_collect_it_all(world: Run) -> None:
    async def scenario(world: Any) -> None:
        held: list[tuple[Command, Connection]] = []
        server = await world.serve(
            {HELD: lambda request, c: held.append((request, c))},
            ServerSettings(write_high_size=100_000),
        )
        peer = await world.peer()
        for number in range(40):
            peer.transport.write(Command(HELD, opaque=number).encode())
        await world.settle()
        writes = _count_writes(server.connections[0])
        for request, connection in held:
            connection.reply(request.reply(body=b"x" * 20_000))
        assert 5 < len(writes) < 20
        assert max(writes) < 150_000
        await world.settle(5)
        assert [answer.opaque for answer in peer.commands()] == list(range(40))

    world(scenario)


def test_what_was_collected_goes_out_before_a_close(world: Run) -> None:
    async def scenario(world: Any) -> None:
        server = await world.serve({})
        peer = await world.peer()
        (connection,) = server.connections
        for _ in range(10):
            connection.oneway(Command(ECHO))
        connection.close("enough")
        connection.send([b"too late"])
        await world.settle()
        assert len(peer.commands()) == 10
        assert len(peer.lost) == 1

    world(scenario)


@pytest.mark.parametrize("style", ["future", "coroutine"])
def test_a_closing_server_answers_what_is_under_way(world: Run, style: str) -> None:
    async def scenario(world: Any) -> None:
        loop = asyncio.get_running_loop()

        async def soon(request: Command) -> Command:
            await asyncio.sleep(0.2)
            return request.reply(body=b"soon")

        def serve(request: Command, connection: Connection) -> Any:
            if style == "coroutine":
                return soon(request)
            future: asyncio.Future[Command] = loop.create_future()
            loop.call_later(0.2, future.set_result, request.reply(body=b"soon"))
            return future

        server = await world.serve({ECHO: serve, HELD: lambda request, connection: None})
        peer = await world.peer()
        peer.transport.write(Command(ECHO, opaque=1).encode() + Command(HELD, opaque=2).encode())
        await world.settle(0.1)
        begin = loop.time()
        await server.aclose()
        assert loop.time() - begin < 0.3  # nobody waits for what is held
        await world.settle()
        assert [(answer.opaque, answer.body) for answer in peer.commands()] == [(1, b"soon")]

    world(scenario)
