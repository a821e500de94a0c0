"""Configuration, runtime, statistics, clean-ups and forwarded calls of a broker."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from contrailmq.admin.client import AdminClient
from contrailmq.broker.app import Broker
from contrailmq.broker.config.configuration import rewritten
from contrailmq.client.settings import World as ClientWorld
from contrailmq.errors import BrokerError, ConsumeTimeout, NoPermission, SystemFailure
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.route import KVTable
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.query import QueryMessageRequest
from contrailmq.protocol.message import decode_record, decode_records
from contrailmq.settings import parse_properties, read_file
from contrailmq.testing.sim import SimClock
from testkit.broker_world import ADDRESS, World, beat, pull, run, send

Scenario = Callable[[AdminClient, RemotingClient, Broker], Awaitable[None]]
Answer = Callable[[Command], Command | None]


def play(directory: Path, scenario: Scenario, *, path: Path | None = None, **conf: str) -> None:
    async def world(world: World) -> None:
        async with world.name_server():
            broker = world.broker(namesrvAddr="10.0.1.1:9876")
            broker._config_path = None if path is None else str(path)
            place = ClientWorld(network=world.network.host("10.0.3.1"), clock=SimClock())
            admin = AdminClient("10.0.1.1:9876", world=place)
            async with broker, admin, world.client() as client:
                topic = TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1, perm=6)
                await admin.topics.create_at(ADDRESS, topic)
                await scenario(admin, client, broker)

    run(1, directory, world, **conf)


def play_alone(directory: Path, scenario: Scenario) -> None:
    """The same for hours, without a name server to register with all the time."""

    async def world(world: World) -> None:
        async with world.broker(namesrvAddr="") as broker, world.client() as client:
            place = ClientWorld(network=world.network.host("10.0.3.1"), clock=SimClock())
            async with AdminClient("10.0.1.1:9876", world=place) as admin:
                await scenario(admin, client, broker)

    run(1, directory, world, limit_s=10_000)


# -- configuration


def test_live_keys_take_effect_and_others_are_refused(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        before = await admin.brokers.config(ADDRESS)
        assert before["brokerName"] == "broker-a"
        assert list(before) == sorted(before)
        assert (await send(client, "New1", b"x")).code == 0
        await admin.brokers.update_config(
            ADDRESS, {"autoCreateTopicEnable": "false", "maxMessageSize": "100"}
        )
        assert (await send(client, "New2", b"x")).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await send(client, "T", b"x" * 101)).code == ResponseCode.MESSAGE_ILLEGAL
        for properties in (
            {"maxMessageSize": "200", "flushOffsetInterval": "1"},
            {"maxMessageSize": "200", "maxTransferBytesOnMessageInMemory": "9000000000000"},
            {"maxMessageSize": "200", "deleteWhen": "\ud800"},
            {"maxMessageSize": "200", "brokerPermission": "99"},
            {"maxMessageSize": "200", "autoCreateTopicEnable": "perhaps"},
            {"maxMessageSize": "200", "noSuchKeyAnywhere": "1"},
        ):
            with pytest.raises(SystemFailure):
                await admin.brokers.update_config(ADDRESS, properties)
            assert (await admin.brokers.config(ADDRESS))["maxMessageSize"] == "100"
        for name in (
            "rocketmqHome", "listenPort", "aclEnable", "namesrvAddr", "storePathRootDir",
            "messageStorePlugIn", "haListenPort", "brokerIP1", "bindAddress", "controllerAddr",
        ):  # fmt: skip
            with pytest.raises(NoPermission):
                await admin.brokers.update_config(ADDRESS, {"maxMessageSize": "200", name: "1"})
            assert (await admin.brokers.config(ADDRESS))["maxMessageSize"] == "100"
        await admin.brokers.update_config(ADDRESS, {"listenPort": before["listenPort"]})

    play(tmp_path, scenario)


def test_live_keys_of_the_store_take_effect_by_themselves(tmp_path: Path) -> None:
    """Also on the fast lane, which has decided about this topic and this consumer already."""

    async def query(client: RemotingClient, key: str, unique: bool) -> int:
        header = QueryMessageRequest(
            topic="T", key=key, max_num=64, begin_timestamp=0, end_timestamp=1 << 62,
            unique_key_query=unique,
        )  # fmt: skip
        request = Command.request(RequestCode.QUERY_MESSAGE, header)
        return len(decode_records((await client.call(ADDRESS, request, timeout_s=3)).body))

    async def queries(client: RemotingClient) -> tuple[int, int]:
        return await query(client, "all", False), await query(client, "one", True)

    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        properties = "UNIQ_KEY\x01one\x02KEYS\x01all\x02"
        for _ in range(10):
            assert (await send(client, "T", b"x" * 101, properties=properties)).code == 0
        assert len(decode_records((await pull(client, "T", 0)).body)) == 10
        assert await queries(client) == (10, 10)
        await admin.brokers.update_config(ADDRESS, {"maxMessageSize": "100"})
        assert (await send(client, "T", b"x" * 101)).code == ResponseCode.MESSAGE_ILLEGAL
        await admin.brokers.update_config(ADDRESS, {"maxTransferCountOnMessageInMemory": "4"})
        assert len(decode_records((await pull(client, "T", 0)).body)) == 4
        await admin.brokers.update_config(ADDRESS, {"defaultQueryMaxNum": "3"})
        assert await queries(client) == (10, 3)
        await admin.brokers.update_config(ADDRESS, {"maxMsgsNumBatch": "5"})
        assert await queries(client) == (5, 3)

    play(tmp_path, scenario)


def test_topics_made_by_sends_follow_live_changes(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        async def queues(topic: str) -> int:
            answer = await send(client, topic, b"x", default_topic_queue_nums=16)
            assert answer.code == 0, answer.remark
            return (await admin.topics.config(ADDRESS, topic)).write_queue_nums

        assert (await send(client, "A", b"x")).code == ResponseCode.TOPIC_NOT_EXIST
        await admin.brokers.update_config(ADDRESS, {"autoCreateTopicEnable": "true"})
        assert await queues("A") == 8
        await admin.brokers.update_config(ADDRESS, {"defaultTopicQueueNums": "5"})
        assert await queues("B") == 5
        await asyncio.sleep(0.5)
        assert [data.write_queue_nums for data in (await admin.route("TBW102")).queue_datas] == [5]

    play(tmp_path, scenario, autoCreateTopicEnable="false")


def test_a_change_of_permission_reaches_the_name_server(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await admin.brokers.update_config(ADDRESS, {"brokerPermission": "4"})
        await asyncio.sleep(0.5)
        assert [data.perm for data in (await admin.route("T")).queue_datas] == [4]

    play(tmp_path, scenario)


def test_keys_without_a_meaning_are_taken_and_said(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        body = b"waitTimeMillsInSendQueue=300\n"
        answer = await admin.ask(ADDRESS, RequestCode.UPDATE_BROKER_CONFIG, body=body)
        assert answer.remark == "without a meaning here: waitTimeMillsInSendQueue"
        assert (await admin.brokers.config(ADDRESS))["waitTimeMillsInSendQueue"] == "300"
        answer = await admin.ask(ADDRESS, RequestCode.UPDATE_BROKER_CONFIG)
        assert answer.remark is None

    play(tmp_path, scenario)


def test_the_configuration_file_follows(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    text = "# mine\nbrokerName=broker-a\n\nmaxMessageSize = \\\n  65536\nlongPollingEnable: true\n"
    path.write_text(text)

    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        first = await admin.ask(ADDRESS, RequestCode.GET_BROKER_CONFIG)
        await admin.brokers.update_config(ADDRESS, {"maxMessageSize": "7000", "deleteWhen": "05"})
        second = await admin.ask(ADDRESS, RequestCode.GET_BROKER_CONFIG)
        assert first.fields["version"] != second.fields["version"]
        with pytest.raises(NoPermission):
            await admin.brokers.update_config(ADDRESS, {"listenPort": "1"})

    play(tmp_path, scenario, path=path)
    assert path.read_text() == (
        "# mine\nbrokerName=broker-a\n\nmaxMessageSize=7000\n"
        "longPollingEnable: true\ndeleteWhen=05\n"
    )
    assert path.with_name("broker.conf.bak").read_text() == text


@pytest.mark.parametrize(
    "end", ["\n", "\r", "\r\n", "\f", "\v", "\x1c", "\x85", "\u2028", "\u2029"]
)
def test_no_value_brings_another_key_into_the_file(tmp_path: Path, end: str) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=broker-a\n")
    value = f"x{end}storePathRootDir=/elsewhere\\{end}#"
    name = "highSpeedMode"  # a key without a meaning here: any text is taken

    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        before = await admin.brokers.config(ADDRESS)
        await admin.brokers.update_config(ADDRESS, {name: value})
        after = await admin.brokers.config(ADDRESS)
        assert after == {**before, name: value}

    play(tmp_path, scenario, path=path)
    assert read_file(path) == {"brokerName": "broker-a", name: value}


def test_a_rewritten_text_says_the_same_but_for_the_changes() -> None:
    text = "a=1\n! note\\\nb = two\\\n  words\nc:3\nb=again\n"
    assert parse_properties(rewritten(text, {"b": "x\\y", "d": "l\nm"})) == {
        "a": "1",
        "b": "x\\y",
        "c": "3",
        "d": "l\nm",
    }


# -- runtime and statistics


def test_rates_and_totals_of_the_runtime(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await asyncio.sleep(60)
        for _ in range(30):
            await send(client, "T", b"body")
        for _ in range(3):
            await pull(client, "T", 0, max_msg_nums=10)
        await pull(client, "T", 30)
        refused = await send(client, "T", b"x" * (4 * 1024 * 1024 + 1))
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        table = await admin.brokers.runtime(ADDRESS)
        assert table["putMessageFailedTimes"] == "1"
        assert table["msgPutTotalTodayNow"] == table["putMessageTimesTotal"] == "30"
        assert table["msgGetTotalTodayNow"] == "30"
        assert table["commitLogMaxOffset"] == str(broker.parts.store.max_offset)
        assert table["putMessageSizeTotal"] == table["commitLogMaxOffset"]
        ten, minute, more = (float(rate) for rate in table["putTps"].split(" "))
        assert 1.5 <= ten <= 3.0
        assert ten > minute >= more > 0
        assert table["getTransferedTps"] == table["getTransferredTps"]
        found = float(table["getFoundTps"].split(" ")[0])
        missed = float(table["getMissTps"].split(" ")[0])
        assert found == pytest.approx(3 * missed)
        await asyncio.sleep(30)
        calm = await admin.brokers.runtime(ADDRESS)
        assert float(calm["putTps"].split(" ")[0]) == 0
        assert calm["runtime"].startswith("[ 0 days, 0 hours, 1 minutes, 3")

    play(tmp_path, scenario)


def test_totals_of_the_day_are_those_of_the_version_that_asks(tmp_path: Path) -> None:
    """4.9 counts every message, 5.x not those in the broker's own topics."""

    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await send(client, "T", b"body")
        await send(client, "T", b"body", properties="DELAY\x0118\x02")
        request = Command.request(RequestCode.GET_BROKER_RUNTIME_INFO)
        totals = {}
        for version in (407, 453):
            request.version = version
            answer = await client.call(ADDRESS, request, timeout_s=3)
            totals[version] = KVTable.decode(answer.body).table["msgPutTotalTodayNow"]
        assert totals == {407: "2", 453: "1"}

    play(tmp_path, scenario)


