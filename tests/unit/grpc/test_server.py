"""A gRPC server in virtual time, with ``h2`` as its client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from contrailmq.grpc.call import Call, CallGone, GrpcError, GrpcStatus, Streaming, Unary
from contrailmq.net.budget import MemoryBudget
from testkit.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    Answer,
    Http2World,
    block,
    frame,
    headers_of,
    in_world,
    request,
)

ECHO = {"/t/Echo": Unary(lambda call, message: message)}


@pytest.mark.parametrize("size", [0, 1, 16_379, 16_380, 65_535, 300_000, 3_000_000])
def test_a_message_of_any_size_comes_back(size: int) -> None:
    async def scenario(world: Http2World) -> None:
        await world.serve(ECHO)
        peer = await world.oracle()
        for _ in range(2):
            message = bytes(number * 7 & 255 for number in range(size % 1000)) * (size // 999 + 1)
            answer = await peer.call("/t/Echo", message)
            assert answer.messages == [message]
            assert answer.status == 0
            assert answer.headers == {":status": "200", "content-type": "application/grpc"}
            assert answer.trailers == {"grpc-status": "0"}

    in_world(scenario)


def test_a_call_knows_its_peer() -> None:
    seen: list[Any] = []

    def handler(call: Call, message: bytes) -> bytes:
        seen.append((call.method, call.metadata["x-name"], call.peer.split(":")[0], call.is_tls))
        assert call.deadline is not None
        seen.append(round(call.deadline - asyncio.get_running_loop().time(), 3))
        return b""

    async def scenario(world: Http2World) -> None:
        await world.serve({"/t/M": Unary(handler)})
        peer = await world.oracle()
        assert (await peer.call("/t/M", x_name="value", grpc_timeout="1500m")).messages == [b""]
        assert seen == [("/t/M", "value", "10.0.0.2", False), 1.5]

    in_world(scenario)


def test_refusals_and_bugs_have_a_status(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(call: Call, message: bytes) -> bytes:
        raise GrpcError(GrpcStatus.PERMISSION_DENIED, "no: 50% é")

    def fail(call: Call, message: bytes) -> bytes:
        raise ValueError("secret")

    async def later(call: Call, message: bytes) -> bytes:
        await asyncio.sleep(1)
        raise GrpcError(GrpcStatus.ABORTED, "later")

    async def scenario(world: Http2World) -> None:
        await world.serve(
            {"/t/Refuse": Unary(refuse), "/t/Fail": Unary(fail), "/t/Later": Unary(later)}
        )
        peer = await world.oracle()
        answer = await peer.call("/t/Refuse")
        assert (answer.status, answer.headers["grpc-message"]) == (7, "no: 50%25 %C3%A9")
        assert (await peer.call("/t/Later")).status == 10
        answer = await peer.call("/t/Fail")
        assert answer.status == 13
        assert "secret" not in str(answer.headers)
        assert (await peer.call("/t/Nothing")).status == 12
        assert "call failed" in caplog.text

    in_world(scenario)


def test_answers_of_one_read_leave_in_one_write() -> None:
    async def scenario(world: Http2World) -> None:
        server = await world.serve(ECHO)
        peer = await world.bare()
        await asyncio.sleep(0.1)
        (connection,) = server.connections
        writes: list[int] = []
        transport: Any = connection.transport
        write = transport.write
        transport.write = lambda data: (writes.append(len(data)), write(data))
        data = b"".join(request(1 + 2 * number, "/t/Echo", b"abc") for number in range(10))
        connection.take(memoryview(data), len(data))
        assert len(writes) == 1
        await asyncio.sleep(0.1)
        kinds = [(kind, flags) for kind, flags, number, _ in peer.frames() if number]
        assert kinds == [(HEADERS, 4), (DATA, 0), (HEADERS, 5)] * 10
        assert not server.tasks

    in_world(scenario)


def test_a_stream_reads_and_writes_until_it_ends() -> None:
    async def echo(call: Call) -> None:
        while (message := await call.read()) is not None:
            await call.write(message * 2)

    async def scenario(world: Http2World) -> None:
        await world.serve({"/t/Both": Streaming(echo)})
        peer = await world.oracle()
        number = peer.begin("/t/Both")
        sent = [bytes([count]) * count * 999 for count in range(60)]
        for message in sent:
            await peer.send(number, message)
        await peer.until(lambda: len(peer.answers[number].messages) == 60)
        assert not peer.answers[number].is_over
        peer.h2.end_stream(number)
        peer.flush()
        answer = await peer.over(number)
        assert answer.messages == [message * 2 for message in sent]
        assert answer.status == 0

    in_world(scenario)


def test_a_deadline_ends_a_call_and_tells_its_handler() -> None:
    told: list[str] = []

    async def wait(call: Call, message: bytes) -> bytes:
        call.on_gone(lambda: told.append("gone"))
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise
        return b""

    async def read(call: Call) -> None:
        try:
            await call.read()
        except CallGone:
            told.append("read")
            raise

    async def scenario(world: Http2World) -> None:
        await world.serve({"/t/Wait": Unary(wait), "/t/Read": Streaming(read)})
        peer = await world.oracle()
        assert (await peer.call("/t/Wait", grpc_timeout="2S")).status == 4
        number = peer.begin("/t/Read", grpc_timeout="3S")
        assert (await peer.over(number)).status == 4
        await asyncio.sleep(0.1)
        assert told == ["gone", "cancelled", "read"]
        assert asyncio.get_running_loop().time() < 6

    in_world(scenario)


@pytest.mark.parametrize("how", ["reset", "lost"])
def test_a_peer_that_gives_up_ends_its_handlers(how: str) -> None:
    told: list[str] = []

    async def wait(call: Call) -> None:
        call.on_gone(lambda: told.append("gone"))
        try:
            await asyncio.sleep(1000)
        finally:
            told.append("over")

    async def scenario(world: Http2World) -> None:
        server = await world.serve({"/t/Wait": Streaming(wait)})
        peer = await world.oracle()
        number = peer.begin("/t/Wait")
        await asyncio.sleep(1)
        if how == "reset":
            peer.h2.reset_stream(number, 8)
            peer.flush()
        else:
            peer.transport.abort()
        await asyncio.sleep(1)
        assert told == ["gone", "over"]
        assert not server.tasks

    in_world(scenario)


def test_a_writer_waits_for_the_window() -> None:
    written: list[int] = []

    async def flood(call: Call) -> None:
        for number in range(100):
            await call.write(bytes(10_000))
            written.append(number)

    async def scenario(world: Http2World) -> None:
        server = await world.serve({"/t/Flood": Streaming(flood)})
        peer = await world.oracle(opens_windows=False)
        number = peer.begin("/t/Flood")
        await asyncio.sleep(5)
        assert len(written) == 6  # 65,535 bytes
        (connection,) = server.connections
        assert connection.session.held < 20_000
        peer.opens_windows = True
        while not peer.answers[number].is_over:
            received = len(peer.answers[number].data)
            for stream in (None, number):
                peer.h2.increment_flow_control_window(65_535, stream)
            peer.flush()
            await peer.until(lambda: len(peer.answers[number].data) > received)  # noqa: B023
        assert len(peer.answers[number].messages) == 100

    in_world(scenario)


def test_settings_of_the_peer_change_its_windows() -> None:
    async def scenario(world: Http2World) -> None:
        await world.serve(ECHO)
        peer = await world.oracle()
        peer.h2.update_settings({4: 10, 1: 0, 5: 20_000})  # window, header table, frame size
        peer.flush()
        await asyncio.sleep(0.1)
        for _ in range(3):
            assert (await peer.call("/t/Echo", b"x" * 500)).messages == [b"x" * 500]
        peer.h2.update_settings({4: 100_000})
        peer.flush()
        assert (await peer.call("/t/Echo", b"x" * 50_000)).messages == [b"x" * 50_000]

    in_world(scenario)


def test_a_close_says_goodbye_twice_and_lets_calls_end() -> None:
    async def short(call: Call, message: bytes) -> bytes:
        await asyncio.sleep(0.2)
        return b"done"

    async def endless(call: Call) -> None:
        await call.write(b"hello")
        await call.read()

    async def scenario(world: Http2World) -> None:
        server = await world.serve({"/t/Short": Unary(short), "/t/Endless": Streaming(endless)})
        peer = await world.bare()  # h2 itself ends with the first GOAWAY
        peer.send(frame(HEADERS, END_HEADERS, 1, block(headers_of("/t/Endless"))))
        peer.send(request(3, "/t/Short"))
        await asyncio.sleep(0.05)
        await server.aclose()
        await asyncio.sleep(0.5)
        frames = peer.frames()
        assert (DATA, 0, 3, b"\0\0\0\0\x04done") in frames
        (trailers,) = [p for kind, flags, n, p in frames if n == 1 and flags & END_STREAM]
        assert b"\x0214" in trailers  # UNAVAILABLE
        goodbyes = [int.from_bytes(p[:4], "big") for kind, _, _, p in frames if kind == GOAWAY]
        assert goodbyes == [2**31 - 1, 3]
        assert peer.lost

    in_world(scenario)


def test_idle_connections_end_and_streams_keep_them() -> None:
    async def wait(call: Call) -> None:
        await call.read()

    async def scenario(world: Http2World) -> None:
        server = await world.serve({**ECHO, "/t/Wait": Streaming(wait)})
        idle, kept = await world.oracle(), await world.oracle()
        await idle.call("/t/Echo")
        kept.begin("/t/Wait")
        for _ in range(20):
            await asyncio.sleep(10)
            if not idle.lost:
                idle.h2.ping(bytes(8))
                idle.flush()
        assert idle.lost
        assert not kept.lost
        world.network.stall("10.0.0.2")  # the machine hangs: it answers no ping
        await asyncio.sleep(200)
        assert not server.connections
        world.network.heal()

    in_world(scenario)


def test_a_connection_that_holds_too_much_is_closed() -> None:
    async def scenario(world: Http2World) -> None:
        server = await world.serve(ECHO)
        server.budget = MemoryBudget(2_000_000)
        peer = await world.oracle()
        other = await world.oracle()
        number = peer.begin("/t/Echo")
        with pytest.raises(AssertionError, match="the connection ended"):
            await peer.send(number, bytes(5_000_000))
            await peer.over(number)
        assert (await other.call("/t/Echo", b"others do not notice")).status == 0

    in_world(scenario)


def test_what_is_no_grpc_is_told_so() -> None:
    async def scenario(world: Http2World) -> None:
        await world.serve(ECHO)
        peer = await world.oracle()
        for fields, status in (
            ([(":method", "GET"), (":path", "/")], "405"),
            ([(":method", "POST"), (":path", "/t/Echo"), ("content-type", "text/html")], "415"),
        ):
            number = peer.h2.get_next_available_stream_id()
            peer.answers[number] = Answer()
            given = [(":scheme", "http"), (":authority", "x"), *fields]
            peer.h2.send_headers(number, given, end_stream=True)
            peer.flush()
            assert (await peer.over(number)).headers[":status"] == status

    in_world(scenario)


def test_a_request_is_one_whole_message() -> None:
    async def scenario(world: Http2World) -> None:
        await world.serve(ECHO, message_size_max=1000)
        peer = await world.oracle()
        for data, status in (
            (b"", 13),
            (b"\0\0\0", 13),
            (b"\0\0\0\0\x05abc", 13),
            (b"\0\0\0\0\0\0\0\0\0\0", 13),  # two
            (b"\1\0\0\0\1x", 12),  # compressed
            (b"\7\0\0\0\1x", 13),
            (b"\0\0\0\3\xe9", 8),  # 1,001 bytes promised
            (b"\0\xff\xff\xff\xff", 8),
        ):
            number = peer.begin("/t/Echo")
            peer.h2.send_data(number, data, end_stream=True)
            peer.flush()
            assert (await peer.over(number)).status == status, data

    in_world(scenario)


def test_frames_in_pieces_and_with_padding() -> None:
    async def scenario(world: Http2World) -> None:
        await world.serve(ECHO)
        peer = await world.oracle()
        number = peer.begin("/t/Echo")
        for byte in b"\0\0\0\0\x03abc":
            peer.h2.send_data(number, bytes([byte]), pad_length=byte % 7)
            peer.flush()
        peer.h2.end_stream(number)
        peer.flush()
        assert (await peer.over(number)).messages == [b"abc"]
        bare = await world.bare()
        for byte in request(1, "/t/Echo", b"piecemeal"):
            bare.send(bytes([byte]))
        await asyncio.sleep(1)
        assert (DATA, 0, 1, b"\0\0\0\0\x09piecemeal") in bare.frames()
        assert any(kind == HEADERS and flags & END_STREAM for kind, flags, _, _ in bare.frames())

    in_world(scenario)
