"""POP in virtual time: taking, settling, hiding longer, coming back, waiting, order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from contrailmq.broker.app import Broker
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.testing.sim import SimClock
from testkit.broker_world import ADDRESS, World, now, run, send
from testkit.pop_world import Given, ack, ack_all, change, given, pop, take

Scenario = Callable[[Broker, RemotingClient], Awaitable[None]]


def play(directory: Path, scenario: Scenario, **conf: str) -> None:
    async def world(world: World) -> None:
        async with world.broker(namesrvAddr="") as broker, world.client() as client:
            await scenario(broker, client)

    run(1, directory, world, **conf)


async def fill(client: RemotingClient, count: int, *, queues: int = 1, tags: str = "") -> None:
    for number in range(count):
        answer = await send(client, "T", b"m%d" % number, queue_id=number % queues, tags=tags)
        assert answer.code == 0, answer


def bodies(messages: list[Given]) -> list[bytes]:
    return sorted(message.body for message in messages)


async def gather_for(client: RemotingClient, seconds: float, **more: object) -> list[Given]:
    """Everything pops get within a while, polling as a client does."""
    found: list[Given] = []
    end = now() + seconds
    while now() < end:
        wait_ms = int(min(end - now(), 5) * 1000) + 60
        found += await take(client, pollTime=wait_ms, bornTime=SimClock().now_ms(), **more)
    return found


def test_what_is_popped_is_hidden_and_what_is_settled_never_comes_back(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await fill(client, 10, queues=4)
        first = await take(client, maxMsgNums=6)
        second = await take(client)
        assert bodies(first + second) == sorted(b"m%d" % n for n in range(10))
        assert await take(client) == []
        assert all([(await ack(client, m)).code == 0 for m in first])
        assert (await ack_all(client, second)).code == 0
        assert await gather_for(client, 30) == []

    play(tmp_path, scenario)


def test_what_is_not_settled_comes_back_after_its_time_one_attempt_older(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await fill(client, 3)
        began = now()
        messages = await take(client, invisibleTime=5000)
        await ack(client, messages[1])
        back: list[Given] = []
        while len(back) < 2:
            back += await take(client, pollTime=8000, invisibleTime=60_000)
        assert 5 <= now() - began < 7.5
        assert bodies(back) == [b"m0", b"m2"]
        for message in back:
            assert message.record.reconsume_times == 1
            assert message.record.topic == "T"
            assert message.handle.flag == "1"
            assert message.real_topic == "%RETRY%g_T"
            assert message.record.properties["1ST_POP_TIME"] == str(messages[0].handle.pop_ms)
        assert (await ack_all(client, back)).code == 0
        assert await gather_for(client, 70) == []

    play(tmp_path, scenario)


def test_a_retry_that_fails_comes_again_from_its_retry_topic(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await fill(client, 1)
        for times in range(4):
            (message,) = await take(client, invisibleTime=2000, pollTime=10_000)
            assert message.record.reconsume_times == times
        topics = [t for t in broker.parts.tables.topics.names() if t.startswith("%RETRY%")]
        assert topics == ["%RETRY%g_T"]

    play(tmp_path, scenario)


def test_the_second_naming_of_retry_topics(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await fill(client, 1)
        await take(client, invisibleTime=2000)
        (message,) = await take(client, invisibleTime=2000, pollTime=10_000)
        assert message.handle.flag == "2"
        assert message.real_topic == "%RETRY%g+T"
        assert (await ack(client, message)).code == 0
        assert await gather_for(client, 10) == []

    play(tmp_path, scenario, enableRetryTopicV2="true")


def test_a_waiting_pop_is_woken_by_a_send_and_by_its_own_retries(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await fill(client, 1)
        (first,) = await take(client, invisibleTime=3000)
        waiting = asyncio.ensure_future(take(client, pollTime=30_000))
        await asyncio.sleep(0.1)
        began = now()
        await fill(client, 1)
        assert bodies(await waiting) == [b"m0"]
        assert now() - began < 0.1
        began = now()
        (back,) = await take(client, pollTime=30_000)
        assert back.record.reconsume_times == 1
        assert now() - began < 5
        assert first.handle.pop_ms < back.handle.pop_ms

    play(tmp_path, scenario)


def test_changing_the_time_gives_a_new_handle_and_ends_the_old_one(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await fill(client, 2)
        one, two = await take(client, invisibleTime=3000)
        changed = await change(client, one, 20_000)
        later = await gather_for(client, 12)
        assert bodies(later) == [two.body]
        await ack(client, later[0])
        back = await gather_for(client, 15)
        assert bodies(back) == [one.body]
        assert (await ack(client, changed)).code == 0  # late: changes nothing
        again = await change(client, back[0], 5000)
        assert (await ack(client, again)).code == 0
        assert await gather_for(client, 30) == []

    play(tmp_path, scenario)


def test_filters_skip_without_giving_out(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        for number in range(6):
            await send(client, "T", b"m%d" % number, tags="a" if number % 2 else "b")
        answer = await pop(client, exp="a")
        assert answer.fields["startOffsetInfo"] == "0 0 0"
        assert answer.fields["msgOffsetInfo"] == "0 0 1,3,5"
        assert bodies(given(answer)) == [b"m1", b"m3", b"m5"]
        assert (await ack_all(client, given(answer)[:2])).code == 0
        assert bodies(await gather_for(client, 20, exp="a")) == [b"m5"]
        assert (await pop(client, exp="a >", expType="SQL92")).code == 23

    play(tmp_path, scenario)


def test_ordered_pops_block_their_queue(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await fill(client, 5)
        ask = {"order": "true", "maxMsgNums": 3, "invisibleTime": 2000, "queueId": 0}
        answer = await pop(client, attemptId="a1", **ask)
        first = given(answer)
        assert answer.fields["orderCountInfo"] == "0 0 0"
        assert answer.fields["reviveQid"] == "999"
        same = await pop(client, attemptId="a1", **ask)
        assert same.fields["msgOffsetInfo"] == "0 0 0,1,2"
        assert same.fields["orderCountInfo"] == "0 0 0"
        blocked = await pop(client, attemptId="a2", **ask)
        assert (blocked.code, blocked.fields["restNum"]) == (210, "5")
        assert blocked.fields["orderCountInfo"] == ""
        assert (await ack(client, first[2])).code == 0  # of an older pop time: ignored
        began = now()
        answer = await pop(client, attemptId="a3", pollTime=10_000, **ask)
        assert 1.8 < now() - began < 2.5  # woken when the block ended by time
        assert answer.fields["orderCountInfo"] == "0 qo0%0 1;0 qo0%1 1;0 qo0%2 1;0 0 1"
        waiting = asyncio.ensure_future(pop(client, attemptId="a4", pollTime=9000, **ask))
        await asyncio.sleep(0.1)
        messages = given(answer)
        for message in messages:
            assert (await ack(client, message)).code == 0
        assert (await waiting).fields["msgOffsetInfo"] == "0 0 3,4"
        assert (await ack(client, messages[0]._replace(record=messages[0].record))).code == 0

    play(tmp_path, scenario)


def test_an_ordered_change_moves_the_end_of_the_block(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await fill(client, 1)
        ask = {"order": "true", "invisibleTime": 60_000, "queueId": 0}
        (message,) = given(await pop(client, **ask))
        changed = await change(client, message, 1000)
        assert changed.handle.pop_ms == message.handle.pop_ms
        began = now()
        answer = await pop(client, pollTime=10_000, **ask)
        assert answer.code == 0
        assert 0.9 < now() - began < 1.5

    play(tmp_path, scenario)


async def call(client: RemotingClient, code: int, **fields: object) -> Command:
    request = Command(code, fields={name: str(value) for name, value in fields.items()})
    return await client.call(ADDRESS, request, timeout_s=60)


def test_notification_and_polling_info(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await fill(client, 1)
        await take(client, invisibleTime=60_000)
        place = {"consumerGroup": "g", "topic": "T", "queueId": -1}
        waits = {**place, "pollTime": 5000, "bornTime": SimClock().now_ms()}
        began = now()
        answer = await call(client, RequestCode.NOTIFICATION, **waits)
        assert (answer.code, answer.fields) == (0, {"hasMsg": "false"})
        assert 4.8 < now() - began < 5.05
        waits["bornTime"] = SimClock().now_ms()
        asked = asyncio.ensure_future(call(client, RequestCode.NOTIFICATION, **waits))
        popping = asyncio.ensure_future(take(client, pollTime=5000, queueId=0))
        await asyncio.sleep(0.2)
        info = await call(client, RequestCode.POLLING_INFO, **{**place, "queueId": 0})
        assert info.fields == {"pollingNum": "1"}
        info = await call(client, RequestCode.POLLING_INFO, **place)
        assert info.fields == {"pollingNum": "0"}
        await fill(client, 2)
        assert (await asked).fields == {"hasMsg": "true"}
        assert bodies(await popping)[0] == b"m0"
        assert (await call(client, RequestCode.PEEK_MESSAGE, maxMsgNums=4, **place)).code in (0, 19)

    play(tmp_path, scenario)


@pytest.mark.parametrize("mode", [0, 1])
def test_a_new_group_begins_at_the_start_of_a_young_topic(tmp_path: Path, mode: int) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        await fill(client, 3)
        assert len(await take(client, initMode=mode)) == 3

    play(tmp_path, scenario)


def test_more_members_than_queues_share_one_queue(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RemotingClient) -> None:
        waiting = [
            asyncio.ensure_future(take(client, pollTime=20_000, maxMsgNums=1)) for _ in range(5)
        ]
        await asyncio.sleep(0.1)
        await fill(client, 5)
        got = [message for each in await asyncio.gather(*waiting) for message in each]
        assert bodies(got) == [b"m%d" % n for n in range(5)]

    async def with_topic(broker: Broker, client: RemotingClient) -> None:
        await fill(client, 1)
        await take(client)
        await scenario(broker, client)

    play(tmp_path, with_topic)
