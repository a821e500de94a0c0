"""Our client with the real Java system: its brokers, and its clients beside ours.

Every scenario of the client runs against RocketMQ 4.9.7 and 5.2.0 with both kinds of header.
Then Java and Python share a group, check each other's transactions and answer each other's
requests, through a Java broker and through ours.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from contrailmq import Message, Producer, PullConsumer, ReceivedMessage
from contrailmq.client.allocate import Average
from contrailmq.errors import ClientError
from contrailmq.protocol.command import Serialization
from contrailmq.testing.cluster import ClusterThread
from testkit.client_scenarios import SCENARIOS, Place, Scenario, take, until

VERSIONS = ("4.9.7", "5.2.0")
CONF = {
    "enablePropertyFilter": "true",
    "transactionTimeOut": 2000,
    "transactionCheckInterval": 3000,
    "traceTopicEnable": "true",
}
NUMBERS = itertools.count(1)
pytestmark = pytest.mark.timeout(400)  # virtual machines start in it, on a machine that is busy


def wait_registered(name_servers: str) -> None:
    """A Java broker says that it has booted a little before its topics are known."""

    async def run() -> None:
        async with PullConsumer("Registered", name_servers=name_servers) as consumer:
            async with asyncio.timeout(90.0):
                while True:
                    try:
                        await consumer.queues("TBW102")
                        return
                    except ClientError:
                        await asyncio.sleep(0.1)

    asyncio.run(run())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("serialization", list(Serialization), ids=lambda kind: kind.name)
@pytest.mark.parametrize("version", VERSIONS)
def test_scenario_against_java(
    java_cluster: Callable[..., Any],
    version: str,
    serialization: Serialization,
    scenario: Scenario,
) -> None:
    cluster = java_cluster(version, **CONF)
    wait_registered(cluster.namesrv)
    asyncio.run(scenario(Place(cluster.namesrv, f"j{next(NUMBERS)}", serialization)))


@pytest.fixture(params=("ours", *VERSIONS))
def name_servers(request: pytest.FixtureRequest, java_cluster: Callable[..., Any]) -> Iterator[str]:
    """A cluster of each kind."""
    if request.param != "ours":
        namesrv = java_cluster(request.param, **CONF).namesrv
        wait_registered(namesrv)
        yield namesrv
        return
    ours = ClusterThread(
        properties={"transactionTimeOut": "1000", "transactionCheckInterval": "1000"}
    )
    yield ours.name_servers
    ours.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_java_and_python_share_a_group(
    name_servers: str, java_start: Callable[..., Any], version: str
) -> None:
    """The same queues are divided by the same rule; who has a queue gets its messages, once.

    What was consumed before Java joined may reach it again, if it asks for the group's offset
    sooner than we can commit.
    """
    place = Place(name_servers, f"share{next(NUMBERS)}")
    topic, group = place.topic("Mixed"), f"Mixed_{place.tag}"

    async def run() -> None:
        async with place.producer() as producer:
            queues = sorted(await producer.queues(topic))
            await producer.send(Message(topic, b"make the topic"))
            seen: list[bytes] = []

            async def handle(message: ReceivedMessage) -> None:
                seen.append(message.body)

            async with place.push("Mixed", "Mixed", handler=handle) as ours:
                await until(lambda: len(seen) == 1)
                java = java_start(
                    version, "consume", namesrv=name_servers, group=group, topic=topic,
                    timeoutMs=100000,
                )  # fmt: skip
                try:
                    ready = await asyncio.to_thread(java.expect, "ready")
                    ids = sorted([ready[0]["clientId"], ours.client_id])
                    share = Average().allocate(ours.client_id, queues, ids)
                    await until(lambda: ours.assignment == share)
                    mine, others = set(), set()
                    for index in range(40):
                        receipt = await producer.send(Message(topic, f"{index}".encode()))
                        (mine if receipt.queue in share else others).add(f"{index}".encode())
                    await until(lambda: mine <= set(seen))
                    await asyncio.to_thread(read_until, java, others)
                    had = [body for body in seen if body != b"make the topic"]
                finally:
                    rows = await asyncio.to_thread(java.stop)
                await until(lambda: ours.assignment == queues)
            theirs = [row["body"].encode() for row in rows if row["event"] == "message"]
            assert len(share) == len(queues) // 2
            assert sorted(had) == sorted(mine)
            assert sorted(body for body in theirs if body != b"make the topic") == sorted(others)

    asyncio.run(run())


def read_until(java: Any, wanted: set[bytes]) -> None:
    """Read what a Java consumer prints until it has had all of these bodies."""
    while not wanted <= {row["body"].encode() for row in java.of("message")}:
        java.expect("message", count=len(java.of("message")) + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_python_checks_what_java_began(
    name_servers: str, java_start: Callable[..., Any], version: str
) -> None:
    """A half message of a Java producer that is gone is checked by a Python one of its group."""
    place = Place(name_servers, f"tx{next(NUMBERS)}")
    topic, group = place.topic("TxJava"), f"TxJava_{place.tag}"
    asked: list[str] = []

    def check(message: ReceivedMessage) -> bool:
        asked.append(message.properties["driverIndex"])
        return message.properties["driverIndex"] == "0"

    async def run() -> None:
        java = java_start(
            version, "produce", namesrv=name_servers, group=group, topic=topic, mode="transaction",
            states=["UNKNOW", "UNKNOW"], messages=[{"body": "yes"}, {"body": "no"}],
        )  # fmt: skip
        await asyncio.to_thread(java.finish)
        async with Producer(group, name_servers=name_servers, check=check) as producer:
            await producer.send(Message(topic, b"plain"))  # the broker learns of the producer
            async with place.push("TxJava", "TxJava") as consumer:
                found = await take(consumer, 2)
                assert sorted(m.body for m in found) == [b"plain", b"yes"]
                await until(lambda: {"0", "1"} <= set(asked))

    asyncio.run(run())


@pytest.mark.parametrize("version", VERSIONS)
def test_java_checks_what_python_began(
    name_servers: str, java_start: Callable[..., Any], version: str
) -> None:
    """And the reverse."""
    place = Place(name_servers, f"tx{next(NUMBERS)}")
    topic, group = place.topic("TxPython"), f"TxPython_{place.tag}"

    async def run() -> None:
        async with Producer(group, name_servers=name_servers) as producer:
            half = Message(topic, b"open", properties={"driverIndex": "0"})
            async with producer.transaction(half) as transaction:
                transaction.unknown()
        java = java_start(
            version, "produce", namesrv=name_servers, group=group, topic=topic, mode="transaction",
            states=["COMMIT_MESSAGE"], checkStates=["COMMIT_MESSAGE"],
            messages=[{"body": "java"}], lingerMs=60000,
        )  # fmt: skip
        try:
            checked = await asyncio.to_thread(java.expect, "checked")
            assert checked[0]["msgId"]
            async with place.push("TxPython", "TxPython") as consumer:
                found = await take(consumer, 2)
            assert sorted(m.body for m in found) == [b"java", b"open"]
        finally:
            await asyncio.to_thread(java.stop)

    asyncio.run(run())


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_across_languages(
    name_servers: str, java_start: Callable[..., Any], version: str
) -> None:
    """Java answers Python, Python answers Java."""
    place = Place(name_servers, f"ask{next(NUMBERS)}")
    topic = place.topic("AskJava")

    async def python_asks() -> None:
        async with place.producer("Asker") as asker:
            await asker.send(Message(topic, b"make the topic"))
            java = java_start(
                version, "reply", namesrv=name_servers, group=f"Replier_{place.tag}", topic=topic
            )
            try:
                await asyncio.to_thread(java.expect, "ready")
                reply = await asker.request(Message(topic, b"question"), timeout_s=30.0)
                assert reply.body == b"re: question"
            finally:
                await asyncio.to_thread(java.stop)

    async def java_asks() -> None:
        other = place.topic("AskPython")
        async with place.producer("Answerer") as answerer:
            await answerer.send(Message(other, b"make the topic"))

            async def handle(message: ReceivedMessage) -> None:
                if message.body != b"make the topic":
                    await answerer.reply(message, b"python: " + message.body)

            async with place.push("Answerer", "AskPython", handler=handle):
                java = java_start(
                    version, "request", namesrv=name_servers, group=f"JavaAsker_{place.tag}",
                    topic=other, messages=[{"body": "hello"}], timeoutMs=20000,
                )  # fmt: skip
                rows = await asyncio.to_thread(java.finish)
                assert [row["body"] for row in rows if row["event"] == "answer"] == [
                    "python: hello"
                ]

    asyncio.run(python_asks())
    asyncio.run(java_asks())
