"""Round trips through the network layer: echo requests on loopback, JSON lines out.

    python -m bench micro.net [--seconds 3] [--body 128]

Each line is one case: connections x requests in flight on each, ordinary path (decode, dispatch,
encode in Python).  The ``cpu_us`` are processor time per round trip, which other work on a machine
disturbs least.  The server runs in a process of its own, the clients in this one, so one core
does the calling and one the answering.  ``memory`` opens idle connections and says what each costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import multiprocessing.connection
import os
import resource
import time
from pathlib import Path
from typing import Any

from contrailmq.clock import SystemClock
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Dispatcher
from contrailmq.net.loop import run
from contrailmq.net.server import Server
from contrailmq.net.settings import ServerSettings
from contrailmq.protocol.command import Command, Serialization

ECHO = 1
Place = tuple[str, multiprocessing.connection.Connection]


class EchoLane:
    """A fast lane in Python that answers without decoding: what the loop itself can carry."""

    def __init__(self) -> None:
        self._answer = Command(0, flag=1).encode()

    def run(
        self, buffer: bytearray, start: int, end: int, connection: Connection, out: list[Any]
    ) -> int:
        """Skip over whole frames; one answer for each."""
        while end - start >= 4:
            size = int.from_bytes(buffer[start : start + 4], "big")
            if start + 4 + size > end:
                break
            out.append(self._answer)
            start += 4 + size
        return start


def _echo(request: Command, connection: Connection) -> Command:
    return request.reply(body=request.body)


def serve(pipe: multiprocessing.connection.Connection, has_lane: bool) -> None:
    """The server's process: tell the port, answer questions about memory until the pipe closes."""

    async def main() -> None:
        server = Server(
            Dispatcher({ECHO: _echo}),
            ServerSettings(),
            clock=SystemClock(),
            lane=EchoLane() if has_lane else None,
        )
        await server.start("127.0.0.1", 0)
        pipe.send(server.port)
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()

        def asked() -> None:
            try:
                pipe.recv()
                pipe.send((server.connection_count, _resident_bytes(), time.process_time()))
            except EOFError:
                loop.remove_reader(pipe.fileno())
                stop.set()

        loop.add_reader(pipe.fileno(), asked)
        await stop.wait()
        await server.aclose()

    run(main())


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def measure(
    place: Place, command: dict[str, Any], *, shape: tuple[int, int], s: float
) -> Any:
    """Closed loop: every caller sends its next request when the answer is there."""
    address, pipe = place
    pipe.send(None)
    _, _, server_before = pipe.recv()
    connections, depth = shape
    clients = [RemotingClient(clock=SystemClock()) for _ in range(connections)]
    lines = [await client.connect(address, timeout_s=5) for client in clients]
    latencies: list[float] = []
    deadline = time.perf_counter() + s

    async def caller(line: Connection) -> int:
        count = 0
        while True:
            begin = time.perf_counter()
            if begin >= deadline:
                return count
            await line.call(Command(ECHO, **command), timeout_s=5)
            if count % 16 == 0:
                latencies.append(time.perf_counter() - begin)
            count += 1

    begin, cpu_begin = time.perf_counter(), time.process_time()
    counts = await asyncio.gather(*(caller(line) for line in lines for _ in range(depth)))
    elapsed, cpu_s = time.perf_counter() - begin, time.process_time() - cpu_begin
    pipe.send(None)
    _, _, server_after = pipe.recv()
    for client in clients:
        await client.aclose()
    latencies.sort()
    return {
        "per_s": round(sum(counts) / elapsed),
        "p50_us": round(latencies[len(latencies) // 2] * 1e6),
        "p99_us": round(latencies[int(len(latencies) * 0.99)] * 1e6),
        "client_cpu_us": round(cpu_s / sum(counts) * 1e6, 1),
        "server_cpu_us": round((server_after - server_before) / sum(counts) * 1e6, 1),
    }


async def flood(address: str, *, shape: tuple[int, int], s: float) -> Any:
    """Raw sockets that keep ``depth`` requests in flight: the server is the limit, not a client."""
    connections, depth = shape
    frame = Command(ECHO, body=b"x" * 128).encode()
    host, _, port = address.rpartition(":")
    answer_size = len(Command(0, flag=1).encode())
    deadline = time.perf_counter() + s

    async def one() -> int:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(frame * depth)
        received = 0
        while time.perf_counter() < deadline:
            data = await reader.read(1 << 18)
            before, received = received // answer_size, received + len(data)
            writer.write(frame * (received // answer_size - before))
        writer.close()
        return received // answer_size

    begin = time.perf_counter()
    counts = await asyncio.gather(*(one() for _ in range(connections)))
    return {"per_s": round(sum(counts) / (time.perf_counter() - begin))}


async def idle(address: str, pipe: multiprocessing.connection.Connection, *, count: int) -> Any:
    """What an idle connection costs the server."""
    pipe.send(None)
    _, before, _ = pipe.recv()
    host, _, port = address.rpartition(":")
    lines = [await asyncio.open_connection(host, int(port)) for _ in range(count)]
    await asyncio.sleep(0.5)
    pipe.send(None)
    held, after, _ = pipe.recv()
    for _, writer in lines:
        writer.close()
    return {"connections": held, "bytes_each": round((after - before) / max(held, 1))}


def with_server(case: Any, *, has_lane: bool = False) -> Any:
    """Run one case against a fresh server process."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, has_lane))
    process.start()
    theirs.close()
    port = ours.recv()
    try:
        return run(case(f"127.0.0.1:{port}", ours))
    finally:
        ours.close()
        process.join(10)


def main() -> None:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--body", type=int, default=128)
    options = parser.parse_args()
    seconds = options.seconds
    for shape in ((1, 1), (64, 1), (16, 64)):
        for serialization in Serialization:
            command = {"body": b"x" * options.body, "serialization": serialization}
            found = with_server(
                lambda a, p, c=command, sh=shape: measure((a, p), c, shape=sh, s=seconds)
            )
            name = f"echo {shape[0]}x{shape[1]} {serialization.name}"
            print(json.dumps({"case": name, "body": options.body, **found}), flush=True)
    found = with_server(lambda address, _: flood(address, shape=(16, 64), s=seconds), has_lane=True)
    print(json.dumps({"case": "lane in Python 16x64", **found}), flush=True)
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(10_000, hard - 100)
    found = with_server(lambda address, pipe: idle(address, pipe, count=count))
    print(json.dumps({"case": "idle connections", **found}), flush=True)


if __name__ == "__main__":
    main()
