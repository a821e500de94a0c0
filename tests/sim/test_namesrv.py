"""Clusters in virtual time: brokers register, hang, lose connections and die; routes converge."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from contrailmq.errors import NetworkError
from contrailmq.lifecycle import Tasks
from contrailmq.namesrv.app import NameServer
from contrailmq.namesrv.settings import NameServerSettings
from contrailmq.net.client import RemotingClient
from contrailmq.net.dispatch import Dispatcher
from contrailmq.net.server import Server
from contrailmq.net.settings import ServerSettings
from contrailmq.protocol.bodies.route import (
    ClusterInfo,
    GetBrokerMemberGroupResponse,
    KVTable,
    QueueData,
    TopicRouteData,
)
from contrailmq.protocol.bodies.topic import (
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigAndMappingWrapper,
    TopicList,
    body_crc32,
)
from contrailmq.protocol.bodies.version import DataVersion
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command, Serialization
from contrailmq.settings import parse_properties
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import SimClock, simulate

NAMESRV_IPS = ("10.0.0.1", "10.0.0.2")
REGISTER_S = 30.0


def _registration(name: str, address: str, **more: Any) -> Command:
    topics = more.get("topics", ("T1", "T2"))
    body = RegisterBrokerBody(
        filter_server_list=[],
        topic_config_serialize_wrapper=TopicConfigAndMappingWrapper(
            data_version=DataVersion(counter=more.get("counter", 1), timestamp=7),
            topic_config_table={
                t: TopicConfig(
                    topic_name=t,
                    read_queue_nums=4,
                    write_queue_nums=4,
                    topic_sys_flag=more.get("sys_flag", 0),
                )
                for t in topics
            },
        ),
    )
    is_compressed = more.get("compressed", False)
    data = body.encode_compressed() if is_compressed else body.encode()
    fields = {
        "brokerName": name,
        "brokerAddr": address,
        "clusterName": more.get("cluster", "c"),
        "haServerAddr": f"{address}-ha",
        "brokerId": str(more.get("broker_id", 0)),
        "compressed": "true" if is_compressed else "false",
        "bodyCrc32": str(more.get("crc", body_crc32(data))),
        **more.get("fields", {}),
    }
    return Command(RequestCode.REGISTER_BROKER, fields=fields, body=data)


class _Broker:
    """Registers with all name servers every 30 s, as brokers do."""

    def __init__(self, world: _World, number: int) -> None:
        self.name = f"broker-{number}"
        self.ip = f"10.0.1.{number}"
        self.address = f"{self.ip}:10911"
        self._world = world
        self.client = world.new_client(self.ip)
        self._tasks = Tasks()

    def start(self) -> None:
        for ip in NAMESRV_IPS:
            self._tasks.start(self._keep_registering(f"{ip}:9876"))

    async def _keep_registering(self, namesrv: str) -> None:
        while True:
            try:
                await self.client.call(namesrv, _registration(self.name, self.address), timeout_s=6)
                await asyncio.sleep(REGISTER_S)
            except NetworkError:
                await asyncio.sleep(5)

    async def stop(self) -> None:
        await self._tasks.aclose()
        await self.client.aclose()


class _World:
    """Two name servers that do not know each other, and brokers."""

    def __init__(self, rng: random.Random, **settings: Any) -> None:
        self.rng = rng
        self.network = SimNetwork(random.Random(rng.getrandbits(64)))
        self.servers = [
            NameServer(
                NameServerSettings(listen_port=9876, **settings),
                clock=SimClock(offset_ms=rng.randrange(-5000, 5000)),
                network=self.network.host(ip),
                rng=random.Random(rng.getrandbits(64)),
            )
            for ip in NAMESRV_IPS
        ]
        self.admin = self.new_client("10.0.9.9")
        self.brokers: list[_Broker] = []

    def new_client(self, ip: str, **more: Any) -> RemotingClient:
        return RemotingClient(
            clock=SimClock(),
            network=self.network.host(ip),
            rng=random.Random(self.rng.getrandbits(64)),
            **more,
        )

    async def __aenter__(self) -> _World:
        for server in self.servers:
            await server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.network.heal()
        for broker in self.brokers:
            await broker.stop()
        await self.admin.aclose()
        for server in self.servers:
            await server.aclose()

    def add_brokers(self, count: int) -> None:
        for number in range(1, count + 1):
            self.brokers.append(_Broker(self, number))
            self.brokers[-1].start()

    async def ask(self, code: int, fields: dict[str, str] | None = None, **more: Any) -> Command:
        command = Command(code, fields=fields or {}, **more)
        return await self.admin.call(f"{NAMESRV_IPS[0]}:9876", command, timeout_s=5)

    async def say(self, command: Command) -> Command:
        return await self.admin.call(f"{NAMESRV_IPS[0]}:9876", command, timeout_s=5)

    def known(self) -> list[set[str]]:
        """The addresses each name server knows."""
        return [
            {a for b in server.routes.brokers.values() for a in b.broker_addrs.values()}
            for server in self.servers
        ]


@pytest.mark.parametrize("seed", range(20))
def test_routes_converge_after_every_kind_of_fault(seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            world.add_brokers(5)
            everyone = {broker.address for broker in world.brokers}
            await asyncio.sleep(1)
            assert world.known() == [everyone, everyone]
            for _ in range(6):
                _some_fault(world, rng)
                await asyncio.sleep(rng.uniform(1, 100))
                if rng.random() < 0.5:
                    world.network.heal()
            world.network.heal()
            await asyncio.sleep(REGISTER_S + 20)
            assert world.known() == [everyone, everyone]
            for server in world.servers:
                route = server.routes.find_route("T1")
                assert route is not None
                assert len(route.queue_datas) == len(everyone)

    simulate(seed, scenario)


def _some_fault(world: _World, rng: random.Random) -> None:
    network, broker = world.network, rng.choice(world.brokers)
    namesrv = rng.choice(NAMESRV_IPS)
    rng.choice(
        (
            lambda: network.reset(broker.ip, namesrv),
            lambda: network.cut(broker.ip, namesrv),
            lambda: network.cut(namesrv, broker.ip),
            lambda: network.cut(broker.ip, namesrv, both=True),
            lambda: network.stall(broker.ip),
            lambda: network.stall(namesrv),
        )
    )()


def test_the_same_seed_gives_the_same_cluster_history() -> None:
    async def scenario(rng: random.Random) -> list[tuple[float, str]]:
        async with _World(rng) as world:
            world.add_brokers(4)
            for _ in range(4):
                await asyncio.sleep(rng.uniform(1, 50))
                _some_fault(world, rng)
            return list(world.network.trace)

    assert simulate(5, scenario) == simulate(5, scenario)


def test_a_broker_that_hangs_expires_after_two_minutes_of_silence() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            world.add_brokers(2)
            await asyncio.sleep(1)
            hung = world.brokers[0]
            world.network.stall(hung.ip)
            await asyncio.sleep(115)
            assert hung.address in world.known()[0]
            await asyncio.sleep(40)
            assert world.known() == [{world.brokers[1].address}] * 2
            route = world.servers[0].routes.find_route("T1")
            assert route is not None
            assert [b.broker_name for b in route.broker_datas] == [world.brokers[1].name]

    simulate(3, scenario)


def test_a_lost_connection_removes_its_broker_at_once() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            world.add_brokers(2)
            await asyncio.sleep(1)
            await world.brokers[0].stop()
            await asyncio.sleep(0.1)
            assert world.known() == [{world.brokers[1].address}] * 2

    simulate(3, scenario)


def test_a_registration_over_a_new_connection_outlives_the_old_one() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            first, second = world.new_client("10.0.1.1"), world.new_client("10.0.1.1")
            for client in (first, second):
                answer = await client.call(
                    "10.0.0.1:9876", _registration("b", "10.0.1.1:1"), timeout_s=3
                )
                assert answer.code == 0
            await first.aclose()
            await asyncio.sleep(0.1)
            assert world.known()[0] == {"10.0.1.1:1"}
            await second.aclose()
            await asyncio.sleep(0.1)
            assert world.known()[0] == set()

    simulate(1, scenario)


def test_registration_checks_and_forms() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            bad = await world.say(_registration("b", "10.0.1.1:1", crc=12345))
            assert (bad.code, bad.remark) == (1, "crc32 not match")
            trap = await world.say(_registration("b", "10.0.1.1:1", topics=("T1",)))
            assert (trap.code, trap.remark) == (1, "register broker failed")
            zipped = _registration("b", "10.0.1.1:1", compressed=True)
            assert (await world.say(zipped)).code == 0
            assert set(world.servers[0].routes.topics) == {"T1", "T2"}
            unchecked = _registration("b", "10.0.1.1:1", crc=0, topics=("T3",), counter=2)
            assert (await world.say(unchecked)).code == 0
            assert set(world.servers[0].routes.topics) == {"T1", "T2", "T3"}
            broken = _registration("b", "10.0.1.1:1")
            broken.body = b"{"
            broken.fields["bodyCrc32"] = "0"
            assert (await world.say(broken)).code == 1
            missing = Command(RequestCode.REGISTER_BROKER, fields={"brokerName": "b"})
            answer = await world.say(missing)
            assert answer.code == 1
            assert "is missing" in str(answer.remark)
            old = Command(
                RequestCode.REGISTER_BROKER,
                fields=_registration("old", "10.0.1.2:1", crc=0).fields,
                version=30,  # before 3.0.11 the body was the table alone
                body=b'{"dataVersion":{"counter":1},"topicConfigTable":{"OLD":{"topicName":"OLD"}}}',
            )
            assert (await world.say(old)).code == 0
            assert "OLD" in world.servers[0].routes.topics

    simulate(1, scenario)


def test_data_versions_heartbeats_and_members() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            place = {
                "brokerName": "b",
                "brokerAddr": "10.0.1.1:1",
                "clusterName": "c",
                "brokerId": "0",
            }
            asked = DataVersion(counter=1, timestamp=7).encode()
            answer = await world.ask(RequestCode.QUERY_DATA_VERSION, place, body=asked)
            assert (answer.fields, answer.body) == ({"changed": "true"}, b"")
            await world.say(
                _registration("b", "10.0.1.1:1", fields={"heartbeatTimeoutMillis": "1000"})
            )
            answer = await world.ask(RequestCode.QUERY_DATA_VERSION, place, body=asked)
            assert (answer.fields, bytes(answer.body)) == ({"changed": "false"}, asked)
            for _ in range(10):
                await asyncio.sleep(0.9)
                beat = await world.ask(RequestCode.BROKER_HEARTBEAT, place)
                assert beat.code == 0
            assert world.known()[0] == {"10.0.1.1:1"}
            group = await world.ask(RequestCode.GET_BROKER_MEMBER_GROUP, place)
            found = GetBrokerMemberGroupResponse.decode(group.body).broker_member_group
            assert found is not None
            assert found.broker_addrs == {0: "10.0.1.1:1"}
            await asyncio.sleep(7)
            assert world.known()[0] == set()

    simulate(1, scenario)


@pytest.mark.parametrize("serialization", list(Serialization))
def test_routes_by_the_version_of_the_client(serialization: Serialization) -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng, order_message=True) as world:
            await world.say(_registration("b", "10.0.1.1:1"))
            put = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T1", "value": "b:4"}
            assert (await world.ask(RequestCode.PUT_KV_CONFIG, put)).code == 0

            async def route(topic: str = "T1", **more: Any) -> Command:
                fields = {"topic": topic, **more.pop("fields", {})}
                return await world.ask(
                    RequestCode.GET_ROUTEINFO_BY_TOPIC, fields, serialization=serialization, **more
                )

            forms = [
                (await route(language="JAVA", version=399)).body,
                (await route(language="JAVA", version=401)).body,
                (await route(language="GO", version=317)).body,
                (
                    await route(
                        language="JAVA", version=399, fields={"acceptStandardJsonOnly": "true"}
                    )
                ).body,
                (await route(language="JAVA", version=453)).body,
            ]
            assert [b'{0:"10' in form for form in forms] == [True, False, False, False, False]
            assert [b"enableActingMaster" in form for form in forms] == [False] * 4 + [True]
            for form in forms:
                found = TopicRouteData.decode(form)
                assert found.order_topic_conf == "b:4"
                assert found.broker_datas[0].broker_addrs == {0: "10.0.1.1:1"}
            lost = await route("Nowhere")
            assert lost.code == 17
            assert str(lost.remark).startswith(
                "No topic route info in name server for the topic: Nowhere"
            )
            assert (await world.say(_registration("b2", "10.0.1.2:1"))).body == KVTable(
                table={"T1": "b:4"}
            ).encode()

    simulate(1, scenario)


def test_lists_and_permissions() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng) as world:
            await world.say(_registration("b1", "10.0.1.1:1", cluster="c1"))
            await world.say(
                _registration("b2", "10.0.1.2:1", cluster="c2", topics=("U", "V"), sys_flag=1)
            )
            await world.say(
                _registration("b3", "10.0.1.3:1", cluster="c2", topics=("W", "X"), sys_flag=2)
            )

            async def names(code: int, **fields: str) -> set[str]:
                body = (await world.ask(code, fields)).body
                return set(TopicList.decode(body).topic_list)

            assert await names(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == set("UVWX") | {
                "T1",
                "T2",
            }
            assert await names(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="c1") == {"T1", "T2"}
            assert await names(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="none") == set()
            assert await names(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == {
                "c1", "b1", "c2", "b2", "b3",
            }  # fmt: skip
            assert await names(RequestCode.GET_UNIT_TOPIC_LIST) == {"U", "V"}
            assert await names(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == {"W", "X"}
            assert await names(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == {"W", "X"}
            wiped = await world.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "b1"})
            assert wiped.fields == {"wipeTopicCount": "2"}
            assert world.servers[0].routes.topics["T1"]["b1"].perm == 4
            added = await world.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "b1"})
            assert added.fields == {"addTopicCount": "2"}
            route = TopicRouteData(queue_datas=[QueueData(broker_name="b1", perm=6)]).encode()
            await world.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "N"}, body=route)
            assert "N" in world.servers[0].routes.topics
            await world.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "N"})
            assert "N" not in world.servers[0].routes.topics
            info = await world.ask(RequestCode.GET_BROKER_CLUSTER_INFO, language="JAVA")
            assert b'{0:"10.0.1.1:1"}' in info.body
            info = await world.ask(RequestCode.GET_BROKER_CLUSTER_INFO, language="GO")
            assert b'{"0":"10.0.1.1:1"}' in info.body
            clusters = ClusterInfo.decode(info.body).cluster_addr_table
            assert {name: set(found) for name, found in clusters.items()} == {
                "c1": {"b1"},
                "c2": {"b2", "b3"},
            }
            gone = {"brokerName": "b1", "brokerAddr": "10.0.1.1:1", "clusterName": "c1"}
            await world.ask(RequestCode.UNREGISTER_BROKER, {**gone, "brokerId": "0"})
            assert "T1" not in world.servers[0].routes.topics

    simulate(1, scenario)


def test_own_configuration_over_the_wire(tmp_path: Path) -> None:
    async def scenario(rng: random.Random) -> None:
        paths = {
            "kv_config_path": str(tmp_path / "kv" / "kvConfig.json"),
            "config_store_path": str(tmp_path / "namesrv.properties"),
        }
        async with _World(rng, **paths) as world:
            update = RequestCode.UPDATE_NAMESRV_CONFIG

            async def change(text: str) -> tuple[int, str | None]:
                answer = await world.ask(update, body=text.encode())
                return answer.code, answer.remark

            assert await change("enableTopicList=false\nenableAllTopicList=false") == (0, None)
            for code in (224, 311, 312, 313, 206):
                answer = await world.ask(code, {"cluster": "c"})
                assert (answer.code, answer.remark) == (1, "disable")
            assert await change("kvConfigPath=/x") == (16, "Can not update config in black list.")
            assert await change("listenPort=1") == (16, "Can not update config in black list.")
            assert await change("scanNotActiveBrokerInterval=1") == (
                1,
                "scanNotActiveBrokerInterval cannot be changed while running; restart to change it",
            )
            smuggled = "productEnvName=x\\nkvConfigPath=/any/path\\u2028listenPort=1"
            assert await change(smuggled) == (0, None)
            answer = await world.ask(RequestCode.GET_NAMESRV_CONFIG)
            told = parse_properties(bytes(answer.body).decode())
            kept = parse_properties((tmp_path / "namesrv.properties").read_text())
            assert told == kept
            assert told["productEnvName"] == "x\nkvConfigPath=/any/path\u2028listenPort=1"
            assert told["kvConfigPath"] == paths["kv_config_path"]
            assert (await change("enableTopicList=maybe"))[0] == 1
            shown = bytes((await world.ask(RequestCode.GET_NAMESRV_CONFIG)).body).decode()
            assert "enableTopicList=false\n" in shown
            assert (tmp_path / "namesrv.properties").read_text() == shown
            assert await change("needWaitForService=true") == (0, None)
            answer = await world.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T1"})
            assert (answer.code, answer.remark) == (1, "name server not ready")
            await asyncio.sleep(45)
            answer = await world.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T1"})
            assert answer.code == 17

    simulate(1, scenario)


def test_values_survive_a_restart(tmp_path: Path) -> None:
    path = {"kv_config_path": str(tmp_path / "kvConfig.json")}

    async def write(rng: random.Random) -> None:
        async with _World(rng, **path) as world:
            puts = [
                world.ask(100, {"namespace": "n", "key": f"k{i}", "value": f"v{i} 值"})
                for i in range(20)
            ]
            answers = await asyncio.gather(*puts)
            assert {answer.code for answer in answers} == {0}
            assert (await world.ask(102, {"namespace": "n", "key": "k3"})).code == 0
            assert (await world.ask(102, {"namespace": "n", "key": "k3"})).code == 0

    async def read(rng: random.Random) -> None:
        async with _World(rng, **path) as world:
            table = KVTable.decode((await world.ask(219, {"namespace": "n"})).body).table
            assert table == {f"k{i}": f"v{i} 值" for i in range(20) if i != 3}
            missed = await world.ask(101, {"namespace": "n", "key": "k3"})
            assert missed.code == 22
            assert (await world.ask(219, {"namespace": "m"})).code == 22

    simulate(1, write)
    simulate(2, read)


def test_brokers_are_told_of_a_new_smallest_id() -> None:
    async def scenario(rng: random.Random) -> None:
        async with _World(rng, notify_min_id=True, acting_master=True) as world:
            told: list[dict[str, str]] = []
            listener = _Listener(world, "10.0.1.2", told)
            await listener.start()
            primary = world.new_client("10.0.1.1")
            fields = {"fields": {"enableActingMaster": "true"}}
            await primary.call(
                "10.0.0.1:9876", _registration("b", "10.0.1.1:1", **fields), timeout_s=3
            )
            replica = _registration("b", "10.0.1.2:10911", broker_id=1, **fields)
            await world.say(replica)
            await primary.aclose()
            await asyncio.sleep(1)
            assert [t["minBrokerId"] for t in told] == ["1"]
            assert told[0]["offlineBrokerAddr"] == "10.0.1.1:1"
            answer = await world.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T1"})
            assert TopicRouteData.decode(answer.body).broker_datas[0].broker_addrs == {
                0: "10.0.1.2:10911"
            }
            await listener.aclose()

    simulate(1, scenario)


class _Listener:
    """A broker's port that takes what a name server tells it."""

    def __init__(self, world: _World, ip: str, told: list[dict[str, str]]) -> None:
        def take(request: Command, connection: object) -> None:
            told.append(request.fields)

        self._ip = ip
        self._server = Server(
            Dispatcher({RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: take}),
            ServerSettings(),
            clock=SimClock(),
            network=world.network.host(ip),
        )

    async def start(self) -> None:
        await self._server.start(self._ip, 10911)

    async def aclose(self) -> None:
        await self._server.aclose()
