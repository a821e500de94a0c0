"""Ten thousand idle connections and two thousand held pulls do not hurt the one that sends."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command, decode
from contrailmq.protocol.headers.pull import PullMessageRequest
from contrailmq.protocol.headers.send import SendMessageRequestV2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[3]
IDLE, HELD = 10_000, 2_000
IDLE_SIZE_MAX = 6 * 1024
HELD_SIZE_MAX = 8 * 1024

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    command = [sys.executable, "-m", "contrailmq.main", "up", "--port", "0"]
    command += ["--namesrv-port", "0", "--store", str(tmp_path / "store")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], 20)[0]
    found = re.search(r"broker (\S+):(\d+),", process.stdout.readline())
    assert found is not None
    yield process, found[1], int(found[2])
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    process.stdout.close()


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE + 1000:
        pytest.skip(f"this machine allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_memory_and_latency(up: tuple[subprocess.Popen[str], str, int], many_files: None) -> None:
    process, host, port = up
    asyncio.run(_scenario(process.pid, host, port))


async def _scenario(pid: int, host: str, port: int) -> None:
    sender = await asyncio.open_connection(host, port)
    await _call(sender, _send(queue_id=0))
    before = _anonymous_size(pid)
    idle: list[Stream] = []
    while len(idle) < IDLE:
        idle += await asyncio.gather(*(asyncio.open_connection(host, port) for _ in range(200)))
    await _call(sender, _send(queue_id=1))
    with_idle = _anonymous_size(pid)
    assert (with_idle - before) / IDLE < IDLE_SIZE_MAX
    held = idle[:HELD]
    for _, writer in held:
        writer.write(_pull().encode())
    for _ in range(20):  # the broker has read all pulls when it answers these
        await asyncio.sleep(0.05)
        await _call(sender, _send(queue_id=1))
    assert (_anonymous_size(pid) - with_idle) / HELD < HELD_SIZE_MAX
    times = []
    for _ in range(500):
        began = time.perf_counter()
        await _call(sender, _send(queue_id=1))
        times.append(time.perf_counter() - began)
    fast = statistics.quantiles(times, n=10)[0]  # a cost of connections would be in every call
    assert fast < 0.005
    await _call(sender, _send(queue_id=0))
    answers = await asyncio.gather(*(_answer(reader) for reader, _ in held))
    assert {answer.code for answer in answers} == {0}
    for _, writer in [*idle, sender]:
        writer.close()


def _anonymous_size(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no Anonymous line")


async def _call(stream: Stream, command: Command) -> Command:
    reader, writer = stream
    writer.write(command.encode())
    return await _answer(reader)


async def _answer(reader: asyncio.StreamReader) -> Command:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return decode(await reader.readexactly(size))


def _send(*, queue_id: int) -> Command:
    header = SendMessageRequestV2(
        producer_group="p",
        topic="T",
        queue_id=queue_id,
        properties="UNIQ_KEY\x010A141E285AC74E0E2F2A4A759B720000\x02",
    )
    return Command.request(RequestCode.SEND_MESSAGE_V2, header, body=b"x" * 128)


def _pull() -> Command:
    header = PullMessageRequest(
        consumer_group="g",
        topic="T",
        queue_id=0,
        queue_offset=1,
        max_msg_nums=32,
        sys_flag=6,
        suspend_timeout_millis=60_000,
        subscription="*",
        expression_type="TAG",
    )
    return Command.request(RequestCode.PULL_MESSAGE, header)
