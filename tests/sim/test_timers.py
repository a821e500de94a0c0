"""Timer messages in virtual time: when they come, who takes them back, restarts, kills."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from contrailmq.broker.app import Broker
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.bodies.queues import TimerMetrics
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.send import RecallMessageRequest
from contrailmq.protocol.message import Record, decode_record
from contrailmq.protocol.recall import read_handle
from contrailmq.store.files import OsFiles
from contrailmq.store.layout import Layout
from contrailmq.store.timers.files import TimerFiles
from contrailmq.testing.files import SimFiles
from testkit.broker_world import ADDRESS, World, run, send, until_power_cut

TOPIC = "T"


def properties(key: str, **times: object) -> str:
    pairs = {"UNIQ_KEY": key, **times}
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())


async def timed(client: RemotingClient, key: str, **times: object) -> int:
    answer = await send(client, TOPIC, key.encode(), properties=properties(key, **times))
    return answer.code


def stored(broker: Broker, topic: str = TOPIC, queue_id: int = 0) -> list[Record]:
    store = broker.parts.store
    first, end = store.bounds(topic, queue_id)
    units = [store.unit(topic, queue_id, offset) for offset in range(first, end)]
    data = [store.record_at(unit[0], unit[1]) for unit in units if unit is not None]
    return [decode_record(record) for record in data if record is not None]


def bodies(broker: Broker) -> list[str]:
    return [bytes(record.body).decode() for record in stored(broker)]


Scenario = Callable[[World, Broker, RemotingClient], Awaitable[None]]


def play(directory: Path, scenario: Scenario, **conf: str) -> None:
    async def world(world: World) -> None:
        async with world.client() as client, world.broker(namesrvAddr="") as broker:
            await scenario(world, broker, client)

    run(1, directory, world, **conf)


def test_each_kind_of_time_is_kept_to_the_millisecond(tmp_path: Path) -> None:
    async def scenario(world: World, broker: Broker, client: RemotingClient) -> None:
        start = world.clock.now_ms()
        due = {"sec": start + 3000, "ms": start + 1234, "at": start + 2345, "edge": 0}
        due["edge"] = (start // 1000 + 4) * 1000  # a full second belongs to the slot before it
        assert await timed(client, "sec", TIMER_DELAY_SEC=3) == 0
        assert await timed(client, "ms", TIMER_DELAY_MS=1234) == 0
        assert await timed(client, "at", TIMER_DELIVER_MS=due["at"]) == 0
        assert await timed(client, "edge", TIMER_DELIVER_MS=due["edge"]) == 0
        assert await timed(client, "past", TIMER_DELIVER_MS=start - 1) == 0
        assert bodies(broker) == ["past"]
        await asyncio.sleep(6)
        assert bodies(broker) == ["past", "ms", "at", "sec", "edge"]
        for record in stored(broker)[1:]:
            late = record.store_ms - due[bytes(record.body).decode()]
            assert 0 <= late <= 60, record  # a delay counts from when the broker has it
            found = record.properties
            assert found["REAL_TOPIC"] == TOPIC
            assert found["REAL_QID"] == "0"
            assert int(found["TIMER_OUT_MS"]) % 1000 == 0
            assert int(found["TIMER_ENQUEUE_MS"]) % 1000 == 0
            assert int(found["TIMER_DEQUEUE_MS"]) == record.store_ms
        assert [record.topic for record in stored(broker, "rmq_sys_wheel_timer")] == [
            "rmq_sys_wheel_timer"
        ] * 4
        assert broker.parts.wheel.counts == {TOPIC: 0}

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("times", "code"),
    [
        ({"TIMER_DELAY_SEC": 259_201}, 13),
        ({"TIMER_DELAY_MS": "x"}, 13),
        ({"TIMER_DELAY_MS": "9" * 30}, 13),
        ({"TIMER_DELIVER_MS": 5, "TIMER_DEL_UNIQKEY": "x"}, 13),
        ({"TIMER_DELAY_SEC": 1, "TRAN_MSG": "true"}, 13),
        ({"TIMER_DELAY_SEC": "x", "DELAY": 1}, 0),
        ({"TIMER_DELAY_SEC": -5}, 0),
    ],
)
def test_what_cannot_wait_is_refused(tmp_path: Path, times: dict[str, object], code: int) -> None:
    async def scenario(world: World, broker: Broker, client: RemotingClient) -> None:
        assert await timed(client, "k", **times) == code
        assert not (tmp_path / "store" / "timerwheel").exists()

    play(tmp_path, scenario)


def test_timers_that_are_off_refuse(tmp_path: Path) -> None:
    async def scenario(world: World, broker: Broker, client: RemotingClient) -> None:
        answer = await send(client, TOPIC, b"x", properties=properties("k", TIMER_DELAY_SEC=1))
        assert answer.code == 1
        assert "timerWheelEnable" in (answer.remark or "")

    play(tmp_path, scenario, timerWheelEnable="false")


@pytest.mark.parametrize("form", ["{key}", "T+{key}"])
def test_a_cancel_in_the_same_slot_takes_a_message_back(tmp_path: Path, form: str) -> None:
    async def scenario(world: World, broker: Broker, client: RemotingClient) -> None:
        at = world.clock.now_ms() + 5000
        for key in ("stays", "goes", "other"):
            assert await timed(client, key, TIMER_DELIVER_MS=at) == 0
        cancel = {"TIMER_DEL_UNIQKEY": form.format(key="goes"), "TIMER_DELIVER_MS": at}
        assert await timed(client, "cancel", **cancel) == 0
        cancel = {"TIMER_DEL_UNIQKEY": form.format(key="other"), "TIMER_DELIVER_MS": at + 1000}
        assert await timed(client, "late", **cancel) == 0
        await asyncio.sleep(8)
        assert bodies(broker) == ["stays", "other"]

    play(tmp_path, scenario)


def test_a_long_wait_is_stored_again_on_the_way(tmp_path: Path) -> None:
    async def scenario(world: World, broker: Broker, client: RemotingClient) -> None:
        start = world.clock.now_ms()
        for seconds in (5, 12, 25, 60):
            assert await timed(client, str(seconds), TIMER_DELAY_SEC=seconds) == 0
        at = start + 40_000
        assert await timed(client, "gone", TIMER_DELIVER_MS=at) == 0
        cancel = {"TIMER_DEL_UNIQKEY": "gone", "TIMER_DELIVER_MS": at}
        assert await timed(client, "cancel", **cancel) == 0
        await asyncio.sleep(70)
        assert bodies(broker) == ["5", "12", "25", "60"]
        for record in stored(broker):
            wait = int(bytes(record.body)) * 1000
            assert 0 <= record.store_ms - start - wait <= 1000  # stored again: to the second
            assert ("TIMER_ROLL_TIMES" in record.properties) == (wait >= 10_000)
        assert broker.parts.wheel.counts == {TOPIC: 0}

    play(tmp_path, scenario, timerRollWindowSlot="10")


def test_a_stop_delivers_nothing_twice_and_loses_nothing(tmp_path: Path) -> None:
    """A stop within a slot ends the slot; what came due meanwhile comes at the start."""

    async def scenario(world: World) -> None:
        async with world.client() as client:
            async with world.broker(namesrvAddr="") as broker:
                start = world.clock.now_ms()
                for step in range(40):
                    at = start + 100 + 100 * step
                    assert await timed(client, str(step), TIMER_DELIVER_MS=at) == 0
                await asyncio.sleep(1.52)
                assert 0 < len(bodies(broker)) < 40
            await asyncio.sleep(1)
            async with world.broker(namesrvAddr="") as broker:
                await asyncio.sleep(5)
                assert Counter(bodies(broker)) == Counter(map(str, range(40)))

    run(1, tmp_path, scenario)


def test_a_broker_that_was_down_longer_than_the_wheel_delivers_what_came_due(
    tmp_path: Path,
) -> None:
    async def scenario(world: World) -> None:
        async with world.client() as client:
            async with world.broker(namesrvAddr="") as broker:
                for key in range(20):
                    assert await timed(client, str(key), TIMER_DELAY_SEC=100 + 10_000 * key) == 0
                await asyncio.sleep(2)
            world.clock.jump(40 * 86_400_000)
            async with world.broker(namesrvAddr="") as broker:
                assert await timed(client, "new", TIMER_DELAY_SEC=2) == 0
                await asyncio.sleep(5)
                assert bodies(broker)[:-1] == [str(key) for key in range(20)]
                assert bodies(broker)[-1] == "new"

    run(1, tmp_path, scenario)


def test_a_clock_that_is_set_back_makes_nobody_wait_or_come_twice(tmp_path: Path) -> None:
    async def scenario(world: World, broker: Broker, client: RemotingClient) -> None:
        assert await timed(client, "before", TIMER_DELAY_MS=1500) == 0
        await asyncio.sleep(3)
        assert await timed(client, "later", TIMER_DELAY_MS=5000) == 0
        world.clock.jump(-3_600_000)
        assert await timed(client, "after", TIMER_DELAY_MS=2500) == 0
        await asyncio.sleep(4)
        assert bodies(broker) == ["before", "after"]
        world.clock.jump(3_600_000)
        await asyncio.sleep(4)
        assert bodies(broker) == ["before", "after", "later"]

    play(tmp_path, scenario)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("is_power", [False, True])
def test_kills_and_power_cuts(tmp_path: Path, seed: int, is_power: bool) -> None:
    """After a kill every message comes once; after a power cut at least once."""
    files = SimFiles()
    conf = {"namesrvAddr": "", "flushDiskType": "SYNC_FLUSH"}

    async def scenario(world: World) -> None:
        sent: list[str] = []
        for life in range(4):
            cut = random.Random(world.rng.random()) if is_power else None
            async with until_power_cut(world, files, cut, **conf), world.client() as client:
                for number in range(30):
                    key = f"{life}.{number}"
                    wait = world.rng.choice((3, 700, 1500, 2500, 4000))
                    assert await timed(client, key, TIMER_DELAY_MS=wait) == 0
                    sent.append(key)
                await asyncio.sleep(world.rng.uniform(0.1, 3))
            if not is_power:
                files.kill()
        async with world.broker(files=files, **conf) as broker:
            await asyncio.sleep(8)
            found = Counter(bodies(broker))
        assert set(found) == set(sent)
        if not is_power:
            assert set(found.values()) == {1}, found

    run(seed, tmp_path, scenario)


def test_timers_go_on_when_their_files_are_missing(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.client() as client:
            async with world.broker(namesrvAddr=""):
                for key in range(20):
                    assert await timed(client, str(key), TIMER_DELAY_SEC=1 + key) == 0
                await asyncio.sleep(5.5)
            root = tmp_path / "store"
            (root / "timerwheel").unlink()
            async with world.broker(namesrvAddr="") as broker:
                await asyncio.sleep(3)
                assert len(bodies(broker)) < 12
            for path in (root / "timerlog").iterdir():
                path.unlink()
            (root / "timerwheel").unlink()
            async with world.broker(namesrvAddr="") as broker:
                await asyncio.sleep(20)
                assert bodies(broker) == [str(key) for key in range(20)]

    run(1, tmp_path, scenario)


def test_a_recall_takes_a_message_back_and_says_what_it_cannot(tmp_path: Path) -> None:
    async def scenario(world: World, broker: Broker, client: RemotingClient) -> None:
        async def recall(topic: str, handle: str) -> Command:
            header = RecallMessageRequest(producer_group="p", topic=topic, recall_handle=handle)
            request = Command.request(RequestCode.RECALL_MESSAGE, header)
            return await client.call(ADDRESS, request, timeout_s=3)

        sent = {}
        for key in ("stays", "goes"):
            text = properties(key, TIMER_DELAY_MS=4500)
            answer = await send(client, TOPIC, key.encode(), properties=text)
            sent[key] = answer.fields["recallHandle"]
        answer = await recall(TOPIC, sent["goes"])
        assert (answer.code, answer.fields["msgId"]) == (0, "goes")
        assert (await recall("other", sent["goes"])).code == 17
        handle = read_handle(sent["stays"])
        assert handle is not None
        for wrong in (
            "???",
            handle._replace(topic="else").encode(),
            handle._replace(broker_name="broker-z").encode(),
            handle._replace(due_ms=world.clock.now_ms()).encode(),
            handle._replace(due_ms=world.clock.now_ms() + 10**10).encode(),
        ):
            assert (await recall(TOPIC, wrong)).code == 604, wrong
        await asyncio.sleep(6)
        assert bodies(broker) == ["stays"]
        assert (await recall(TOPIC, sent["stays"])).code == 604
        plain = await send(client, TOPIC, b"x", properties=properties("plain"))
        assert "recallHandle" not in plain.fields

    play(tmp_path, scenario)


def test_a_replica_goes_on_where_its_primary_was(tmp_path: Path) -> None:
    """It has the log and the 56 bytes of code 60, and no wheel; what was delivered stays so."""

    async def scenario(world: World) -> None:
        async with world.client() as client:
            async with world.broker(namesrvAddr="") as broker:
                for key in range(12):
                    assert await timed(client, str(key), TIMER_DELAY_SEC=1 + key) == 0
                await asyncio.sleep(5.5)
                request = Command.request(RequestCode.GET_TIMER_CHECK_POINT)
                check = (await client.call(ADDRESS, request, timeout_s=3)).body
                settings = broker.parts.store.settings
            assert len(check) == 56
            TimerFiles(settings, Layout(settings), OsFiles()).adopt(bytes(check))
            async with world.broker(namesrvAddr="") as broker:
                await asyncio.sleep(10)
                found = Counter(bodies(broker))
        # The check is a second old: what came since then may come again.
        assert set(found) == set(map(str, range(12)))
        assert sum(found.values()) <= 14

    run(1, tmp_path, scenario)


def test_what_waits_is_shown(tmp_path: Path) -> None:
    async def scenario(world: World, broker: Broker, client: RemotingClient) -> None:
        for key in range(5):
            assert await timed(client, str(key), TIMER_DELAY_SEC=3 + key) == 0
        await asyncio.sleep(1)
        request = Command.request(RequestCode.GET_TIMER_METRICS)
        answer = await client.call(ADDRESS, request, timeout_s=3)
        assert TimerMetrics.decode(answer.body).timing_count[TOPIC].count == 5
        shown = broker.parts.runtime.table()
        assert (shown["timerCongestNum"], shown["timerOffsetBehind"]) == ("5", "0")
        await asyncio.sleep(9)
        answer = await client.call(ADDRESS, request, timeout_s=3)
        assert TimerMetrics.decode(answer.body).timing_count[TOPIC].count == 0
        assert broker.parts.runtime.table()["timerCongestNum"] == "0"

    play(tmp_path, scenario)
