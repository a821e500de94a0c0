"""How cost grows: topics, connections, waiting consumers, size of the log. One JSON line a point.

    python -m bench growth [--log-gb 1,5,20]

Each point gives processor time per message (other load on the machine changes it little), or what
an idle broker uses.  Nothing may grow faster than its cause.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.brokers import OurBroker
from bench.compare import OUT, build_loadgen, call, drop_from_page_cache
from contrailmq.protocol.command import Command

TOPICS = (1, 10, 100, 1_000, 10_000)
CONNECTIONS = (1, 10, 100, 1_000, 5_000)
CONSUMERS = (1, 10, 100)
IDLE_S = 5.0


def main(arguments: list[str]) -> int:
    """Measure every series and write ``bench/out/growth.jsonl``."""
    parser = argparse.ArgumentParser(prog="python -m bench growth", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--log-gb", default="1,5", help="sizes of the log, in GB")
    options = parser.parse_args(arguments)
    loadgen = build_loadgen()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="contrail-growth-") as home:
        place = Path(home)
        for series in (_topics, _connections, _consumers, _idle, _log_size):
            for row in series(place, loadgen, options):
                print(json.dumps(row), flush=True)
                rows.append(row)
    (OUT / "growth.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return 0


def _cost(broker: OurBroker, loadgen: Path, arguments: list[str]) -> dict[str, Any]:
    before = broker.cpu_s()
    sample = call(loadgen, broker, arguments)
    messages = max(sample["messages_per_s"] * sample["seconds"], 1)
    return {
        "cpu_us_per_message": round((broker.cpu_s() - before) / messages * 1e6, 2),
        "messages_per_s": round(sample["messages_per_s"]),
        "p99_us": sample["p99_us"],
        "errors": sample["errors"],
        "anonymous_mb": round(broker.anonymous() / 1e6, 1),
    }


def _topics(home: Path, loadgen: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    with OurBroker(home / "topics", {}) as broker:
        for count in TOPICS:
            target = ["-t", f"t{count}", "-T", str(count), "-q", "4"]
            call(loadgen, broker, ["create", *target])
            load = ["send", *target, "-c", "16", "-w", "64", "-s", str(options.seconds)]
            call(loadgen, broker, load)  # makes the queues
            yield {"series": "topics", "count": count} | _cost(broker, loadgen, load)


def _connections(
    home: Path, loadgen: Path, options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    with OurBroker(home / "connections", {}) as broker:
        call(loadgen, broker, ["create", "-t", "c", "-q", "16"])
        for count in CONNECTIONS:
            load = ["send", "-t", "c", "-q", "16", "-c", str(count), "-w", "1"]
            row = _cost(broker, loadgen, [*load, "-s", str(options.seconds)])
            yield {"series": "connections", "count": count} | row


def _consumers(home: Path, loadgen: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    with OurBroker(home / "consumers", {}) as broker:
        call(loadgen, broker, ["create", "-t", "p", "-q", "16"])
        fill = ["send", "-t", "p", "-q", "16", "-c", "16", "-w", "64", "-s", str(options.seconds)]
        call(loadgen, broker, fill)
        for count in CONSUMERS:
            load = ["pull", "-t", "p", "-q", "16", "-c", str(count), "-w", "1"]
            row = _cost(broker, loadgen, [*load, "-s", str(options.seconds)])
            yield {"series": "consumers", "count": count} | row


def _idle(home: Path, loadgen: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    with OurBroker(home / "idle", {}) as broker:
        call(loadgen, broker, ["create", "-t", "w", "-q", "16"])
        for connections, polls in ((0, 0), (1_000, 0), (1_000, 1_000)):
            with contextlib.ExitStack() as stack:
                sockets = [
                    stack.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
                    for _ in range(connections)
                ]
                for index, peer in enumerate(sockets[:polls]):
                    peer.sendall(_long_poll(index).encode())
                time.sleep(1)
                before, began = broker.cpu_s(), time.monotonic()
                time.sleep(IDLE_S)
                used = (broker.cpu_s() - before) / (time.monotonic() - began)
                yield {
                    "series": "idle",
                    "count": connections,
                    "long_polls": polls,
                    "cpu_percent": round(100 * used, 2),
                    "anonymous_mb": round(broker.anonymous() / 1e6, 1),
                }


def _long_poll(index: int) -> Command:
    fields = {
        "consumerGroup": "g", "topic": "w", "queueId": str(index % 16), "queueOffset": "0",
        "maxMsgNums": "32", "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "60000",
        "subscription": "*", "subVersion": "1", "expressionType": "TAG",
    }  # fmt: skip
    return Command(11, fields=fields, opaque=index)


def _log_size(home: Path, loadgen: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for gigabytes in map(float, options.log_gb.split(",")):
        with OurBroker(home / "log", {}) as broker:
            call(loadgen, broker, ["create", "-t", "l", "-q", "16"])
            size = 0
            while size < gigabytes * 1e9:
                load = ["send", "-t", "l", "-q", "16", "-c", "4", "-w", "8", "-b", "16384"]
                call(loadgen, broker, [*load, "-s", "2"])
                size = sum(
                    file.stat().st_blocks * 512 for file in (broker.store / "commitlog").iterdir()
                )
            row = _cost(
                broker, loadgen, ["pull", "-t", "l", "-q", "16", "-c", "4", "-w", "1", "-s", "2"]
            )
            drop_from_page_cache(broker.store)
            began = time.perf_counter()
            broker.restart()
            yield {
                "series": "log",
                "gb": round(size / 1e9, 1),
                "start_s": round(time.perf_counter() - began, 2),
            } | row
