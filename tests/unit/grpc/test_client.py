"""A client's calls to our server in virtual time: any size, any end."""

from __future__ import annotations

import asyncio
import random

import pytest
from hpack import Decoder

from contrailmq.errors import ConnectFailed, ConnectionLost, RequestTimeout
from contrailmq.grpc.call import Call, CallGone, GrpcError, GrpcStatus, Streaming, Unary
from contrailmq.grpc.http2.client import Channel
from contrailmq.grpc.http2.encoder import HeaderEncoder
from testkit.http2 import PORT, SERVER_IP, Http2World, in_world

ADDRESS = f"{SERVER_IP}:{PORT}"


async def slow(call: Call, message: bytes) -> bytes:
    await asyncio.sleep(float(message))
    return message


def refuse(call: Call, message: bytes) -> bytes:
    raise GrpcError(GrpcStatus.NOT_FOUND, "nothing: 100% é")


async def echo(call: Call) -> None:
    while (message := await call.read()) is not None:
        await call.write(message)


async def never(call: Call) -> None:
    await asyncio.sleep(10_000)


def about(call: Call, message: bytes) -> bytes:
    return repr(sorted(call.metadata.items())).encode()


METHODS = {
    "/t/Echo": Unary(lambda call, message: message),
    "/t/Slow": Unary(slow),
    "/t/Refuse": Unary(refuse),
    "/t/Both": Streaming(echo),
    "/t/Never": Streaming(never),
    "/t/About": Unary(about),
}


def channel(world: Http2World, **more: object) -> Channel:
    return Channel(ADDRESS, world.network.host("10.0.0.9"), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, 1, 16_384, 65_536, 1_500_000, 5_000_000])
def test_a_message_of_any_size_comes_back(size: int) -> None:
    async def scenario(world: Http2World) -> None:
        await world.serve(METHODS)
        calls = channel(world)
        message = random.Random(size).randbytes(size)
        for _ in range(2):
            assert await calls.call("/t/Echo", message, timeout_s=60) == message
        await calls.aclose()

    in_world(scenario)


def test_many_calls_share_a_connection_and_wait_for_room() -> None:
    async def scenario(world: Http2World) -> None:
        server = await world.serve(METHODS, streams_max=5)
        calls = channel(world)
        assert await calls.call("/t/Echo", b"first", timeout_s=9) == b"first"
        one = [calls.call("/t/Slow", b"0.5", timeout_s=60) for _ in range(23)]
        assert await asyncio.gather(*one) == [b"0.5"] * 23
        assert len(server.connections) == 1
        assert 2.5 <= asyncio.get_running_loop().time() < 4
        await calls.aclose()

    in_world(scenario)


def test_headers_are_the_same_with_every_call() -> None:
    async def scenario(world: Http2World) -> None:
        await world.serve(METHODS)
        calls = channel(world, lasting=(("x-name", "value"), ("x-large", "y" * 5000)))
        found = {
            await calls.call("/t/About", b"", passing=(("authorization", "s"),), timeout_s=5)
            for _ in range(5)
        }
        (text,) = found
        for part in (b"('x-name', 'value')", b"'yyyy", b"('authorization', 's')", b"'5000m'"):
            assert part in text
        await calls.aclose()

    in_world(scenario)


def test_what_fails_says_how() -> None:
    async def scenario(world: Http2World) -> None:
        server = await world.serve(METHODS)
        calls = channel(world)
        with pytest.raises(GrpcError, match="nothing: 100% é") as caught:
            await calls.call("/t/Refuse", b"", timeout_s=5)
        assert caught.value.status == GrpcStatus.NOT_FOUND
        with pytest.raises(GrpcError, match="is not served here"):
            await calls.call("/t/Unknown", b"", timeout_s=5)
        with pytest.raises((RequestTimeout, GrpcError), match=r"no answer within|deadline"):
            await calls.call("/t/Slow", b"60", timeout_s=1)
        lost = asyncio.ensure_future(calls.call("/t/Slow", b"60", timeout_s=100))
        await asyncio.sleep(0.1)
        world.network.reset(SERVER_IP, "10.0.0.9")
        with pytest.raises(ConnectionLost):
            await lost
        assert await calls.call("/t/Echo", b"again", timeout_s=5) == b"again"
        await server.aclose()
        with pytest.raises((ConnectFailed, ConnectionLost)):
            await calls.call("/t/Echo", b"", timeout_s=5)
        await calls.aclose()

    in_world(scenario)


def test_a_stream_both_ways() -> None:
    async def scenario(world: Http2World) -> None:
        server = await world.serve(METHODS)
        calls = channel(world)
        call = await calls.open("/t/Both")
        for count in range(50):
            message = bytes([count]) * count * 3000
            await call.write(message)
            assert await call.read() == message
        call.end()
        assert await call.read() is None
        given_up = await calls.open("/t/Never")
        await given_up.write(b"x")
        reader = asyncio.ensure_future(given_up.read())
        await asyncio.sleep(0.1)
        given_up.cancel()
        with pytest.raises(CallGone):
            await reader
        await asyncio.sleep(0.1)
        assert not server.tasks
        await calls.aclose()

    in_world(scenario)


def test_a_server_that_says_goodbye_ends_its_calls_and_another_takes_over() -> None:
    async def scenario(world: Http2World) -> None:
        server = await world.serve(METHODS)
        calls = channel(world)
        under_way = asyncio.ensure_future(calls.call("/t/Slow", b"0.3", timeout_s=5))
        stream = await calls.open("/t/Both")
        await asyncio.sleep(0.1)
        closing = asyncio.ensure_future(server.aclose())
        assert await under_way == b"0.3"
        with pytest.raises((GrpcError, ConnectionLost)):
            await stream.read()
        await closing
        await world.serve(METHODS)
        assert await calls.call("/t/Echo", b"there", timeout_s=5) == b"there"
        await calls.aclose()

    in_world(scenario)


def test_the_encoder_fills_the_table_once() -> None:
    encoder, decoder = HeaderEncoder(), Decoder()
    lasting = [(":method", "POST"), *((f"name-{n}", "v" * 50) for n in range(60))]
    sizes = []
    for turn in range(4):
        passing = [("x-request", str(turn)), ("authorization", "secret")]
        data = encoder.encode(lasting, passing)
        sizes.append(len(data))
        assert decoder.decode(data) == [*lasting, *passing]
    assert sizes[1] == sizes[2] == sizes[3] < sizes[0] - 2_000
