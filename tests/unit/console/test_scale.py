"""Ten thousand topics and a thousand groups: listed within a second, by a real broker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from contrailmq.clock import SystemClock
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from contrailmq.protocol.bodies.topic import TopicConfig, TopicConfigWrapper
from testkit.console_kit import console_world

TOPICS, GROUPS, EACH = 10_000, 1_000, 10
LISTED_MS = 1000
SLACK = 4  # other tests run on the same cores


@pytest.mark.slow
def test_large_clusters_are_listed_within_a_second(tmp_path: Path) -> None:
    config = tmp_path / "store" / "config"
    config.mkdir(parents=True)
    names = [f"topic-{number:05d}" for number in range(TOPICS)]
    topics = {
        name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4) for name in names
    }
    groups = {f"group-{n:04d}": SubscriptionGroupConfig(group_name=f"group-{n:04d}")
              for n in range(GROUPS)}  # fmt: skip
    offsets = {
        f"{names[(number * EACH + each) % TOPICS]}@{group}": {"0": 0, "1": 0, "2": 0, "3": 0}
        for number, group in enumerate(groups)
        for each in range(EACH)
    }
    (config / "topics.json").write_bytes(TopicConfigWrapper(topic_config_table=topics).encode())
    (config / "subscriptionGroup.json").write_bytes(
        SubscriptionGroupWrapper(subscription_group_table=groups).encode()
    )
    (config / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))

    async def main() -> list[tuple[str, int]]:
        clock = SystemClock()
        took = []
        async with console_world(tmp_path) as world:
            for path in (
                "/api/topics?limit=100",
                "/api/topics?limit=100&offset=9000",
                "/api/topics?limit=100&filter=99",
                "/api/topics?limit=100&sort=-lag",
                "/api/groups?limit=100",
                "/api/groups?limit=100&sort=-lag",
                "/api/search?q=topic-01",
                "/api/overview",
            ):
                began = clock.monotonic_ms()
                seen = await world.visitor.json(path)
                took.append((path, clock.monotonic_ms() - began))
                if "topics" in path and "filter" not in path:
                    assert seen["total"] >= TOPICS if "total" in seen else True
        return took

    took = asyncio.run(main())
    print(took)
    slow = [(path, ms) for path, ms in took if ms > LISTED_MS * SLACK]
    assert not slow, took
