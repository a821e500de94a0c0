"""Our broker beside the Java one: the same load, in turns, medians and ratios.

Every case is run for several rounds, ours and Java's after one another in each, so that a machine
that drifts does so for both.  Closed-loop cases keep a number of requests in flight; cases with a
rate are open-loop and count latency from when a request was due.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.brokers import ROOT, BrokerProcess, JavaBroker, OurBroker
from bench.plot import bars

OUT = ROOT / "bench" / "out"
QUEUES = "16"


@dataclass(frozen=True)
class Case:
    """One thing that is measured; ``aim`` is the least ratio to Java wanted of its rate."""

    name: str
    arguments: tuple[str, ...]
    group: str = "memory"
    aim: float | None = None
    topic: str = "bench"
    topics: int = 1
    prepare: str = ""  # what must be in the topic first
    cold: bool = False  # the files are dropped from the page cache before
    conf: dict[str, str] = field(default_factory=dict)


def send(connections: int, window: int, body: int = 128, *more: str) -> tuple[str, ...]:
    """Arguments of a closed loop of sends."""
    return ("send", "-c", str(connections), "-w", str(window), "-b", str(body), *more)


def pull(connections: int, window: int, *more: str) -> tuple[str, ...]:
    """Arguments of a closed loop of pulls of 32."""
    return ("pull", "-c", str(connections), "-w", str(window), "-m", "32", *more)


SYNC = {"flushDiskType": "SYNC_FLUSH"}
CASES = (
    Case("send 1x1 128 B", send(1, 1), aim=1.5),
    Case("send 64x1 128 B", send(64, 1), aim=2.0),
    Case("send 16x64 128 B", send(16, 64), aim=3.5),
    Case("send 16x64 1 KB", send(16, 64, 1024), aim=3.0),
    Case("send 256x16 128 B", send(256, 16), aim=3.5),
    Case("batch of 100, 4x4", send(4, 4, 128, "-n", "100"), aim=2.0),
    Case("pull 16x1", pull(16, 1), aim=1.5, prepare="fill"),
    Case("pull 16x4", pull(16, 4), aim=1.5, prepare="fill"),
    Case("pull 16x1, tag filter", pull(16, 1, "-f", "TAG:TagB"), prepare="fill"),
    Case("pull 16x1, SQL filter", pull(16, 1, "-f", "SQL92:TAGS = 'TagB'"), prepare="fill"),
    Case("send 16x64 64 B", send(16, 64, 64), group="sizes"),
    Case("send 16x64 4 KB", send(16, 64, 4096), group="sizes"),
    Case("send 4x8 64 KB", send(4, 8, 65536), group="sizes"),
    Case("send 16x64 binary header", send(16, 64, 128, "-x"), group="sizes"),
    Case("send 16x64 1,000 topics", send(16, 64), group="topics", topic="many", topics=1000),
    Case("5,000/s, from due time", send(16, 64, 128, "-r", "5000"), group="latency"),
    Case("end to end 1,000/s", ("latency", "-r", "1000"), group="latency"),
    Case("pull 16x1 cold", pull(16, 1), group="cold", prepare="fill", cold=True),
    Case("send 1x1 sync flush", send(1, 1), group="sync", aim=1.2, conf=SYNC),
    Case("send 64x1 sync flush", send(64, 1), group="sync", aim=1.5, conf=SYNC),
    Case("send 16x64 sync flush", send(16, 64), group="sync", aim=1.5, conf=SYNC),
)


def main(arguments: list[str]) -> int:
    """Run the cases and write ``bench/out``."""
    parser = argparse.ArgumentParser(prog="python -m bench compare", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4, help="of one case and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--java", default="4.9.7", choices=("4.9.7", "5.2.0", "none"))
    parser.add_argument("--only", default="", help="run cases whose name contains this")
    options = parser.parse_args(arguments)
    loadgen = build_loadgen()
    chosen = [case for case in CASES if options.only in case.name]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="contrail-bench-") as home:
        for group in dict.fromkeys(case.group for case in chosen):
            cases = [case for case in chosen if case.group == group]
            rows += run_group(cases, Path(home), loadgen, options)
    report(rows, options)
    return 0


def build_loadgen() -> Path:
    """The load generator, compiled if need be."""
    OUT.mkdir(parents=True, exist_ok=True)
    source, program = ROOT / "bench" / "loadgen.c", OUT / "loadgen"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
    return program


def run_group(
    cases: list[Case], home: Path, loadgen: Path, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Cases that share brokers: all rounds of a case, then the next."""
    conf = {"enablePropertyFilter": "true", **cases[0].conf}
    makers: list[Callable[[], BrokerProcess]] = [lambda: OurBroker(home / "ours", conf)]
    if options.java != "none":
        makers.append(lambda: JavaBroker(home / "java", conf, options.java))
    rows = []
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(make()) for make in makers]
        for broker in brokers:
            call(loadgen, broker, ["create", "-t", "bench", "-q", QUEUES])
            call(loadgen, broker, ["send", "-t", "bench", "-q", QUEUES, "-c", "16", "-w", "64",
                                   "-s", str(options.seconds)])  # fmt: skip
        for case in cases:
            rows += run_case(case, brokers, loadgen, options)
    return rows


