"""How late delayed messages are while many of them wait and others are sent: one JSON line.

    python -m bench broker.delay [--waiting 100000] [--delay 15] [--fill 10000] [--load 5000]

Starts ``contrail up`` as a process of its own with level 1 = ``--delay`` seconds.  Sends
``--waiting`` delayed messages, ``--fill`` a second, so that all of them wait when the first is due;
from then on ordinary messages of 128 bytes are sent, ``--load`` a second.  How late a message was
is read from the store afterwards: the store time of the delivered copy, less the due time that the
schedule queue holds.  ``lost``, ``doubled`` and ``early`` are counts and have to be 0.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from contrailmq.clock import SystemClock
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.bodies.route import KVTable
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.send import SendMessageRequestV2
from contrailmq.protocol.message import decode_record
from contrailmq.store.offline.reader import StoreReader

SOURCE = Path(__file__).resolve().parents[2] / "src"
STEP_S = 0.02
UNIT = struct.Struct(">qiq")
QUEUES = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=100_000)
    parser.add_argument("--delay", type=int, default=15)
    parser.add_argument("--fill", type=int, default=10_000)
    parser.add_argument("--load", type=int, default=5_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="contrail-") as directory:
        conf = Path(directory) / "broker.conf"
        conf.write_text(f"messageDelayLevel={options.delay}s 1h\n")
        store = Path(directory) / "store"
        command = [sys.executable, "-m", "contrailmq.main", "up", "--port", "0", "-c", str(conf)]
        command += ["--namesrv-port", "0", "--store", str(store)]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"broker (\S+),", process.stdout.readline())
            assert found is not None
            filled_s = asyncio.run(play(found[1], options))
            used = process_seconds(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
        result = read(str(store), options.waiting)
    print(
        json.dumps(
            {
                "waiting": options.waiting,
                "delay_s": options.delay,
                "filled_s": round(filled_s, 1),
                "load_per_s": options.load,
                **result,
                "broker_processor_s": round(used, 1),
            }
        )
    )


async def play(address: str, options: argparse.Namespace) -> float:
    """Send everything; how long filling took."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    drain = asyncio.ensure_future(_discard(reader))
    began = time.monotonic()
    await _send(writer, "Delayed", options.waiting, per_s=options.fill, delayed=True)
    filled_s = time.monotonic() - began
    await asyncio.sleep(max(began + options.delay - time.monotonic(), 0))
    seconds = filled_s + 2
    await _send(writer, "Load", int(options.load * seconds), per_s=options.load, delayed=False)
    writer.close()
    await drain
    await _all_delivered(address, options.waiting)
    return filled_s


async def _all_delivered(address: str, count: int) -> None:
    """Return when the cursor of level 1 has passed all messages."""
    client = RemotingClient(clock=SystemClock())
    async with asyncio.timeout(60):
        while True:
            request = Command.request(RequestCode.GET_BROKER_RUNTIME_INFO)
            answer = await client.call(address, request, timeout_s=5)
            table = KVTable.decode(answer.body).table
            if table.get("scheduleMessageOffset_1", "").startswith(f"{count},"):
                break
            await asyncio.sleep(0.5)
    await client.aclose()


async def _send(
    writer: asyncio.StreamWriter, topic: str, count: int, *, per_s: int, delayed: bool
) -> None:
    began, sent = time.monotonic(), 0
    while sent < count:
        due = min(int((time.monotonic() - began + STEP_S) * per_s), count)
        for number in range(sent, due):
            writer.write(_frame(topic, number, delayed=delayed))
        sent = max(due, sent)
        await writer.drain()
        await asyncio.sleep(STEP_S)


def _frame(topic: str, number: int, *, delayed: bool) -> bytes:
    properties = f"UNIQ_KEY\x017F0000010A2B18B4AAC2{number:012d}\x02"
    header = SendMessageRequestV2(
        producer_group="bench",
        topic=topic,
        queue_id=0 if delayed else number % QUEUES,
        default_topic_queue_nums=QUEUES,
        properties=properties + "DELAY\x011\x02" if delayed else properties,
    )
    command = Command.request(RequestCode.SEND_MESSAGE_V2, header, body=b"%0128d" % number)
    return command.encode()


async def _discard(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 20):
        pass


def read(store: str, expected: int) -> dict[str, object]:
    """How late each delivery was, in the order of the schedule queue."""
    reader = StoreReader(store)
    due = dict(_bodies(reader, "SCHEDULE_TOPIC_XXXX", due=True))
    found = list(_bodies(reader, "Delayed", due=False))
    late = sorted(stored_ms - due[body] for body, stored_ms in found)
    times = Counter(body for body, _ in found)
    return {
        "lost": expected - len(times),
        "doubled": sum(count - 1 for count in times.values()),
        "early": sum(ms < 0 for ms in late),
        "late_ms": {
            "median": late[len(late) // 2],
            "99%": late[len(late) * 99 // 100],
            "99.9%": late[len(late) * 999 // 1000],
            "worst": late[-1],
        },
    }


def _bodies(reader: StoreReader, topic: str, *, due: bool) -> list[tuple[bytes, int]]:
    first, end = reader.bounds(topic, 0)
    units = UNIT.iter_unpack(reader.queue_units(topic, 0, start=first, end=end))
    found = []
    for log_offset, _, code in units:
        data = reader.record_at(log_offset)
        assert data is not None
        record = decode_record(data)
        found.append((bytes(record.body), code if due else record.store_ms))
    return found


def process_seconds(pid: int) -> float:
    """Processor time a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
