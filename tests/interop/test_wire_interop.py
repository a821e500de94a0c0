"""Our network layer and Java's, in both roles and both encodings."""

from __future__ import annotations

import asyncio
import base64
import random
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from contrailmq.clock import SystemClock
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Dispatcher
from contrailmq.net.loop import loop_factory
from contrailmq.net.server import Server
from contrailmq.net.settings import ServerSettings
from contrailmq.protocol.bodies.route import ClusterInfo, KVTable, TopicRouteData
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command, Serialization
from testkit.peer import SERIALIZATIONS, VERSIONS, JavaCall, JavaCluster, JavaNameServer, Row

pytestmark = pytest.mark.timeout(180)

ECHO, LATER, FAIL = 2001, 2002, 2003
JAVA_FAILS = 9001


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=SERIALIZATIONS)
def serialization(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class _EchoServer:
    """Our server on a thread of its own, for Java programs to call."""

    def __init__(self) -> None:
        self.oneways: list[Command] = []
        self._loop = (loop_factory() or asyncio.new_event_loop)()
        self._thread = threading.Thread(target=self._loop.run_forever, name="echo")
        self._thread.start()
        self._server: Server = self.run(self._start())
        self.address = f"127.0.0.1:{self._server.port}"

    async def _start(self) -> Server:
        server = Server(
            Dispatcher({ECHO: self._echo, LATER: self._later, FAIL: self._fail}),
            ServerSettings(),
            clock=SystemClock(),
        )
        await server.start("127.0.0.1", 0)
        return server

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def _echo(self, request: Command, connection: Connection) -> Command:
        if request.is_oneway:
            self.oneways.append(request)
        return request.reply(fields=request.fields, body=request.body, remark=request.remark)

    async def _later(self, request: Command, connection: Connection) -> Command:
        await asyncio.sleep(0.01)
        return self._echo(request, connection)

    def _fail(self, request: Command, connection: Connection) -> Command:
        raise ValueError("asked to fail")

    def close(self) -> None:
        self.run(self._server.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@pytest.fixture
def echo() -> Iterator[_EchoServer]:
    server = _EchoServer()
    yield server
    server.close()


def _bodies() -> list[bytes]:
    rng = random.Random(7)
    return [b"", b"x", "héllo 值".encode(), rng.randbytes(20_000), rng.randbytes(4_000_000)]


def test_java_calls_us(
    echo: _EchoServer, java_run: Callable[..., list[Row]], version: str, serialization: str
) -> None:
    requests = [
        {
            "code": code,
            "fields": {"name": "wert 值", "n": 5},
            "remark": "r€mark",
            "base64": base64.b64encode(body).decode(),
        }
        for code in (ECHO, LATER)
        for body in _bodies()
    ]
    requests += [{"code": FAIL}, {"code": 7777}]
    rows = java_run(
        version,
        "remoting-call",
        serialization=serialization,
        address=echo.address,
        requests=requests,
        timeoutMs=20_000,
    )
    assert [row["event"] for row in rows] == ["response"] * len(requests)
    for row, body in zip(rows, [*_bodies(), *_bodies()], strict=False):
        assert row["code"] == 0
        assert row["fields"] == {"name": "wert 值", "n": "5"}
        assert row["remark"] == "r€mark"
        assert base64.b64decode(row.get("base64") or "") == body
        assert row["language"] == "PYTHON"
        assert row["serialization"] == serialization
    assert (rows[-2]["code"], rows[-2]["remark"]) == (1, "ValueError: asked to fail")
    assert (rows[-1]["code"], rows[-1]["remark"]) == (3, " request type 7777 not supported")


def test_java_sends_us_oneways(
    echo: _EchoServer, java_run: Callable[..., list[Row]], version: str, serialization: str
) -> None:
    requests = [{"code": ECHO, "fields": {"n": n}} for n in range(20)]
    more = {"address": echo.address, "serialization": serialization}
    java_run(version, "remoting-call", requests=requests, oneway=True, lingerMs=300, **more)
    rows = java_run(version, "remoting-call", requests=[{"code": ECHO}], **more)
    assert rows[0]["code"] == 0
    assert sorted(int(oneway.fields["n"]) for oneway in echo.oneways) == list(range(20))


def test_we_call_java(
    java_start: Callable[..., JavaCall], version: str, serialization: str
) -> None:
    call = java_start(version, "remoting-serve")
    address = f"127.0.0.1:{call.expect('ready')[0]['port']}"
    ours = Serialization[serialization]

    async def scenario() -> None:
        client = RemotingClient(clock=SystemClock())
        for body in _bodies():
            request = Command(
                ECHO, fields={"key": "wert 值"}, body=body, remark="r€mark", serialization=ours
            )
            answer = await client.call(address, request, timeout_s=20)
            assert (answer.code, answer.remark, answer.body) == (0, "r€mark", body)
            assert answer.fields["key"] == "wert 值"
            assert answer.opaque == request.opaque
        many = [Command(ECHO, body=b"%d" % n, serialization=ours) for n in range(200)]
        answers = await asyncio.gather(*(client.call(address, c, timeout_s=20) for c in many))
        assert [answer.body for answer in answers] == [b"%d" % n for n in range(200)]
        failed = await client.call(address, Command(JAVA_FAILS, serialization=ours), timeout_s=20)
        assert failed.code == 1
        assert "asked to fail" in str(failed.remark)
        await client.oneway(address, Command(ECHO, fields={"last": "1"}, serialization=ours))
        await client.call(address, Command(ECHO), timeout_s=20)
        await client.aclose()

    asyncio.run(scenario())
    served = call.expect("request", count=len(_bodies()) + 200 + 3)
    oneways = [row for row in served if row["oneway"]]
    call.stop()
    assert [row["fields"]["last"] for row in oneways] == ["1"]


def test_we_use_a_java_name_server(
    java_namesrv: Callable[..., JavaNameServer], version: str, serialization: str
) -> None:
    server = java_namesrv(version, serialization=serialization)
    ours = Serialization[serialization]

    async def scenario() -> None:
        client = RemotingClient(clock=SystemClock())

        async def ask(code: int, **fields: str) -> Command:
            command = Command(code, fields=fields, serialization=ours)
            return await client.call(server.address, command, timeout_s=10)

        put = await ask(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v 值")
        assert put.code == 0
        got = await ask(RequestCode.GET_KV_CONFIG, namespace="n", key="k")
        assert got.fields["value"] == "v 值"
        table = await ask(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="n")
        assert KVTable.decode(table.body).table == {"k": "v 值"}
        assert (await ask(RequestCode.GET_KV_CONFIG, namespace="n", key="none")).code == 22
        lost = await ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="Nowhere")
        assert lost.code == 17
        config = await ask(RequestCode.GET_NAMESRV_CONFIG)
        assert f"listenPort={server.port}".encode() in bytes(config.body)
        await client.aclose()

    asyncio.run(scenario())


def test_we_read_routes_of_a_java_cluster(
    java_cluster: Callable[..., JavaCluster], version: str, serialization: str
) -> None:
    cluster = java_cluster(version)

    async def scenario() -> None:
        client = RemotingClient(clock=SystemClock())

        async def ask(code: int, **fields: str) -> Command:
            command = Command(code, fields=fields, serialization=Serialization[serialization])
            return await client.call(cluster.namesrv, command, timeout_s=10)

        route = TopicRouteData.decode(
            (await ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="TBW102")).body
        )
        assert route.broker_datas[0].broker_addrs == {0: cluster.broker_address}
        assert route.queue_datas[0].perm == 7
        info = ClusterInfo.decode((await ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        assert info.cluster_addr_table == {"DefaultCluster": ["broker-a"]}
        await client.aclose()

    asyncio.run(scenario())
