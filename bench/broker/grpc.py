"""Unary SendMessage calls per second at gRPC ports that are up, in alternating runs.

    python -m bench broker.grpc --address ours=127.0.0.1:8081 --address java=127.0.0.1:18081 \
        --topic T --in-flight 64 --connections 4 --seconds 4 --rounds 3

Each run is one JSON line: calls per second, latencies, and, where ``--pid NAME=PID`` was given, the
processor time of the server per call. The last line has the ratio of the first address to each
other. The load program is one process; it writes prepared frames and counts trailers, so that it
takes less of the machine than what it measures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

from contrailmq.grpc.http2.encoder import HeaderEncoder
from contrailmq.net.loop import run

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SEND = "/apache.rocketmq.v2.MessagingService/SendMessage"
TICKS = os.sysconf("SC_CLK_TCK")


def frame(kind: int, flags: int, number: int, payload: bytes) -> bytes:
    """One frame."""
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags))
    return head + number.to_bytes(4, "big") + payload


def field(number: int, value: bytes | int) -> bytes:
    """One field of protobuf; numbers below 128."""
    if isinstance(value, int):
        return bytes((number << 3, value))
    size, out = len(value), bytearray((number << 3 | 2,))
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out) + value


def send_request(topic: str, body_size: int) -> bytes:
    """A SendMessageRequest of one message, behind gRPC's prefix."""
    system = field(3, b"01" + b"0" * 32) + field(5, 1) + field(6, 1) + field(8, b"127.0.0.1")
    message = field(1, field(2, topic.encode())) + field(3, system) + field(4, b"x" * body_size)
    whole = field(1, message)
    return b"\0" + len(whole).to_bytes(4, "big") + whole


class Load(asyncio.BufferedProtocol):
    """One connection with a fixed number of calls under way."""

    def __init__(self, address: str, data: bytes, in_flight: int) -> None:
        self._view = bytearray(256 * 1024)
        self._kept = b""
        self._encoder = HeaderEncoder()
        self._lasting = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", SEND),
            (":authority", address),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "contrail-bench"),
            ("x-mq-client-id", "bench@1@0@x"),
            ("x-mq-language", "JAVA"),
            ("x-mq-client-version", "5.2.0"),
            ("x-mq-protocol", "v2"),
        ]
        self._passing = [("x-mq-request-id", "0" * 32), ("grpc-timeout", "3S")]
        self._data = data
        self._next = 1
        self._in_flight = in_flight
        self._begun: dict[int, float] = {}
        self._credit = 0
        self.is_running = True
        self.waits: list[float] = []
        self.failed = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        window = b"\0\4" + (1 << 30).to_bytes(4, "big")
        transport.write(
            PREFACE + frame(4, 0, 0, window) + frame(8, 0, 0, (1 << 30).to_bytes(4, "big"))
        )
        transport.write(b"".join(self._request() for _ in range(self._in_flight)))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        data = self._kept + bytes(memoryview(self._view)[:nbytes])
        at, end, out, now = 0, len(data), [], time.perf_counter()
        while end - at >= 9:
            size = int.from_bytes(data[at : at + 3], "big")
            if end - at - 9 < size:
                break
            kind, flags = data[at + 3], data[at + 4]
            if kind == 1 and flags & 1:
                number = int.from_bytes(data[at + 5 : at + 9], "big")
                self.waits.append(now - self._begun.pop(number))
                if self.is_running:
                    out.append(self._request())
            elif kind == 0:
                self._credit += size
            elif kind == 4 and not flags & 1:
                out.append(frame(4, 1, 0, b""))
            elif kind == 6 and not flags & 1:
                out.append(frame(6, 1, 0, data[at + 9 : at + 17]))
            elif kind == 3:
                self.failed += 1
                self._begun.pop(int.from_bytes(data[at + 5 : at + 9], "big"), None)
            at += 9 + size
        self._kept = data[at:]
        if self._credit > 1 << 24:
            out.append(frame(8, 0, 0, self._credit.to_bytes(4, "big")))
            self._credit = 0
        if out:
            self._transport.write(b"".join(out))
        if not self.is_running and not self._begun:
            self._transport.close()

    def _request(self) -> bytes:
        number, self._next = self._next, self._next + 2
        self._begun[number] = time.perf_counter()
        block = self._encoder.encode(self._lasting, self._passing)
        return frame(1, 4, number, block) + frame(0, 1, number, self._data)


async def measure(address: str, options: argparse.Namespace) -> dict[str, float]:
    """One run at one address."""
    host, _, port = address.rpartition(":")
    data = send_request(options.topic, options.body)
    loop = asyncio.get_running_loop()
    share = max(options.in_flight // options.connections, 1)
    loads = []
    for _ in range(min(options.connections, options.in_flight)):
        _, load = await loop.create_connection(lambda: Load(address, data, share), host, int(port))
        loads.append(load)
    await asyncio.sleep(options.warm)
    for load in loads:
        load.waits.clear()
    begun = time.perf_counter()
    await asyncio.sleep(options.seconds)
    seconds = time.perf_counter() - begun
    waits = sorted(wait for load in loads for wait in load.waits)
    for load in loads:
        load.is_running = False
    await asyncio.wait([load.over for load in loads], timeout=5)
    return {
        "calls": len(waits),
        "per_s": round(len(waits) / seconds, 1),
        "p50_ms": round(waits[len(waits) // 2] * 1000, 3) if waits else 0.0,
        "p99_ms": round(waits[len(waits) * 99 // 100] * 1000, 3) if waits else 0.0,
        "failed": sum(load.failed for load in loads),
    }


def cpu_s(pid: int) -> float:
    """Processor seconds a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench broker.grpc", description=__doc__)
    parser.add_argument("--address", action="append", required=True, help="NAME=host:port")
    parser.add_argument("--pid", action="append", default=[], help="NAME=process id")
    parser.add_argument("--topic", default="BenchGrpc")
    parser.add_argument("--body", type=int, default=256)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warm", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    addresses = dict(text.split("=", 1) for text in options.address)
    pids = {name: int(pid) for name, pid in (text.split("=", 1) for text in options.pid)}
    rates: dict[str, list[float]] = {name: [] for name in addresses}
    for number in range(options.rounds):
        for name, address in addresses.items():
            before = cpu_s(pids[name]) if name in pids else 0.0
            found: dict[str, Any] = run(measure(address, options))
            if name in pids:
                used_s = cpu_s(pids[name]) - before  # of the warming up too
                total = found["calls"] * (options.seconds + options.warm) / options.seconds
                found["cpu_us_per_call"] = round(used_s / max(total, 1) * 1e6, 1)
            rates[name].append(found["per_s"])
            print(json.dumps({"round": number, "server": name, **found}), flush=True)
    middle = {name: statistics.median(values) for name, values in rates.items()}
    first = next(iter(middle))
    ratios = {
        f"{first}/{name}": round(middle[first] / value, 2)
        for name, value in middle.items()
        if name != first and value
    }
    print(json.dumps({"median_per_s": middle, "ratios": ratios, "in_flight": options.in_flight}))


if __name__ == "__main__":
    main()
