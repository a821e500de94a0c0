"""What a broker accepts, refuses and changes: the rules of sending and pulling, one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contrailmq.broker.app import Broker
from contrailmq.broker.tables.filters import SqlMatcher
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.batch import BatchMessage, encode_batch
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.offset import (
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from contrailmq.protocol.message import Record, decode_records
from testkit.broker_world import ADDRESS, World, beat, now, pull, run, send

Scenario = Callable[[Broker, RemotingClient], Awaitable[None]]
KEY = "UNIQ_KEY\x010A141E285AC74E0E2F2A4A759B720000\x02"


def play(directory: Path, scenario: Scenario, **conf: str) -> None:
    """Run a scenario with one broker and one client."""

    async def world(world: World) -> None:
        async with world.broker(namesrvAddr="") as broker, world.client() as client:
            await scenario(broker, client)

    run(1, directory, world, **conf)


def records(answer: Command) -> list[Record]:
    assert answer.code == 0, (answer.code, answer.remark)
    return decode_records(answer.body)


async def stored(client: RemotingClient, topic: str, queue_id: int = 0) -> list[Record]:
    """Everything in a queue, read as a system tool would."""
    return records(await pull(client, topic, 0, queue_id=queue_id, consumer_group="TOOLS_CONSUMER"))


def stored_anywhere(broker: Broker, offset_id: str) -> Record:
    """The record an answer to a send names, whatever queue it went to."""
    data = broker.parts.store.record_at(int(offset_id[-16:], 16))
    assert data is not None
    return decode_records(data)[0]


# -- sending


def test_the_broker_adds_its_properties_and_keeps_the_rest(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        for text in (KEY + "WAIT\x01true\x02a\x01b\x02", KEY + "WAIT\x01true\x02a\x01b", None):
            answer = await send(client, "T", b"x", properties=text, born_timestamp=5, flag=7)
            assert answer.code == 0
        one, two, bare = await stored(client, "T")
        assert one.properties == two.properties
        assert one.properties == {
            "UNIQ_KEY": KEY.split("\x01")[1].rstrip("\x02"),
            "WAIT": "true",
            "a": "b",
            "CLUSTER": "DefaultCluster",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
        }
        assert (one.born_ms, one.flag, one.born_host.partition(":")[0]) == (5, 7, "10.0.2.1")
        assert one.store_host == ADDRESS
        assert len(bare.properties["UNIQ_KEY"]) == 32

    play(tmp_path, scenario)


def test_what_a_sender_may_not_set_is_replaced(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        text = KEY + "CLUSTER\x01mine\x02POP_CK\x01 1 2\x02MSG_REGION\x01r\x02"
        await send(client, "T", b"x", properties=text)
        (record,) = await stored(client, "T")
        assert record.properties["CLUSTER"] == "DefaultCluster"
        assert record.properties["MSG_REGION"] == "DefaultRegion"
        assert "POP_CK" not in record.properties
        assert record.properties_bytes.count(b"CLUSTER\x01") == 1

    play(tmp_path, scenario)


def test_a_delayed_message_waits_in_the_schedule_topic(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        answer = await send(client, "T", b"x", properties=KEY + "DELAY\x0199\x02", queue_id=3)
        assert answer.fields["queueId"] == "3"
        record = stored_anywhere(broker, answer.fields["msgId"])
        assert (record.topic, record.queue_id) == ("SCHEDULE_TOPIC_XXXX", 17)
        assert record.properties["REAL_TOPIC"] == "T"
        assert record.properties["REAL_QID"] == "3"
        assert record.properties["DELAY"] == "99"
        assert (await pull(client, "T", 0, queue_id=3)).code == ResponseCode.PULL_NOT_FOUND

    play(tmp_path, scenario)


def test_a_prepared_message_waits_in_the_half_topic(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        text = KEY + "TRAN_MSG\x01true\x02PGROUP\x01p\x02"
        answer = await send(client, "T", b"x", properties=text, sys_flag=4, queue_id=2)
        record = stored_anywhere(broker, answer.fields["msgId"])
        assert (record.topic, record.queue_id) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0)
        assert record.sys_flag & 0xC == 0
        assert record.properties["REAL_TOPIC"] == "T"
        assert record.properties["REAL_QID"] == "2"
        assert record.properties["__transactionId__"] == answer.fields["transactionId"]

    play(tmp_path, scenario)


def test_transactions_can_be_forbidden(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        answer = await send(client, "T", b"x", properties=KEY + "TRAN_MSG\x01true\x02")
        assert answer.code == ResponseCode.NO_PERMISSION

    play(tmp_path, scenario, rejectTransactionMessage="true")


@pytest.mark.parametrize(
    ("reconsume_times", "limit", "version", "topic"),
    [(16, None, 453, "%RETRY%g"), (17, None, 453, "%DLQ%g"), (3, 2, 453, "%DLQ%g"),
     (3, 2, 120, "%RETRY%g")],
)  # fmt: skip
def test_a_retry_goes_to_the_dead_letters_when_it_was_the_last(
    tmp_path: Path, reconsume_times: int, limit: int | None, version: int, topic: str
) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        from contrailmq.protocol.headers.send import SendMessageRequestV2

        header = SendMessageRequestV2(
            producer_group="CLIENT_INNER_PRODUCER",
            topic="%RETRY%g",
            queue_id=0,
            properties=KEY + "DELAY\x010\x02",
            reconsume_times=reconsume_times,
            max_reconsume_times=limit,
        )
        request = Command.request(RequestCode.SEND_MESSAGE_V2, header, body=b"x")
        request.version = version
        answer = await client.call(ADDRESS, request, timeout_s=3)
        assert stored_anywhere(broker, answer.fields["msgId"]).topic == topic

    play(tmp_path, scenario)


def test_no_group_no_retry(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        answer = await send(client, "%RETRY%nobody", b"x")
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert answer.fields["MSG_REGION"] == "DefaultRegion"

    play(tmp_path, scenario, autoCreateSubscriptionGroup="false")


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE, RequestCode.SEND_BATCH_MESSAGE])
def test_a_batch_becomes_single_messages(tmp_path: Path, code: RequestCode) -> None:
    """Code 10 with batch=1 is the C++ client's way."""

    async def scenario(broker: Broker, client: RemotingClient) -> None:
        body = encode_batch(
            BatchMessage(b"%d" % n, f"UNIQ_KEY\x01{n:032d}\x02TAGS\x01t{n}\x02".encode())
            for n in range(3)
        )
        if code == RequestCode.SEND_MESSAGE:
            fields = {"producerGroup": "p", "topic": "T", "queueId": "1", "batch": "1"}
        else:
            fields = {"a": "p", "b": "T", "e": "1", "m": "true", "i": KEY}
        request = Command(int(code), fields=fields, body=body)
        answer = await client.call(ADDRESS, request, timeout_s=3)
        assert answer.code == 0
        found = await stored(client, "T", 1)
        assert [bytes(r.body) for r in found] == [b"0", b"1", b"2"]
        assert answer.fields["msgId"].split(",") == [r.offset_message_id for r in found]
        assert [r.properties["UNIQ_KEY"] for r in found] == [f"{n:032d}" for n in range(3)]
        assert {r.properties["CLUSTER"] for r in found} == {"DefaultCluster"}

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("topic", "properties"), [("%RETRY%g", KEY), ("T", KEY + "DELAY\x011\x02"), ("T" * 128, KEY)]
)
def test_batches_that_cannot_be(tmp_path: Path, topic: str, properties: str) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        fields = {"a": "p", "b": topic, "e": "0", "m": "true", "i": properties}
        body = encode_batch([BatchMessage(b"x")])
        request = Command(int(RequestCode.SEND_BATCH_MESSAGE), fields=fields, body=body)
        answer = await client.call(ADDRESS, request, timeout_s=3)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL

    play(tmp_path, scenario)


