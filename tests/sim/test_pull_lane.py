"""The pull lane says what the ordinary handler says: the same pulls with either kind of header.

The lane leaves binary headers to the handler, so each pull is played once by either.  The test
counts what the lane took: a lane that is off, or that takes too little, fails it.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from contrailmq.broker.app import Broker
from contrailmq.broker.handlers.pull import COMMIT_FLAG
from contrailmq.broker.lanes.pull import BrokerPullLane
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command, Serialization
from contrailmq.protocol.headers.pull import PullMessageRequest
from contrailmq.protocol.message import decode_records
from testkit.broker_world import ADDRESS, SUBSCRIPTION, World, run, send

FILTERS = (
    ("TAG", "*"),
    ("TAG", "A"),
    ("TAG", "A || C"),
    ("TAG", " || ".join(f"T{number}" for number in range(30)) + " || B"),
    ("TAG", "Nobody"),
    ("SQL92", "TAGS = 'A'"),
    ("SQL92", "TAGS IN ('A', 'C') AND number >= 5"),
    ("SQL92", "number > 1e1 OR (number) IS NULL"),
    ("SQL92", "TAGS = 'Nobody'"),
    ("SQL92", "is no expression ("),
)
# Messages were found, or none of those looked at matched; every other outcome is the handler's.
LANE_CODES = (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)


def pull_lane(broker: Broker) -> BrokerPullLane:
    """The pull lane of a broker's connections."""
    assert broker._lane is not None
    return broker._lane.pulls


def totals(broker: Broker) -> list[int]:
    """What has been counted of pulls."""
    counters = broker.parts.tables.counters
    return [counters.got_missed, counters.got_found, counters.got_total]


def notes(broker: Broker, group: str, queue_id: int) -> tuple[object, ...]:
    """What has been noted of a group: handed out, pulled up to, committed."""
    tables = broker.parts.tables
    return (
        tables.counters.got_by_queue().get(("T", group, queue_id)),
        tables.offsets.find_pulled(group, "T", queue_id),
        tables.offsets.find(group, "T", queue_id),
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_lane_and_the_handler_agree(seed: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        rng = random.Random(seed)
        async with world.broker(namesrvAddr="") as broker, world.client() as client:
            for number in range(300):
                tags, value = rng.choice("ABC"), rng.choice(["", f"number\x01{number % 20}\x02"])
                await send(
                    client,
                    "T",
                    b"%d" % number,
                    queue_id=number % 2,
                    properties=f"TAGS\x01{tags}\x02{value}",
                )
            lane = pull_lane(broker)
            seen = set()
            for _ in range(150):
                kind, expression = rng.choice(FILTERS)
                header = PullMessageRequest(
                    consumer_group="g",
                    topic="T",
                    queue_id=rng.randrange(2),
                    queue_offset=rng.randrange(160),
                    max_msg_nums=rng.choice([1, 5, 32, 100]),
                    sys_flag=SUBSCRIPTION | rng.choice([0, COMMIT_FLAG]),
                    commit_offset=rng.randrange(-1, 50),
                    suspend_timeout_millis=0,
                    subscription=expression,
                    sub_version=0,
                    expression_type=kind,
                )
                answers = []
                for serialization in Serialization:
                    group = f"g-{serialization}"
                    request = Command.request(RequestCode.PULL_MESSAGE, header)
                    request.fields["consumerGroup"] = group
                    request.serialization = serialization
                    before, taken = totals(broker), lane.answered
                    answer = await client.call(ADDRESS, request, timeout_s=10)
                    counted = [now - then for now, then in zip(totals(broker), before, strict=True)]
                    noted = (counted, *notes(broker, group, header.queue_id))
                    by_lane = serialization is Serialization.JSON and answer.code in LANE_CODES
                    assert lane.answered - taken == by_lane, (serialization, answer.code)
                    answers.append(
                        (answer.code, answer.remark, answer.fields, bytes(answer.body), noted)
                    )
                assert answers[0] == answers[1], (kind, expression, header)
                seen.add(answers[0][0])
            assert {0, 19, 20, 21} & seen >= {0, 20}

    run(seed, tmp_path, scenario, enablePropertyFilter="true")


def test_a_pull_that_waits_for_the_disk_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.broker(namesrvAddr="") as broker, world.client() as client:
            for number in range(5):
                await send(client, "T", b"%d" % number)
            loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            asked: list[int] = []

            def loading(topic: str, queue_id: int, offset: int, **more: Any) -> Any:
                asked.append(offset)
                return loaded if len(asked) == 1 else None

            broker.parts.store.loading = loading  # type: ignore[method-assign]
            waiting = asyncio.ensure_future(client.call(ADDRESS, _binary_pull(0), timeout_s=30))
            await asyncio.sleep(1)
            answer = await client.call(ADDRESS, _binary_pull(2), timeout_s=1)
            await send(client, "T", b"5")
            assert not waiting.done()
            loaded.set_result(None)
            found = decode_records((await waiting).body)
            assert [record.body for record in found] == [b"0", b"1", b"2", b"3", b"4", b"5"]
            assert len(decode_records(answer.body)) == 3
            assert asked == [0, 2, 0]  # units first, then messages: it looks again
            longest = int(broker.parts.runtime.table()["getMessageEntireTimeMax"])
            assert 1000 <= longest < 1100
            await asyncio.sleep(15)
            waits = broker.parts.stats.find("GROUP_GET_LATENCY", "0@T@g")
            assert waits is not None
            # Two pulls got messages, one of them waited: the average is that of both.
            assert (waits.minute.sum, waits.minute.average) == (longest, longest / 2)

    run(1, tmp_path, scenario)


def _binary_pull(offset: int) -> Command:
    header = PullMessageRequest(
        consumer_group="g",
        topic="T",
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    request = Command.request(RequestCode.PULL_MESSAGE, header)
    request.serialization = Serialization.ROCKETMQ
    return request
