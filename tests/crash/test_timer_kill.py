"""A broker with timers is killed again and again: each message comes, and comes once."""

from __future__ import annotations

import asyncio
import re
import signal
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from contrailmq import Message, Producer
from contrailmq.errors import ContrailError
from contrailmq.protocol.message import Record, decode_record
from contrailmq.store.offline.reader import StoreReader

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]
ROUNDS = 4
SPAN_S = 4.0
UNIT = struct.Struct(">qiq")


def serve(store: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "contrailmq.main", "up", "--port", "0"]
    command += ["--namesrv-port", "0", "--store", str(store)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"name server (\S+?),", line)
    assert found is not None, line
    return process, found[1]


async def fill(name_servers: str, life: int) -> set[str]:
    """Send until the time is over; what was acknowledged."""
    sent: set[str] = set()
    loop = asyncio.get_running_loop()
    end = loop.time() + SPAN_S / 2
    async with Producer("killed", name_servers=name_servers) as producer:
        while loop.time() < end:
            body = f"{life}.{len(sent)}"
            try:
                delay_s = 0.2 + len(sent) % 60 / 10
                await producer.send(Message("T", body.encode(), delay_s=delay_s))
            except ContrailError:
                break
            sent.add(body)
            await asyncio.sleep(0.003)
    return sent


def records(reader: StoreReader) -> list[Record]:
    """Everything in the queues of the topic."""
    found = []
    for _, queue_id in reader.queues("T"):
        first, end = reader.bounds("T", queue_id)
        data = reader.queue_units("T", queue_id, start=first, end=end)
        for log_offset, _, _ in UNIT.iter_unpack(data):
            record = reader.record_at(log_offset)
            assert record is not None
            found.append(decode_record(bytes(record)))
    return found


def test_a_kill_neither_loses_nor_doubles_timers(tmp_path: Path) -> None:
    store = tmp_path / "store"
    sent: set[str] = set()
    for life in range(ROUNDS):
        process, name_servers = serve(store)
        try:
            sent |= asyncio.run(fill(name_servers, life))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    process, _ = serve(store)
    try:
        process.wait(8)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    assert process.stdout is not None
    process.stdout.close()
    with StoreReader(str(store)) as reader:
        found = Counter(bytes(record.body).decode() for record in records(reader))
    assert len(sent) > 100
    assert sent <= set(found)
    assert {count for body, count in found.items() if body in sent} == {1}