@pytest.mark.parametrize("cut", [1, 21, 30])
def test_a_torn_batch_is_refused_whole(tmp_path: Path, cut: int) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        body = encode_batch([BatchMessage(b"one"), BatchMessage(b"two")])[:-cut]
        fields = {"a": "p", "b": "T", "e": "0", "m": "true", "i": KEY}
        request = Command(int(RequestCode.SEND_BATCH_MESSAGE), fields=fields, body=body)
        answer = await client.call(ADDRESS, request, timeout_s=3)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert broker.parts.store.bounds("T", 0) == (0, 0)

    play(tmp_path, scenario)


def test_an_empty_body_is_refused(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await send(client, "T", b"x")
        for properties in (None, KEY):
            answer = await send(client, "T", b"", properties=properties)
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL

    play(tmp_path, scenario)


def test_a_broker_that_may_not_write_still_takes_unordered_topics(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        tables = broker.parts.tables
        tables.topics.put(TopicConfig(topic_name="Ordered", order=True))
        assert (await send(client, "Ordered", b"x")).code == 0
        tables.live.apply({"brokerPermission": "4"})
        assert (await send(client, "Ordered", b"x")).code == ResponseCode.NO_PERMISSION
        assert (await send(client, "T", b"x")).code == 0
        tables.live.apply({"brokerPermission": "6"})
        assert (await send(client, "Ordered", b"x")).code == 0

    play(tmp_path, scenario)


def test_decisions_follow_the_tables(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        topics = broker.parts.tables.topics
        assert (await send(client, "T", b"x", queue_id=3)).code == 0
        topics.put(msgspec.structs.replace(topics.find("T"), read_queue_nums=2, write_queue_nums=2))
        assert (await send(client, "T", b"x", queue_id=3)).code == ResponseCode.SYSTEM_ERROR
        topics.delete("T")
        answer = await send(client, "T", b"x", default_topic="nothing")
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST

    play(tmp_path, scenario)


def test_sends_before_the_opening_time_are_refused(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        opens_ms = broker.parts.clock.now_ms() + 60_000
        broker.parts.tables.live.apply({"startAcceptSendRequestTimeStamp": str(opens_ms)})
        assert (await send(client, "T", b"x")).code == ResponseCode.SYSTEM_ERROR
        await asyncio.sleep(61)
        assert (await send(client, "T", b"x")).code == 0

    play(tmp_path, scenario)


def test_a_full_disk_refuses_sends_and_serves_pulls(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await send(client, "T", b"kept")
        broker.parts.store.refuse("the disk of /x is 95 % full, at most 90 %")
        answer = await send(client, "T", b"x")
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "95 %" in (answer.remark or "")
        assert [bytes(r.body) for r in await stored(client, "T")] == [b"kept"]
        broker.parts.store.refuse(None)
        assert (await send(client, "T", b"x")).code == 0

    play(tmp_path, scenario)


def test_synchronous_flush_answers_after_the_disk(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        answers = await asyncio.gather(*(send(client, "T", b"%d" % n) for n in range(20)))
        assert {answer.code for answer in answers} == {0}
        assert broker.parts.store.flushed_offset == broker.parts.store.max_offset
        waiting = asyncio.ensure_future(pull(client, "T", 20, suspend_ms=15_000))
        await asyncio.sleep(1)
        await send(client, "T", b"late")
        assert [bytes(r.body) for r in records(await waiting)] == [b"late"]

    play(tmp_path, scenario, flushDiskType="SYNC_FLUSH")


# -- pulling


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda t: t.live.apply({"brokerPermission": "2"}), ResponseCode.NO_PERMISSION),
        (lambda t: t.groups.enable("g", consume=False), ResponseCode.NO_PERMISSION),
        (
            lambda t: t.topics.put(TopicConfig(topic_name="T", perm=2)),
            ResponseCode.NO_PERMISSION,
        ),
        (lambda t: t.topics.delete("T"), ResponseCode.TOPIC_NOT_EXIST),
    ],
    ids=["broker", "group", "topic permission", "topic gone"],
)
def test_pulls_follow_the_tables(tmp_path: Path, change: Any, code: ResponseCode) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await send(client, "T", b"x")
        assert (await pull(client, "T", 0)).code == 0
        held = asyncio.ensure_future(pull(client, "T", 1, suspend_ms=2_000))
        await asyncio.sleep(0.5)
        change(broker.parts.tables)
        assert (await pull(client, "T", 0)).code == code
        assert (await held).code == code

    play(tmp_path, scenario)


def test_a_registered_consumer_pulls_by_its_subscription(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await send(client, "T", b"a", tags="A")
        await send(client, "T", b"b", tags="B")
        by_session = {"sys_flag": 0, "subscription": None}
        assert (await pull(client, "T", 0, **by_session)).code == 24
        wanted = SubscriptionData(
            topic="T", sub_string="B", tags_set=["B"], code_set=[66], sub_version=10
        )
        await beat(client, "c1", wanted)
        assert (await pull(client, "U", 0, **by_session)).code == 17
        found = records(await pull(client, "T", 0, sub_version=10, **by_session))
        assert [bytes(r.body) for r in found] == [b"b"]
        assert (await pull(client, "T", 0, sub_version=11, **by_session)).code == 25
        tables = broker.parts.tables
        tables.groups.forbid("g", "T", 1)
        assert (await pull(client, "T", 0, sub_version=10, **by_session)).code == 16
        tables.groups.forbid("g", "T", 0)
        tables.groups.put(
            msgspec.structs.replace(tables.groups.find("g"), consume_broadcast_enable=False)
        )
        assert (await pull(client, "T", 0, sub_version=10, **by_session)).code == 0
        await beat(client, "c1", wanted, model="BROADCASTING")
        assert (await pull(client, "T", 0, sub_version=10, **by_session)).code == 16

    play(tmp_path, scenario)


def test_sql_subscriptions_need_their_filter(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        for n in range(4):
            await send(client, "T", b"%d" % n, properties=f"{KEY}n\x01{n}\x02")
        wanted = SubscriptionData(
            topic="T", sub_string="n > 1", expression_type="SQL92", sub_version=10
        )
        by_session = {"sys_flag": 0, "subscription": None, "expression_type": "SQL92"}
        await beat(client, "c1", wanted)
        found = records(await pull(client, "T", 0, sub_version=10, **by_session))
        assert [bytes(r.body) for r in found] == [b"2", b"3"]
        bad = msgspec.structs.replace(wanted, sub_string="n >", sub_version=11)
        await beat(client, "c1", bad)
        assert (await pull(client, "T", 0, sub_version=11, **by_session)).code == 28
        entry = broker.parts.tables.filters.find("g", "T")
        assert entry is not None
        assert isinstance(entry.matcher, SqlMatcher)

    play(tmp_path, scenario, enablePropertyFilter="true")


def test_sql_is_refused_while_it_is_off(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await send(client, "T", b"x")
        answer = await pull(client, "T", 0, subscription="a > 1", expression_type="SQL92")
        assert answer.code == ResponseCode.SYSTEM_ERROR

    play(tmp_path, scenario)


def test_a_held_sql_pull_is_woken_by_what_matches_only(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await send(client, "T", b"x", properties=KEY + "n\x010\x02")
        held = asyncio.ensure_future(
            pull(client, "T", 1, subscription="n > 1", expression_type="SQL92", suspend_ms=10_000)
        )
        await asyncio.sleep(1)
        for n in (0, 1):
            await send(client, "T", b"no", properties=f"{KEY}n\x01{n}\x02")
        await asyncio.sleep(1)
        assert not held.done()
        await send(client, "T", b"yes", properties=KEY + "n\x012\x02")
        answer = await held
        assert [bytes(r.body) for r in records(answer)] == [b"yes"]
        assert answer.fields["nextBeginOffset"] == "4"

    play(tmp_path, scenario, enablePropertyFilter="true")


def test_a_held_pull_that_expires_tells_how_far_nothing_matched(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await send(client, "T", b"x", tags="A")
        held = asyncio.ensure_future(pull(client, "T", 1, subscription="B", suspend_ms=2_000))
        await asyncio.sleep(0.5)
        await send(client, "T", b"x", tags="A")
        answer = await held
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert answer.fields["nextBeginOffset"] == "2"

    play(tmp_path, scenario)


def test_lite_pull_and_its_switch(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await send(client, "T", b"x")
        lite = {"code": RequestCode.LITE_PULL_MESSAGE, "sys_flag": 4 | 16}
        assert (await pull(client, "T", 0, **lite)).code == 0
        broker.parts.tables.live.apply({"litePullMessageEnable": "false"})
        assert (await pull(client, "T", 0, **lite)).code == ResponseCode.NO_PERMISSION
        assert (await pull(client, "T", 0)).code == 0

    play(tmp_path, scenario)


def test_short_polling(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await send(client, "T", b"x")
        began = now()
        await pull(client, "T", 1, suspend_ms=15_000)
        assert 0.3 <= now() - began <= 0.31

    play(tmp_path, scenario, longPollingEnable="false", shortPollingTimeMills="300")


def test_commits_ride_on_pulls_and_resets_outrank_them(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        for _ in range(3):
            await send(client, "T", b"x")
        await pull(client, "T", 2, sys_flag=4 | 1, commit_offset=2)
        offsets = broker.parts.tables.offsets
        assert offsets.find("g", "T", 0) == 2
        offsets.reset("g", "T", 0, offset=1)
        header = UpdateConsumerOffsetRequest(
            consumer_group="g", topic="T", queue_id=0, commit_offset=3
        )
        request = Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header)
        answer = await client.call(ADDRESS, request, timeout_s=3)
        assert (answer.code, offsets.find("g", "T", 0)) == (0, 1)
        moved = await pull(client, "T", 3)
        assert moved.code == ResponseCode.PULL_OFFSET_MOVED
        assert moved.fields["nextBeginOffset"] == "1"
        assert len(records(await pull(client, "T", 1))) == 2

    play(tmp_path, scenario)


def test_a_moved_offset_is_an_event(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await send(client, "T", b"x")
        for _ in range(2):
            answer = await pull(client, "T", 99)
            assert answer.code == ResponseCode.PULL_OFFSET_MOVED
        (event,) = await stored(client, "OFFSET_MOVED_EVENT")
        assert (event.tags, event.keys) == ("g", ["g"])
        assert b'"offsetNew":1,"offsetRequest":99' in event.body

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "Nope"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 99}, ResponseCode.INVALID_PARAMETER),
        ({"commit_offset": -1}, ResponseCode.INVALID_PARAMETER),
        ({}, ResponseCode.SUCCESS),
    ],
)
def test_commits_are_checked(tmp_path: Path, fields: dict[str, Any], code: ResponseCode) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await send(client, "T", b"x")
        values = {"consumer_group": "g", "topic": "T", "queue_id": 0, "commit_offset": 1, **fields}
        request = Command.request(
            RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequest(**values)
        )
        assert (await client.call(ADDRESS, request, timeout_s=3)).code == code

    play(tmp_path, scenario)


@pytest.mark.parametrize("set_zero", [None, True, False])
def test_where_a_new_group_begins(tmp_path: Path, set_zero: bool | None) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await send(client, "T", b"x")
        for queue_id in (0, 1):  # with a message, and empty
            header = QueryConsumerOffsetRequest(
                consumer_group="new", topic="T", queue_id=queue_id, set_zero_if_not_found=set_zero
            )
            request = Command.request(RequestCode.QUERY_CONSUMER_OFFSET, header)
            answer = await client.call(ADDRESS, request, timeout_s=3)
            if set_zero is False:
                assert answer.code == ResponseCode.QUERY_NOT_FOUND
            else:
                assert (answer.code, answer.fields["offset"]) == (0, "0")

    play(tmp_path, scenario)


def test_held_pulls_are_bounded(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await send(client, "T", b"x")
        held = [asyncio.ensure_future(pull(client, "T", 1, suspend_ms=5000)) for _ in range(10)]
        await asyncio.sleep(1)
        refused = await pull(client, "T", 1, suspend_ms=5000)
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert "at most 10" in (refused.remark or "")
        assert {(await one).code for one in held} == {19}

    play(tmp_path, scenario, pullThreadPoolQueueCapacity="10")


def test_an_unknown_code_is_answered(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        answer = await client.call(ADDRESS, Command(4711), timeout_s=3)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert answer.remark == " request type 4711 not supported"

    play(tmp_path, scenario)
