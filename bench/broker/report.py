"""The report of a comparison: verdicts, a table for people, JSON lines, pictures.

An aim is the least ratio of our rate to Java's in the same run.  A p99 may be no worse than
Java's.  Memory and start-up have aims of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench.broker.brokers import ROOT, OurBroker
from bench.broker.load import OUT
from bench.plot import ratio_bars

Row = dict[str, Any]
Pair = tuple[Row, Row]
MEMORY_AIM, START_AIM = 15.0, 5.0
IMAGES = ROOT / "docs" / "img"
README_CASES = (
    "send 1x1 128 B",
    "send 64x1 128 B",
    "send 16x64 128 B",
    "pull 16x1",
    "send 64x1 sync flush",
)
MORE = "* All cases, the settings and what they cost: [Performance](docs/performance.md)."
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
HOW = (
    "In each round one broker is measured, then the other, on the same machine as the load "
    "generator (C, one thread); both have the same settings and their defaults otherwise "
    "(Java: heap of 2 GB). Topics that are read hold the same messages in both. Before each "
    "sample dirty pages are written out, so that no case pays for the one before. "
    "`a x b` is a closed loop of a connections with b requests in flight each: its latencies are "
    "those of the requests in flight. Rows with a rate are open loops: latency counts from when "
    "a request was due (no coordinated omission)."
)


def write_report(
    rows: list[Row], options: argparse.Namespace, *, is_whole: bool, took_s: float
) -> None:
    """Write ``bench/out`` and, from a whole run with three rounds, the documents."""
    (OUT / "compare.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pairs = paired(rows)
    if not pairs:
        return
    lines = head(options, took_s)
    text = "\n".join([*lines, "", HOW, "", *table(pairs), "", *verdicts(pairs), ""])
    (OUT / "compare.md").write_text(f"# ContrailMQ beside RocketMQ {options.java}\n\n{text}")
    pictures = draw(pairs, options.java)
    for name, picture in pictures.items():
        (OUT / name).write_text(picture)
    sys.stdout.write("\n" + text)
    if is_whole and options.rounds >= 3 and options.java == "4.9.7":
        for name, picture in pictures.items():
            (IMAGES / name).write_text(picture)
        shown = "\n".join([*lines, "", *short_table(pairs), "", *verdicts(pairs)[:3], MORE])
        picture = _links("docs/img/").partition("\n")[0]
        replace_marked(ROOT / "README.md", f"{shown}\n\n{picture}")
        replace_marked(ROOT / "docs" / "performance.md", f"{text}\n{_links('img/')}")


def _links(place: str) -> str:
    return (
        f"![Throughput beside RocketMQ]({place}throughput.svg)\n\n"
        f"![p99 latency beside RocketMQ]({place}latency.svg)"
    )


def replace_marked(path: Path, text: str, *, marks: tuple[str, str] = (BEGIN, END)) -> None:
    """Put a text between the markers of a document."""
    whole = path.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise SystemExit(f"{path}: no {marks[0]} … {marks[1]}")
    path.write_text(f"{before}{marks[0]}\n{text}\n{marks[1]}{after}", encoding="utf-8")


def paired(rows: list[Row]) -> list[Pair]:
    """Our row and Java's of each case, in the order of the run."""
    java = {row["case"]: row for row in rows if row["broker"] != OurBroker.name}
    ours = [row for row in rows if row["broker"] == OurBroker.name]
    return [(row, java[row["case"]]) for row in ours if row["case"] in java]


def head(options: argparse.Namespace, took_s: float) -> list[str]:
    """Where and how it was measured."""
    load = os.getloadavg()
    return [
        f"ContrailMQ beside RocketMQ {options.java}: medians of {options.rounds} rounds of "
        f"{options.seconds:g} s; {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}, "
        f"{took_s / 60:.0f} minutes, load average at the end {load[0]:.1f}."
    ]


def ratio(pair: Pair) -> float:
    """Our rate over Java's."""
    return float(pair[0]["messages_per_s"]) / max(float(pair[1]["messages_per_s"]), 1.0)


def rate_verdict(pair: Pair) -> str:
    """Whether the aim of the rate is met; nothing where there is none."""
    aim = pair[0]["aim"]
    if aim is None:
        return ""
    return "met" if round(ratio(pair), 2) >= aim else "**missed**"


def p99_verdict(pair: Pair) -> str:
    """Whether our p99 is no worse than Java's."""
    return "met" if pair[0]["p99_us"] <= pair[1]["p99_us"] else "**missed**"


