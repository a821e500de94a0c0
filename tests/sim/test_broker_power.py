"""Brokers that lose power in the middle of their work: what was acknowledged is still there."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import pytest

from contrailmq.errors import NetworkError
from contrailmq.protocol.message import decode_records
from contrailmq.testing.files import SimFiles
from testkit.broker_world import World, pull, run, send, until_power_cut

ROUNDS = 3
CONF = {"namesrvAddr": "", "storePathRootDir": "/store"}


@pytest.mark.parametrize("seed", range(12))
def test_acknowledged_messages_topics_and_groups_survive(seed: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        rng = random.Random(seed)
        files = SimFiles()
        acknowledged: dict[tuple[str, int, int], bytes] = {}
        for number in range(ROUNDS):
            async with world.client() as client:
                async with until_power_cut(world, files, rng, **CONF, flushDiskType="SYNC_FLUSH"):
                    for (topic, queue_id, offset), body in acknowledged.items():
                        answer = await pull(
                            client, topic, offset, queue_id=queue_id, consumer_group=f"g{number}"
                        )
                        assert answer.code == 0, (topic, queue_id, offset, answer)
                        assert bytes(decode_records(answer.body)[0].body) == body
                    producers = [
                        asyncio.ensure_future(
                            produce(client, acknowledged, rng, f"{number}-{index}")
                        )
                        for index in range(4)
                    ]
                    await asyncio.sleep(rng.uniform(0.005, 0.4))
                for producer in producers:
                    producer.cancel()
                await asyncio.wait(producers)
        assert len(acknowledged) > ROUNDS

    run(seed, tmp_path, scenario)


@pytest.mark.parametrize("seed", range(12))
def test_a_new_topic_is_safe_with_the_answer_to_its_first_message(
    seed: int, tmp_path: Path
) -> None:
    async def scenario(world: World) -> None:
        rng = random.Random(seed)
        files = SimFiles()
        async with world.client() as client, until_power_cut(world, files, rng, **CONF):
            assert (await send(client, "Fresh", b"x")).code == 0
        async with world.broker(files=files, **CONF) as broker:
            assert broker.parts.tables.topics.find("Fresh") is not None

    run(seed, tmp_path, scenario)


async def produce(
    client: Any, acknowledged: dict[tuple[str, int, int], bytes], rng: random.Random, name: str
) -> None:
    with contextlib.suppress(NetworkError):
        for number in range(1000):
            topic = f"T{rng.randrange(6)}"
            queue_id = rng.randrange(4)
            body = f"{name}/{number}".encode()
            answer = await send(client, topic, body, queue_id=queue_id)
            if answer.code == 0:
                offset = int(answer.fields["queueOffset"])
                acknowledged[topic, queue_id, offset] = body
