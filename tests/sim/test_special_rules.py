"""Rules of special messages, one by one: cursors and the disk, retries, replies, SQL bit maps."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from contrailmq.broker.app import Broker
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.heartbeat import HeartbeatData, ProducerData, SubscriptionData
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.pull import PullMessageRequest
from contrailmq.protocol.headers.send import ConsumerSendMsgBackRequest, SendMessageRequestV2
from contrailmq.protocol.message import decode_records
from contrailmq.protocol.queue import MessageQueue
from contrailmq.testing.sim import SimClock
from testkit.broker_world import ADDRESS, World, beat, now, pull, run, send
from testkit.special_world import (
    COMMIT,
    Producers,
    delayed_send,
    everything,
    next_of,
    producers,
)

HALF, OP, GROUP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "CID_RMQ_SYS_TRANS"
LAZY_DISK = {"flushCommitLogThoroughInterval": "100000", "flushCommitLogLeastPages": "1000"}


def test_cursors_that_are_saved_wait_for_the_disk(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.broker(namesrvAddr="") as broker, producers(world) as producer:
            await producer.beat()
            await delayed_send(producer.client, b"x", 1)
            fields = await producer.send_half(b"half")
            await producer.end(fields, COMMIT)
            await asyncio.sleep(60)
            delay, offsets = broker.parts.delay, broker.parts.tables.offsets
            assert len(await everything(producer.client, "T")) == 2
            assert delay.offsets[1] == 1
            assert delay.saved().offset_table.get(1, 0) == 0, "ahead of the disk"
            assert not offsets.find(GROUP, HALF, 0), "ahead of the disk"
            await asyncio.sleep(100)
            assert delay.saved().offset_table == {1: 1}
            assert (offsets.find(GROUP, HALF, 0), offsets.find(GROUP, OP, 0)) == (1, 1)

    run(1, tmp_path, scenario, **LAZY_DISK)


def test_the_saved_file_has_a_data_version_that_grows(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        counters = []
        for _ in range(2):
            async with world.client() as client, world.broker(namesrvAddr="") as broker:
                await delayed_send(client, b"x", 1)
                await asyncio.sleep(30)
                request = Command.request(RequestCode.GET_ALL_DELAY_OFFSET)
                answer = await client.call(ADDRESS, request, timeout_s=3)
                saved = broker.parts.delay.saved()
            path = world.directory / "store" / "config" / "delayOffset.json"
            assert path.read_bytes() == saved.encode(pretty=True)
            assert answer.body == saved.encode()
            assert saved.data_version is not None
            counters.append(saved.data_version.counter)
        assert counters[0] < counters[1]
        assert path.with_name("delayOffset.json.bak").exists()

    run(1, tmp_path, scenario)


async def send_retry(client: RemotingClient, *, times: int, limit: int) -> Command:
    """What a consumer sends when it could not give a message back."""
    header = SendMessageRequestV2(
        producer_group="CLIENT_INNER_PRODUCER",
        topic="%RETRY%g",
        queue_id=0,
        reconsume_times=times,
        max_reconsume_times=limit,
        properties=f"RETRY_TOPIC\x01T\x02ORIGIN_MESSAGE_ID\x01ID\x02DELAY\x01{2 + times}\x02",
    )
    request = Command.request(RequestCode.SEND_MESSAGE_V2, header, body=b"again %d" % times)
    return await client.call(ADDRESS, request, timeout_s=5)


def test_retries_sent_by_clients_are_delayed_and_end_as_dead_letters(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.client() as client, world.broker(namesrvAddr="") as broker:
            await send(client, "T", b"first")
            began = now()
            assert (await send_retry(client, times=1, limit=1)).code == 0
            record = await next_of(client, "%RETRY%g", 0)
            assert round(now() - began) == 10
            assert (record.reconsume_times, record.properties["RETRY_TOPIC"]) == (1, "T")
            # One more than the limit, unlike code 36, and a dead letter is not delayed.
            assert (await send_retry(client, times=2, limit=1)).code == 0
            (dead,) = await everything(client, "%DLQ%g")
            assert (bytes(dead.body), dead.properties["DELAY"]) == (b"again 2", "-1")
            # A group that locks queues consumes in order: what it gives up is dead at once.
            broker.parts.tables.locks.lock("g", "c", [MessageQueue("T", "broker-a", 0)])
            assert (await send_retry(client, times=1, limit=9)).code == 0
            assert len(await everything(client, "%DLQ%g")) == 2
            dlq = broker.parts.tables.topics.find("%DLQ%g")
            assert dlq is not None
            assert (dlq.write_queue_nums, dlq.perm) == (1, 6)

    run(1, tmp_path, scenario)


def test_giving_back_follows_the_level_asked_for(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.client() as client, world.broker(namesrvAddr=""):
            await send(client, "T", b"one")
            (record,) = await everything(client, "T")

            async def back(level: int, **more: object) -> Command:
                header = ConsumerSendMsgBackRequest(
                    offset=record.commit_log_offset, group="g", delay_level=level, **more
                )  # type: ignore[arg-type]
                request = Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
                return await client.call(ADDRESS, request, timeout_s=5)

            began = now()
            assert (await back(2)).code == 0
            await next_of(client, "%RETRY%g", 0)
            assert round(now() - began) == 5
            assert (await back(99)).code == 0, "more than there are is the last level"
            assert (await back(-1)).code == 0, "never again"
            assert [bytes(r.body) for r in await everything(client, "%DLQ%g")] == [b"one"]
            assert (await back(0, max_reconsume_times=0)).code == 0
            assert len(await everything(client, "%DLQ%g")) == 2
            await asyncio.sleep(7200)
            assert len(await everything(client, "%RETRY%g")) == 2

    run(1, tmp_path, scenario, limit_s=10_000)


async def reply_to(client: RemotingClient, client_id: str) -> Command:
    header = SendMessageRequestV2(
        producer_group="replier",
        topic="DefaultCluster_REPLY_TOPIC",
        queue_id=0,
        properties=f"MSG_TYPE\x01reply\x02CORRELATION_ID\x01c-1\x02REPLY_TO_CLIENT\x01{client_id}\x02",
    )
    request = Command.request(RequestCode.SEND_REPLY_MESSAGE_V2, header, body=b"answer")
    return await client.call(ADDRESS, request, timeout_s=15)


def test_replies_reach_who_asked_and_say_when_they_cannot(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        pushed: list[Command] = []

        def take(request: Command, connection: Connection) -> Command:
            pushed.append(request)
            return request.reply()

        asker = RemotingClient(
            clock=SimClock(),
            network=world.network.host("10.0.5.1"),
            rng=random.Random(1),
            handlers={int(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT): take},
        )
        async with world.client() as client, world.broker(namesrvAddr=""):
            unknown = await reply_to(client, "asker")
            assert unknown.code == ResponseCode.SYSTEM_ERROR
            assert "channel of <asker> not found" in (unknown.remark or "")
            body = HeartbeatData(
                client_id="asker", producer_data_set=[ProducerData(group_name="askers")]
            )
            request = Command.request(RequestCode.HEART_BEAT, body=body.encode())
            await asker.call(ADDRESS, request, timeout_s=3)
            known = await reply_to(client, "asker")
            assert (known.code, known.fields["queueOffset"]) == (0, "1")
            assert known.fields["MSG_REGION"] == "DefaultRegion"
            (push,) = pushed
            assert bytes(push.body) == b"answer"
            assert "CORRELATION_ID\x01c-1" in push.fields["properties"]
            assert "PUSH_REPLY_TIME\x01" in push.fields["properties"]
            await asker.aclose()
            await asyncio.sleep(1)
            gone = await reply_to(client, "asker")
            assert gone.code == ResponseCode.SYSTEM_ERROR
            # All three are kept, for those who look later.
            assert len(await everything(client, "DefaultCluster_REPLY_TOPIC")) == 3

    run(1, tmp_path, scenario)


SQL = {"enablePropertyFilter": "true", "enableConsumeQueueExt": "true"}


def sql(expression: str, version: int) -> SubscriptionData:
    return SubscriptionData(
        topic="T", sub_string=expression, expression_type="SQL92", sub_version=version
    )


async def by_session(
    client: RemotingClient, offset: int, version: int, *, suspend_ms: int = 0
) -> list[bytes]:
    """Pull as a push consumer does, whose subscription the broker knows."""
    header = PullMessageRequest(
        consumer_group="g", topic="T", queue_id=0, queue_offset=offset, max_msg_nums=32,
        sys_flag=2 if suspend_ms else 0, commit_offset=0, suspend_timeout_millis=suspend_ms,
        sub_version=version, expression_type="SQL92",
    )  # fmt: skip
    answer = await client.call(
        ADDRESS, Command.request(RequestCode.PULL_MESSAGE, header), timeout_s=60
    )
    return [bytes(record.body) for record in decode_records(answer.body)] if not answer.code else []


async def numbered(client: RemotingClient, *numbers: int) -> None:
    for number in numbers:
        await send(client, "T", b"%d" % number, properties=f"n\x01{number}\x02")


def test_bit_maps_skip_only_what_is_younger_than_the_subscription(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.client() as client, world.broker(namesrvAddr="") as broker:
            await beat(client, "other", sql("n < 0", 1), group="others")
            await numbered(client, 1, 2, 3)  # these have bit maps in which g is not
            await asyncio.sleep(1)
            await beat(client, "c1", sql("n > 1", 10))
            await asyncio.sleep(1)
            await numbered(client, 0, 4)
            assert await by_session(client, 0, 10) == [b"2", b"3", b"4"]
            # A pull that brings its own expression is in no bit map.
            answer = await pull(client, "T", 0, subscription="n = 1", expression_type="SQL92")
            assert [bytes(r.body) for r in decode_records(answer.body)] == [b"1"]
            assert bits_of(broker) == [True, True, True, False, True]
            # Another expression: older bits belong to the old one.
            await beat(client, "c1", sql("n < 3", 11))
            assert await by_session(client, 0, 11) == [b"1", b"2", b"0"]

    run(1, tmp_path, scenario, enableCalcFilterBitMap="true", **SQL)


def bits_of(broker: Broker) -> list[bool]:
    """Whether the extension lets each message of T pass for group g."""
    entry = broker.parts.tables.filters.find("g", "T")
    queue = broker.parts.store.queues.find("T", 0)
    assert entry is not None
    assert queue is not None
    assert queue.ext is not None
    found = []
    for offset in range(broker.parts.store.bounds("T", 0)[1]):
        unit = broker.parts.store.unit("T", 0, offset)
        assert unit is not None
        ext = queue.ext.find(unit[2])
        assert ext is not None
        assert len(ext.bitmap) == 14
        found.append(entry.matcher.may_match(ext))
    return found


def test_a_held_pull_is_answered_by_a_matching_message_only(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.client() as client, world.broker(namesrvAddr=""):
            await beat(client, "c1", sql("n > 5", 10))
            await numbered(client, 1)
            async with asyncio.TaskGroup() as tasks:
                held = tasks.create_task(by_session(client, 1, 10, suspend_ms=20_000))
                for number in range(5):
                    await asyncio.sleep(2)
                    await numbered(client, number)
                    assert not held.done()
                await numbered(client, 7)
                await asyncio.sleep(0.1)
                assert held.done()
            assert held.result() == [b"7"]

    for directory, more in (("plain", {}), ("bits", {"enableCalcFilterBitMap": "true", **SQL})):
        run(1, tmp_path / directory, scenario, **{**SQL, **more})


def test_a_committed_message_with_a_delay_waits_for_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.broker(namesrvAddr=""), producers(world) as producer:
            assert isinstance(producer, Producers)
            await producer.beat()
            fields = await producer.send_half(b"later", more="DELAY\x013\x02")
            began = now()
            assert (await producer.end(fields, COMMIT)).code == 0
            assert await everything(producer.client, "T") == []
            record = await next_of(producer.client, "T", 0)
            assert round(now() - began) == 10
            assert record.sys_flag & 0xC == COMMIT

    run(1, tmp_path, scenario)