def table(pairs: list[Pair]) -> list[str]:
    """Everything that was measured."""
    lines = [
        "| case | ours msg/s | Java msg/s | ratio | aim | | ours p50 / p99 / p99.9 ms "
        "| Java p50 / p99 / p99.9 ms | p99 ≤ Java's | CPU s per million, ours / Java |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for pair in pairs:
        ours, java = pair
        aim = f"≥ {ours['aim']:g}" if ours["aim"] else ""
        lines.append(
            f"| {ours['case']} | {ours['messages_per_s']:,.0f} | {java['messages_per_s']:,.0f} "
            f"| {_ratio_text(pair)} | {aim} | {rate_verdict(pair)} | {_latencies(ours)} "
            f"| {_latencies(java)} | {p99_verdict(pair)} "
            f"| {ours['cpu_s_per_million']:.1f} / {java['cpu_s_per_million']:.1f} |"
        )
    return lines


def short_table(pairs: list[Pair]) -> list[str]:
    """Return the README's rows: one case per kind of load, with rate and p99."""
    lines = [
        "| case | ours msg/s | Java msg/s | ratio | p99, ours / Java ms |",
        "|---|---|---|---|---|",
    ]
    for pair in pairs:
        ours, java = pair
        if ours["case"] in README_CASES:
            lines.append(
                f"| {ours['case']} | {ours['messages_per_s']:,.0f} | {java['messages_per_s']:,.0f} "
                f"| {_ratio_text(pair)} "
                f"| {ours['p99_us'] / 1000:.2f} / {java['p99_us'] / 1000:.2f} |"
            )
    return lines


def _ratio_text(pair: Pair) -> str:
    return f"{ratio(pair):.2f}" if pair[0]["loop"] == "closed" else "given"


def _latencies(row: Row) -> str:
    return " / ".join(f"{row[name] / 1000:.2f}" for name in ("p50_us", "p99_us", "p999_us"))


def verdicts(pairs: list[Pair]) -> list[str]:
    """Memory, start-up, errors, and how many aims are met."""
    ours, java = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    memory = [max(row["anonymous_mb"] for row in rows) for rows in (ours, java)]
    resident = [max(row["resident_peak_mb"] for row in rows) for rows in (ours, java)]
    starts = [_start(rows) for rows in (ours, java)]
    errors = [sum(row["errors"] for row in rows) for rows in (ours, java)]
    aims = [rate_verdict(pair) for pair in pairs if pair[0]["aim"] is not None]
    p99 = [p99_verdict(pair) for pair in pairs]
    lines = [
        f"* Rates: {aims.count('met')} of {len(aims)} aims met. "
        f"p99 no worse than Java's: {p99.count('met')} of {len(p99)}.",
        f"* Anonymous memory, peak: ours {memory[0]:.0f} MB, Java {memory[1]:.0f} MB, "
        f"1/{memory[1] / max(memory[0], 1):.0f} (aim ≤ 1/{MEMORY_AIM:g}): "
        f"{_met(memory[0] * MEMORY_AIM <= memory[1])}. Peak resident, mapped files of the store "
        f"included: ours {resident[0]:,.0f} MB, Java {resident[1]:,.0f} MB.",
        f"* Ready (answers a request) in: ours {starts[0]:.2f} s, Java {starts[1]:.2f} s, "
        f"1/{starts[1] / max(starts[0], 1e-3):.0f} (aim ≤ 1/{START_AIM:g}): "
        f"{_met(starts[0] * START_AIM <= starts[1])}.",
        f"* Errors: ours {errors[0]}, Java {errors[1]}.",
    ]
    cold = [row for row in ours if "resident_share" in row]
    if cold:
        share = max(
            row["resident_share"] for pair in pairs for row in pair if "resident_share" in row
        )
        lines.append(
            f"* Cold catch-up: at most {share:.1%} of the log was in memory when a sample began."
        )
    return lines


def _start(rows: list[Row]) -> float:
    by_group = {row["group"]: row["start_s"] for row in rows}
    return statistics.median(by_group.values())


def _met(is_met: bool) -> str:
    return "met" if is_met else "**missed**"


def draw(pairs: list[Pair], java: str) -> dict[str, str]:
    """The pictures by file name."""
    closed = [pair for pair in pairs if pair[0]["loop"] == "closed"]
    return {
        "throughput.svg": ratio_bars(
            [(o["case"], o["messages_per_s"], j["messages_per_s"], o["aim"]) for o, j in closed],
            title=f"Throughput beside RocketMQ {java}, messages a second",
            note="bars: RocketMQ = 1; mark: the aim; longer is better",
        ),
        "latency.svg": ratio_bars(
            [(o["case"], o["p99_us"] / 1000, j["p99_us"] / 1000, None) for o, j in pairs],
            title=f"p99 latency beside RocketMQ {java}, milliseconds",
            note="bars: RocketMQ = 1; shorter is better",
        ),
    }
