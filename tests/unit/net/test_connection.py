"""What a connection does with bytes: order, one write a read, lanes, bounds, malformed input."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from contrailmq.errors import ConnectionLost, SystemBusy
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.net.settings import ClientNetSettings, Lane, ServerSettings
from contrailmq.protocol.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, Serialization
from contrailmq.testing.sim import SimClock

ECHO, LATER, BOOM, HELD, SEND = 1, 2, 3, 4, 10
Run = Callable[[Callable[[Any], Awaitable[None]]], None]


def _echo(request: Command, connection: Connection) -> Command:
    return request.reply(fields=request.fields, body=request.body)


def _frames(*commands: Command) -> bytes:
    return b"".join(command.encode() for command in commands)


def _request(code: int, opaque: int, **more: Any) -> Command:
    return Command(code, opaque=opaque, **more)


def test_all_frames_of_one_read_are_answered_with_one_write(world: Run) -> None:
    async def scenario(world: Any) -> None:
        writes: list[int] = []
        server = await world.serve({ECHO: _echo})
        peer = await world.peer()
        (connection,) = server.connections
        transport = connection._transport
        write = transport.write
        transport.write = lambda data: (writes.append(len(data)), write(data))
        stream = bytearray(_frames(*(_request(ECHO, n, body=b"x" * n) for n in range(50))))
        connection.get_buffer(-1)[: len(stream)] = stream
        connection.buffer_updated(len(stream))
        assert len(writes) == 1
        await world.settle()
        answers = peer.commands()
        assert [answer.opaque for answer in answers] == list(range(50))
        assert [len(answer.body) for answer in answers] == list(range(50))

    world(scenario)


@pytest.mark.parametrize("piece", [1, 3, 7, 1000, 65_536, 10_000_000])
def test_frames_do_not_depend_on_how_the_stream_was_cut(world: Run, piece: int) -> None:
    async def scenario(world: Any) -> None:
        server = await world.serve({ECHO: _echo})
        sizes = [*range(6), 3000, 5000, *((70_000, 300_000) if piece > 10 else ())]
        stream = _frames(*(_request(ECHO, n, body=b"y" * size) for n, size in enumerate(sizes)))
        peer = await world.peer()
        (connection,) = server.connections
        for start in range(0, len(stream), piece):
            data = stream[start : start + piece]
            while data:
                room = connection.get_buffer(-1)
                size = min(len(room), len(data))
                assert size > 0
                room[:size] = data[:size]
                del room
                connection.buffer_updated(size)
                data = data[size:]
        await world.settle(2)
        assert [len(answer.body) for answer in peer.commands()] == sizes

    world(scenario)


@pytest.mark.parametrize("serialization", list(Serialization))
def test_a_reply_has_the_encoding_of_its_request(world: Run, serialization: Serialization) -> None:
    async def scenario(world: Any) -> None:
        async def later(request: Command, connection: Connection) -> Command:
            await asyncio.sleep(0.01)
            return request.reply()

        await world.serve({ECHO: _echo, LATER: later})
        peer = await world.peer()
        for number, code in enumerate((ECHO, LATER, 9999)):
            peer.transport.write(_frames(_request(code, number, serialization=serialization)))
        await world.settle()
        assert {(a.opaque, a.serialization) for a in peer.commands()} == {
            (n, serialization) for n in range(3)
        }

    world(scenario)


def test_an_unknown_code_is_answered_with_3_and_a_failure_with_1(world: Run) -> None:
    async def scenario(world: Any) -> None:
        def boom(request: Command, connection: Connection) -> Command:
            raise ValueError("deliberate")

        def busy(request: Command, connection: Connection) -> Command:
            raise SystemBusy("not now")

        async def late_boom(request: Command, connection: Connection) -> Command:
            await asyncio.sleep(0.01)
            raise KeyError("late")

        await world.serve({BOOM: boom, ECHO: busy, LATER: late_boom})
        peer = await world.peer()
        codes = (9999, BOOM, ECHO, LATER)
        peer.transport.write(_frames(*(_request(code, n) for n, code in enumerate(codes))))
        await world.settle()
        assert [(a.opaque, a.code, a.remark) for a in peer.commands()] == [
            (0, 3, " request type 9999 not supported"),
            (1, 1, "ValueError: deliberate"),
            (2, 2, "not now"),
            (3, 1, "KeyError: 'late'"),
        ]
        assert peer.lost == []

    world(scenario)


def test_a_oneway_is_never_answered(world: Run) -> None:
    async def scenario(world: Any) -> None:
        async def later(request: Command, connection: Connection) -> Command:
            return request.reply()

        def boom(request: Command, connection: Connection) -> Command:
            raise ValueError("deliberate")

        await world.serve({ECHO: _echo, LATER: later, BOOM: boom})
        peer = await world.peer()
        for code in (ECHO, LATER, BOOM, 9999):
            peer.transport.write(_frames(_request(code, 1, flag=ONEWAY_FLAG)))
        peer.transport.write(_frames(_request(ECHO, 2)))
        await world.settle()
        assert [answer.opaque for answer in peer.commands()] == [2]

    world(scenario)


def test_an_answer_nobody_awaits_is_dropped(world: Run) -> None:
    async def scenario(world: Any) -> None:
        server = await world.serve({ECHO: _echo})
        peer = await world.peer()
        peer.transport.write(_frames(_request(0, 77, flag=RESPONSE_FLAG), _request(ECHO, 5)))
        await world.settle()
        assert [answer.opaque for answer in peer.commands()] == [5]
        assert server.connection_count == 1

    world(scenario)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"\x00\x00\x00\x02ab", "frame of 2 bytes"),
        (b"\xff\xff\xff\xff", "frame of -1 bytes"),
        (b"\x01\x00\x00\x01", "frame of 16777217 bytes"),
        (b"\x16\x03\x01\x02\x00\x01", "speaks TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "speaks HTTP"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x04{{{{", "JSON"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x05{{{{", "header of 5 bytes"),
        (b"\x00\x00\x00\x08\x07\x00\x00\x04abcd", "serialization type 7"),
        (b"\x00\x00\x00\x08\x01\x00\x00\x04abcd", "cut off"),
    ],
)
def test_a_malformed_frame_closes_its_own_connection_only(
    world: Run, caplog: pytest.LogCaptureFixture, bad: bytes, reason: str
) -> None:
    async def scenario(world: Any) -> None:
        server = await world.serve({ECHO: _echo})
        good, evil = await world.peer(), await world.peer("10.6.6.6")
        evil.transport.write(_frames(_request(ECHO, 1)) + bad + _frames(_request(ECHO, 2)))
        good.transport.write(_frames(_request(ECHO, 3)))
        await world.settle()
        assert [answer.opaque for answer in evil.commands()] == [1]
        assert len(evil.lost) == 1
        good.transport.write(_frames(_request(ECHO, 4)))
        await world.settle()
        assert [answer.opaque for answer in good.commands()] == [3, 4]
        assert server.connection_count == 1

    with caplog.at_level(logging.WARNING):
        world(scenario)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "peer=10.6.6.6:" in line
    assert reason in line


def test_lines_about_one_peer_are_rate_limited(
    world: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: Any) -> None:
        await world.serve({})
        for _ in range(30):
            peer = await world.peer("10.6.6.6")
            peer.transport.write(b"\xff\xff\xff\xff")
            await world.settle(0.1)
        await world.settle(10)
        peer = await world.peer("10.6.6.6")
        peer.transport.write(b"\xff\xff\xff\xff")
        await world.settle()

    with caplog.at_level(logging.WARNING):
        world(scenario)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].endswith("similar=0")
    assert lines[1].endswith("similar=29")


def test_connections_are_bounded(world: Run) -> None:
    async def scenario(world: Any) -> None:
        server = await world.serve({ECHO: _echo}, ServerSettings(connections_max=3))
        peers = [await world.peer() for _ in range(5)]
        await world.settle()
        assert [len(peer.lost) for peer in peers] == [0, 0, 0, 1, 1]
        assert server.connection_count == 3
        peers[0].transport.close()
        await world.settle()
        peer = await world.peer()
        peer.transport.write(_frames(_request(ECHO, 1)))
        await world.settle()
        assert len(peer.commands()) == 1

    world(scenario)


def test_frames_are_bounded_by_the_setting(world: Run) -> None:
    async def scenario(world: Any) -> None:
        await world.serve({ECHO: _echo}, ServerSettings(frame_size_max=1000))
        peer = await world.peer()
        overhead = len(_frames(_request(ECHO, 1)))
        peer.transport.write(_frames(_request(ECHO, 1, body=b"x" * (1000 - overhead))))
        await world.settle()
        assert len(peer.commands()) == 1
        peer.transport.write(_frames(_request(ECHO, 1, body=b"x" * (1001 - overhead))))
        await world.settle()
        assert len(peer.lost) == 1

    world(scenario)


@pytest.mark.parametrize("style", ["future", "coroutine", "held"])
def test_requests_in_flight_are_bounded_per_lane(world: Run, style: str) -> None:
    async def scenario(world: Any) -> None:
        loop = asyncio.get_running_loop()
        gate: asyncio.Future[None] = loop.create_future()
        held: list[tuple[Command, Connection]] = []

        def pull(request: Command, connection: Connection) -> Any:
            if style == "held":
                held.append((request, connection))
                return None
            if style == "future":
                future = loop.create_future()
                gate.add_done_callback(lambda _: future.set_result(request.reply()))
                return future

            async def wait() -> Command:
                await asyncio.shield(gate)
                return request.reply()

            return wait()

        server = await world.serve(
            {11: pull, SEND: _echo},
            ServerSettings(in_flight_pull_max=4),
            lanes={11: Lane.PULL, SEND: Lane.SEND},
        )
        peer = await world.peer()
        peer.transport.write(_frames(*(_request(11, n) for n in range(6)), _request(SEND, 100)))
        await world.settle()
        assert [(a.opaque, a.code) for a in peer.commands()] == [(4, 2), (5, 2), (100, 0)]
        assert peer.commands()[0].remark == (
            "[OVERLOAD]system busy: 4 pull requests of this connection are in flight, at most 4"
        )
        assert server.connections[0].in_flight_count == 4
        gate.set_result(None)
        for request, connection in held:
            connection.reply(request.reply())
        await world.settle()
        assert server.connections[0].in_flight_count == 0
        peer.transport.write(_frames(_request(11, 7)))
        await world.settle()
        assert [a.opaque for a in peer.commands() if a.code == 2] == [4, 5]

    world(scenario)


def test_an_answer_given_within_the_handler_is_not_in_flight(world: Run) -> None:
    async def scenario(world: Any) -> None:
        def at_once(request: Command, connection: Connection) -> None:
            connection.reply(request.reply(body=b"at once"))

        server = await world.serve({HELD: at_once, ECHO: _echo})
        peer = await world.peer()
        peer.transport.write(_frames(_request(ECHO, 1), _request(HELD, 2), _request(ECHO, 3)))
        await world.settle()
        assert [answer.opaque for answer in peer.commands()] == [1, 2, 3]
        assert server.connections[0].in_flight_count == 0

    world(scenario)


def test_a_slow_reader_is_not_read_from_and_the_others_do_not_notice(world: Run) -> None:
    async def scenario(world: Any) -> None:
        served: list[str] = []

        def big(request: Command, connection: Connection) -> Command:
            served.append(connection.peer)
            return request.reply(body=b"z" * 100_000)

        settings = ServerSettings(write_high_size=200_000)
        await world.serve({ECHO: big}, settings)
        slow, good = await world.peer("10.0.0.7"), await world.peer("10.0.0.8")
        slow.transport.pause_reading()
        slow.transport.write(_frames(*(_request(ECHO, n) for n in range(150))))
        await world.settle(1)
        # 256 KiB on the wire, 200 kB in the transport, one answer that went over the mark
        assert len([peer for peer in served if peer.startswith("10.0.0.7")]) < 10
        good.transport.write(_frames(*(_request(ECHO, n) for n in range(50))))
        await world.settle(1)
        assert len(good.commands()) == 50
        slow.transport.resume_reading()
        await world.settle(60)
        assert [answer.opaque for answer in slow.commands()] == list(range(150))
        assert slow.lost == []

    world(scenario)


def test_a_slow_reader_that_goes_on_asking_is_stopped_by_its_own_socket(world: Run) -> None:
    async def scenario(world: Any) -> None:
        def big(request: Command, connection: Connection) -> Command:
            return request.reply(body=b"z" * 100_000)

        server = await world.serve({ECHO: big}, ServerSettings(write_high_size=200_000))
        slow = await world.peer()
        slow.transport.pause_reading()
        requests = _frames(*(_request(ECHO, n, body=b"q" * 50_000) for n in range(100)))
        slow.transport.write(requests)
        await world.settle(5)
        assert slow.transport.get_write_buffer_size() > len(requests) // 2
        kept_size = (server.connections[0]._inlet._intake.kept() or (b"", 0))[1]
        assert kept_size < 600_000

    world(scenario)


def test_a_reader_too_slow_for_what_waits_is_closed(
    world: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: Any) -> None:
        held: list[tuple[Command, Connection]] = []

        def hold(request: Command, connection: Connection) -> None:
            held.append((request, connection))

        server = await world.serve(
            {HELD: hold}, ServerSettings(write_high_size=100_000, write_size_max=1_000_000)
        )
        peer = await world.peer()
        peer.transport.write(_frames(*(_request(HELD, n) for n in range(100))))
        await world.settle()
        assert len(held) == 100
        peer.transport.pause_reading()
        for request, connection in held:
            connection.reply(request.reply(body=b"z" * 100_000))
        assert server.connections[0].closed
        await world.settle()
        assert server.connection_count == 0

    with caplog.at_level(logging.WARNING):
        world(scenario)
    assert "slow reader" in caplog.text
    assert "at most 1000000" in caplog.text


def test_an_answer_too_large_for_a_frame_becomes_an_error(world: Run) -> None:
    async def scenario(world: Any) -> None:
        def huge(request: Command, connection: Connection) -> Command:
            return request.reply(body=bytes(17 * 1024 * 1024))

        await world.serve({ECHO: huge})
        peer = await world.peer()
        peer.transport.write(_frames(_request(ECHO, 9)))
        await world.settle()
        (answer,) = peer.commands()
        assert (answer.opaque, answer.code) == (9, 1)
        assert "at most 16777216" in str(answer.remark)

    world(scenario)


def test_the_peer_as_text_and_as_a_record_stores_it(world: Run) -> None:
    async def scenario(world: Any) -> None:
        server = await world.serve({})
        peer = await world.peer("10.0.0.42")
        (connection,) = server.connections
        port = peer.transport.name[1]
        assert connection.peer == f"10.0.0.42:{port}"
        assert connection.peer_host == bytes([10, 0, 0, 42]) + port.to_bytes(4, "big")
        assert connection.local == "10.0.0.1:9000"

    world(scenario)


def test_close_callbacks_run_once_and_at_once_when_late(world: Run) -> None:
    async def scenario(world: Any) -> None:
        server = await world.serve({})
        peer = await world.peer()
        (connection,) = server.connections
        seen: list[str | None] = []
        connection.on_close(lambda ended: seen.append(ended.close_reason))
        peer.transport.close()
        await world.settle()
        assert seen == ["closed by the peer"]
        connection.on_close(lambda ended: seen.append(ended.close_reason))
        assert seen == ["closed by the peer"] * 2
        with pytest.raises(ConnectionLost, match="closed by the peer"):
            await connection.call(Command(1), timeout_s=1)

    world(scenario)


def test_a_handler_under_way_is_not_cancelled_by_its_peer_leaving(world: Run) -> None:
    async def scenario(world: Any) -> None:
        finished = []

        async def change(request: Command, connection: Connection) -> Command:
            await asyncio.sleep(1)
            finished.append(request.opaque)
            return request.reply()

        await world.serve({LATER: change})
        peer = await world.peer()
        peer.transport.write(_frames(_request(LATER, 1)))
        await world.settle(0.1)
        peer.transport.abort()
        await world.settle(2)
        assert finished == [1]

    world(scenario)


def test_callers_of_a_client_wait_for_a_peer_that_does_not_read(world: Run) -> None:
    async def scenario(world: Any) -> None:
        server = await world.serve({ECHO: lambda request, connection: request.reply()})
        client = RemotingClient(
            ClientNetSettings(write_high_size=100_000),
            clock=SimClock(),
            network=world.network.host("10.0.0.5"),
        )
        await client.call("10.0.0.1:9000", Command(ECHO), timeout_s=3)
        (accepted,) = server.connections
        accepted._transport.pause_reading()

        async def one() -> int:
            body = b"x" * 50_000
            return (await client.call("10.0.0.1:9000", Command(ECHO, body=body), timeout_s=30)).code

        calls = [asyncio.ensure_future(one()) for _ in range(100)]
        await world.settle(1)
        connection = client.find_connection("10.0.0.1:9000")
        assert connection is not None
        assert connection.is_write_paused
        late = [asyncio.ensure_future(one()) for _ in range(100)]
        await world.settle(1)
        assert len(connection.calls) <= 100
        accepted._transport.resume_reading()
        assert set(await asyncio.gather(*calls, *late)) == {0}
        await client.aclose()

    world(scenario)


class _Lane:
    """A fast lane that answers codes below 100 itself, whole runs of them."""

    def __init__(self) -> None:
        self.runs: list[int] = []

    def run(
        self, buffer: bytearray, start: int, end: int, connection: Connection, out: list[Any]
    ) -> int:
        count = 0
        while end - start >= 4:
            size = int.from_bytes(buffer[start : start + 4], "big")
            if start + 4 + size > end or b'"code":7' not in buffer[start : start + 4 + size]:
                break
            number = int(
                bytes(buffer[start + 4 : start + 4 + size]).split(b'"opaque":')[1].split(b",")[0]
            )
            out.append(_request(7, number, flag=RESPONSE_FLAG).encode())
            start += 4 + size
            count += 1
        self.runs.append(count)
        return start


def test_the_fast_lane_and_the_ordinary_path_take_turns_in_order(world: Run) -> None:
    async def scenario(world: Any) -> None:
        lane = _Lane()
        server = await world.serve({ECHO: _echo}, lane=lane)
        peer = await world.peer()
        (connection,) = server.connections
        codes = [7, 7, 7, ECHO, 7, ECHO, ECHO, 7, 7]
        stream = _frames(*(_request(code, n) for n, code in enumerate(codes)))
        connection.get_buffer(-1)[: len(stream)] = stream
        connection.buffer_updated(len(stream))
        await world.settle()
        assert [answer.opaque for answer in peer.commands()] == list(range(len(codes)))
        assert lane.runs == [3, 1, 0, 2]

    world(scenario)


class _BigLane:
    """A fast lane that answers every request with 20 KB; it can fail."""

    def __init__(self) -> None:
        self.count = 0
        self.fails_at = -1

    def run(
        self, buffer: bytearray, start: int, end: int, connection: Connection, out: list[Any]
    ) -> int:
        while end - start >= 4:
            size = int.from_bytes(buffer[start : start + 4], "big")
            if start + 4 + size > end:
                break
            if self.count == self.fails_at:
                raise ValueError("the lane is broken")
            answer = _request(7, self.count, flag=RESPONSE_FLAG, body=b"a" * 20_000)
            out.append(answer.encode())
            start += 4 + size
            self.count += 1
        return start


def test_a_slow_reader_stops_the_lane_and_loses_nothing(world: Run) -> None:
    async def scenario(world: Any) -> None:
        lane = _BigLane()
        await world.serve({}, ServerSettings(write_high_size=100_000), lane=lane)
        peer = await world.peer()
        peer.transport.pause_reading()
        for number in range(400):
            peer.transport.write(_frames(_request(7, number)))
            await asyncio.sleep(0.001)
        await world.settle(2)
        assert 10 < lane.count < 100, "it goes on reading although nobody takes the answers"
        peer.transport.resume_reading()
        await world.settle(5)
        assert [answer.opaque for answer in peer.commands()] == list(range(400))
        assert not peer.lost

    world(scenario)


def test_a_reader_that_is_hopeless_is_closed_in_the_lane_too(world: Run) -> None:
    async def scenario(world: Any) -> None:
        lane = _BigLane()
        settings = ServerSettings(write_high_size=10_000, write_size_max=15_000)
        server = await world.serve({}, settings, lane=lane)
        peer = await world.peer()
        peer.transport.pause_reading()
        for number in range(40):
            peer.transport.write(_frames(_request(7, number)))
            await asyncio.sleep(0.01)
        await world.settle(1)
        assert server.connection_count == 0
        assert lane.count < 40

    world(scenario)


def test_a_lane_that_fails_closes_its_connection_and_no_other(world: Run) -> None:
    async def scenario(world: Any) -> None:
        lane = _BigLane()
        lane.fails_at = 2
        server = await world.serve({}, lane=lane)
        first, second = await world.peer(), await world.peer("10.0.0.3")
        first.transport.write(_frames(*(_request(7, number) for number in range(4))))
        await world.settle(1)
        assert len(first.lost) == 1
        assert [answer.opaque for answer in first.commands()] == [0, 1], "answered before it failed"
        lane.fails_at = -1
        second.transport.write(_frames(_request(7, 9)))
        await world.settle(1)
        assert [answer.opaque for answer in second.commands()] == [2]
        assert server.connection_count == 1

    world(scenario)


def test_a_stopped_server_gives_the_lane_nothing_more(world: Run) -> None:
    async def scenario(world: Any) -> None:
        lane = _BigLane()
        server = await world.serve({}, lane=lane)
        peer = await world.peer()
        (connection,) = server.connections
        connection.stop_reading()
        frame = _frames(_request(7, 1))
        connection.get_buffer(-1)[: len(frame)] = frame
        connection.buffer_updated(len(frame))
        assert lane.count == 0
        assert not peer.received

    world(scenario)


@pytest.mark.parametrize("size", range(1, 60, 7))
def test_a_frame_whose_rest_never_comes_ends_with_its_connection(world: Run, size: int) -> None:
    async def scenario(world: Any) -> None:
        lane = _BigLane()
        server = await world.serve({}, lane=lane)
        peer = await world.peer()
        peer.transport.write(_frames(_request(7, 1)) + _frames(_request(7, 2))[:size])
        await world.settle(1)
        assert lane.count == 1
        peer.transport.close()
        await world.settle(1)
        assert server.connection_count == 0
        assert lane.count == 1

    world(scenario)
