"""Hours of delays, retries and transactions in virtual time, with brokers that stop and crash."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from pathlib import Path

import pytest

from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.message import Record
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock
from testkit.broker_world import World, now, run, send, until_power_cut
from testkit.special_world import (
    COMMIT,
    LEVELS_S,
    ROLLBACK,
    delayed_send,
    everything,
    give_back,
    next_of,
    producers,
)


def arrivals(records: list[Record]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for record in records:
        found.setdefault(bytes(record.body), []).append(record.store_ms)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_delayed_messages_are_never_early_lost_or_doubled_by_a_clean_restart(
    seed: int, tmp_path: Path
) -> None:
    async def scenario(world: World) -> None:
        rng = random.Random(seed)
        sent: dict[bytes, tuple[int, int]] = {}
        async with world.client() as client:
            for round_number in range(4):
                async with world.broker(namesrvAddr=""):
                    for number in range(25):
                        level = rng.choice(sorted(LEVELS_S))
                        body = f"{round_number}/{number}".encode()
                        sent[body] = (SimClock().now_ms(), level)
                        await delayed_send(client, body, level)
                        await asyncio.sleep(rng.expovariate(1 / 20))
                await asyncio.sleep(rng.uniform(0, 300))
            async with world.broker(namesrvAddr="") as broker:
                up_ms = SimClock().now_ms()
                await asyncio.sleep(2 * 3600 + 10)
                found = arrivals(await everything(client, "T"))
                waiting = [broker.parts.delay.waiting(level) for level in LEVELS_S]
        assert sorted(found) == sorted(sent)
        assert all(cursor == end for cursor, end in waiting)
        for body, (sent_ms, level) in sent.items():
            (stored_ms,) = found[body]
            due_ms = sent_ms + 1000 * LEVELS_S[level]
            assert stored_ms >= due_ms, "early"
            if due_ms > up_ms:
                assert stored_ms - due_ms <= 50, f"{stored_ms - due_ms} ms late"

    run(seed, tmp_path, scenario, limit_s=100_000)


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_loses_no_delayed_message(seed: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        rng = random.Random(seed)
        files = SimFiles()
        conf = {"namesrvAddr": "", "storePathRootDir": "/s", "flushDiskType": "SYNC_FLUSH"}
        acknowledged: set[bytes] = set()
        early: list[str] = []
        for number in range(3):
            async with world.client() as client, until_power_cut(world, files, rng, **conf):
                for index in range(20):
                    body = f"{number}/{index}/{SimClock().now_ms()}".encode()
                    await delayed_send(client, body, rng.choice((1, 2, 3)))
                    acknowledged.add(body)
                    await asyncio.sleep(rng.uniform(0, 1))
            await asyncio.sleep(rng.uniform(0, 20))
        async with world.client() as client, world.broker(files=files, **conf):
            await asyncio.sleep(30)
            records = await everything(client, "T")
        for record in records:
            sent_ms = int(bytes(record.body).rpartition(b"/")[2])
            level = int(record.properties["DELAY"])
            if record.store_ms < sent_ms + 1000 * LEVELS_S[level]:
                early.append(record.body.decode())
        assert early == []
        # What was delivered after the cursor was last saved may come again; nothing is missing.
        assert {bytes(record.body) for record in records} == acknowledged

    run(seed, tmp_path, scenario, limit_s=100_000)


def test_idle_levels_cost_no_timer(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.client() as client, world.broker(namesrvAddr="") as broker:
            await asyncio.sleep(1)
            assert broker.parts.delay.timer_count == 0
            await delayed_send(client, b"x", 18)
            await asyncio.sleep(0.1)
            assert broker.parts.delay.timer_count == 1
            await asyncio.sleep(7200)
            assert broker.parts.delay.timer_count == 0
            assert len(await everything(client, "T")) == 1

    run(1, tmp_path, scenario, limit_s=20_000)


def test_a_message_given_back_comes_later_each_time_and_ends_as_a_dead_letter(
    tmp_path: Path,
) -> None:
    async def scenario(world: World) -> None:
        async with world.client() as client, world.broker(namesrvAddr=""):
            assert (await send(client, "T", b"poison", properties="K\x01v\x02")).code == 0
            (record,) = await everything(client, "T")
            original = record.offset_message_id
            times: list[float] = [now()]
            for attempt in range(3):
                await give_back(client, record, limit=3)
                record = await next_of(client, "%RETRY%g", attempt)
                times.append(now())
                assert record.reconsume_times == attempt + 1
                assert record.properties["RETRY_TOPIC"] == "T"
                assert record.properties["ORIGIN_MESSAGE_ID"] == original
            await give_back(client, record, limit=3)
            (dead,) = await everything(client, "%DLQ%g")
        waits = [after - before for before, after in itertools.pairwise(times)]
        assert [round(wait) for wait in waits] == [10, 30, 60]
        assert (bytes(dead.body), dead.properties["K"]) == (b"poison", "v")
        assert dead.properties["ORIGIN_MESSAGE_ID"] == original
        assert dead.reconsume_times == 4

    run(1, tmp_path, scenario)


@pytest.mark.parametrize("seed", range(3))
def test_no_committed_transaction_is_lost_and_no_other_is_seen(seed: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        rng = random.Random(seed)
        committed: set[bytes] = set()
        async with producers(world) as producer:
            for round_number in range(3):
                async with world.broker(namesrvAddr=""):
                    await producer.beat()
                    for number in range(15):
                        body = f"{round_number}/{number}".encode()
                        fields = await producer.send_half(body)
                        verdict = rng.choice((COMMIT, ROLLBACK))
                        if rng.random() < 0.5:
                            assert (await producer.end(fields, verdict)).code == 0
                        producer.verdicts[body] = verdict
                        if verdict == COMMIT:
                            committed.add(body)
                        await asyncio.sleep(rng.uniform(0, 5))
                    await producer.beat()
            async with world.broker(namesrvAddr="") as broker:
                for _ in range(10):
                    await producer.beat()
                    await asyncio.sleep(30)
                found = Counter(bytes(r.body) for r in await everything(producer.client, "T"))
                cursor = broker.parts.tables.offsets.find(
                    "CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 0
                )
                end = broker.parts.store.bounds("RMQ_SYS_TRANS_HALF_TOPIC", 0)[1]
        assert set(found) == committed
        assert cursor == end, "something is still open"

    run(seed, tmp_path, scenario, limit_s=100_000)


def test_a_transaction_nobody_knows_about_is_given_up_after_the_limit(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with producers(world) as producer, world.broker(namesrvAddr=""):
            await producer.send_half(b"orphan")
            for _ in range(8):
                await producer.beat()
                await asyncio.sleep(30)
            assert producer.asked[b"orphan"] == 3
            assert await everything(producer.client, "T") == []
            (given_up,) = await everything(producer.client, "TRANS_CHECK_MAX_TIME_TOPIC")
            assert bytes(given_up.body) == b"orphan"

    run(1, tmp_path, scenario, transactionCheckMax="3")


def test_immunity_keeps_a_transaction_from_being_asked_about(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with producers(world) as producer, world.broker(namesrvAddr=""):
            await producer.beat()
            producer.verdicts[b"slow"] = COMMIT
            more = "CHECK_IMMUNITY_TIME_IN_SECONDS\x01100\x02"
            fields = await producer.send_half(b"slow", more=more)
            await asyncio.sleep(95)
            await producer.beat()
            assert producer.asked[b"slow"] == 0
            await asyncio.sleep(70)
            assert producer.asked[b"slow"] == 1
            (record,) = await everything(producer.client, "T")
            assert bytes(record.body) == b"slow"
            late = await producer.end(fields, COMMIT)
            assert late.code == ResponseCode.ILLEGAL_OPERATION

    run(1, tmp_path, scenario)


def test_ends_that_do_not_fit_are_refused_and_a_second_end_changes_nothing(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with producers(world) as producer, world.broker(namesrvAddr=""):
            await producer.beat()
            fields = await producer.send_half(b"one")
            wrong = {**fields, "queueOffset": str(int(fields["queueOffset"]) + 1)}
            assert (await producer.end(wrong, COMMIT)).code == ResponseCode.SYSTEM_ERROR
            nowhere = {**fields, "msgId": fields["msgId"][:16] + f"{10**9:016X}"}
            assert (await producer.end(nowhere, COMMIT)).code == ResponseCode.SYSTEM_ERROR
            assert await everything(producer.client, "T") == []
            assert (await producer.end(fields, COMMIT)).code == 0
            assert (await producer.end(fields, COMMIT)).code == 0
            assert (await producer.end(fields, ROLLBACK)).code == 0
            (record,) = await everything(producer.client, "T")
            assert record.sys_flag & 0xC == COMMIT
            assert record.prepared_transaction_offset == int(fields["msgId"][16:], 16)
            assert record.properties["REAL_TOPIC"] == "T"

    run(1, tmp_path, scenario)
