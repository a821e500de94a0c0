"""Delays, transactions and order while brokers lose their power at random moments."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from pathlib import Path

import pytest

from contrailmq import ClientSettings, Message, Producer, PushConsumer, ReceivedMessage
from contrailmq.client.settings import World as ClientWorld
from contrailmq.errors import ContrailError
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock
from testkit.broker_world import BROKER_IP, NAMESRV_IPS, Mortal, World, live, run, until_power_cut
from testkit.special_world import (
    COMMIT,
    LEVELS_S,
    ROLLBACK,
    Producers,
    delayed_send,
    everything,
    producers,
)

HALF, GROUP = "RMQ_SYS_TRANS_HALF_TOPIC", "CID_RMQ_SYS_TRANS"
CONF = {"namesrvAddr": "", "storePathRootDir": "/s", "transactionCheckInterval": "3000"}
SYNC = {**CONF, "flushDiskType": "SYNC_FLUSH"}


@pytest.mark.parametrize("seed", range(20))
def test_a_broker_told_to_stop_ends_whatever_its_disk_says(seed: int, tmp_path: Path) -> None:
    """An error of the disk that comes with the cancellation must not hide it."""

    async def scenario(world: World) -> None:
        rng, files = random.Random(seed), SimFiles()
        for _ in range(3):
            mortal, started = Mortal(files), asyncio.Event()
            task = asyncio.ensure_future(live(world.broker(files=mortal, **SYNC), started))
            await started.wait()
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            mortal.is_dead = rng.random() < 0.7
            world.network.crash(BROKER_IP)
            if mortal.is_dead:
                files.cut_power(rng)
            task.cancel()
            await asyncio.wait([task], timeout=60)
            assert task.done()
            assert task.cancelled() or task.exception() is not None
            world.network.restart(BROKER_IP)

    run(seed, tmp_path, scenario)


@pytest.mark.parametrize("seed", range(6))
def test_power_cuts_at_random_moments_lose_no_delayed_message(seed: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        rng, files = random.Random(seed), SimFiles()
        acknowledged: set[bytes] = set()

        async def produce(name: int) -> None:
            async with world.client() as client:
                for number in range(10_000):
                    body = f"{name}/{number}/{SimClock().now_ms()}".encode()
                    await delayed_send(client, body, rng.choice((1, 2, 3)))
                    acknowledged.add(body)
                    await asyncio.sleep(rng.expovariate(10))

        for life in range(4):
            async with until_power_cut(world, files, rng, **SYNC):
                with contextlib.suppress(TimeoutError):
                    # The cursors are saved every ten seconds: some cuts come right after.
                    async with asyncio.timeout(rng.choice((10.0, 20.0)) + rng.uniform(-0.1, 0.6)):
                        await produce(life)
        async with world.client() as client, world.broker(files=files, **SYNC):
            await asyncio.sleep(12)
            records = await everything(client, "T")
        assert acknowledged - {bytes(record.body) for record in records} == set()
        for record in records:
            sent_ms = int(bytes(record.body).rpartition(b"/")[2])
            level = int(record.properties["DELAY"])
            assert record.store_ms >= sent_ms + 1000 * LEVELS_S[level], "early"

    run(seed, tmp_path, scenario, limit_s=100_000)


@pytest.mark.parametrize("seed", range(6))
def test_power_cuts_at_random_moments_lose_no_transaction(seed: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        rng, files = random.Random(seed), SimFiles()
        prepared: set[bytes] = set()
        verdicts: dict[bytes, int] = {}

        async def produce(producer: Producers, name: int) -> None:
            await producer.beat()
            for number in range(10_000):
                body = f"{name}/{number}".encode()
                producer.verdicts[body] = rng.choice((COMMIT, ROLLBACK))
                fields = await producer.send_half(body)
                prepared.add(body)
                if rng.random() < 0.6:
                    await producer.end(fields, producer.verdicts[body])
                await asyncio.sleep(rng.expovariate(5))
                if number % 50 == 0:
                    await producer.beat()

        for life in range(4):
            async with until_power_cut(world, files, rng, **SYNC), producers(world) as producer:
                producer.verdicts = verdicts
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(rng.uniform(1, 30)):
                        await produce(producer, life)
        async with world.broker(files=files, **SYNC) as broker, producers(world) as producer:
            producer.verdicts = verdicts
            for _ in range(10):
                await producer.beat()
                await asyncio.sleep(3)
            found = {bytes(record.body) for record in await everything(producer.client, "T")}
            cursor = broker.parts.tables.offsets.find(GROUP, HALF, 0)
            end = broker.parts.store.bounds(HALF, 0)[1]
        committed = {body for body in prepared if verdicts[body] == COMMIT}
        rolled_back = {body for body, verdict in verdicts.items() if verdict == ROLLBACK}
        assert committed - found == set(), "lost"
        assert found & rolled_back == set(), "seen"
        assert cursor == end, "something is still open"

    run(seed, tmp_path, scenario, limit_s=100_000)


@pytest.mark.parametrize("immunity", ["", "CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02"])
def test_kills_do_not_multiply_transactions(immunity: str, tmp_path: Path) -> None:
    """Each kill comes after a round and before its cursors are saved."""

    async def scenario(world: World) -> None:
        files, bodies = SimFiles(), [b"half %d" % number for number in range(5)]
        conf = {**CONF, "flushConsumerOffsetInterval": "3600000", "transactionTimeOut": "1000"}
        for life in range(6):
            async with until_power_cut(world, files, None, **conf), producers(world) as producer:
                await producer.beat()
                if life == 0:
                    for body in bodies:
                        await producer.send_half(body, more=immunity)
                await asyncio.sleep(4)
        async with world.broker(files=files, **conf) as broker, producers(world) as producer:
            producer.verdicts = dict.fromkeys(bodies, COMMIT)
            for _ in range(25):
                await producer.beat()
                await asyncio.sleep(3)
            found = sorted(bytes(record.body) for record in await everything(producer.client, "T"))
            rounds = broker.parts.store.bounds(HALF, 0)[1] / len(bodies)
        assert found == bodies
        assert rounds < (40 if immunity else 9), "copies were copied"

    run(1, tmp_path, scenario, limit_s=100_000)


def test_a_late_commit_ends_the_copy_that_was_put_back(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.broker(files=SimFiles(), **CONF), producers(world) as producer:
            await producer.beat()
            fields = await producer.send_half(b"late")
            await asyncio.sleep(20)
            assert producer.asked[b"late"] >= 2
            producer.verdicts[b"late"] = COMMIT
            assert (await producer.end(fields, COMMIT)).code == 0
            await asyncio.sleep(20)
            (record,) = await everything(producer.client, "T")
            assert bytes(record.body) == b"late"

    run(1, tmp_path, scenario, limit_s=100_000)


@pytest.mark.parametrize("step_h", [-1, 80])
def test_a_clock_that_jumps_neither_stops_the_checks_nor_gives_up(
    step_h: int, tmp_path: Path
) -> None:
    async def scenario(world: World) -> None:
        async with world.broker(files=SimFiles(), **CONF), producers(world) as producer:
            producer.verdicts[b"half"] = COMMIT
            await producer.send_half(b"half")
            world.clock.jump(step_h * 3_600_000)
            await producer.beat()
            await asyncio.sleep(30)
            assert producer.asked[b"half"] == 1
            (record,) = await everything(producer.client, "T")
            assert bytes(record.body) == b"half"

    run(1, tmp_path, scenario, limit_s=100_000)


@pytest.mark.parametrize("seed", range(4))
def test_cursors_behind_a_log_that_lost_its_end_are_corrected(seed: int, tmp_path: Path) -> None:
    """Under asynchronous flush a power cut may take more than the saved cursors know of."""

    async def scenario(world: World) -> None:
        rng, files = random.Random(seed), SimFiles()
        async with until_power_cut(world, files, rng, **CONF), producers(world) as producer:
            for number in range(20):
                await delayed_send(producer.client, b"old %d" % number, 1)
                fields = await producer.send_half(b"old half %d" % number)
                await producer.end(fields, ROLLBACK)
            await asyncio.sleep(30)
        # As bad as it gets: the files of the tables are there, the log is not.
        for path in [path for path in files.paths() if path.startswith("/s/commitlog")]:
            files.remove(path)
        async with world.broker(files=files, **CONF), producers(world) as producer:
            await producer.beat()
            producer.verdicts[b"new half"] = COMMIT
            await delayed_send(producer.client, b"new", 1)
            await producer.send_half(b"new half")
            await asyncio.sleep(15)
            found = {bytes(record.body) for record in await everything(producer.client, "T")}
        assert found == {b"new", b"new half"}

    run(seed, tmp_path, scenario, limit_s=10_000)


@pytest.mark.parametrize("seed", range(4))
def test_order_within_a_queue_survives_restarts_of_consumers_and_brokers(
    seed: int, tmp_path: Path
) -> None:
    async def scenario(world: World) -> None:
        rng = random.Random(seed)
        name_servers = f"{NAMESRV_IPS[0]}:9876"
        seen: dict[int, list[int]] = defaultdict(list)
        hosts = iter(range(1, 100))

        def machine() -> dict[str, object]:
            ip = f"10.0.4.{next(hosts)}"
            place = ClientWorld(
                network=world.network.host(ip), clock=SimClock(), rng=random.Random(rng.random())
            )
            client = ClientSettings(client_ip=ip)
            return {"name_servers": name_servers, "client": client, "world": place}

        async def handle(message: ReceivedMessage) -> None:
            seen[message.queue_id].append(message.offset)
            await asyncio.sleep(rng.uniform(0, 0.05))

        async def consume(lives: int) -> None:
            for _ in range(lives):
                options = machine()
                async with PushConsumer(
                    "g", topics={"T": "*"}, start_from="first", ordered=True, handler=handle,
                    **options,  # type: ignore[arg-type]
                ):  # fmt: skip
                    await asyncio.sleep(rng.uniform(5, 60))

        async def produce() -> None:
            async with Producer("p", **machine()) as producer:  # type: ignore[arg-type]
                for number in range(400):
                    with contextlib.suppress(ContrailError):
                        await producer.send(Message("T", b"%d" % number), key=str(number % 11))
                    await asyncio.sleep(rng.expovariate(5))

        async def restarts() -> None:
            for _ in range(4):
                async with world.broker():
                    await asyncio.sleep(rng.uniform(10, 40))
            async with world.broker() as broker:
                await asyncio.sleep(400)
                ends.update({n: broker.parts.store.bounds("T", n)[1] for n in range(4)})

        ends: dict[int, int] = {}
        async with world.name_server(), asyncio.TaskGroup() as tasks:
            tasks.create_task(restarts())
            await asyncio.sleep(1)
            for work in (produce(), consume(5), consume(5), consume(8)):
                tasks.create_task(work)
        assert sum(ends.values()) >= 350
        for queue_id, end in ends.items():
            first_seen = list(dict.fromkeys(seen[queue_id]))
            assert first_seen == list(range(end)), f"queue {queue_id}"

    run(seed, tmp_path, scenario, limit_s=100_000)