def test_the_write_buffer_is_described_where_there_is_one(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        before = await admin.brokers.runtime(ADDRESS)
        await send(client, "T", b"x" * 1000)
        table = await admin.brokers.runtime(ADDRESS)
        assert int(before["remainTransientStoreBufferNumbs"]) == 3
        assert int(table["remainTransientStoreBufferNumbs"]) == 2
        assert before["remainHowManyDataToCommit"] == "0 B"
        assert table["remainHowManyDataToCommit"].startswith("1.")

    play(
        tmp_path,
        scenario,
        transientStorePoolEnable="true",
        transientStorePoolSize="3",
        commitCommitLogThoroughInterval="60000",
    )


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The zone in which a simulation begins at 22:13."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("utc")
def test_midnight_moves_the_totals_of_the_day(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        for _ in range(4):
            await send(client, "T", b"body")
        await asyncio.sleep(7_200)
        await send(client, "T", b"body")
        table = await admin.brokers.runtime(ADDRESS)
        assert table["msgPutTotalTodayMorning"] == "4"
        assert (table["msgPutTotalYesterdayMorning"], table["msgPutTotalTodayNow"]) == ("0", "5")

    play_alone(tmp_path, scenario)


def test_a_figure_has_a_minute_an_hour_and_a_day(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await asyncio.sleep(15)
        for _ in range(6):
            await send(client, "T", b"body")
        await pull(client, "T", 0)
        await asyncio.sleep(20)
        put = await admin.brokers.stats_item(ADDRESS, "TOPIC_PUT_NUMS", "T")
        assert put.stats_minute.sum == 6
        assert 0.1 <= put.stats_minute.tps <= 0.6
        got = await admin.brokers.stats_item(ADDRESS, "GROUP_GET_NUMS", "T@g")
        assert got.stats_minute.sum == 6
        await asyncio.sleep(700)
        put = await admin.brokers.stats_item(ADDRESS, "TOPIC_PUT_NUMS", "T")
        assert (put.stats_minute.sum, put.stats_hour.sum, put.stats_day.sum) == (0, 6, 0)
        await asyncio.sleep(3700)
        put = await admin.brokers.stats_item(ADDRESS, "TOPIC_PUT_NUMS", "T")
        assert put.stats_day.sum == 6
        with pytest.raises(SystemFailure, match="The stats <NOPE> <T> not exist"):
            await admin.brokers.stats_item(ADDRESS, "NOPE", "T")

    play_alone(tmp_path, scenario)


# -- clean-ups


def test_queues_of_topics_that_are_gone_are_cleaned(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await send(client, "T", b"stays")
        await send(client, "Gone", b"x")
        await send(client, "T", b"later", properties="DELAY\x0118\x02")
        parts = broker.parts
        parts.tables.topics.delete("Gone")
        await admin.brokers.clean_unused_topics(ADDRESS)
        assert parts.store.bounds("Gone", 0) == (0, 0)
        assert parts.store.bounds("T", 0) == (0, 1)
        assert parts.store.bounds("SCHEDULE_TOPIC_XXXX", 17) == (0, 1)
        await admin.brokers.clean_expired_queues(ADDRESS)
        await admin.brokers.delete_expired_log(ADDRESS)
        assert parts.store.bounds("T", 0) == (0, 1), "nothing is old enough"

    play(tmp_path, scenario)


# -- calls the broker passes on


async def _consumer(world: World, answer: Answer, *, version: int = 453) -> RemotingClient:
    def handle(request: Command, connection: Connection) -> Command | None:
        return answer(request)

    client = RemotingClient(
        clock=SimClock(),
        network=world.network.host("10.0.2.9"),
        handlers=dict.fromkeys((221, 307, 309), handle),
    )
    await send(client, "T", b"one")
    await beat(client, "me")
    return client


def _forwarded(tmp_path: Path, answer: Answer, ask: Callable[..., Awaitable[None]]) -> None:
    async def world(world: World) -> None:
        async with world.name_server(), world.broker(namesrvAddr="10.0.1.1:9876") as broker:
            place = ClientWorld(network=world.network.host("10.0.3.1"), clock=SimClock())
            async with AdminClient("10.0.1.1:9876", world=place) as admin:
                topic = TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1, perm=6)
                await admin.topics.create_at(ADDRESS, topic)
                client = await _consumer(world, answer)
                await ask(admin, broker)
                await client.aclose()

    run(1, tmp_path, world)


def test_a_client_tells_its_running_info(tmp_path: Path) -> None:
    asked: list[Command] = []

    def answer(request: Command) -> Command:
        asked.append(request)
        return request.reply(body=b'{"properties":{"PROP_CLIENT_VERSION":"V5_2_0"}}')

    async def ask(admin: AdminClient, broker: Broker) -> None:
        info = await admin.groups.running_info("g", "me", stacks=True)
        assert info.properties == {"PROP_CLIENT_VERSION": "V5_2_0"}
        with pytest.raises(SystemFailure, match="The Consumer <g> <you> not online"):
            await admin.groups.running_info("g", "you")

    _forwarded(tmp_path, answer, ask)
    assert len(asked) == 1
    assert asked[0].fields["jstackEnable"] == "true"


def test_a_client_consumes_one_message_directly(tmp_path: Path) -> None:
    asked: list[Command] = []

    def answer(request: Command) -> Command:
        asked.append(request)
        return request.reply(body=b'{"consumeResult":"CR_LATER","spentTimeMills":3}')

    async def ask(admin: AdminClient, broker: Broker) -> None:
        record = await admin.messages.at(ADDRESS, 0)
        result = await admin.groups.consume_directly(
            ADDRESS, "g", client_id="me", topic="T", message_id=record.offset_message_id
        )
        assert (result.consume_result, result.spent_time_mills) == ("CR_LATER", 3)
        with pytest.raises(SystemFailure, match="can not find message"):
            await admin.groups.consume_directly(
                ADDRESS, "g", client_id="me", topic="T", message_id="7F" * 8 + "00" * 7 + "63"
            )

    _forwarded(tmp_path, answer, ask)
    assert asked[0].fields["brokerName"] == "broker-a"
    assert asked[0].fields["topicSysFlag"] == "0"
    assert decode_record(asked[0].body).body == b"one"


def test_a_client_that_does_not_answer_costs_ten_seconds(tmp_path: Path) -> None:
    async def ask(admin: AdminClient, broker: Broker) -> None:
        began = asyncio.get_running_loop().time()
        with pytest.raises(ConsumeTimeout):
            await admin.groups.running_info("g", "me")
        assert 10.0 <= asyncio.get_running_loop().time() - began < 10.5

    _forwarded(tmp_path, lambda request: None, ask)


def test_the_status_of_clients_is_gathered(tmp_path: Path) -> None:
    def answer(request: Command) -> Command:
        assert "clientAddr" not in request.fields
        queue = b'{"brokerName":"broker-a","queueId":0,"topic":"T"}'
        return request.reply(body=b'{"messageQueueTable":{%b:1}}' % queue)

    async def ask(admin: AdminClient, broker: Broker) -> None:
        status = await admin.offsets.consumer_status("T", "g")
        assert [(name, list(table.values())) for name, table in status.items()] == [("me", [1])]
        assert await admin.offsets.consumer_status("T", "g", "you") == {}
        with pytest.raises(SystemFailure, match="No Any Consumer online"):
            await admin.offsets.consumer_status("T", "nobody")

    _forwarded(tmp_path, answer, ask)


def test_clients_that_are_too_old_are_not_asked(tmp_path: Path) -> None:
    async def ask(admin: AdminClient, broker: Broker) -> None:
        member = broker.parts.tables.consumers.find_member("g", "me")
        assert member is not None
        member.version = 61
        with pytest.raises(SystemFailure, match="V3_1_8_SNAPSHOT"):
            await admin.groups.running_info("g", "me")
        member.version = 27
        with pytest.raises(SystemFailure, match="does not support this feature"):
            await admin.offsets.consumer_status("T", "g")

    _forwarded(tmp_path, lambda request: None, ask)


def test_the_audit_says_who_did_what_from_where_and_how_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"

    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await admin.brokers.update_config(ADDRESS, {"maxMessageSize": "7000"})
        with pytest.raises(BrokerError):
            await admin.brokers.update_config(ADDRESS, {"listenPort": "1"})
        await asyncio.sleep(1)

    play(tmp_path, scenario, auditLogPath=str(path))
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    found = [
        (entry["event"], entry["verdict"], entry["result"])
        for entry in entries
        if entry["name"] == "UPDATE_BROKER_CONFIG"
    ]
    assert found == [("result", "done", "SUCCESS"), ("result", "failed", "NO_PERMISSION")]
    assert all(entry["peer"] and entry["time_ms"] for entry in entries)


def test_the_level_of_the_log_changes_while_the_broker_runs(tmp_path: Path) -> None:
    own = logging.getLogger("contrailmq")
    before = own.level

    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await admin.brokers.update_config(ADDRESS, {"netLogLevel": "error"})
        assert own.level == logging.ERROR
        with pytest.raises(BrokerError, match="netLogLevel"):
            await admin.brokers.update_config(ADDRESS, {"netLogLevel": "loud"})
        await admin.brokers.update_config(ADDRESS, {"netLogLevel": ""})
        assert own.level == logging.NOTSET

    try:
        play(tmp_path, scenario)
    finally:
        own.setLevel(before)
