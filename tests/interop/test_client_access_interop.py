"""Our client's ways into a Java cluster: accounts, the second port, names, namespaces.

The brokers of the first half check accounts (``plain_acl.yml``, the same file for 4.9.7 and 5.2.0);
those of the second let everybody in.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.interop.test_client_interop import CONF, VERSIONS, wait_registered

from contrailmq import (
    ClientSettings,
    ConsumerSettings,
    Credentials,
    LitePullConsumer,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)
from contrailmq.clock import SystemClock
from contrailmq.errors import BrokerError
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.bodies.clients import ConsumerConnection
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command, Serialization
from contrailmq.protocol.headers.admin import GetConsumerConnectionListRequest
from testkit.client_scenarios import take, until
from testkit.peer import JavaCluster

pytestmark = pytest.mark.timeout(400)
NUMBERS = itertools.count(1)
ACCOUNTS = """\
accounts:
- accessKey: ContrailApp
  secretKey: a-secret-of-ours
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - Orders=PUB|SUB
  - Traces=PUB|SUB
  - ReadOnly=SUB
  groupPerms:
  - billing=PUB|SUB
  - reports=PUB|SUB
  - java=PUB|SUB
"""
ACCOUNT = Credentials(access_key="ContrailApp", secret_key="a-secret-of-ours")


@pytest.fixture(scope="module", params=VERSIONS)
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaCluster]:
    """A cluster that asks for accounts."""
    home = tmp_path_factory.mktemp(f"acl-{request.param}")
    conf = home / "broker" / "conf"
    conf.mkdir(parents=True)
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    cluster = JavaCluster(
        request.param, home, serialization="JSON", conf={**map_text(CONF), "aclEnable": "true"}
    )
    wait_registered(cluster.namesrv)
    yield cluster
    cluster.kill()


@pytest.mark.parametrize("serialization", list(Serialization), ids=lambda kind: kind.name)
def test_an_account_sends_and_consumes(
    guarded: JavaCluster, java_start: Callable[..., Any], serialization: Serialization
) -> None:
    """Every request is signed: sends, batches, pulls, offsets, send-backs, traces."""
    client = ClientSettings(credentials=ACCOUNT, serialization=serialization)
    common: dict[str, Any] = {"name_servers": guarded.namesrv, "client": client}
    mark = f"{serialization.name} grün".encode()

    async def run() -> None:
        settings = ProducerSettings(trace_topic="Traces")
        async with Producer("shop", settings=settings, **common) as producer:
            await producer.send(Message("Orders", mark, tags="paid", properties={"colour": "grün"}))
            await producer.send_batch([Message("Orders", mark + b" batch") for _ in range(2)])
        failed: list[int] = []

        async def handle(message: ReceivedMessage) -> None:
            if message.body == mark and message.attempt == 1:
                failed.append(message.attempt)
                message.retry(after=1)
            elif message.body.startswith(mark):
                seen.append(message.body)

        seen: list[bytes] = []
        async with PushConsumer(
            "billing", topics="Orders", start_from="first", handler=handle, **common
        ):
            await until(lambda: len(seen) == 3)
        assert sorted(seen) == [mark, mark + b" batch", mark + b" batch"]
        assert failed == [1]
        async with LitePullConsumer(
            "reports", topics="Orders", start_from="first", **common
        ) as lite:
            assert await lite.poll(30.0)

    asyncio.run(run())
    java = java_start(
        guarded.version, "consume", namesrv=guarded.namesrv, group="java", topic="Orders",
        accessKey=ACCOUNT.access_key, secretKey=ACCOUNT.secret_key, count=3, timeoutMs=60000,
    )  # fmt: skip
    bodies = [
        row["body"].encode() for row in java.finish(timeout_s=90) if row["event"] == "message"
    ]
    assert len(bodies) >= 3


def test_others_are_kept_out_and_told_why(guarded: JavaCluster) -> None:
    async def send(topic: str, credentials: Credentials | None) -> None:
        settings = ProducerSettings(retries=0, send_timeout_s=30.0)
        async with Producer(
            "shop",
            name_servers=guarded.namesrv,
            settings=settings,
            client=ClientSettings(credentials=credentials),
        ) as producer:
            await producer.send(Message(topic, b"x"))

    wrong = Credentials(access_key="ContrailApp", secret_key="another-secret")
    unknown = Credentials(access_key="SomebodyElse", secret_key="a-secret-of-ours")
    for topic, credentials, text in (
        ("Orders", wrong, "(?i)signature"),
        ("Orders", unknown, "SomebodyElse"),
        ("Orders", None, "(?i)accessKey"),
        ("ReadOnly", ACCOUNT, "ReadOnly"),
        ("Secret", ACCOUNT, "Secret"),
    ):
        with pytest.raises(BrokerError, match=text):
            asyncio.run(send(topic, credentials))


@pytest.fixture(params=VERSIONS)
def cluster(request: pytest.FixtureRequest, java_cluster: Callable[..., Any]) -> JavaCluster:
    """A cluster for everybody, shared with the scenarios."""
    found: JavaCluster = java_cluster(request.param, **CONF)
    wait_registered(found.namesrv)
    return found


def test_the_vip_channel(cluster: JavaCluster) -> None:
    """What a client asks of a broker goes to the second port; pulls stay on the first."""
    topic = f"Vip{next(NUMBERS)}"
    host, _, port = cluster.broker_address.rpartition(":")
    vip = f"{host}:{int(port) - 2}"
    common: dict[str, Any] = {
        "name_servers": cluster.namesrv,
        "client": ClientSettings(vip_channel=True),
    }

    async def run() -> None:
        async with Producer("vip", **common) as producer:
            for index in range(8):
                await producer.send(Message(topic, b"%d" % index, properties={"n": "1"}))
            assert producer._session.find_connection(vip) is not None
            async with PushConsumer(
                f"G{topic}", topics=topic, start_from="first", **common
            ) as consumer:
                found = await take(consumer, 8)
                assert consumer._engine._session.find_connection(vip) is not None
                assert consumer._engine._session.find_connection(cluster.broker_address) is not None
        assert sorted(m.body for m in found) == [b"%d" % index for index in range(8)]
        async with PullConsumer(f"G{topic}", **common) as reader:
            queues = await reader.queues(topic)
            assert sum([await reader.committed(queue) for queue in queues]) == 8

    asyncio.run(run())


def test_instance_and_unit_names_are_the_clients_id(cluster: JavaCluster) -> None:
    group = topic = f"Named{next(NUMBERS)}"
    client = ClientSettings(instance_name="worker-1", unit_name="eu", client_ip="10.1.2.3")

    async def run() -> None:
        common: dict[str, Any] = {"name_servers": cluster.namesrv, "client": client}
        remoting = RemotingClient(clock=SystemClock())
        try:
            async with Producer("named", **common) as producer:
                receipt = await producer.send(Message(topic, b"x"))
                assert producer.client_id == "10.1.2.3@worker-1@eu"
            assert receipt.message_id.startswith("0A010203")  # the address is in the ids too
            async with PushConsumer(group, topics=topic, start_from="first", **common) as consumer:
                await take(consumer, 1)
                answer = await remoting.call(
                    cluster.broker_address,
                    Command.request(
                        RequestCode.GET_CONSUMER_CONNECTION_LIST,
                        GetConsumerConnectionListRequest(consumer_group=group),
                    ),
                    timeout_s=10.0,
                )
                found = ConsumerConnection.decode(answer.body)
                assert [c.client_id for c in found.connection_set] == ["10.1.2.3@worker-1@eu"]
        finally:
            await remoting.aclose()

    asyncio.run(run())


def test_a_namespace_is_in_every_name(cluster: JavaCluster, java_start: Callable[..., Any]) -> None:
    """Java sees the whole names; our user sees his own, in retries and dead letters too."""
    topic, group = f"Spaced{next(NUMBERS)}", f"SpacedGroup{next(NUMBERS)}"
    common: dict[str, Any] = {
        "name_servers": cluster.namesrv,
        "client": ClientSettings(namespace="shop"),
    }
    attempts: list[ReceivedMessage] = []

    async def handle(message: ReceivedMessage) -> None:
        attempts.append(message)
        message.retry(after=1)

    async def run() -> None:
        async with Producer("spaced", **common) as producer:
            receipt = await producer.send(Message(topic, b"x"))
            assert receipt.queue.topic == f"shop%{topic}"
        settings = ConsumerSettings(retries_max=1)
        async with PushConsumer(
            group, topics=topic, start_from="first", handler=handle, settings=settings, **common
        ):
            await until(lambda: len(attempts) == 2)
        assert [(m.topic, m.attempt) for m in attempts] == [(topic, 1), (topic, 2)]
        assert attempts[1].queue.topic == f"%RETRY%shop%{group}"
        async with PushConsumer(
            "dead", topics=f"%DLQ%{group}", start_from="first", **common
        ) as consumer:
            (dead,) = await take(consumer, 1)
            assert dead.queue.topic == f"%DLQ%shop%{group}"
            assert dead.message_id == receipt.message_id

    asyncio.run(run())
    java = java_start(
        cluster.version, "consume", namesrv=cluster.namesrv, group=f"J{group}",
        topic=f"shop%{topic}", count=1, timeoutMs=60000,
    )  # fmt: skip
    (row,) = [row for row in java.finish(timeout_s=90) if row["event"] == "message"]
    assert row["topic"] == f"shop%{topic}"
    assert row["properties"]["INSTANCE_ID"] == "shop"


def map_text(conf: dict[str, Any]) -> dict[str, str]:
    """Settings as the lines of a file have them."""
    return {name: str(value) for name, value in conf.items()}
