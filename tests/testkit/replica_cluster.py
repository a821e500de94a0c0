"""A replicated cluster of real processes: etcd, controllers, a name server, brokers."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contrailmq import Message, Producer
from contrailmq.errors import ContrailError
from testkit.etcd import EtcdCluster, free_ports, wait_for_port

SEGMENT = 16 * 1024 * 1024
UNIT = struct.Struct(">qiq")
GROUP = "broker-a"
Place = tuple[int, int, bytes]


def call(address: str, code: int, body: bytes = b"", **fields: str) -> tuple[Any, bytes]:
    """One request; header and body of its answer."""
    host, port = address.rsplit(":", 1)
    head = {"code": code, "language": "PYTHON", "version": 453, "opaque": 1, "flag": 0}
    text = json.dumps({**head, "extFields": fields}).encode()
    with socket.create_connection((host, int(port)), 3) as connection:
        connection.settimeout(3)
        sizes = struct.pack(">II", 4 + len(text) + len(body), len(text))
        connection.sendall(sizes + text + body)
        size = struct.unpack(">I", connection.recv(4, socket.MSG_WAITALL))[0]
        answer = connection.recv(size, socket.MSG_WAITALL)
    end = 4 + struct.unpack(">I", answer[:4])[0]
    return json.loads(answer[4:end]), answer[end:]


class Process:
    """One ``contrail`` server; started again with the same words after a kill."""

    def __init__(self, folder: Path, name: str, words: list[str], port: int) -> None:
        self._log = folder / f"{name}.log"
        self._command = [sys.executable, "-m", "contrailmq.main", *words]
        self.address = f"127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        if self._process is None:
            with self._log.open("ab") as out:
                self._process = subprocess.Popen(self._command, stdout=out, stderr=out)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End it in good order."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None


class ReplicaCluster:
    """All of it on loopback; ``close`` ends every process."""

    def __init__(
        self, folder: Path, *, etcd: int = 3, controllers: int = 2, brokers: int = 2
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.etcd = EtcdCluster(folder / "etcd", etcd)
        ports = free_ports(1 + controllers + 2 * brokers)
        self.namesrv = Process(folder, "namesrv", ["namesrv", "--port", str(ports[0])], ports[0])
        ledger = f"etcd://{self.etcd.endpoints}"
        self.controllers = [
            Process(
                folder,
                f"controller-{port}",
                [
                    *("controller", "--port", str(port), "--ledger", ledger),
                    *("--set", "scanNotActiveBrokerInterval=1000"),
                ],
                port,
            )
            for port in ports[1 : 1 + controllers]
        ]
        for server in (self.namesrv, *self.controllers):
            wait_for_port(int(server.address.rpartition(":")[2]))
        self.brokers = [
            Process(folder, f"broker-{index}", self._broker_words(index, *places), places[0])
            for index, places in enumerate(
                zip(ports[1 + controllers :: 2], ports[2 + controllers :: 2], strict=True)
            )
        ]

    def _broker_words(self, index: int, port: int, ha_port: int) -> list[str]:
        path = self.folder / f"broker-{index}.conf"
        keys = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": GROUP,
            "brokerId": "-1",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": str(port),
            "haListenPort": str(ha_port),
            "namesrvAddr": self.namesrv.address,
            "storePathRootDir": str(self.store(index)),
            "mappedFileSizeCommitLog": str(SEGMENT),
            "enableControllerMode": "true",
            "syncBrokerMetadataPeriod": "1000",
            "syncControllerMetadataPeriod": "1000",
            "controllerAddr": ";".join(one.address for one in self.controllers),
        }
        path.write_text("".join(f"{name}={value}\n" for name, value in keys.items()))
        return ["broker", "-c", str(path)]

    def store(self, index: int) -> Path:
        return self.folder / f"store-{index}"

    def leader(self) -> Process | None:
        """The controller that leads, if one says so."""
        for one in self.controllers:
            try:
                head, _ = call(one.address, 1005)
            except OSError:
                continue
            if head.get("extFields", {}).get("isLeader") == "true":
                return one
        return None

    def group(self) -> dict[str, Any]:
        """The group as the leading controller has it; empty when none leads."""
        leader = self.leader()
        if leader is None:
            return {}
        try:
            head, body = call(leader.address, 1006, json.dumps([GROUP]).encode())
        except OSError:
            return {}
        if head["code"]:
            return {}
        found: dict[str, Any] = json.loads(body)["replicasInfoTable"].get(GROUP, {})
        return found

    def in_sync(self) -> int:
        return len(self.group().get("inSyncReplicas", []))

    def primary(self) -> Process:
        address = self.group()["masterAddress"]
        return next(broker for broker in self.brokers if broker.address == address)

    def close(self) -> None:
        for server in (*self.brokers, *self.controllers, self.namesrv):
            server.kill()
        self.etcd.close()


def wait_for(check: Callable[[], object], what: str, *, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


async def until(check: Callable[[], object], what: str, *, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not await asyncio.to_thread(check):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.05)


def audit(store: Path, topic: str, acknowledged: list[Place]) -> list[tuple[int, int]]:
    """Acknowledged messages that a store does not have at their place."""
    files: dict[Path, bytes] = {}  # each is read once: there are ten thousands of messages

    def read(folder: Path, at: int, size: int, file_size: int) -> bytes:
        base = at // file_size * file_size
        path = folder / f"{base:020d}"
        if path not in files:
            files[path] = path.read_bytes()
        return files[path][at - base : at - base + size]

    lost = []
    queues = store / "consumequeue" / topic
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
    namesrv: str,
    topic: str,
    stop: asyncio.Event,
    acknowledged: list[Place],
    *,
    pause_s: float = 0.0,
) -> None:
    """Send by eight until told to stop; note what was acknowledged, and where it is."""
    async with Producer("failover", name_servers=namesrv) as producer:

        async def one(worker: int) -> None:
            number = 0
            while not stop.is_set():
                number += 1
                body = b"%d-%d." % (worker, number)
                try:
                    receipt = await producer.send(Message(topic, body))
                except ContrailError:
                    await asyncio.sleep(0.05)
                    continue
                if receipt.status.name == "SEND_OK":
                    acknowledged.append((receipt.queue.queue_id, receipt.offset, body))
                await asyncio.sleep(pause_s)

        await asyncio.gather(*(one(worker) for worker in range(8)))
