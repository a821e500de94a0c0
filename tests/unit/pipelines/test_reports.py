"""Bars, stopping, summaries, charts and the page of an audit: what needs no Spark."""

from __future__ import annotations

import datetime
import io
import json
import logging
import os
import signal
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from contrailmq.errors import ConfigError
from contrailmq.pipelines import message_report
from contrailmq.pipelines.audit import charts
from contrailmq.pipelines.audit.page import page
from contrailmq.pipelines.local import _silenced, reason, terminable, without_log
from contrailmq.pipelines.main import main, parser
from contrailmq.pipelines.progress import Progress, Stop
from contrailmq.pipelines.report import Report

HOUR = datetime.datetime(2026, 11, 15, 9, tzinfo=datetime.UTC)


class _Clock:
    def __init__(self) -> None:
        self.ms = 5_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_says_rows_speed_lag_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    clock, out = _Clock(), _Terminal()
    bar = Progress("archive", out, clock=clock)
    clock.ms += 2_000
    bar.add(1_000, 4 * 1024 * 1024, lag=3_000)
    text = out.getvalue()
    assert "1,000 rows" in text
    assert "2.0 MiB/s" in text
    assert "lag 3,000" in text
    assert "6.0 s left" in text
    assert " 25%" in text
    bar.add(1)
    assert out.getvalue() == text, "drawn again only after a while"
    bar.finish()
    assert out.getvalue().endswith("\r\033[K")


def test_where_there_is_no_terminal_nothing_is_drawn() -> None:
    out = io.StringIO()
    bar = Progress("archive", out, clock=_Clock())
    bar.add(10, 20, lag=5)
    bar.finish()
    assert (out.getvalue(), bar.rows, bar.size, bar.lag) == ("", 10, 20, 5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_interrupt_asks_and_the_second_interrupts(number: signal.Signals) -> None:
    """The signal of a terminal, and that of whoever stops services."""
    stop, before = Stop(), signal.getsignal(number)
    with stop.on_interrupt():
        os.kill(os.getpid(), number)
        assert stop.wait(5.0)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
            stop.wait(5.0)
            raise AssertionError("the second interrupt did nothing")  # pragma: no cover
    assert signal.getsignal(number) is before


def test_interrupted_calls_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    before = logging.getLogger().level
    with without_log():
        logging.error("Exception while sending command.")
        logging.getLogger("py4j.clientserver").error("Exception occurred")
    assert caplog.records == []
    assert logging.getLogger().level == before
    logging.error("again")
    assert [record.message for record in caplog.records] == ["again"]


def test_who_interrupts_the_start_is_not_shown_what_it_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for error, shown in ((ValueError("x"), "chatter"), (KeyboardInterrupt(), "")):
        path = tmp_path / type(error).__name__
        with pytest.raises(type(error)), _silenced(path):
            os.write(2, b"chatter")
            raise error
        assert capfd.readouterr().err == shown


def test_who_is_terminated_while_spark_starts_cleans_up() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), terminable():
        os.kill(os.getpid(), signal.SIGTERM)
        Stop().wait(5.0)
        raise AssertionError("the signal did nothing")  # pragma: no cover
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_summary_tells_what_was_done_and_what_is_next() -> None:
    report = Report(pipeline="archive", rows=1000, size=2048, seconds=2.0, facts={"merged": 3})
    assert report.summary() == (
        "archive: 1,000 messages, 2.0 KiB in 2.0 s (500 a second)\n  merged: 3"
    )
    report.is_stopped = True
    assert "the same command goes on" in report.summary()
    assert report.as_row()["stopped"] is True


