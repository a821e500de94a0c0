"""What a report says of figures: verdicts, exponents, marked texts, pictures that parse."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench.broker import growth, report
from bench.broker.brokers import OurBroker
from bench.broker.cases import CASES, GROUPS
from bench.plot import ratio_bars, text_of

Row = dict[str, Any]


def _row(case: str, broker: str, rate: float, **more: Any) -> Row:
    row: Row = {
        "case": case, "broker": broker, "group": "usual", "aim": 2.0, "loop": "closed",
        "messages_per_s": rate, "p50_us": 100, "p99_us": 1000, "p999_us": 2000,
        "cpu_s_per_million": 3.0, "errors": 0, "anonymous_mb": 20.0, "resident_peak_mb": 100.0,
        "start_s": 0.2, "rounds": [rate],
    }  # fmt: skip
    return row | more


def _pairs(**java: Any) -> list[report.Pair]:
    rows = [_row("a", OurBroker.name, 200.0), _row("b", OurBroker.name, 199.0)]
    rows += [_row(name, "rocketmq", 100.0, **java) for name in "ab"]
    return report.paired(rows)


def test_an_aim_is_met_or_missed() -> None:
    assert [report.rate_verdict(pair) for pair in _pairs()] == ["met", "**missed**"]
    assert report.rate_verdict((_row("c", "o", 1, aim=None), _row("c", "j", 1))) == ""


@pytest.mark.parametrize(("java_p99", "verdict"), [(1000, "met"), (999, "**missed**")])
def test_a_p99_may_be_no_worse(java_p99: int, verdict: str) -> None:
    assert report.p99_verdict(_pairs(p99_us=java_p99)[0]) == verdict


@pytest.mark.parametrize(
    ("memory", "start", "said"),
    [(300.0, 1.0, ["met", "met"]), (299.0, 0.99, ["**missed**", "**missed**"])],
)
def test_memory_and_start_have_aims(memory: float, start: float, said: list[str]) -> None:
    lines = report.verdicts(_pairs(anonymous_mb=memory, start_s=start))
    assert f"1/15): {said[0]}" in lines[1]
    assert f"1/5): {said[1]}" in lines[2]
    assert lines[0].startswith("* Rates: 1 of 2 aims met. p99 no worse than Java's: 2 of 2.")


def test_only_what_is_between_the_markers_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.replace_marked(page, "new")
    assert page.read_text() == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"
    page.write_text("no markers")
    with pytest.raises(SystemExit, match=r"page\.md: no"):
        report.replace_marked(page, "new")


def test_a_part_of_the_cases_leaves_the_documents_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "OUT", tmp_path)
    monkeypatch.setattr(report, "ROOT", tmp_path / "nowhere")
    options = argparse.Namespace(java="4.9.7", rounds=3, seconds=1.0)
    rows = [row for pair in _pairs() for row in pair]
    report.write_report(rows, options, is_whole=False, took_s=60)
    lines = (tmp_path / "compare.jsonl").read_text().splitlines()
    assert [json.loads(line)["case"] for line in lines] == ["a", "a", "b", "b"]
    assert "| a | 200 | 100 | 2.00 | ≥ 2 | met |" in (tmp_path / "compare.md").read_text()
    for name in ("throughput.svg", "latency.svg"):
        ElementTree.fromstring((tmp_path / name).read_text())


def test_every_case_of_the_table_can_run() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.group for case in CASES} == set(GROUPS)
    for case in CASES:
        assert case.fill is None or case.fill.topic == case.topic
        assert (case.aim is None) == case.is_open


def test_a_bar_has_our_length_in_proportion() -> None:
    tree = ElementTree.fromstring(ratio_bars([("x", 30.0, 10.0, 2.0)], title="t & u", note="n"))
    bars = [node for node in tree if node.tag.endswith("rect") and node.get("height") == "14"]
    ours, theirs = (float(bar.get("width", "0")) for bar in bars)
    assert ours == pytest.approx(3 * theirs, rel=0.01)


@pytest.mark.parametrize(("value", "text"), [(0.1234, "0.123"), (99.0, "99"), (1234.5, "1,234"),
                                             (25_000, "25 k"), (2_500_000, "2.50 M")])  # fmt: skip
def test_numbers_are_short(value: float, text: str) -> None:
    assert text_of(value) == text


def test_the_exponent_of_a_power_law() -> None:
    fit, steepest = growth.slopes([(x, 7 * x**1.5) for x in (1, 10, 100)])
    assert (fit, steepest) == (pytest.approx(1.5), pytest.approx(1.5))
    fit, steepest = growth.slopes([(1, 1), (10, 1), (100, 50)])
    assert fit < 1 < steepest


def _log(*sizes: tuple[float, float]) -> list[Row]:
    return [
        {"series": "log", "gb": gb, "start_s": s, "cpu_us_per_message": 2.0, "anonymous_mb": 20.0,
         "pull_cpu_us_per_message": 1.0}
        for gb, s in sizes
    ]  # fmt: skip


def test_what_grows_faster_than_its_cause_is_missed() -> None:
    rows = _log((1, 0.1), (10, 10.0))
    rows += [{"series": "idle", "connections": 1000, "long_polls": 1000, "cpu_percent": 1.2}]
    found = {row["growth"]: row["verdict"] for row in growth.verdicts(rows)}
    assert found["seconds of a start (cold files), by GB of log"] == "missed"
    assert found["anonymous MB, by GB of log"] == "met"
    assert [verdict for name, verdict in found.items() if name.startswith("CPU % idle")] == [
        "missed"
    ]
    assert any("1000 + 1000: 1.2 %" in line for line in growth.table(rows, growth.verdicts(rows)))
    ElementTree.fromstring(growth.draw(rows))
