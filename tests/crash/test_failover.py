"""``contrail up --replicas 2`` under load: kill -9 of the primary again and again loses nothing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from contrailmq import Message, Producer
from contrailmq.errors import ContrailError

pytestmark = pytest.mark.crash
ROUNDS = int(os.environ.get("CONTRAIL_KILLS", "4"))
SEGMENT = 16 * 1024 * 1024
TOPIC = "Failover"
UNIT = struct.Struct(">qiq")


def call(address: str, code: int, body: bytes = b"") -> bytes:
    """One request; the body of its answer."""
    host, port = address.rsplit(":", 1)
    head = json.dumps({"code": code, "language": "PYTHON", "version": 453, "opaque": 1, "flag": 0})
    text = head.encode()
    with socket.create_connection((host, int(port)), 5) as connection:
        connection.settimeout(5)
        sizes = struct.pack(">II", 4 + len(text) + len(body), len(text))
        connection.sendall(sizes + text + body)
        size = struct.unpack(">I", connection.recv(4, socket.MSG_WAITALL))[0]
        answer = connection.recv(size, socket.MSG_WAITALL)
    return answer[4 + struct.unpack(">I", answer[:4])[0] :]


def group(controller: str) -> dict[str, object]:
    table = json.loads(call(controller, 1006, b'["broker-a"]'))["replicasInfoTable"]
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


async def until(check: object, what: str, *, seconds: float = 30.0) -> None:
    assert callable(check)
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert what


def audit(store: Path, acknowledged: list[tuple[int, int, bytes]]) -> list[tuple[int, int]]:
    """Acknowledged messages that a store does not have at their place."""
    files: dict[Path, bytes] = {}  # each is read once: there are ten thousands of messages

    def read(folder: Path, at: int, size: int, file_size: int) -> bytes:
        base = at // file_size * file_size
        path = folder / f"{base:020d}"
        if path not in files:
            files[path] = path.read_bytes()
        return files[path][at - base : at - base + size]

    lost = []
    queues = store / "consumequeue" / TOPIC
    sizes = {queue.name: next(queue.iterdir()).stat().st_size for queue in queues.iterdir()}
    for queue_id, offset, body in acknowledged:
        queue = str(queue_id)
        place, length, _ = UNIT.unpack(
            read(queues / queue, offset * UNIT.size, UNIT.size, sizes[queue])
        )
        record = read(store / "commitlog", place, length, SEGMENT)
        if body not in record or struct.unpack(">q", record[20:28])[0] != offset:
            lost.append((queue_id, offset))
    return lost


async def load(
    namesrv: str, stop: asyncio.Event, acknowledged: list[tuple[int, int, bytes]]
) -> None:
    async with Producer("failover", name_servers=namesrv) as producer:

        async def one(worker: int) -> None:
            number = 0
            while not stop.is_set():
                number += 1
                body = b"%d-%d." % (worker, number)
                try:
                    receipt = await producer.send(Message(TOPIC, body))
                except ContrailError:
                    await asyncio.sleep(0.05)
                    continue
                if receipt.status.name == "SEND_OK":
                    acknowledged.append((receipt.queue.queue_id, receipt.offset, body))

        await asyncio.gather(*(one(worker) for worker in range(8)))


async def kill_again_and_again(told: str, store: Path) -> None:
    found = re.search(r"name server (\S+), controller (\S+), replicas", told)
    assert found is not None
    namesrv, controller = found.groups()
    acknowledged: list[tuple[int, int, bytes]] = []
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(load(namesrv, stop, acknowledged))
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
            lambda: len(group(controller)["inSyncReplicas"]) == 2,  # type: ignore[arg-type]
            "both are in sync",
        )
        stop.set()
    await asyncio.sleep(1.0)
    places = [(queue_id, offset) for queue_id, offset, _ in acknowledged]
    assert len(places) == len(set(places))  # no two at one place
    for number in range(2):
        assert audit(store / f"broker-{number}", acknowledged) == []
        assert audit(store / f"broker-{number}", [(*places[-1], b"never sent")]) == places[-1:]


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