def test_report_rows_are_written_by_the_name_of_the_file(tmp_path: Path) -> None:
    rows = [{"message_id": "A", "status": "sent", "error": None}]
    message_report.write(rows, tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text().splitlines() == ["message_id,status,error", "A,sent,"]
    message_report.write(rows, tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text()) == rows[0]
    with pytest.raises(ConfigError, match=r"\.csv, \.json or \.parquet"):
        message_report.write(rows, tmp_path / "r.txt")


@pytest.mark.parametrize(
    ("name", "text"),
    [("all.xls", "expected a name that ends with .csv"), ("none/all.csv", "there is no folder")],
)
def test_a_report_that_cannot_be_written_is_refused_before_anything_is_sent(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["redrive", "billing", "--report", str(tmp_path / name)])
    assert ended.value.code == 2
    assert text in capsys.readouterr().err
    found = parser().parse_args(["redrive", "g", "--report", str(tmp_path / "all.parquet")])
    assert found.report == tmp_path / "all.parquet"


def test_what_spark_says_becomes_one_line() -> None:
    text = (
        '[PYTHON_EXCEPTION] Job aborted:\n  File "x.py", line 3\n'
        "contrailmq.errors.NoRoute: topic 'x' is not known\n\tat org.apache.spark.Y(Z.scala:1)\n"
    )
    assert reason(text) == "topic 'x' is not known"
    assert reason("[PARSE] wrong\n== SQL ==\nselec") == "[PARSE] wrong"
    assert "does not say" in reason("")


@pytest.mark.parametrize(
    ("value", "ceiling"), [(0, 1), (1, 1), (3, 5), (12, 20), (21, 25), (99, 100), (0.03, 0.05)]
)
def test_an_axis_ends_at_a_round_number(value: float, ceiling: float) -> None:
    assert charts.nice_ceiling(value) == pytest.approx(ceiling)


def test_many_series_become_few_and_nothing_is_lost() -> None:
    series = {f"topic-{number}": {HOUR: float(number)} for number in range(20)}
    shown = charts.top_series(series)
    assert len(shown) == charts.SERIES_MAX
    assert list(shown)[:2] == ["topic-19", "topic-18"]
    assert sum(values[HOUR] for values in shown.values()) == sum(range(20))


def test_charts_are_well_formed_and_columns_add_up() -> None:
    nasty = {'<b>&"': {HOUR: 3.0}, "other": {HOUR: 1.0}}
    svg = charts.columns(nasty, hours=[HOUR]).partition("</svg>")[0] + "</svg>"
    root = ET.fromstring(svg)
    rectangles = [node for node in root.iter() if node.tag.endswith("rect")]
    heights = [float(node.attrib["height"]) for node in rectangles]
    assert len(heights) == 2
    assert heights[0] == pytest.approx(3 * heights[1], rel=0.01)
    ET.fromstring(charts.bars([("<name>", 2.0), ("b", 1.0)]))
    line = charts.lines(nasty, hours=[HOUR, HOUR + datetime.timedelta(hours=1)])
    assert line.count("<circle") == 2


def test_a_page_of_nothing_is_a_page() -> None:
    text = page({}, source="a<b", now_ms=0, span=(None, None))
    assert "Audit of a&lt;b" in text
    assert text.count("Nothing to show.") == 5


def test_names_from_messages_cannot_break_the_page() -> None:
    hour_ms = int(HOUR.timestamp() * 1000)
    keys = [
        {"topic": "t", "rank": 1, "key": "<script>", "messages": 2, "share": 1.0,
         "keys_of_topic": 1}
    ]  # fmt: skip
    lag = [
        {"group": "g", "topic": "t", "broker": "b", "queue_id": 0, "end_offset": 9,
         "committed": 4, "lag": 5, "last_consumed": hour_ms}
    ]  # fmt: skip
    text = page({"keys": keys, "lag": lag}, source="x", now_ms=hour_ms, span=(0, hour_ms))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "2026-11-15 09:00" in text


def test_every_pipeline_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("archive", "restore", "compact", "redrive", "replay", "audit", "project"):
        with pytest.raises(SystemExit) as stop:
            parser().parse_args([name, "--help"])
        assert stop.value.code == 0
        assert f"contrail pipeline {name}" in capsys.readouterr().out


def test_a_project_is_written_once_and_filled_in(tmp_path: Path) -> None:
    out = io.StringIO()
    target = tmp_path / "mine"
    line = ["project", "archive", str(target), "--topics", "orders,payments", "-n", "ns:9876"]
    assert main(line, out) == 0
    settings = (target / "spark-pipeline.yml").read_text()
    assert 'contrail.nameServers: "ns:9876"' in settings
    assert 'contrail.topics: "orders,payments"' in settings
    assert "@" not in settings
    compile((target / "transformations" / "archive.py").read_text(), "archive.py", "exec")
    with pytest.raises(ConfigError, match="has a project already"):
        main(line, out)
