"""Etcd for tests: one in virtual time, and the real one of Debian's package."""

from __future__ import annotations

import asyncio
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from contrailmq.controller.etcd import Change, Condition, EtcdFault, Outcome, Row

CACHE = Path.home() / ".cache" / "contrailmq" / "etcd"


class SimEtcd:
    """The keys of an etcd cluster in virtual time."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.revision = 1
        self.changes: list[tuple[float, str]] = []
        self.writes: list[tuple[float, str, str, str]] = []  # groups: when, key, writer, leader
        self._leases: dict[int, float] = {}
        self._ttls: dict[int, float] = {}
        self._last = 0

    def lease(self, ttl_s: int) -> int:
        self._last += 1
        self._ttls[self._last] = ttl_s
        self.refresh(self._last)
        return self._last

    def refresh(self, lease: int) -> bool:
        if lease not in self._ttls or not self._lives(lease, new=lease not in self._leases):
            return False
        self._leases[lease] = asyncio.get_running_loop().time() + self._ttls[lease]
        return True

    def revoke(self, lease: int) -> None:
        self._leases[lease] = 0.0

    def transact(
        self, conditions: Sequence[Condition], change: Change, prefix: str, writer: str = ""
    ) -> Outcome:
        for row in list(self.rows.values()):
            if row.lease and not self._lives(row.lease):
                del self.rows[row.key]
                self.revision += 1
        made = all(self._holds(condition) for condition in conditions)
        if made and change.lease and not self._lives(change.lease):
            raise EtcdFault("requested lease not found")
        if made:
            self.revision += 1
            old = self.rows.pop(change.key, None)
            if change.value is not None:
                created = self.revision if old is None else old.created
                row = Row(change.key, change.value, created, self.revision, change.lease)
                self.rows[change.key] = row
            now = asyncio.get_running_loop().time()
            self.changes.append((now, change.key))
            if "/groups/" in change.key and writer:
                leader = self.rows.get(change.key.partition("/")[0] + "/leader")
                held = "" if leader is None else leader.value.decode()
                self.writes.append((now, change.key, writer, held))
        found = [self.rows[key] for key in sorted(self.rows) if prefix and key.startswith(prefix)]
        return Outcome(made, self.revision if made else 0, found)

    def _holds(self, condition: Condition) -> bool:
        row = self.rows.get(condition.key)
        if row is None:
            return condition.revision == 0
        return condition.revision == (row.created if condition.is_create else row.modified)

    def _lives(self, lease: int, *, new: bool = False) -> bool:
        return new or self._leases.get(lease, 0.0) > asyncio.get_running_loop().time()


class SimValues:
    """One controller's connection to it: slow, and cut when a test says so.

    A call that is cut may have been made, now or seconds later: which, the seed says.
    """

    TIMEOUT_S = 1.0

    def __init__(self, etcd: SimEtcd, rng: random.Random, *, name: str = "") -> None:
        self._etcd = etcd
        self._name = name
        self._rng = rng
        self.is_cut = False
        self.late_s = 0.0  # calls that are cut arrive so much later, at the most

    async def lease(self, ttl_s: int) -> int:
        await self._go()
        found = self._etcd.lease(ttl_s)
        await self._go()
        return found

    async def refresh(self, lease: int) -> bool:
        await self._go()
        found = self._etcd.refresh(lease)
        await self._go()
        return found

    async def revoke(self, lease: int) -> None:
        await self._go()
        self._etcd.revoke(lease)

    async def transact(
        self, conditions: Sequence[Condition], change: Change, *, prefix: str = ""
    ) -> Outcome:
        if self.is_cut and self.late_s:
            delay_s = self._rng.uniform(0, self.late_s)
            loop = asyncio.get_running_loop()
            loop.call_later(delay_s, self._late, conditions, change)
        await self._go()
        found = self._etcd.transact(conditions, change, prefix, self._name)
        await self._go()
        return found

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _late(self, conditions: Sequence[Condition], change: Change) -> None:
        try:
            self._etcd.transact(conditions, change, "", self._name)
        except EtcdFault:
            return

    async def _go(self) -> None:
        if self.is_cut:
            await asyncio.sleep(self.TIMEOUT_S)
            raise EtcdFault("no answer")
        await asyncio.sleep(self._rng.uniform(0.0002, 0.003))


def etcd_command() -> str:
    """The server, installed or from Debian's package in a cache; without it the test is skipped."""
    found = shutil.which("etcd") or str(CACHE / "usr/bin/etcd")
    if not Path(found).exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        get = ["apt-get", "download", "-q", "etcd-server"]
        try:
            subprocess.run(get, cwd=CACHE, check=True, capture_output=True, timeout=60)
            package = next(CACHE.glob("etcd-server*.deb"))
            subprocess.run(["dpkg-deb", "-x", str(package), str(CACHE)], check=True, timeout=60)
        except (OSError, subprocess.SubprocessError, StopIteration) as error:
            pytest.skip(f"etcd is not installed (apt install etcd-server): {error}")
    return found


class EtcdCluster:
    """Real servers on loopback."""

    def __init__(self, folder: Path, count: int = 1) -> None:
        ports = free_ports(2 * count)
        self._peers = ports[count:]
        self._folder = folder
        self.ports = ports[:count]
        self.endpoints = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self._command = etcd_command()
        self.processes: list[subprocess.Popen[bytes] | None] = [None] * count
        for number in range(count):
            self.start(number)
        for port in self.ports:
            wait_for_port(port)

    def start(self, number: int) -> None:
        initial = ",".join(f"n{i}=http://127.0.0.1:{port}" for i, port in enumerate(self._peers))
        peer = f"http://127.0.0.1:{self._peers[number]}"
        client = f"http://127.0.0.1:{self.ports[number]}"
        command = [
            self._command, "--name", f"n{number}", "--data-dir", str(self._folder / f"n{number}"),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", initial,
        ]  # fmt: skip
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"n{number}.log").open("ab") as out:
            self.processes[number] = subprocess.Popen(command, stdout=out, stderr=out)

    def kill(self, number: int) -> None:
        process = self.processes[number]
        if process is not None:
            process.kill()
            process.wait()
            self.processes[number] = None

    def close(self) -> None:
        for number in range(len(self.processes)):
            self.kill(number)


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()


def wait_for_port(port: int, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < end, f"nobody listens on {port}"
            time.sleep(0.05)
