"""The tour shows what it promises, and leaves nothing behind."""

from __future__ import annotations

import io
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from contrailmq.clock import SystemClock
from contrailmq.demo import lake
from contrailmq.demo import main as demo
from contrailmq.demo.screen import Screen
from contrailmq.errors import ConfigError
from contrailmq.pipelines.local import command_session

SRC = str(Path(__file__).resolve().parents[2] / "src")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files of this test go, also those of its children."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _value(shown: str, name: str) -> str:
    summary = shown.partition("what happened")[2]
    found = re.search(rf"^  {name} +(.+)$", summary, re.MULTILINE)
    assert found is not None, shown
    return found[1]


@pytest.mark.slow
def test_the_messaging_half(folder: Path) -> None:
    out = io.StringIO()
    assert demo.main(["--orders", "400", "--no-spark"], out=out) == 0
    shown = out.getvalue()
    assert _value(shown, "orders billed").startswith("399 ")
    assert _value(shown, "dead letters") == "1"
    big = re.match(r"(\d+) of (\d+) through", _value(shown, "orders over 900"))
    assert big is not None
    assert int(big[1]) == int(big[2]) > 0
    assert _value(shown, "transactions") == "1 committed, 1 rolled back"
    assert "left out, as asked" in shown
    assert re.match(r"1,\d+ acknowledged, 0 lost", _value(shown, "kill of a primary"))
    assert list(folder.iterdir()) == []


@pytest.mark.spark
def test_both_halves_as_a_user_runs_them(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "contrailmq.main", "demo", "--orders", "2000"],
        env={**os.environ, "PYTHONPATH": SRC},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert _value(done.stdout, "rows in Parquet").startswith("2,000 in 3 micro-batches")
    assert _value(done.stdout, "totals in a topic").startswith("8 messages")
    assert _value(done.stdout, "dead letters re-driven").startswith("1 ")
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_a_tour_that_is_stopped_cleans_up(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "contrailmq.main", "demo", "--no-spark"],
        env={**os.environ, "PYTHONPATH": SRC},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if "orders sent" in line:
                process.send_signal(signal.SIGTERM)
                break
        process.stdout.read()
        assert process.wait(30) == demo.TERMINATED
    assert list(folder.iterdir()) == []


def test_without_java_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    reason = lake.why_not()
    assert reason is not None
    assert "Java 17" in reason
    assert "there is no java in PATH" in reason
    assert "\n" not in reason


def test_a_java_home_that_is_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would take it, whatever is in PATH."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    reason = lake.why_not()
    assert reason is not None
    assert f"JAVA_HOME={tmp_path} has no bin/java" in reason
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    reason = lake.why_not()
    assert reason is not None
    assert f"{java} is 11" in reason
    with pytest.raises(ConfigError, match="apt-get install openjdk-17"), command_session("x"):
        pass


def test_a_python_that_spark_cannot_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "java_fault", lambda: None)
    monkeypatch.setattr(sys, "executable", "/home/me/my clone/.venv/bin/python")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    reason = lake.why_not()
    assert reason is not None
    assert "cannot use /home/me/my clone/.venv/bin/python" in reason
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    assert "cannot use" not in (lake.why_not() or "")


def test_who_has_no_command_contrail_is_told_how_to_get_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = folder / ".venv" / "bin"
    commands.mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "executable", str(commands / "python"))
    monkeypatch.setenv("PATH", str(folder))
    assert demo._way_to_the_command() == []
    (commands / "activate").touch()
    [(words, _)] = demo._way_to_the_command()
    assert words == ". .venv/bin/activate"
    (commands / "contrail").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(commands))
    assert demo._way_to_the_command() == []


def test_too_few_orders_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        demo.main(["--orders", "3"])
    assert stop.value.code == 2
    assert "at least 100" in capsys.readouterr().err


class Slow(SystemClock):
    """A second passes between two looks."""

    def __init__(self) -> None:
        self._seconds = itertools.count()

    def monotonic_ms(self) -> int:
        return next(self._seconds) * 1000


class Still(SystemClock):
    """No time passes."""

    def monotonic_ms(self) -> int:
        return 1000


def test_nothing_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that wraps cannot be drawn again in its place."""
    monkeypatch.setenv("COLUMNS", "80")
    out = io.StringIO()
    screen = Screen(out, clock=Slow())
    screen.note("a long text " * 12)
    screen.good("another " * 20)
    screen.table([("a name", "and its long value " * 6)])
    bar = screen.bar("orders into Parquet", 20_000)
    bar.set(20_000)
    bar.finish("3 micro-batches")
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "█" in lines[-1]
    assert lines[-1].endswith("3 micro-batches")
    bar = screen.bar("broken order, attempts", 4)
    bar.set(4)
    bar.finish("dead letter in %DLQ%billing")
    last = out.getvalue().splitlines()[-1]
    assert len(last) <= 80
    assert last.endswith("█ 4/4  dead letter in %DLQ%billing")
    assert "/s" not in last


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_a_bar_is_drawn_over_itself(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However narrow the terminal is: a line that wraps would stay behind."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    screen = Screen(out, clock=Slow())
    bar = screen.bar("orders into Parquet", 20_000)
    for count in (1, 10_000, 20_000):
        bar.set(count)
    bar.finish("3 micro-batches")
    drawn = out.getvalue().removesuffix("\n").split("\r\033[K")
    assert len(drawn) == 5
    assert max(map(len, drawn)) < columns
    screen.title("no colour")
    assert out.getvalue().count("\033[") == 4


def test_a_rate_waits_for_some_time_to_pass() -> None:
    out = Terminal()
    bar = Screen(out, clock=Still()).bar("orders billed", 3000)
    bar.set(1053)
    assert "/s" not in out.getvalue()


def test_a_bar_outside_of_a_terminal_is_one_line() -> None:
    out = io.StringIO()
    bar = Screen(out).bar("things", 4)
    for _ in range(4):
        bar.advance()
    bar.finish("all of them")
    assert out.getvalue().count("\n") == 1
    assert "4/4" in out.getvalue()
    assert out.getvalue().rstrip().endswith("all of them")
