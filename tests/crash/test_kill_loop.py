"""Kill -9 of the primary, the replica, both, the controller and etcd's servers, under load.

``CONTRAIL_KILLS`` sets the rounds, ``CONTRAIL_KILL_SEED`` their order.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path

import pytest

from testkit.replica_cluster import Place, ReplicaCluster, audit, load, until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(0)]
ROUNDS = int(os.environ.get("CONTRAIL_KILLS", "20"))
SEED = int(os.environ.get("CONTRAIL_KILL_SEED", "1"))
VICTIMS = ("primary", "replica", "both", "controller", "etcd")
TOPIC = "KillLoop"
AGAIN_S = 3.0  # sends succeed again within so long of a kill of the primary


class Strikes:
    """Kills, and what followed."""

    def __init__(self, cluster: ReplicaCluster, acknowledged: list[Place]) -> None:
        self._cluster = cluster
        self._acknowledged = acknowledged
        self._rng = random.Random(SEED)
        self.pauses_s: list[float] = []  # from the kill of a primary to sends that succeed

    async def strike(self, victim: str) -> None:
        """Kill, and start again a while later."""
        cluster, pause_s = self._cluster, self._rng.choice((0.0, 0.5, 1.5))
        if victim == "etcd":
            number = self._rng.randrange(len(cluster.etcd.ports))
            cluster.etcd.kill(number)
            await asyncio.sleep(pause_s)
            cluster.etcd.start(number)
            return
        primary = await asyncio.to_thread(cluster.primary)
        leader = await asyncio.to_thread(cluster.leader)
        assert leader is not None
        others = [broker for broker in cluster.brokers if broker is not primary]
        killed = {
            "primary": [primary],
            "replica": others,
            "both": [primary, *others],
            "controller": [leader],
        }[victim]
        for process in killed:
            process.kill()
        if victim == "primary":
            await self._resumed()
        else:
            await asyncio.sleep(pause_s)
        for process in killed:
            process.start()

    async def _resumed(self) -> None:
        began, count = time.monotonic(), len(self._acknowledged)
        await until(
            lambda: len(self._acknowledged) > count + 16,  # those under way come first
            f"sends succeed again: seed {SEED}",
            seconds=10,
        )
        self.pauses_s.append(time.monotonic() - began)


async def rounds(cluster: ReplicaCluster) -> list[Place]:
    acknowledged: list[Place] = []
    strikes = Strikes(cluster, acknowledged)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        address = cluster.namesrv.address
        tasks.create_task(load(address, TOPIC, stop, acknowledged, pause_s=0.005))
        for number in range(ROUNDS):
            await until(lambda: cluster.in_sync() == 2, f"in sync before round {number}")
            count = len(acknowledged)
            await until(lambda count=count: len(acknowledged) > count + 50, "sends go on")
            await strikes.strike(VICTIMS[number % len(VICTIMS)])
        await until(lambda: cluster.in_sync() == 2, "both are in sync")
        stop.set()
    await asyncio.sleep(1.0)
    pauses = sorted(strikes.pauses_s)
    print(
        f"{ROUNDS} kills of seed {SEED}, {len(acknowledged)} acknowledged, sends succeed again "
        f"{pauses[len(pauses) // 2]:.2f} s (median) and {pauses[-1]:.2f} s (most) after a kill"
    )
    assert pauses[len(pauses) // 2] < AGAIN_S
    return acknowledged


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path)
    try:
        acknowledged = asyncio.run(rounds(cluster))
        places = [(queue_id, offset) for queue_id, offset, _ in acknowledged]
        assert len(places) == len(set(places))  # no two at one place
        for number in range(2):
            store = cluster.store(number)
            assert audit(store, TOPIC, acknowledged) == []
            assert audit(store, TOPIC, [(*places[-1], b"never sent")]) == places[-1:]
    finally:
        cluster.close()
