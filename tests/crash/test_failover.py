"""``contrail up --replicas 2`` under load: kill -9 of the primary again and again loses nothing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.replica_cluster import SEGMENT, Place, audit, call, load, until

pytestmark = pytest.mark.crash
ROUNDS = int(os.environ.get("CONTRAIL_KILLS", "4"))
TOPIC = "Failover"


def group(controller: str) -> dict[str, object]:
    table = json.loads(call(controller, 1006, b'["broker-a"]')[1])["replicasInfoTable"]
    found: dict[str, object] = table["broker-a"]
    return found


def pid_of(address: str) -> int:
    """The process that listens on an address of this machine."""
    port = int(address.rpartition(":")[2])
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
            inodes.add(f"socket:[{fields[9]}]")
    for folder in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(folder.readlink()) in inodes:
                return int(folder.parts[2])
        except OSError:
            continue
    raise AssertionError(f"nobody listens on {address}")


def shown(command: str, namesrv: str) -> str:
    """What a command of ours prints."""
    words = [sys.executable, "-m", "contrailmq.main", command, "-n", namesrv]
    found = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    return re.sub(" {2,}", "  ", found.stdout)


async def kill_again_and_again(told: str, store: Path) -> None:
    found = re.search(r"name server (\S+), controller (\S+), replicas", told)
    assert found is not None
    namesrv, controller = found.groups()
    acknowledged: list[Place] = []
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(load(namesrv, TOPIC, stop, acknowledged))
        for _ in range(ROUNDS):
            await until(
                lambda: len(group(controller)["inSyncReplicas"]) == 2,  # type: ignore[arg-type]
                "both are in sync",
            )
            await asyncio.sleep(0.5)
            before = group(controller)
            count = len(acknowledged)
            os.kill(pid_of(str(before["masterAddress"])), signal.SIGKILL)
            await until(
                lambda before=before: group(controller)["masterEpoch"] > before["masterEpoch"],
                "another is elected",
                seconds=3,
            )
            await until(lambda count=count: len(acknowledged) > count + 100, "sends go on")
            await until(
                lambda: "replica  in sync" in shown("cluster", namesrv), "the cluster is well again"
            )
            assert "1 of 1 replicas in sync" in shown("cluster", namesrv)
        await until(
            lambda: len(group(controller)["inSyncReplicas"]) == 2,  # type: ignore[arg-type]
            "both are in sync",
        )
        stop.set()
    await asyncio.sleep(1.0)
    places = [(queue_id, offset) for queue_id, offset, _ in acknowledged]
    assert len(places) == len(set(places))  # no two at one place
    for number in range(2):
        assert audit(store / f"broker-{number}", TOPIC, acknowledged) == []
        assert (
            audit(store / f"broker-{number}", TOPIC, [(*places[-1], b"never sent")]) == places[-1:]
        )


def test_no_acknowledged_message_is_lost(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "contrailmq.main", "up", "--replicas", "2", "--port", "0",
        "--namesrv-port", "0", "--store", str(tmp_path), "--set",
        f"mappedFileSizeCommitLog={SEGMENT}", "--log-level", "error",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            assert "contrail is up" in told, told
            asyncio.run(kill_again_and_again(told, tmp_path))
        finally:
            process.terminate()
            process.wait(30)
