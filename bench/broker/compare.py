"""Our broker beside the Java one: the same load, in turns, medians and ratios.

    python -m bench broker.compare [--seconds 2.5] [--rounds 3] [--java VERSION|none] [--only TEXT]

Both brokers run all the time; in each round of a case one is measured, then the other, so that a
machine that drifts does so for both.  Topics that are read have been filled with the same number of
messages in both.  Before every sample the dirty pages of whatever ran before are written out, and
free memory is put to use as page cache, as it is on any machine that has run for a while: in a
virtual machine a free page may have gone back to the host, and the first touch of it costs several
times the next one.

A closed loop measures throughput: its latencies are those of requests in flight, and a stall hits
only these.  Cases with a rate are open: a latency counts from when the request was due, so that a
stall is seen by all it delays.

One JSON line a case and broker goes to the screen and to ``bench/out/compare.jsonl``, the table to
``bench/out/compare.md``.  A run of all cases with three rounds or more also writes the table and
the pictures of README.md and docs/performance.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.broker.brokers import BrokerProcess, JavaBroker, OurBroker
from bench.broker.cases import CASES, GROUPS, QUEUES, Case, Fill
from bench.broker.load import Load, build_loadgen, call, settle
from bench.broker.report import write_report
from bench.memory import UsedMemory, evict

Row = dict[str, Any]
WARM_S = 5.0  # a virtual machine compiles what it runs often
KEPT = ("messages_per_s", "p50_us", "p99_us", "p999_us")


def main(arguments: list[str]) -> int:
    """Run the cases and write the report; 1 when our broker answered with an error."""
    parser = argparse.ArgumentParser(
        prog="python -m bench broker.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=2.5, help="of one case and round (2.5)")
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    parser.add_argument("--java", default="4.9.7", choices=("4.9.7", "5.2.0", "none"))
    parser.add_argument("--only", default="", help="run cases whose name contains this")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    chosen = [case for case in CASES if options.only in case.name]
    if not chosen:
        parser.error(f"no case has {options.only!r} in its name")
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="contrail-bench-") as home,
        UsedMemory(Path(home)) as memory,
    ):
        for group in dict.fromkeys(case.group for case in chosen):
            cases = [case for case in chosen if case.group == group]
            rows += Group(cases, Path(home), memory, options).run()
    write_report(rows, options, is_whole=not options.only, took_s=time.monotonic() - began)
    return 1 if any(row["errors"] for row in rows if row["broker"] == OurBroker.name) else 0


class Group:
    """Cases that share running brokers: all rounds of a case, then the next."""

    def __init__(
        self, cases: list[Case], home: Path, memory: UsedMemory, options: argparse.Namespace
    ) -> None:
        self._cases = cases
        self._memory = memory
        self._loadgen = build_loadgen()
        self._seconds = str(options.seconds)
        self._warm_s = max(options.seconds, WARM_S)
        self._rounds = options.rounds
        self._filled: set[tuple[str, str]] = set()
        conf = GROUPS[cases[0].group]
        self._makers: list[Callable[[], BrokerProcess]] = [lambda: OurBroker(home / "ours", conf)]
        if options.java != "none":
            self._makers.append(lambda: JavaBroker(home / "java", conf, options.java))

    def run(self) -> list[Row]:
        """Start the brokers, warm them up, measure."""
        rows: list[Row] = []
        with contextlib.ExitStack() as stack:
            brokers = [stack.enter_context(make()) for make in self._makers]
            for broker in brokers:
                call(self._loadgen, broker, ["create", "-t", "bench", "-q", str(QUEUES)])
                warm = ["send", "-t", "bench", "-q", str(QUEUES), "-c", "16", "-w", "64"]
                call(self._loadgen, broker, [*warm, "-s", str(self._warm_s)])
            for case in self._cases:
                rows += self._case(case, brokers)
        return rows

    def _case(self, case: Case, brokers: list[BrokerProcess]) -> list[Row]:
        for broker in brokers:
            if case.fill:
                self._fill(case.fill, broker)
            if case.topics > 1:
                call(self._loadgen, broker, ["create", *_target(case)])
        samples: dict[str, list[list[Row]]] = {broker.name: [] for broker in brokers}
        for _ in range(self._rounds):
            for broker in brokers:
                samples[broker.name].append(self._sample(case, broker))
        rows = []
        for broker in brokers:
            parts = zip(*samples[broker.name], strict=True)
            rows += [_summary(case, broker, list(part)) for part in parts]
        for row in rows:
            print(json.dumps(row), flush=True)
        return rows

    def _fill(self, fill: Fill, broker: BrokerProcess) -> None:
        if (broker.name, fill.topic) in self._filled:
            return
        self._filled.add((broker.name, fill.topic))
        target = ["-t", fill.topic, "-q", str(QUEUES)]
        call(self._loadgen, broker, ["create", *target])
        load = [*fill.arguments, *target, "-N", str(fill.messages), "-s", "120"]
        found = call(self._loadgen, broker, load)
        if found["messages"] != fill.messages:
            raise SystemExit(f"{broker.name}: filling {fill.topic} failed: {found}")

    def _sample(self, case: Case, broker: BrokerProcess) -> list[Row]:
        """One round: the case, and what ran beside it."""
        extra: Row = {}
        if case.cold:
            extra["resident_share"] = round(evict(broker.store, broker.pids), 3)
        self._memory.renew()
        settle()
        target = [*_target(case), "-s", self._seconds]
        before = broker.cpu_s()
        with broker.watch() as memory:
            loads = [Load(self._loadgen, broker, [*case.arguments, *target])]
            if case.beside:
                loads.append(Load(self._loadgen, broker, [*case.beside[1], *target]))
            found = [load.result() for load in loads]
        done = sum(sample["messages"] for sample in found)
        extra["cpu_s_per_million"] = (broker.cpu_s() - before) / max(done, 1) * 1e6
        extra["anonymous_mb"] = memory.peak / 1e6
        extra["resident_peak_mb"] = broker.resident_peak() / 1e6
        return [sample | extra | {"part": part} for part, sample in enumerate(found)]


def _target(case: Case) -> list[str]:
    queues = QUEUES if case.topics == 1 else 4
    return ["-t", case.topic, "-q", str(queues), "-T", str(case.topics)]


def _summary(case: Case, broker: BrokerProcess, samples: list[Row]) -> Row:
    """The medians of a case's rounds."""
    row: Row = {"case": case.name, "broker": broker.name, "group": case.group, "aim": case.aim}
    row["loop"] = "open" if case.is_open else "closed"
    if samples[0]["part"]:
        assert case.beside is not None
        row |= {"case": case.beside[0], "aim": None, "loop": "open"}
    names = (*KEPT, "cpu_s_per_million")
    row |= {name: round(statistics.median(s[name] for s in samples), 2) for name in names}
    row["errors"] = sum(sample["errors"] for sample in samples)
    row["anonymous_mb"] = round(max(sample["anonymous_mb"] for sample in samples), 1)
    row["resident_peak_mb"] = round(max(sample["resident_peak_mb"] for sample in samples), 1)
    row["start_s"] = round(broker.start_s, 3)
    row["rounds"] = [round(sample["messages_per_s"]) for sample in samples]
    row["rounds_p99_us"] = [sample["p99_us"] for sample in samples]
    if case.cold:
        row["resident_share"] = max(sample["resident_share"] for sample in samples)
    return row


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
