"""The doctor finds groups that never committed an offset, and leaves those alone that just wait."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from contrailmq import Message, PushConsumer, ReceivedMessage
from contrailmq import main as command
from contrailmq.admin.client import AdminClient
from contrailmq.admin.commands import doctor
from contrailmq.admin.doctor.findings import Chart, Severity
from contrailmq.admin.doctor.uncommitted import Uncommitted, judge
from contrailmq.blocking import Producer
from contrailmq.clock import SystemClock
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.clients import ConsumerRunningInfo, ProcessQueueInfo
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.queue import MessageQueue
from contrailmq.testing.cluster import ClusterThread

Finding = dict[str, Any]


@pytest.fixture
def cluster() -> Iterator[ClusterThread]:
    running = ClusterThread()
    try:
        yield running
    finally:
        running.close()


def _found(cluster: ClusterThread, check: str) -> list[Finding]:
    out = io.StringIO()
    doctor.main(["-n", cluster.name_servers, "--json", "--watch", "0.3"], out=out)
    findings = [json.loads(line) for line in out.getvalue().splitlines()]
    return [one for one in findings if one["check"] == check and one["severity"] != "ok"]


def _send(cluster: ClusterThread, *, queue_id: int = 0, topic: str = "orders") -> None:
    with Producer("p", name_servers=cluster.name_servers) as producer:
        for number in range(8):
            producer.send(
                Message(topic, b"%d" % number), queue=MessageQueue(topic, "broker-a", queue_id)
            )


@asynccontextmanager
async def _silent(
    cluster: ClusterThread, held: ProcessQueueInfo, *, model: str = "CLUSTERING"
) -> AsyncIterator[None]:
    """A member of group g that holds this of the first queue and commits nothing.

    Java's consumers are so while their first handler runs; ours commit where they begin.
    """

    def running(request: Command, connection: Connection) -> Command:
        table = {MessageQueue("orders", "broker-a", 0): held}
        return request.reply(body=ConsumerRunningInfo(mq_table=table).encode())

    beat = HeartbeatData(
        client_id="10.0.0.1@1",
        consumer_data_set=[
            ConsumerData(
                group_name="g", consume_type="CONSUME_PASSIVELY", message_model=model,
                subscription_data_set=[SubscriptionData(topic="orders", sub_string="*")],
            )
        ],
    )  # fmt: skip
    [address] = cluster.addresses
    handlers = {int(RequestCode.GET_CONSUMER_RUNNING_INFO): running}
    client = RemotingClient(clock=SystemClock(), handlers=handlers)
    try:
        request = Command.request(RequestCode.HEART_BEAT, body=beat.encode())
        assert (await client.call(address, request, timeout_s=30)).code == 0
        yield
    finally:
        await client.aclose()


def _beside(cluster: ClusterThread, member: AbstractAsyncContextManager[None]) -> list[Finding]:
    """What the doctor says of queues while a member is there."""

    async def scenario() -> list[Finding]:
        async with member:
            return await asyncio.to_thread(_found, cluster, "queue")

    return asyncio.run(scenario())


HANGING = ProcessQueueInfo(cached_msg_count=8, cached_msg_min_offset=0, cached_msg_max_offset=7)


def test_a_group_that_hangs_at_its_first_message(cluster: ClusterThread) -> None:
    cluster.create_topic("orders", queues=1)
    _send(cluster)
    [found] = _beside(cluster, _silent(cluster, HANGING))
    assert found["severity"] == "warning"
    assert found["text"] == (
        "group g has never committed an offset in orders: broker-a/0; 8 messages wait"
    )
    assert "a handler hangs at the first message it got (offset 0 of broker-a/0)" in found["cause"]
    assert "contrail admin consumerStatus -g g -s" in found["fix"]
    [skip] = re.findall(r"or skip: contrail (group reset .*)$", found["fix"])
    assert command.main([*shlex.split(skip), "--yes", "-n", cluster.name_servers]) == 0
    assert _beside(cluster, _silent(cluster, HANGING)) == [], "the remedy is one"


def test_a_consumer_of_ours_that_hangs_at_its_first_message(cluster: ClusterThread) -> None:
    cluster.create_topic("orders", queues=1)
    _send(cluster)

    async def scenario() -> list[Finding]:
        is_over, has_begun = asyncio.Event(), asyncio.Event()

        async def hang(message: ReceivedMessage) -> None:
            has_begun.set()
            await is_over.wait()

        async with PushConsumer(
            "g", topics="orders", name_servers=cluster.name_servers, handler=hang,
            start_from="first",
        ):  # fmt: skip
            await asyncio.wait_for(has_begun.wait(), 60)
            try:
                return await asyncio.to_thread(_found, cluster, "queue")
            finally:
                is_over.set()

    [found] = asyncio.run(scenario())
    assert re.search(
        "group g (does not move|has never committed an offset) in orders", found["text"]
    )
    assert "contrail group reset g orders --to last" in found["fix"]


def test_a_group_that_waits_at_the_end_or_broadcasts_is_well(cluster: ClusterThread) -> None:
    cluster.create_topic("orders", queues=1)
    _send(cluster)
    assert _beside(cluster, _silent(cluster, ProcessQueueInfo())) == []
    assert _beside(cluster, _silent(cluster, HANGING, model="BROADCASTING")) == []


def test_what_moves_or_waits_is_well() -> None:
    """Held by a member: nothing (it waits at the end), or something else than a moment ago."""
    queue, chart = MessageQueue("orders", "broker-a", 0), Chart()

    def seen(held: dict[MessageQueue, int | None], count: int = 8) -> Uncommitted:
        return Uncommitted(waiting={queue: count}, held=held)

    judge(chart, "g", seen({queue: None}), seen({queue: None}))
    judge(chart, "g", seen({queue: 0}), seen({queue: 3}))
    judge(chart, "g", seen({}), seen({queue: None}))
    judge(chart, "g", seen({}), Uncommitted())
    judge(chart, "g", Uncommitted(), seen({queue: 0}))
    assert chart.findings == []
    judge(chart, "g", seen({queue: 0}), seen({queue: 0}))
    judge(chart, "g", seen({}), seen({}))
    unsure = Uncommitted(waiting={queue: 8}, are_told=False)
    judge(chart, "g", unsure, unsure)
    found = [one.severity for one in chart.findings]
    assert found == [Severity.WARNING, Severity.WARNING, Severity.NOTE]


def test_a_queue_that_nobody_reads(cluster: ClusterThread) -> None:
    """There are two queues to write and one to read."""
    [address] = cluster.addresses

    async def narrow() -> None:
        async with AdminClient(cluster.name_servers) as admin:
            config = TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=2)
            await admin.topics.create_at(address, config)

    asyncio.run(narrow())
    _send(cluster, queue_id=1)
    [found] = _beside(cluster, _silent(cluster, ProcessQueueInfo()))
    assert found["severity"] == "warning"
    assert "never committed an offset in orders: broker-a/1; 8 messages wait" in found["text"]
    assert "fewer queues to read than to write" in found["cause"]
    assert found["fix"].startswith("contrail topic show orders")


def test_a_group_of_which_only_the_name_is_known(cluster: ClusterThread) -> None:
    [address] = cluster.addresses

    async def create() -> None:
        async with AdminClient(cluster.name_servers) as admin:
            await admin.groups.create_at(address, SubscriptionGroupConfig(group_name="early"))

    asyncio.run(create())
    [found] = _found(cluster, "group")
    assert found["severity"] == "note"
    assert found["text"] == "group early has never committed an offset, and no member"
    assert "contrail admin deleteSubGroup -c CLUSTER -g early" in found["fix"]
    cluster.create_topic("%RETRY%early", queues=1)
    _send(cluster, topic="%RETRY%early")
    [found] = _found(cluster, "group")
    assert found["severity"] == "warning"
    assert "8 retries wait" in found["text"]
    assert "contrail tail %RETRY%early" in found["fix"]
