"""The short way of single sends in virtual time, against a broker that says what a test wants."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from contrailmq import ClientSettings, Message, Producer, ProducerSettings
from contrailmq._native.client.sends import SendTemplate
from contrailmq.client.producer import quick_send as quick
from contrailmq.client.settings import World
from contrailmq.errors import ClientError, ConnectionLost, RequestTimeout, error_of
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Dispatcher
from contrailmq.net.server import Server
from contrailmq.net.settings import ServerSettings
from contrailmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command, Serialization
from contrailmq.protocol.properties import decode_properties_text
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import SimClock, simulate

IP = "10.0.0.1"
ADDRESS = f"{IP}:9876"


class Script:
    """Name server and broker in one, which answers sends with these codes, then with SUCCESS."""

    def __init__(self, rng: random.Random) -> None:
        self.codes: list[int | None] = []  # None: no answer at all
        self.late = 0  # the code of messages that are stored all the same
        self.requests: list[Command] = []
        self.connections: list[Connection] = []
        self._more = asyncio.Event()
        self._network = SimNetwork(rng)
        self._rng = rng

    def send(self, request: Command, connection: Connection) -> Command | None:
        self.requests.append(request)
        self.connections.append(connection)
        self._more.set()
        code = self.codes.pop(0) if self.codes else 0
        if code is None:
            return None
        if code and code != self.late:
            return request.refuse(code, "on purpose")
        offset = str(len(self.requests))
        fields = {"queueId": request.fields["e"], "queueOffset": offset, "msgId": "M" + offset}
        return request.reply(fields=fields, code=code)

    async def arrived(self, count: int) -> None:
        """Wait until so many sends have come, the first included."""
        while len(self.requests) < count:
            self._more.clear()
            await self._more.wait()

    def ids(self) -> list[str]:
        """The unique keys of all sends, in order."""
        return [decode_properties_text(r.fields["i"])["UNIQ_KEY"] for r in self.requests]

    @asynccontextmanager
    async def running(
        self, *, serialization: Serialization = Serialization.JSON, **options: object
    ) -> AsyncIterator[Producer]:
        route = TopicRouteData(
            broker_datas=[BrokerData(cluster="c", broker_name="b", broker_addrs={0: ADDRESS})],
            queue_datas=[QueueData(broker_name="b", read_queue_nums=2, write_queue_nums=2, perm=6)],
        ).encode()
        handlers = {
            int(RequestCode.GET_ROUTEINFO_BY_TOPIC): lambda r, c: r.reply(body=route),
            int(RequestCode.HEART_BEAT): lambda r, c: r.reply(),
            int(RequestCode.UNREGISTER_CLIENT): lambda r, c: r.reply(),
            int(RequestCode.SEND_MESSAGE_V2): self.send,
        }
        server = Server(
            Dispatcher(handlers),
            ServerSettings(),
            clock=SimClock(),
            network=self._network.host(IP),
        )
        await server.start(IP, 9876)
        world = World(network=self._network.host("10.0.0.2"), clock=SimClock(), rng=self._rng)
        producer = Producer(
            "p",
            name_servers=ADDRESS,
            client=ClientSettings(client_ip="10.0.0.2", serialization=serialization),
            settings=ProducerSettings(**options),  # type: ignore[arg-type]
            world=world,
        )
        try:
            async with producer:
                await producer.send(Message("T", b"the first finds the route"))
                yield producer
        finally:
            await server.aclose()


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The opaques of frames that were made by templates."""
    made: list[int] = []

    class Counting:
        def __init__(self, pieces: list[bytes], is_binary: bool) -> None:
            self._inner = SendTemplate(pieces, is_binary)

        def frame(self, opaque: int, *rest: object) -> bytearray:
            made.append(opaque)
            return self._inner.frame(opaque, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(quick, "SendTemplate", Counting)
    return made


@pytest.mark.parametrize("serialization", list(Serialization))
def test_plain_sends_take_it_and_others_do_not(
    frames: list[int], serialization: Serialization
) -> None:
    async def scenario(rng: random.Random) -> None:
        script = Script(rng)
        async with script.running(serialization=serialization) as producer:
            receipts = [
                await producer.send(Message("T", b"x", tags="t", keys="k", flag=3)),
                await producer.send(Message("T", b"y", properties={"a": "b"}, delay_level=1)),
            ]
            assert len(frames) == 2
            assert sorted(r.queue.queue_id for r in receipts) == [0, 1]
            assert [r.offset for r in receipts] == [2, 3]
            assert [r.message_id for r in receipts] == script.ids()[1:]
            first = script.requests[1]
            assert (first.body, first.fields["h"], first.fields["a"]) == (b"x", "3", "p")
            assert decode_properties_text(first.fields["i"])["TAGS"] == "t"
            second = decode_properties_text(script.requests[2].fields["i"])
            assert (second["a"], second["DELAY"]) == ("b", "1")
            for message in (
                Message("T", bytearray(b"x")),
                Message("T", b"x", delay_s=1.0),
                Message("T", b"x" * 5000),
                Message("T", b"x", tags="half \ud800"),
                Message("T", b"x", flag=-1),
            ):
                await producer.send(message)
            with pytest.raises(ClientError, match="body of 0 bytes"):
                await producer.send(Message("T", b""))
            with pytest.raises(ClientError, match="separators"):
                await producer.send(Message("T", b"x", tags="a\x02b"))
            assert len(frames) == 2
            assert len(script.requests) == 8
            assert "in_flight=0" in repr(producer)

    simulate(1, scenario)


def test_a_refusal_that_may_pass_is_tried_again_under_the_same_id(frames: list[int]) -> None:
    async def scenario(rng: random.Random) -> None:
        script = Script(rng)
        async with script.running() as producer:
            script.codes = [int(ResponseCode.SYSTEM_BUSY)]
            receipt = await producer.send(Message("T", b"x"))
            script.codes = [int(ResponseCode.SYSTEM_BUSY)]
            promised = await (await producer.submit(Message("T", b"y")))
            ids = script.ids()[1:]
            assert ids == [receipt.message_id] * 2 + [promised.message_id] * 2
            assert len(frames) == 2
            assert "in_flight=0" in repr(producer)

    simulate(2, scenario)


def test_a_refusal_for_good_is_raised(frames: list[int], caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rng: random.Random) -> None:
        script = Script(rng)
        code = int(ResponseCode.MESSAGE_ILLEGAL)
        async with script.running() as producer:
            script.codes = [code, code]
            with pytest.raises(type(error_of(code, "")), match="on purpose"):
                await producer.send(Message("T", b"x"))
            future = await producer.submit(Message("T", b"y"))
            with pytest.raises(type(error_of(code, "")), match="on purpose"):
                await future
            assert len(frames) == 2
            assert len(script.requests) == 3
            assert "in_flight=0" in repr(producer)

    simulate(3, scenario)
    assert "message not sent topic=T" in caplog.text


def test_no_answer_is_a_timeout_of_the_whole_budget(frames: list[int]) -> None:
    async def scenario(rng: random.Random) -> None:
        script = Script(rng)
        async with script.running() as producer:
            script.codes = [None] * 9
            loop = asyncio.get_running_loop()
            begun = loop.time()
            with pytest.raises(RequestTimeout):
                await producer.send(Message("T", b"x"), timeout_s=1.0)
            assert loop.time() - begun == pytest.approx(1.0, abs=0.1)
            assert len(frames) == 1
            assert "in_flight=0" in repr(producer)

    simulate(4, scenario)


def test_a_lost_connection_is_replaced_and_the_message_sent_again(frames: list[int]) -> None:
    async def scenario(rng: random.Random) -> None:
        script = Script(rng)
        async with script.running() as producer:
            script.codes = [None, None]
            sending = asyncio.ensure_future(producer.send(Message("T", b"x")))
            promised = await producer.submit(Message("T", b"y"))
            await script.arrived(3)
            script.connections[-1].abort("on purpose")
            receipts = [await sending, await promised]
            assert sorted(script.ids()[1:3]) == sorted(r.message_id for r in receipts)
            assert sorted(script.ids()[3:]) == sorted(r.message_id for r in receipts)
            before = len(frames)
            for _ in range(2):  # the first finds the old connection closed
                await producer.send(Message("T", b"z"))
            assert len(frames) == before + 1, "the new connection is used"
            assert "in_flight=0" in repr(producer)

    simulate(5, scenario)


def test_without_retries_a_lost_connection_is_an_error(frames: list[int]) -> None:
    async def scenario(rng: random.Random) -> None:
        script = Script(rng)
        async with script.running(retries=0) as producer:
            script.codes = [None]
            sending = asyncio.ensure_future(producer.send(Message("T", b"x")))
            await script.arrived(2)
            script.connections[-1].abort("on purpose")
            with pytest.raises(ConnectionLost):
                await sending
            assert len(frames) == 1
            assert "in_flight=0" in repr(producer)

    simulate(6, scenario)


def test_a_cancelled_send_gives_its_room_back(frames: list[int]) -> None:
    async def scenario(rng: random.Random) -> None:
        script = Script(rng)
        async with script.running() as producer:
            script.codes = [None]
            sending = asyncio.ensure_future(producer.send(Message("T", b"x")))
            await script.arrived(2)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert "in_flight=0" in repr(producer)
            await producer.send(Message("T", b"y"))
            assert len(frames) == 2

    simulate(7, scenario)


def test_room_is_bounded_on_the_short_way_too(frames: list[int]) -> None:
    async def scenario(rng: random.Random) -> None:
        script = Script(rng)
        async with script.running(in_flight_count_max=2) as producer:
            futures = [await producer.submit(Message("T", b"x")) for _ in range(10)]
            assert "in_flight=2" in repr(producer)
            await asyncio.gather(*futures)
            await producer.flush()
            assert len(script.requests) == 11
            assert "in_flight=0" in repr(producer)

    simulate(8, scenario)


def test_equal_keys_share_a_queue_and_are_not_tried_elsewhere(frames: list[int]) -> None:
    async def scenario(rng: random.Random) -> None:
        script = Script(rng)
        async with script.running() as producer:
            for key in ("a", "b", "Aa", "BB", "\u00e9", "polygenelubricants"):
                quick_one = await producer.send(Message("T", b"x"), key=key)
                promised = await (await producer.submit(Message("T", b"x"), key=key))
                assert len(frames) > 0
                made = len(frames)
                ordinary = await producer.send(Message("T", bytearray(b"x")), key=key)
                assert len(frames) == made  # a mutable body goes the ordinary way
                assert quick_one.queue == promised.queue == ordinary.queue
            assert len(frames) == 12
            script.codes = [int(ResponseCode.SYSTEM_BUSY), int(ResponseCode.SYSTEM_BUSY)]
            before = len(script.requests)
            with pytest.raises(type(error_of(int(ResponseCode.SYSTEM_BUSY), ""))):
                await producer.send(Message("T", b"x"), key="a")
            future = await producer.submit(Message("T", b"x"), key="a")
            with pytest.raises(type(error_of(int(ResponseCode.SYSTEM_BUSY), ""))):
                await future
            assert len(script.requests) == before + 2
            assert "in_flight=0" in repr(producer)

    simulate(9, scenario)


@pytest.mark.parametrize("retries", [0, 2])
def test_a_late_flush_is_a_success_when_nothing_is_left_to_try(
    frames: list[int], retries: int
) -> None:
    async def scenario(rng: random.Random) -> None:
        script = Script(rng)
        late = int(ResponseCode.FLUSH_DISK_TIMEOUT)
        script.late = late
        async with script.running(retries=retries, retry_not_stored=True) as producer:
            script.codes = [late] * (1 + retries)
            receipt = await producer.send(Message("T", b"x"))
            assert receipt.status.value == "FLUSH_DISK_TIMEOUT"
            assert len(script.requests) == 2 + retries

    simulate(10, scenario)