def run_case(
    case: Case, brokers: list[BrokerProcess], loadgen: Path, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """All rounds of one case, the brokers in turn."""
    target = ["-t", case.topic, "-q", QUEUES if case.topics == 1 else "4", "-T", str(case.topics)]
    for broker in brokers:
        if case.topics > 1:
            call(loadgen, broker, ["create", *target])
    samples: dict[str, list[dict[str, Any]]] = {broker.name: [] for broker in brokers}
    for _ in range(options.rounds):
        for broker in brokers:
            if case.cold:
                drop_from_page_cache(broker.store)
            before = broker.cpu_s()
            sample = call(loadgen, broker, [*case.arguments, *target, "-s", str(options.seconds)])
            done = sample["messages_per_s"] * sample["seconds"]
            sample["cpu_s_per_million"] = (broker.cpu_s() - before) / max(done, 1) * 1e6
            sample["anonymous_mb"] = broker.anonymous() / 1e6
            samples[broker.name].append(sample)
    return [summary(case, broker, samples[broker.name]) for broker in brokers]


def call(loadgen: Path, broker: BrokerProcess, arguments: list[str]) -> dict[str, Any]:
    """One run of the load generator."""
    command = [str(loadgen), arguments[0], "-P", str(broker.port), *arguments[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def drop_from_page_cache(directory: Path) -> None:
    """Make reads of these files go to the disk."""
    os.sync()
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.stat().st_size:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def summary(case: Case, broker: BrokerProcess, samples: list[dict[str, Any]]) -> dict[str, Any]:
    """The medians of a case's rounds, printed as one JSON line."""
    names = ("messages_per_s", "p50_us", "p99_us", "p999_us", "cpu_s_per_million")
    row: dict[str, Any] = {"case": case.name, "broker": broker.name, "aim": case.aim}
    row |= {name: round(statistics.median(s[name] for s in samples), 2) for name in names}
    row["errors"] = sum(sample["errors"] for sample in samples)
    row["anonymous_mb"] = round(max(sample["anonymous_mb"] for sample in samples), 1)
    row["start_s"] = round(broker.start_s, 3)
    row["rounds"] = [round(sample["messages_per_s"]) for sample in samples]
    print(json.dumps(row), flush=True)
    return row


def report(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """A table for people, JSON lines for programs, pictures for the README."""
    pairs = list(paired(rows))
    lines = [
        f"# ContrailMQ beside RocketMQ {options.java}",
        "",
        f"{options.rounds} rounds of {options.seconds:g} s, medians; {os.cpu_count()} cores, "
        f"{time.strftime('%Y-%m-%d')}; load generator on the same machine.",
        "",
        "| case | ours msg/s | Java msg/s | ratio | aim | ours p50 / p99 ms | Java p50 / p99 ms "
        "| CPU s per million, ours / Java |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for ours, java in pairs:
        lines.append(table_line(ours, java))
    if rows:
        ours_rows = [row for row in rows if row["broker"] == OurBroker.name]
        java_rows = [row for row in rows if row["broker"] != OurBroker.name]
        lines += ["", memory_line("ours", ours_rows), memory_line("Java", java_rows)]
    text = "\n".join(lines) + "\n"
    (OUT / "compare.md").write_text(text)
    (OUT / "compare.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    closed = [(o, j) for o, j in pairs if o["aim"]]
    for name, unit, key in (("throughput", "messages/s", "messages_per_s"),
                            ("latency", "p99, ms", "p99_us")):  # fmt: skip
        picture = bars(
            [(o["case"], scaled(o[key], key), scaled(j[key], key)) for o, j in closed],
            title=f"{name}: ContrailMQ and RocketMQ {options.java}",
            unit=unit,
        )
        (OUT / f"{name}.svg").write_text(picture)
    sys.stdout.write("\n" + text)


def paired(
    rows: list[dict[str, Any]],
) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
    """Our row and Java's of each case."""
    for row in rows:
        if row["broker"] == OurBroker.name:
            for other in rows:
                if other["case"] == row["case"] and other["broker"] != OurBroker.name:
                    yield row, other


def table_line(ours: dict[str, Any], java: dict[str, Any]) -> str:
    """One case of the table."""
    ratio = ours["messages_per_s"] / max(java["messages_per_s"], 1)
    aim = f"≥ {ours['aim']}" if ours["aim"] else ""
    return (
        f"| {ours['case']} | {ours['messages_per_s']:,.0f} | {java['messages_per_s']:,.0f} "
        f"| {ratio:.2f} | {aim} | {ours['p50_us'] / 1000:.2f} / {ours['p99_us'] / 1000:.2f} "
        f"| {java['p50_us'] / 1000:.2f} / {java['p99_us'] / 1000:.2f} "
        f"| {ours['cpu_s_per_million']:.1f} / {java['cpu_s_per_million']:.1f} |"
    )


def memory_line(name: str, rows: list[dict[str, Any]]) -> str:
    """Memory and start-up of one kind of broker."""
    if not rows:
        return ""
    peak = max(row["anonymous_mb"] for row in rows)
    start = statistics.median(row["start_s"] for row in rows)
    errors = sum(row["errors"] for row in rows)
    return f"{name}: {peak:.0f} MB anonymous at most, ready in {start:.2f} s, {errors} errors."


def scaled(value: float, key: str) -> float:
    """Microseconds as milliseconds."""
    return value / 1000 if key.endswith("_us") else value
