"""How cost grows: topics, connections, consumers, size of the log. One JSON line a point.

    python -m bench broker.growth [--log-gb 1,5,20] [--only SERIES]

A point gives processor time per message (other load on the machine changes it little), memory, or
the time of a start.  For each of them a line says how steeply it grows: the exponent of the power
law that fits all points, and the steepest step between two neighbours.  An exponent of 1 is linear;
nothing may be above.  Points, verdicts and the picture go to ``bench/out``; a run of everything
also puts them between the markers of docs/performance.md.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import resource
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.broker.brokers import ROOT, OurBroker
from bench.broker.load import OUT, build_loadgen, call, settle
from bench.broker.report import IMAGES, replace_marked
from bench.memory import evict
from bench.plot import Panel, curves
from contrailmq.protocol.command import Command

Row = dict[str, Any]
TOPICS = (1, 10, 100, 1_000, 10_000)
CONNECTIONS = (1, 10, 100, 1_000, 5_000)
CONSUMERS = (1, 10, 100)
DELIVERIES_PER_S = 20_000
IDLE = ((0, 0), (1_000, 0), (1_000, 1_000))
IDLE_S, IDLE_CPU_MAX = 10.0, 1.0
SLOPE_MAX = 1.1  # 1 and what a measurement may be off
DISK_SPARE = 8e9
MARKS = ("<!-- growth:begin -->", "<!-- growth:end -->")


def main(arguments: list[str]) -> int:
    """Measure every series; 1 when one grows faster than its cause."""
    parser = argparse.ArgumentParser(
        prog="python -m bench broker.growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=3, help="of one point (3)")
    parser.add_argument("--log-gb", default="1,5,20", help="sizes of the log in GB (1,5,20)")
    parser.add_argument("--only", default="", choices=("", *SERIES), help="one series")
    options = parser.parse_args(arguments)
    _raise_file_limit()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="contrail-growth-") as home:
        for name, series in SERIES.items():
            if options.only in ("", name):
                for row in series(Path(home) / name, build_loadgen(), options):
                    row = {"series": name} | row
                    print(json.dumps(row), flush=True)
                    rows.append(row)
    found = verdicts(rows)
    return _write(rows, found, is_whole=not options.only)


def _write(rows: list[Row], found: list[Row], *, is_whole: bool) -> int:
    for row in found:
        print(json.dumps(row), flush=True)
    lines = "".join(json.dumps(row) + "\n" for row in [*rows, *found])
    (OUT / "growth.jsonl").write_text(lines)
    text = "\n".join(table(rows, found))
    (OUT / "growth.md").write_text(text + "\n")
    picture = draw(rows)
    (OUT / "growth.svg").write_text(picture)
    if is_whole:
        (IMAGES / "growth.svg").write_text(picture)
        shown = f"{text}\n\n![How cost grows](img/growth.svg)"
        replace_marked(ROOT / "docs" / "performance.md", shown, marks=MARKS)
    print("\n" + text)
    return 0 if all(row["verdict"] == "met" for row in found) else 1


def _raise_file_limit() -> None:
    """As many files as are allowed: thousands of connections on both sides."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _cost(broker: OurBroker, loadgen: Path, arguments: list[str]) -> Row:
    settle()
    before = broker.cpu_s()
    with broker.watch() as memory:
        sample = call(loadgen, broker, arguments)
    messages = max(sample["messages"], 1)
    return {
        "cpu_us_per_message": round((broker.cpu_s() - before) / messages * 1e6, 2),
        "messages_per_s": round(sample["messages_per_s"]),
        "p99_us": sample["p99_us"],
        "errors": sample["errors"],
        "anonymous_mb": round(memory.peak / 1e6, 1),
    }


def _topics(home: Path, loadgen: Path, options: argparse.Namespace) -> Iterator[Row]:
    with OurBroker(home, {}) as broker:
        for count in TOPICS:
            target = ["-t", f"t{count}", "-T", str(count), "-q", "1"]
            began = time.perf_counter()
            call(loadgen, broker, ["create", *target])
            created_s = time.perf_counter() - began
            row = {"count": count, "create_us": round(created_s / count * 1e6)}
            load = ["send", *target, "-c", "16", "-w", "64"]
            first = call(loadgen, broker, [*load, "-N", str(2 * count), "-s", "120"])
            row["first_us"] = round(first["seconds"] / count * 1e6)  # makes the queue
            row |= _cost(broker, loadgen, [*load, "-s", str(options.seconds)])
            began = time.perf_counter()
            broker.stop()
            stopped = time.perf_counter()
            broker.start()
            row["stop_s"] = round(stopped - began, 2)
            yield row | {"start_s": round(time.perf_counter() - stopped, 2)}


