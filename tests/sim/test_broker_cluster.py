"""A broker and name servers in virtual time: registration, sessions, held pulls, restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.message import decode_records
from testkit.broker_world import (
    ADDRESS,
    NAMESRV_IPS,
    World,
    beat,
    members,
    now,
    pull,
    route_of,
    run,
    send,
)

SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_name_servers_know_a_broker_from_start_to_stop(seed: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with (
            world.name_server(NAMESRV_IPS[0]),
            world.name_server(NAMESRV_IPS[1]),
            world.client() as client,
        ):
            async with world.broker() as broker:
                for ip in NAMESRV_IPS:
                    assert await route_of(client, "TBW102", ip) == [ADDRESS]
                await send(client, "Fresh", b"x")
                await asyncio.sleep(0.2)  # a change is registered at once
                for ip in NAMESRV_IPS:
                    assert await route_of(client, "Fresh", ip) == [ADDRESS]
                await asyncio.sleep(2)
                assert broker.self_check is not None
                assert broker.self_check.is_done
                assert broker.self_check.fault is None
            for ip in NAMESRV_IPS:
                assert await route_of(client, "TBW102", ip) == []

    run(seed, tmp_path, scenario)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_name_server_that_comes_late_learns_of_the_broker(seed: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.client() as client, world.broker():
            await asyncio.sleep(100)
            async with world.name_server(NAMESRV_IPS[1]):
                await asyncio.sleep(31)
                assert await route_of(client, "TBW102", NAMESRV_IPS[1]) == [ADDRESS]
                # It forgets a broker that is silent for 120 s; ours speaks every 30 s.
                await asyncio.sleep(600)
                assert await route_of(client, "TBW102", NAMESRV_IPS[1]) == [ADDRESS]

    run(seed, tmp_path, scenario)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_held_pull_is_woken_by_its_message(seed: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.broker(), world.client() as producer, world.client() as consumer:
            await send(producer, "T", b"first", tags="A")
            waiting = asyncio.ensure_future(
                pull(consumer, "T", 1, suspend_ms=15_000, subscription="B")
            )
            await asyncio.sleep(5)
            await send(producer, "T", b"not wanted", tags="A")
            await asyncio.sleep(1)
            assert not waiting.done()
            sent_at = now()
            await send(producer, "T", b"wanted", tags="B")
            answer = await waiting
            assert now() - sent_at < 0.05
            assert [bytes(r.body) for r in decode_records(answer.body)] == [b"wanted"]
            assert answer.fields["nextBeginOffset"] == "3"

    run(seed, tmp_path, scenario)


@pytest.mark.parametrize("suspend_ms", [1, 700, 15_000])
def test_a_held_pull_ends_on_time(suspend_ms: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.broker(), world.client() as client:
            await send(client, "T", b"first")
            began = now()
            answer = await pull(client, "T", 1, suspend_ms=suspend_ms)
            assert answer.code == ResponseCode.PULL_NOT_FOUND
            # the wire itself takes up to 2 ms each way
            assert suspend_ms / 1000 <= now() - began <= suspend_ms / 1000 + 0.010

    run(1, tmp_path, scenario)


def test_nothing_runs_between_deadlines(tmp_path: Path) -> None:
    """Long polling without ticks: a thousand waiting pulls cost no turn of the loop."""

    async def scenario(world: World) -> None:
        async with world.broker(), world.client() as client:
            await send(client, "T", b"first")
            idle = await _turns(30)
            waiting = [
                asyncio.ensure_future(pull(client, "T", 1, suspend_ms=50_000)) for _ in range(1000)
            ]
            await asyncio.sleep(1)
            assert await _turns(30) <= idle + 10
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)

    run(1, tmp_path, scenario)


async def _turns(seconds: float) -> int:
    loop = asyncio.get_running_loop()
    before = loop.turns  # type: ignore[attr-defined]
    await asyncio.sleep(seconds)
    return int(loop.turns - before)  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_hear_of_members_that_come_go_and_fall_silent(seed: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.broker(), world.client() as one, world.client() as other:
            await beat(one, "c1")
            await asyncio.sleep(0.1)
            world.notices.clear()
            async with world.client() as two:
                await beat(two, "c2")
                await asyncio.sleep(0.1)
                assert world.notices == ["g", "g"]
                assert await members(other) == ["c1", "c2"]
                world.notices.clear()
            await asyncio.sleep(0.1)
            assert world.notices == ["g"]
            assert await members(other) == ["c1"]
            connection = one.find_connection(ADDRESS)
            # c1 keeps its connection busy and sends no heartbeat: 120 s later it is out.
            for _ in range(14):
                await asyncio.sleep(10)
                await members(one)
                await members(other)
            assert connection is not None
            assert connection.closed
            assert await members(other) == []

    run(seed, tmp_path, scenario)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_member_that_vanishes_without_a_word_is_replaced(seed: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.broker(), world.client() as lost, world.client() as other:
            await beat(lost, "c1")
            world.network.crash("10.0.2.1")
            assert await members(other) == ["c1"]
            await beat(other, "c1")  # the same client id, from a new connection
            assert await members(other) == ["c1"]
            for _ in range(14):
                await asyncio.sleep(10)
                await beat(other, "c1")
            assert await members(other) == ["c1"]

    run(seed, tmp_path, scenario)


@pytest.mark.parametrize("seed", SEEDS)
def test_topics_groups_and_offsets_survive_a_restart(seed: int, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.client() as client:
            async with world.broker() as broker:
                await send(client, "Kept", b"x")
                await pull(client, "Kept", 0)
                broker.parts.tables.offsets.commit("g", "Kept", 0, offset=1)
            async with world.broker() as broker:
                tables = broker.parts.tables
                assert tables.topics.find("Kept") is not None
                assert tables.groups.find("g") is not None
                assert tables.offsets.find("g", "Kept", 0) == 1
                answer = await pull(client, "Kept", 0)
                assert [bytes(r.body) for r in decode_records(answer.body)] == [b"x"]

    run(seed, tmp_path, scenario)


def test_a_wrong_advertised_address_is_explained(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        conf = {"brokerIP1": "10.0.0.99"}
        async with world.name_server(), world.broker(**conf) as broker:
            await asyncio.sleep(10)
            assert broker.self_check is not None
            assert broker.self_check.fault is not None
            assert "10.0.0.99" in broker.self_check.fault
            assert "brokerIP1" in broker.self_check.fault

    run(1, tmp_path, scenario)
