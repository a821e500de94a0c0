"""Java's mqadmin and Java consumers on our broker: what the broker does to or asks of clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from contrailmq.admin.client import AdminClient
from contrailmq.testing.cluster import ClusterThread
from testkit.peer import VERSIONS, JavaCall, Row

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    started = ClusterThread()
    yield started
    started.close()


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def consumer(
    version: str,
    cluster: ClusterThread,
    topic: str,
    group: str,
    java_start: Callable[..., JavaCall],
    java_run: Callable[..., list[Row]],
) -> Iterator[JavaCall]:
    """A live consumer that has got four messages."""
    cluster.create_topic(topic, queues=2)
    where = {"namesrv": cluster.name_servers, "topic": topic}
    messages = [{"body": f"m{number}", "keys": f"k{number}"} for number in range(4)]
    java_run(version, "produce", messages=messages, **where)
    call = java_start(version, "consume", group=group, timeoutMs=110_000, persistMs=500, **where)
    call.expect("message", count=4)
    asyncio.run(_committed(cluster.name_servers, topic, group))
    yield call
    call.stop()


async def _committed(name_servers: str, topic: str, group: str) -> None:
    """Return when the group's offsets of both queues have reached the broker."""
    async with AdminClient(name_servers) as admin:
        (address,) = (await admin.masters()).values()
        for _ in range(200):
            if len((await admin.offsets.table(address)).get(f"{topic}@{group}", ())) == 2:
                return
            await asyncio.sleep(0.1)
    raise AssertionError("the consumer has not committed")


@pytest.mark.parametrize("tool", VERSIONS)
def test_a_reset_brings_the_messages_again(
    consumer: JavaCall, cluster: ClusterThread, topic: str, group: str, tool: str,
    mqadmin: Callable[..., str],
) -> None:  # fmt: skip
    """Also with a tool of the other line: 4.9 has the clients told, 5.x has the broker do it."""
    line = ["-n", cluster.name_servers, "-g", group, "-t", topic, "-s", "0"]
    told = mqadmin(tool, "resetOffsetByTime", *line)
    assert "broker-a" in told
    assert "Exception" not in told
    again = consumer.expect("message", count=8, timeout_s=60)
    assert sorted(row["body"] for row in again[4:]) == ["m0", "m1", "m2", "m3"]


def test_a_consumer_shows_its_inside_and_consumes_on_demand(
    version: str, consumer: JavaCall, cluster: ClusterThread, topic: str, group: str,
    mqadmin: Callable[..., str],
) -> None:  # fmt: skip
    ready = consumer.expect("ready")[0]["clientId"]
    where = ["-n", cluster.name_servers]
    info = mqadmin(version, "consumerStatus", *where, "-g", group, "-i", ready, "-s")
    assert "#Consumer Properties#" in info
    assert topic in info
    assert "java.lang.Thread" in info or "TID:" in info, "the stacks"
    first = consumer.of("message")[0]
    told = mqadmin(
        version, "queryMsgById", *where, "-i", first["offsetMsgId"], "-g", group, "-d", ready,
    )  # fmt: skip
    assert "CR_SUCCESS" in told
    again = consumer.expect("message", count=5)
    assert again[-1]["body"] == first["body"]
