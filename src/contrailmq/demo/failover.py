"""The replicated half of the tour: a primary is killed under load, and nothing is lost.

``contrail up --replicas 2`` runs in a process of its own, its two brokers in two more.  Orders are
sent without a pause.  The primary is killed with SIGKILL, the replica takes over, and at the end
everything that was acknowledged is read back and counted.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contrailmq.admin.client import AdminClient
from contrailmq.client.consumer.push import PushConsumer
from contrailmq.client.message import Message, ReceivedMessage, SendStatus
from contrailmq.client.producer.producer import Producer
from contrailmq.demo.screen import Screen
from contrailmq.errors import ContrailError

TOPIC: Final = "ledger"
BEFORE: Final = 500  # acknowledged before the kill
AFTER: Final = 500  # and after it
PATIENCE_S: Final = 60.0
_OPTIONS: Final = (
    *("up", "--replicas", "2", "--port", "0", "--namesrv-port", "0", "--log-level", "error"),
    *("--set", f"mappedFileSizeCommitLog={16 * 1024 * 1024}"),
    *("--set", "mappedFileSizeConsumeQueue=600000"),
)


@dataclass(slots=True)
class FailoverFacts:
    """What happened, for the summary."""

    acknowledged: int = 0
    again_s: float = 0.0
    lost: int = 0


def why_no_failover() -> str | None:
    """Why this part is left out here; None when it is not."""
    if not Path("/proc/net/tcp").exists():
        return "left out: which process to kill is looked up in /proc, which Linux has"
    return None


async def kill_a_primary(directory: Path, screen: Screen) -> FailoverFacts:
    """Kill a replicated primary under load; what was lost by it."""
    facts = FailoverFacts()
    async with _cluster(directory) as namesrv, asyncio.timeout(PATIENCE_S):
        screen.good(f"contrail up --replicas 2: name server {namesrv}, two brokers of one group")
        acknowledged: set[bytes] = set()
        async with Producer("ledger", name_servers=namesrv) as producer:
            await _send(producer, acknowledged, BEFORE)
            address = await _primary(namesrv)
            clock = screen.clock
            os.kill(_pid_of(address), signal.SIGKILL)
            killed_ms = clock.monotonic_ms()
            screen.good(f"kill -9 of the primary {address} after {len(acknowledged):,} messages")
            await _send(producer, acknowledged, 1)
            facts.again_s = (clock.monotonic_ms() - killed_ms) / 1000
            await _send(producer, acknowledged, AFTER)
        screen.good(f"the replica is primary: sends succeed again after {facts.again_s:.2f} s")
        facts.acknowledged = len(acknowledged)
        facts.lost = len(acknowledged - await _read(namesrv, acknowledged))
        screen.good(f"{facts.acknowledged:,} acknowledged, {facts.lost} lost")
    return facts


@asynccontextmanager
async def _cluster(directory: Path) -> AsyncIterator[str]:
    """The cluster in a process of its own; its name server."""
    command = [sys.executable, "-m", "contrailmq.main", *_OPTIONS, "--store", str(directory)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            told = (await process.stdout.readline()).decode()
        yield told.partition("name server ")[2].partition(",")[0]
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _send(producer: Producer, acknowledged: set[bytes], count: int) -> None:
    wanted = len(acknowledged) + count
    while len(acknowledged) < wanted:
        body = b"%d" % len(acknowledged)
        try:
            receipt = await producer.send(Message(TOPIC, body))
        except ContrailError:
            await asyncio.sleep(0.02)
            continue
        if receipt.status is SendStatus.SEND_OK:
            acknowledged.add(body)


async def _primary(namesrv: str) -> str:
    async with AdminClient(namesrv) as admin:
        return next(iter((await admin.masters()).values()))


async def _read(namesrv: str, wanted: set[bytes]) -> set[bytes]:
    """Read until everything that is wanted is there, or nothing more comes."""
    found: set[bytes] = set()
    news = asyncio.Event()

    async def take(message: ReceivedMessage) -> None:
        found.add(message.body)
        news.set()

    async with PushConsumer(
        "audit", topics={TOPIC: "*"}, name_servers=namesrv, start_from="first", handler=take
    ):
        try:
            while not wanted <= found:
                news.clear()
                async with asyncio.timeout(PATIENCE_S / 4):
                    await news.wait()
        except TimeoutError:
            return found
    return found


def _pid_of(address: str) -> int:
    """The process that listens on an address of this machine (Linux)."""
    port = int(address.rpartition(":")[2])
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
            inodes.add(f"socket:[{fields[9]}]")
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(link.readlink()) in inodes:
                return int(link.parts[2])
        except OSError:
            continue  # it ended meanwhile, or is somebody else's
    raise ProcessLookupError(f"no process of this user listens on {address}")
