"""Administration through the typed client, against a broker and a name server in virtual time."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from contrailmq.admin import group_calls, topic_calls
from contrailmq.admin.client import AdminClient
from contrailmq.broker.app import Broker
from contrailmq.broker.services import registration
from contrailmq.client.settings import World as ClientWorld
from contrailmq.errors import (
    BrokerError,
    ClientError,
    ConsumerNotOnline,
    InvalidParameter,
    NoPermission,
    NoRoute,
    SubscriptionGroupNotExist,
    SystemFailure,
    TopicNotExist,
)
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.header import Header
from contrailmq.protocol.headers.group import GetAllSubscriptionGroupRequest
from contrailmq.protocol.headers.topic import GetAllTopicConfigRequest
from contrailmq.protocol.queue import MessageQueue
from contrailmq.testing.sim import SimClock
from testkit.broker_world import ADDRESS, World, beat, pull, run, send

Scenario = Callable[[AdminClient, RemotingClient, Broker], Awaitable[None]]
T0, T1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def play(directory: Path, scenario: Scenario, **conf: str) -> None:
    """Run a scenario with a name server, a broker, an administrator and a client."""

    async def world(world: World) -> None:
        async with world.name_server():
            broker = world.broker(namesrvAddr="10.0.1.1:9876")
            admin = AdminClient(
                "10.0.1.1:9876",
                world=ClientWorld(
                    network=world.network.host("10.0.3.1"), clock=SimClock(), rng=world.rng
                ),
            )
            async with broker, admin, world.client() as client:
                await admin.topics.create_at(ADDRESS, _topic("T", 2))
                await scenario(admin, client, broker)

    run(1, directory, world, **conf)


def _topic(name: str, queues: int = 1, **more: object) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        **more,  # type: ignore[arg-type]
    )


async def _fill(client: RemotingClient, count: int, *, queue_id: int = 0) -> None:
    for number in range(count):
        answer = await send(
            client, "T", b"body", queue_id=queue_id, properties=f"KEYS\x01k{number} all\x02"
        )
        assert answer.code == 0


# -- topics


def test_a_topic_is_created_described_and_deleted(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        config = _topic("Made", 3, attributes={"message.type": "FIFO"})
        assert await admin.topics.create(config) == {"broker-a": ADDRESS}
        assert "Made" in await admin.topics.names()
        assert "Made" in await admin.topics.of_cluster("DefaultCluster")
        found = await admin.topics.config(ADDRESS, "Made")
        assert (found.read_queue_nums, found.attributes) == (3, {"message.type": "FIFO"})
        assert (await admin.topics.configs(ADDRESS))["Made"] == found
        route = await admin.route("Made")
        assert [data.read_queue_nums for data in route.queue_datas] == [3]
        assert await admin.topics.clusters("Made") == ["DefaultCluster"]
        await admin.topics.delete("Made", cluster="DefaultCluster")
        with pytest.raises(NoRoute):
            await admin.route("Made")
        with pytest.raises(TopicNotExist):
            await admin.topics.config(ADDRESS, "Made")
        with pytest.raises(ClientError, match="DefaultCluster"):
            await admin.masters("Nowhere")

    play(tmp_path, scenario)


def test_topic_stats_have_the_bounds_of_every_queue(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await _fill(client, 3, queue_id=1)
        stats = await admin.topics.stats("T")
        assert list(stats) == [T0, T1]
        assert (stats[T0].max_offset, stats[T0].last_update_timestamp) == (0, 0)
        assert (stats[T1].min_offset, stats[T1].max_offset) == (0, 3)
        assert stats[T1].last_update_timestamp == broker.parts.store.store_time("T", 1, 2)

    play(tmp_path, scenario)


def test_name_servers_keep_pairs_and_order_configuration(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        assert await admin.names.kv_get("ns", "k") is None
        assert await admin.names.kv_list("ns") == {}
        await admin.names.kv_put("ns", "k", "v")
        assert await admin.names.kv_list("ns") == {"k": "v"}
        await admin.names.kv_delete("ns", "k")
        assert await admin.names.kv_get("ns", "k") is None
        await admin.topics.put_order_conf("T", "broker-a:2")
        assert await admin.topics.order_conf("T") == "broker-a:2"
        with pytest.raises(ClientError, match="broker:queues"):
            await admin.topics.put_order_conf("T", "nonsense")
        await admin.topics.delete_order_conf("T")
        wiped = await admin.names.wipe_write_permission("broker-a")
        assert wiped["10.0.1.1:9876"] > 0
        assert [data.perm for data in (await admin.route("T")).queue_datas] == [4]
        assert await admin.names.add_write_permission("broker-a") == wiped
        config = await admin.names.config()
        assert config["10.0.1.1:9876"]["listenPort"] == "9876"

    play(tmp_path, scenario)


# -- tables in pages


async def _read_pages(
    admin: AdminClient, header: Callable[[int, str], Header], *, code: RequestCode
) -> list[list[str]]:
    """All pages of a table, read as newer Java clients do."""
    pages: list[list[str]] = []
    version = ""
    while True:
        start = sum(map(len, pages))
        answer = await admin.ask(ADDRESS, code, header(start, version))
        body = json.loads(bytes(answer.body))
        version = json.dumps(body["dataVersion"])
        pages.append(list(body.get("topicConfigTable") or body["subscriptionGroupTable"]))
        (total,) = answer.fields.values()
        if start + len(pages[-1]) >= int(total):
            return pages


def test_topics_and_groups_are_read_in_pages(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        topics = sorted(await admin.topics.configs(ADDRESS))
        groups = sorted(broker.parts.tables.groups.names())
        first = groups[0]
        await admin.groups.forbidden(ADDRESS, first, "T", readable=False)
        pages = await _read_pages(
            admin,
            lambda start, seen: GetAllTopicConfigRequest(
                topic_seq=start, data_version=seen, max_topic_num=4
            ),
            code=RequestCode.GET_ALL_TOPIC_CONFIG,
        )
        assert [len(page) for page in pages[:-1]] == [4] * (len(pages) - 1)
        assert [name for page in pages for name in sorted(page)] == topics
        pages = await _read_pages(
            admin,
            lambda start, seen: GetAllSubscriptionGroupRequest(
                group_seq=start, data_version=seen, max_group_num=3
            ),
            code=RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        )
        assert [name for page in pages for name in sorted(page)] == groups
        for seen in ("", "{", '{"counter":1,"stateVersion":0,"timestamp":2}'):
            header = GetAllSubscriptionGroupRequest(group_seq=1, data_version=seen, max_group_num=1)
            answer = await admin.ask(ADDRESS, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header)
            body = json.loads(bytes(answer.body))
            assert list(body["subscriptionGroupTable"]) == [first], "of another table: from anew"
            assert body["forbiddenTable"] == {first: {"T": 1}}

    play(tmp_path, scenario)


def test_large_tables_are_read_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (topic_calls, group_calls):
        monkeypatch.setattr(module, "PAGE", 3)

    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        tables = broker.parts.tables
        assert set(await admin.topics.configs(ADDRESS)) == set(tables.topics.names())
        assert set(await admin.groups.configs(ADDRESS)) == set(tables.groups.names())
        asked = 0

        async def ask(*args: Any, **more: Any) -> Command:
            nonlocal asked
            asked += 1
            if asked == 3:  # in the middle the table changes
                await admin.topics.create_at(ADDRESS, _topic("A"))
            return await real(*args, **more)

        real, admin.ask = admin.ask, ask  # type: ignore[method-assign]
        found = await admin.topics.configs(ADDRESS)
        assert set(found) == set(tables.topics.names()) > {"A", "T"}

    play(tmp_path, scenario)


# -- registration


def test_a_large_table_is_registered_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All topics of a broker go in one frame; the plain text of 100,000 is larger than that."""
    monkeypatch.setattr(registration, "PLAIN_SIZE_MAX", 1000)

    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        tables = broker.parts.tables
        tables.topics.put(_topic("Typed", 3, attributes={"message.type": "FIFO"}))
        body, is_compressed = broker.parts.registration._body(None)
        assert is_compressed
        assert {len(line.split(b" ")) for line in _lines(zlib.decompress(body))} == {5}, "as 4.9"
        outcome = await broker.parts.registration.register()
        assert (outcome.told, outcome.failed) == (("10.0.1.1:9876",), {})
        route = await admin.route("Typed")
        assert [data.read_queue_nums for data in route.queue_datas] == [3]
        assert set(tables.topics.names()) <= {
            *await admin.topics.names(),
            *await admin.topics.system(),
        }

    play(tmp_path, scenario)


