"""What is not served is refused, never stored as if it were an ordinary message."""

from __future__ import annotations

from pathlib import Path

from contrailmq.protocol.codes import ResponseCode
from testkit.broker_world import World, run, send


def test_what_says_that_it_is_a_whole_batch_is_refused(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.client() as client, world.broker(namesrvAddr=""):
            answer = await send(client, "T", b"x", properties="UNIQ_KEY\x01u\x02INNER_NUM\x012\x02")
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL
            assert "INNER_NUM" in (answer.remark or "")

    run(1, tmp_path, scenario)


def test_a_list_that_stops_the_original_is_refused(tmp_path: Path) -> None:
    """Light queues beside another name: the dispatch of 5.2.0 ends there for good."""

    async def scenario(world: World) -> None:
        lights = {"enableLmq": "true", "enableMultiDispatch": "true"}
        for conf in (lights, {}):
            async with world.client() as client, world.broker(namesrvAddr="", **conf):
                head = "UNIQ_KEY\x01u\x02INNER_MULTI_DISPATCH\x01"
                answer = await send(client, "T", b"x", properties=f"{head}plain,%LMQ%z\x02")
                assert answer.code == ResponseCode.MESSAGE_ILLEGAL
                assert "plain,%LMQ%z" in (answer.remark or "")
                assert (await send(client, "T", b"x", properties=f"{head}plain\x02")).code == 0

    run(1, tmp_path, scenario)


def test_numbers_in_light_queues_are_the_brokers_to_give(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        lights = {"enableLmq": "true", "enableMultiDispatch": "true"}
        async with world.client() as client, world.broker(namesrvAddr="", **lights) as broker:
            text = (
                "UNIQ_KEY\x01u\x02INNER_MULTI_QUEUE_OFFSET\x01,7\x02"
                "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02"
            )
            for _ in range(2):
                assert (await send(client, "T", b"x", properties=text)).code == 0
            for name in ("%LMQ%a", "%LMQ%b"):
                assert broker.parts.store.bounds(name, 0) == (0, 2)

    run(1, tmp_path, scenario)
