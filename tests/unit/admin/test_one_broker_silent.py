"""A broker that does not answer is named, and what the others say is shown."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable

import pytest

from contrailmq import PushConsumer
from contrailmq.admin.commands import group, topic
from contrailmq.testing.cluster import ClusterThread

Command = Callable[[list[str], io.StringIO], int]


@pytest.mark.parametrize("name", ["topic", "group"])
def test_a_list_shows_what_answered(name: str, caplog: pytest.LogCaptureFixture) -> None:
    cluster = ClusterThread(brokers=2)
    try:
        cluster.create_topic("T")

        async def join() -> None:
            async with PushConsumer(
                "g", topics="T", name_servers=cluster.name_servers, handler=lambda message: None
            ) as consumer:
                await consumer.wait_assigned()

        asyncio.run(join())
        cluster.refuse_one(1)
        out = io.StringIO()
        run = topic.main if name == "topic" else group.main
        assert run(["list", "-n", cluster.name_servers, "--json"], out) == 0
        rows = [json.loads(line) for line in out.getvalue().splitlines()]
        assert [row[name] for row in rows] == ["T" if name == "topic" else "g"]
        assert "broker-b does not answer" in caplog.text
    finally:
        cluster.close()