def _connections(home: Path, loadgen: Path, options: argparse.Namespace) -> Iterator[Row]:
    with OurBroker(home, {}) as broker:
        call(loadgen, broker, ["create", "-t", "c", "-q", "16"])
        call(loadgen, broker, ["send", "-t", "c", "-q", "16", "-c", "16", "-w", "64", "-s", "1"])
        for count in CONNECTIONS:
            load = ["send", "-t", "c", "-q", "16", "-c", str(count), "-w", "1"]
            row = _cost(broker, loadgen, [*load, "-s", str(options.seconds)])
            yield {"count": count} | row


def _consumers(home: Path, loadgen: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Consumers that wait at the end of one queue: each message wakes them all."""
    with OurBroker(home, {}) as broker:
        call(loadgen, broker, ["create", "-t", "p", "-q", "1"])
        for count in CONSUMERS:
            load = ["latency", "-t", "p", "-q", "1", "-c", str(count)]
            load += ["-r", str(DELIVERIES_PER_S // 10 // count), "-s", str(options.seconds)]
            yield {"count": count} | _cost(broker, loadgen, load)


def _idle(home: Path, loadgen: Path, options: argparse.Namespace) -> Iterator[Row]:
    with OurBroker(home, {}) as broker:
        call(loadgen, broker, ["create", "-t", "w", "-q", "16"])
        for connections, polls in IDLE:
            with contextlib.ExitStack() as stack:
                sockets = [
                    stack.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
                    for _ in range(connections + polls)
                ]
                for index, peer in enumerate(sockets[:polls]):
                    peer.sendall(_long_poll(index).encode())
                time.sleep(1)
                before, began = broker.cpu_s(), time.monotonic()
                time.sleep(IDLE_S)
                used = (broker.cpu_s() - before) / (time.monotonic() - began)
                yield {
                    "connections": connections,
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


def _log_size(home: Path, loadgen: Path, options: argparse.Namespace) -> Iterator[Row]:
    """One log that grows: small messages at the end of it, pulls from its cold beginning, a start.

    The filling is of 64 KB bodies, so that it is the disk that takes the time.
    """
    with OurBroker(home, {}) as broker:
        target = ["-t", "l", "-q", "16"]
        call(loadgen, broker, ["create", *target])
        call(loadgen, broker, ["create", "-t", "small", "-q", "16"])
        written = 0.0
        for gigabytes in map(float, options.log_gb.split(",")):
            missing = int((gigabytes * 1e9 - written) / 65_800)
            if shutil.disk_usage(broker.home).free < missing * 65_800 + DISK_SPARE:
                print(f"log of {gigabytes:g} GB: the disk has no room for it", flush=True)
                return
            while missing > 0:
                part = min(missing, 100_000)  # a call of the generator has a time limit
                fill = ["send", *target, "-c", "4", "-w", "8", "-b", "65536", "-N", str(part)]
                call(loadgen, broker, [*fill, "-s", "250"])
                missing -= part
            written = gigabytes * 1e9
            small = ["send", "-t", "small", "-q", "16", "-c", "16", "-w", "64", "-s", "2"]
            row = _cost(broker, loadgen, small)
            evict(broker.store, broker.pids)
            pulled = _cost(broker, loadgen, ["pull", *target, "-c", "4", "-w", "1", "-s", "2"])
            row["pull_cpu_us_per_message"] = pulled["cpu_us_per_message"]
            row["pull_messages_per_s"] = pulled["messages_per_s"]
            broker.stop()
            os.sync()
            evict(broker.store, [])
            began = time.perf_counter()
            broker.start()
            yield {"gb": gigabytes, "start_s": round(time.perf_counter() - began, 2)} | row


SERIES: dict[str, Callable[[Path, Path, argparse.Namespace], Iterator[Row]]] = {
    "topics": _topics,
    "connections": _connections,
    "consumers": _consumers,
    "idle": _idle,
    "log": _log_size,
}
GROWS = (  # series, cause, what grows, its name
    ("topics", "count", "cpu_us_per_message", "CPU µs per send, by topics"),
    ("topics", "count", "create_us", "µs to create a topic, by topics"),
    ("topics", "count", "first_us", "µs for a topic's first messages, by topics"),
    ("topics", "count", "anonymous_mb", "anonymous MB, by topics"),
    ("topics", "count", "stop_s", "seconds of a stop, by topics"),
    ("topics", "count", "start_s", "seconds of a start, by topics"),
    ("connections", "count", "cpu_us_per_message", "CPU µs per send, by connections"),
    ("connections", "count", "anonymous_mb", "anonymous MB, by connections"),
    ("consumers", "count", "cpu_us_per_message", "CPU µs per delivery, by waiting consumers"),
    ("log", "gb", "cpu_us_per_message", "CPU µs per send, by GB of log"),
    ("log", "gb", "pull_cpu_us_per_message", "CPU µs per 64 KB pulled cold, by GB of log"),
    ("log", "gb", "start_s", "seconds of a start (cold files), by GB of log"),
    ("log", "gb", "anonymous_mb", "anonymous MB, by GB of log"),
)


def _points(rows: list[Row], series: str, cause: str, what: str) -> list[tuple[float, float]]:
    return [(row[cause], row[what]) for row in rows if row["series"] == series]


def verdicts(rows: list[Row]) -> list[Row]:
    """How steeply each thing grows, and what idling costs."""
    found: list[Row] = []
    for series, cause, what, name in GROWS:
        points = _points(rows, series, cause, what)
        if len(points) > 1:
            fit, steepest = slopes(points)
            is_met = fit <= SLOPE_MAX and steepest <= SLOPE_MAX
            found.append(
                {"growth": name, "exponent": round(fit, 2), "steepest": round(steepest, 2),
                 "verdict": "met" if is_met else "missed"}
            )  # fmt: skip
    idle = [row["cpu_percent"] for row in rows if row["series"] == "idle"]
    if idle:
        is_met = max(idle) < IDLE_CPU_MAX
        name = "CPU % idle, 1,000 idle connections and 1,000 waiting long polls"
        found.append(
            {"growth": name, "percent": idle[-1], "verdict": "met" if is_met else "missed"}
        )
    return found


def slopes(points: list[tuple[float, float]]) -> tuple[float, float]:
    """The exponent of the power law that fits, and the steepest step between neighbours."""
    logs = [(math.log(x), math.log(max(y, 1e-3))) for x, y in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    across = sum((x - mean_x) ** 2 for x, _ in logs)
    fit = sum((x - mean_x) * (y - mean_y) for x, y in logs) / across
    steps = itertools.pairwise(logs)
    return fit, max((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in steps)


def table(rows: list[Row], found: list[Row]) -> list[str]:
    """Points and verdicts for people."""
    lines = [
        f"Measured {time.strftime('%Y-%m-%d')} on {os.cpu_count()} cores.",
        "",
        "| what, by what | points | exponent | steepest step | no worse than linear |",
        "|---|---|---|---|---|",
    ]
    by_name = {row["growth"]: row for row in found}
    for series, cause, what, name in GROWS:
        if name in by_name:
            points = ", ".join(f"{x:,g}: {y:g}" for x, y in _points(rows, series, cause, what))
            row = by_name[name]
            lines.append(
                f"| {name} | {points} | {row['exponent']} | {row['steepest']} | {row['verdict']} |"
            )
    for row in found:
        if "percent" in row:
            points = ", ".join(
                f"{r['connections']} + {r['long_polls']}: {r['cpu_percent']} %"
                for r in rows
                if r["series"] == "idle"
            )
            lines.append(f"| {row['growth']} | {points} | | | {row['verdict']} (< 1 %) |")
    return lines


def draw(rows: list[Row]) -> str:
    """All curves on one page."""
    panels = []
    for series, cause, what, name in GROWS:
        points = _points(rows, series, cause, what)
        if len(points) > 1:
            title, _, x_name = name.partition(", by ")
            panels.append(Panel(title=title, x_name=x_name, points=points, is_total=what in TOTALS))
    return curves(panels, title="How cost grows (dashed: linear growth of the whole)")


TOTALS = {"anonymous_mb", "stop_s", "start_s"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
