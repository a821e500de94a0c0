"""What is not served is refused, never stored as if it were an ordinary message."""

from __future__ import annotations

from pathlib import Path

from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.topic import CreateTopicRequest
from testkit.broker_world import ADDRESS, World, run, send


def test_what_says_that_it_is_a_whole_batch_is_refused(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.client() as client, world.broker(namesrvAddr=""):
            answer = await send(client, "T", b"x", properties="UNIQ_KEY\x01u\x02INNER_NUM\x012\x02")
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL
            assert "INNER_NUM" in (answer.remark or "")

    run(1, tmp_path, scenario)


def test_a_topic_of_batch_queues_gets_no_plain_one(tmp_path: Path) -> None:
    """A Java broker does not start on a store in which such a topic has a plain queue."""
    config = TopicConfig(
        topic_name="B",
        read_queue_nums=1,
        write_queue_nums=1,
        perm=6,
        attributes={"queue.type": "BatchCQ"},
    )

    async def scenario(world: World) -> None:
        async with world.client() as client, world.broker(namesrvAddr="") as broker:
            header = CreateTopicRequest(
                topic="B", read_queue_nums=1, write_queue_nums=1, perm=6,
                attributes="+queue.type=BatchCQ",
            )  # fmt: skip
            request = Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
            made = await client.call(ADDRESS, request, timeout_s=3)
            assert made.code == ResponseCode.SYSTEM_ERROR
            broker.parts.tables.topics.put(config)  # as a Java broker has left it
            for properties in ("UNIQ_KEY\x01u\x02", "UNIQ_KEY\x01u\x02"):
                answer = await send(client, "B", b"x", properties=properties)
                assert answer.code == ResponseCode.SYSTEM_ERROR
                assert "BatchCQ" in (answer.remark or "")
            assert broker.parts.store.queues.find("B", 0) is None

    run(1, tmp_path, scenario)
