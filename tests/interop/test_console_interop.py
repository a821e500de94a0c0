"""The console over Java's clusters of both lines: lists, messages, a group, a reset, settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from contrailmq.admin.client import AdminClient
from contrailmq.client.message import Message
from contrailmq.client.producer.producer import Producer
from contrailmq.client.settings import ClientSettings
from contrailmq.console.app import READS, Console
from contrailmq.console.settings import ConsoleSettings
from contrailmq.protocol.queue import MessageQueue
from testkit.console_kit import Visitor
from testkit.peer import VERSIONS, JavaCluster

pytestmark = pytest.mark.timeout(180)
LEFT_OUT = ("/api/tail", "/api/message", "/api/raw", "/api/messages", "/api/doctor")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_console_of_a_java_cluster(
    version: str, java_cluster: Callable[..., JavaCluster], topic: str, group: str
) -> None:
    cluster = java_cluster(version)
    asyncio.run(_visit(cluster.namesrv, topic, group))


async def _visit(names: str, topic: str, group: str) -> None:
    async with AdminClient(names) as admin:
        await admin.topics.create(topic, queues=2)
        await admin.groups.create(group)
        async with Producer("console-tests", name_servers=names) as producer:
            for number in range(6):
                await producer.send(Message(topic, b"%d" % number, keys=f"k{number}", tags="t"))
        (broker,) = await admin.masters()
        for queue in range(2):
            await admin.offsets.commit(MessageQueue(topic, broker, queue), group, 0)
        settings = ConsoleSettings()
        async with Console(names, settings, client=ClientSettings()).open() as app:
            await _look(Visitor(app), topic, group, broker)


async def _look(visitor: Visitor, topic: str, group: str, broker: str) -> None:
    for path in READS:
        if path in LEFT_OUT or path.endswith("/members"):
            continue
        name = group if "groups" in path else topic
        query = f"?topic={topic}&to=first" if path.endswith("/reset") else "?id=x"
        await visitor.json(path.replace("{name:path}", name) + query)
    found = await visitor.json(f"/api/messages?topic={topic}&tag=t")
    assert sorted(row["line"] for row in found["rows"]) == ["0", "1", "2", "3", "4", "5"]
    row = found["rows"][0]
    place = f"topic={topic}&queue={broker}/{row['queue']}&offset={row['offset']}"
    assert (await visitor.json(f"/api/message?{place}"))["id"] == row["id"]
    order = {"group": group, "topic": topic, "to": "last", "confirm": group}
    done = await visitor.act("reset", order)
    assert done.status == 200 and sum(done.json["results"].values()) == 6, done.body
    seen = await visitor.json(f"/api/groups/{group}")
    assert (seen["lag"], seen["state"]) == (0, "even")