def _lines(data: bytes) -> list[bytes]:
    """The topics of an inflated registration: behind the version, each with its size."""
    at = 4 + int.from_bytes(data[:4], "big")
    count = int.from_bytes(data[at : at + 4], "big")
    at += 4
    lines = []
    for _ in range(count):
        size = int.from_bytes(data[at : at + 4], "big")
        lines.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return lines


# -- groups


def test_a_group_is_created_changed_forbidden_and_deleted(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await admin.groups.create(SubscriptionGroupConfig(group_name="g1", retry_max_times=3))
        assert (await admin.groups.config(ADDRESS, "g1")).retry_max_times == 3
        assert "g1" in await admin.groups.names("DefaultCluster")
        assert await admin.groups.forbidden(ADDRESS, "g1", "T") is True
        assert await admin.groups.forbidden(ADDRESS, "g1", "T", readable=False) is False
        assert broker.parts.tables.groups.forbidden("g1", "T") == 1
        assert await admin.groups.forbidden(ADDRESS, "g1", "T", readable=True) is True
        await admin.offsets.commit(T0, "g1", 0)
        await admin.groups.delete_at(ADDRESS, "g1")
        assert await admin.groups.topics("g1") == ["T"], "offsets stay unless asked for"
        await admin.groups.delete_at(ADDRESS, "g1", offsets=True)
        assert await admin.groups.topics("g1") == []
        with pytest.raises(SubscriptionGroupNotExist):
            await admin.groups.config(ADDRESS, "g1")
        with pytest.raises(InvalidParameter):
            await admin.groups.create_at(ADDRESS, SubscriptionGroupConfig(group_name="no space"))

    play(tmp_path, scenario)


def test_connected_clients_are_listed(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        with pytest.raises(ConsumerNotOnline):
            await admin.groups.connection("g")
        with pytest.raises(SystemFailure, match="producer group"):
            await admin.groups.producer_connection("p", "T")
        await beat(client, "me", SubscriptionData(topic="T", sub_string="a||b", sub_version=7))
        found = await admin.groups.connection("g")
        assert [c.client_id for c in found.connection_set] == ["me"]
        assert found.connection_set[0].client_addr.startswith("10.0.2.1:")
        assert found.subscription_table["T"].sub_string == "a||b"
        assert found.message_model == "CLUSTERING"
        produced = await admin.groups.producer_connection("p", "T")
        assert [c.client_id for c in produced.connection_set] == ["me"]
        everybody = await admin.groups.producers(ADDRESS)
        assert everybody["p"][0].remote_ip.startswith("/10.0.2.1:")
        assert await admin.topics.groups("T") == ["g"]
        subscription = await admin.groups.subscription(ADDRESS, "g", "T")
        assert subscription.subscription_data is not None
        assert subscription.subscription_data.sub_version == 7

    play(tmp_path, scenario)


# -- progress and offsets


def test_progress_counts_what_lies_before_a_group(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await _fill(client, 5)
        await pull(client, "T", 0, max_msg_nums=4)
        await admin.offsets.commit(T0, "g", 2)
        stats = await admin.offsets.stats("g")
        assert list(stats.offset_table) == [T0, T1]
        row = stats.offset_table[T0]
        assert (row.broker_offset, row.consumer_offset, row.pull_offset) == (5, 2, 4)
        assert row.last_timestamp == broker.parts.store.store_time("T", 0, 1)
        assert stats.total_diff() == 3
        whole = await admin.offsets.broker_stats(ADDRESS)
        assert whole.total_diff == 3
        assert {"g", "TOOLS_CONSUMER"} <= {name for row in whole.consume_stats_list for name in row}
        ordered = await admin.offsets.broker_stats(ADDRESS, ordered=True)
        assert ordered.total_diff == 0
        spans = {span.message_queue: span for span in await admin.offsets.time_spans("T", "g")}
        store = broker.parts.store
        assert spans[T0].min_time_stamp == store.store_time("T", 0, 0)
        assert spans[T0].consume_time_stamp == store.store_time("T", 0, 1)
        assert spans[T0].delay_time > 0
        assert spans[T1].max_time_stamp == -1

    play(tmp_path, scenario)


def test_topics_a_connected_group_has_left_are_not_counted(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await _fill(client, 1)
        await admin.offsets.commit(T0, "g", 0)
        await beat(client, "me", SubscriptionData(topic="Other", sub_string="*", sub_version=1))
        assert (await admin.offsets.stats("g")).offset_table == {}

    play(tmp_path, scenario)


def test_a_reset_of_5x_moves_the_group_at_once(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await _fill(client, 5)
        await beat(client, "me")
        await admin.offsets.commit(T0, "g", 5)
        held = asyncio.ensure_future(pull(client, "T", 5, suspend_ms=15_000))
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        assert await admin.offsets.reset("T", "g", 0) == {T0: 0, T1: 0}
        answer = await held
        assert answer.code == ResponseCode.PULL_OFFSET_MOVED
        assert answer.fields["nextBeginOffset"] == "0"
        assert asyncio.get_running_loop().time() - began < 0.5
        assert await admin.offsets.committed(T0, "g") == 0
        assert await admin.offsets.reset("T", "g", -1) == {T0: 5, T1: 0}
        await admin.offsets.commit(T0, "g", 1)
        assert await admin.offsets.committed(T0, "g") == 5, (
            "a commit that does not know yet is ignored"
        )
        moved = await pull(client, "T", 1)
        assert (moved.code, moved.fields["nextBeginOffset"]) == (21, "5")
        await admin.offsets.commit(T0, "g", 3)
        assert await admin.offsets.committed(T0, "g") == 3

    play(tmp_path, scenario)


def test_a_reset_of_one_queue_has_bounds(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await _fill(client, 5)
        await admin.groups.create_at(ADDRESS, SubscriptionGroupConfig(group_name="g"))
        await admin.offsets.reset_queue(T0, "g", 2)
        assert await admin.offsets.committed(T0, "g") == 2
        assert await admin.offsets.committed(T1, "g") is None
        with pytest.raises(SystemFailure, match="not in consume queue range"):
            await admin.offsets.reset_queue(T0, "g", 7)
        with pytest.raises(SystemFailure, match="below 2"):
            await admin.offsets.reset_queue(MessageQueue("T", "broker-a", 2), "g", 0)
        with pytest.raises(SubscriptionGroupNotExist):
            await admin.offsets.reset("T", "nobody", 0)

    play(tmp_path, scenario)


async def _as_49(admin: AdminClient, language: str = "JAVA", **fields: str) -> Command:
    request = Command.request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
    request.version, request.language = 407, language
    request.fields = {"topic": "T", "group": "g", "timestamp": "0", "isForce": "true", **fields}
    return await admin.call(ADDRESS, request, timeout_s=3)


@pytest.mark.parametrize(("language", "start"), [("JAVA", b"{{"), ("CPP", b"[{")])
def test_a_reset_of_49_tells_the_clients(tmp_path: Path, language: str, start: bytes) -> None:
    told: list[Command] = []

    async def world(world: World) -> None:
        async with world.name_server(), world.broker(namesrvAddr="10.0.1.1:9876"):
            place = ClientWorld(network=world.network.host("10.0.3.1"), clock=SimClock())
            client = RemotingClient(
                clock=SimClock(),
                network=world.network.host("10.0.2.9"),
                handlers={220: lambda request, connection: told.append(request)},
            )
            async with AdminClient("10.0.1.1:9876", world=place) as admin:
                await admin.topics.create_at(ADDRESS, _topic("T"))
                await _fill(client, 3)
                assert (await _as_49(admin)).code == 1, "the group has no offsets"
                await admin.offsets.commit(T0, "g", 3)
                assert (await _as_49(admin)).code == ResponseCode.CONSUMER_NOT_ONLINE
                await beat(client, "me")
                answer = await _as_49(admin, language)
                assert answer.code == 0
                assert await admin.offsets.committed(T0, "g") == 3, (
                    "the clients move it, not the broker"
                )
                forward = await _as_49(admin, language, timestamp="-1", isForce="false")
                assert b":3" in bytes(forward.body)
                await asyncio.sleep(0.1)
            await client.aclose()

    run(1, tmp_path, world)
    assert len(told) == 2
    assert told[0].fields == {
        "topic": "T", "group": "g", "timestamp": "0", "isForce": "false",
    }  # fmt: skip
    assert bytes(told[0].body).partition(b":")[2].startswith(start)


def test_an_offline_reset_sets_every_queue(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await _fill(client, 4)
        await admin.offsets.commit(T0, "g", 1)
        done = await admin.offsets.reset_offline("T", "g", -1, force=False)
        assert [(d.queue, d.consumer_offset, d.rollback_offset) for d in done] == [
            (T0, 1, 1),
            (T1, -1, 0),
        ]
        await admin.offsets.reset_offline("T", "g", -1)
        assert await admin.offsets.committed(T0, "g") == 4

    play(tmp_path, scenario)


def test_offsets_are_cloned_compared_and_listed(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await _fill(client, 5)
        await admin.offsets.commit(T0, "g", 4)
        await admin.offsets.commit(T0, "slow", 1)
        await admin.offsets.clone("g", "h", "T", offline=True)
        assert await admin.offsets.committed(T0, "h") == 4
        table = await admin.offsets.table(ADDRESS)
        assert table == {"T@g": {0: 4}, "T@slow": {0: 1}, "T@h": {0: 4}}
        correct = {"compare_group": "g", "filter_groups": ["slow"]}
        found = await admin.offsets.correction(ADDRESS, "T", **correct)  # type: ignore[arg-type]
        assert found == {0: 4}
        behind = await admin.offsets.correction(
            ADDRESS, "T", compare_group="slow", filter_groups=["slow"]
        )
        assert behind == {0: (1 << 63) - 1}, "nobody else is behind the slow one"
        assert await admin.offsets.committed(T0, "slow") == 1, "filtering loses nothing"
        assert await admin.offsets.delay_levels(ADDRESS) == {}

    play(tmp_path, scenario)


# -- messages


def test_messages_are_found_by_id_key_place(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await _fill(client, 3)
        by_key = await admin.messages.by_key("T", "k1")
        assert [record.queue_offset for record in by_key] == [1]
        assert len(await admin.messages.by_key("T", "all", count=2)) == 2
        same = await admin.messages.view(by_key[0].offset_message_id)
        assert same.commit_log_offset == by_key[0].commit_log_offset
        at = await admin.messages.in_queue(T0, 2)
        assert at is not None
        assert at.queue_offset == 2
        assert await admin.messages.in_queue(T0, 3) is None
        with pytest.raises(ClientError, match="offset id"):
            await admin.messages.view("nonsense")
        assert await admin.messages.by_unique_key("T", "0A141E28000000000000000000000000") == []

    play(tmp_path, scenario)


def test_queue_entries_are_shown_with_the_groups_opinion(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        for tag in ("a", "b", "a"):
            await send(client, "T", b"x", tags=tag)
        plain = await admin.messages.consume_queue(ADDRESS, ("T", 0), 1, count=5)
        assert (plain.min_queue_index, plain.max_queue_index) == (0, 3)
        assert [entry.tags_code for entry in plain.queue_data or ()] == [ord("b"), ord("a")]
        assert plain.filter_data is None
        offline = await admin.messages.consume_queue(ADDRESS, ("T", 0), 0, group="g")
        assert offline.filter_data == "g@T is not online!"
        subscription = SubscriptionData(
            topic="T", sub_string="a", tags_set=["a"], code_set=[ord("a")], sub_version=1
        )
        await beat(client, "me", subscription)
        online = await admin.messages.consume_queue(ADDRESS, ("T", 0), 0, group="g")
        assert [entry.eval for entry in online.queue_data or ()] == [True, False, True]
        with pytest.raises(SystemFailure, match="1@T is not exist"):
            await admin.messages.consume_queue(ADDRESS, ("T", 1), 0)
        assert (await admin.messages.consume_queue(ADDRESS, ("T", 0), 9)).queue_data is None

    play(tmp_path, scenario)


def test_a_half_message_that_was_given_up_is_taken_up_again(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        properties = "TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01U\x02"
        answer = await send(client, "T", b"half", properties=properties, sys_flag=4)
        half_id = answer.fields["msgId"]
        halves = broker.parts.halves
        await admin.brokers.resume_half_message(ADDRESS, "T", half_id)
        again = halves.read("RMQ_SYS_TRANS_HALF_TOPIC", 1)
        assert again is not None
        assert again.properties["TRANSACTION_CHECK_TIMES"] == "0"
        assert again.properties["REAL_TOPIC"] == "T"
        plain = await send(client, "T", b"plain")
        with pytest.raises(SystemFailure, match="not a half message"):
            await admin.brokers.resume_half_message(ADDRESS, "T", plain.fields["msgId"])
        with pytest.raises(SystemFailure, match="offset id"):
            await admin.brokers.resume_half_message(ADDRESS, "T", "nonsense")

    play(tmp_path, scenario, transactionCheckInterval="3600000")


# -- refusals


def test_the_same_request_from_both_lines_gets_the_body_of_each(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await admin.offsets.commit(T0, "g", 0)
        for code, field in ((201, b"groupRetryPolicy"), (43, b"groupTopicMap")):
            old, new = Command(code, version=407), Command(code, version=453)
            assert field not in bytes((await admin.call(ADDRESS, old, timeout_s=3)).body)
            assert field in bytes((await admin.call(ADDRESS, new, timeout_s=3)).body)

    play(tmp_path, scenario)


def test_no_known_request_meets_silence(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        codes: dict[int, list[int]] = {}
        for code in RequestCode:
            answer = await admin.call(ADDRESS, Command(int(code)), timeout_s=5)
            assert answer.code == 0 or answer.remark, code
            codes.setdefault(answer.code, []).append(int(code))
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                assert answer.remark == f" request type {int(code)} not supported"
        assert {27, 105, 106, 1003, 3001, 200056} <= set(codes[3])
        assert {50, 51, 53} == set(codes[209] + codes[210] + codes[211])
        assert {52, 54} <= set(codes[1])
        assert {60, 61} <= set(codes[0])

    play(tmp_path, scenario)


def test_queues_are_assigned_in_the_mode_that_was_set(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await beat(client, "a")
        request = Command(int(RequestCode.QUERY_ASSIGNMENT))
        request.body = b'{"clientId":"a","consumerGroup":"g","strategyName":"AVG","topic":"T"}'
        answer = await admin.call(ADDRESS, request, timeout_s=3)
        assert bytes(answer.body).count(b'"mode":"PULL"') == 2
        request.body = request.body.replace(b'"clientId":"a"', b'"clientId":"b"')
        answer = await admin.call(ADDRESS, request, timeout_s=3)
        assert bytes(answer.body) == b'{"messageQueueAssignments":[]}'
        await admin.groups.set_consume_mode(ADDRESS, "g", "T", mode="PULL")
        modes = await admin.brokers.request_modes(ADDRESS)
        assert modes.message_request_mode_map["T"]["g"].mode == "PULL"
        with pytest.raises(InvalidParameter, match="PULL or POP"):
            await admin.groups.set_consume_mode(ADDRESS, "g", "T", mode="PUSH")
        await admin.groups.set_consume_mode(ADDRESS, "g", "T", mode="POP")
        answer = await admin.call(ADDRESS, request, timeout_s=3)
        assert bytes(answer.body).count(b'"queueId":-1') == 1
        assert bytes(answer.body).count(b'"mode":"POP"') == 1
        with pytest.raises(NoPermission):
            await admin.groups.set_consume_mode(ADDRESS, "g", "%RETRY%g", mode="PULL")

    play(tmp_path, scenario)


def test_a_replica_would_learn_where_the_primary_is(tmp_path: Path) -> None:
    async def scenario(admin: AdminClient, client: RemotingClient, broker: Broker) -> None:
        await _fill(client, 1)
        status = await admin.brokers.ha_status(ADDRESS)
        assert (status.master, status.ha_connection_info) == (True, [])
        assert status.master_commit_log_max_offset == broker.parts.store.max_offset
        answer = await admin.ask(ADDRESS, RequestCode.EXCHANGE_BROKER_HA_INFO)
        assert answer.fields["masterAddress"] == ADDRESS
        with pytest.raises(BrokerError) as refused:
            await admin.ask(ADDRESS, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
        assert "aclEnable" in str(refused.value)

    play(tmp_path, scenario)
