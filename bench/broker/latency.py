"""From a send to the answer of a waiting pull, through a real broker on loopback.

    python -m bench broker.latency [--count 2000] [--size 128]

Starts ``contrail up`` as a process of its own, then sends one message at a time to a queue on which
a pull is held, and prints how long it took until the message was there (median, 99 %, worst).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from contrailmq.clock import SystemClock
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.pull import PullMessageRequest
from contrailmq.protocol.headers.send import SendMessageRequestV2

SOURCE = Path(__file__).resolve().parents[2] / "src"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--size", type=int, default=128)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="contrail-") as directory:
        command = [sys.executable, "-m", "contrailmq.main", "up", "--port", "0"]
        command += ["--namesrv-port", "0", "--store", directory]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"broker (\S+),", process.stdout.readline())
            assert found is not None
            times = asyncio.run(measure(found[1], options.count, options.size))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
    times.sort()
    median, late = statistics.median(times), times[int(len(times) * 0.99)]
    print(
        f"{len(times)} messages of {options.size} bytes: median {median * 1e6:.0f} us, "
        f"99 % {late * 1e6:.0f} us, worst {times[-1] * 1e6:.0f} us"
    )


async def measure(address: str, count: int, size: int) -> list[float]:
    """Seconds from handing a message to the socket until the consumer has it."""
    producer, consumer = (RemotingClient(clock=SystemClock()) for _ in range(2))
    body = bytes(size)
    times: list[float] = []
    await producer.call(address, _send(body, 0), timeout_s=5)
    for number in range(1, count + 1):
        pull = asyncio.ensure_future(consumer.call(address, _pull(number), timeout_s=30))
        await asyncio.sleep(0.001)
        began = time.perf_counter()
        send = asyncio.ensure_future(producer.call(address, _send(body, number), timeout_s=5))
        answer = await pull
        times.append(time.perf_counter() - began)
        assert answer.code == 0, answer
        assert (await send).code == 0
    await producer.aclose()
    await consumer.aclose()
    return times


def _send(body: bytes, number: int) -> Command:
    header = SendMessageRequestV2(
        producer_group="bench",
        topic="Latency",
        queue_id=0,
        properties=f"UNIQ_KEY\x01{number:032X}\x02",
    )
    return Command.request(RequestCode.SEND_MESSAGE_V2, header, body=body)


def _pull(offset: int) -> Command:
    header = PullMessageRequest(
        consumer_group="bench",
        topic="Latency",
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=6,
        suspend_timeout_millis=20_000,
        subscription="*",
        expression_type="TAG",
    )
    return Command.request(RequestCode.PULL_MESSAGE, header)


if __name__ == "__main__":
    main()
