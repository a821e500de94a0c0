"""The commands as users run them, in processes of their own; the projects with Spark's tool."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.options import source_options
from contrailmq.pipelines.main import main
from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
SRC = Path(__file__).resolve().parents[2] / "src"
WAIT_S = 180
_IN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "contrailmq.main", *sys.argv[1:]])
"""


@pytest.fixture(scope="module")
def shop() -> Iterator[ClusterThread]:
    """One broker with a topic of 200 messages."""
    cluster = ClusterThread(brokers=1, properties={"traceTopicEnable": "true"})
    try:
        cluster.create_topic("orders", queues=2)
        send(cluster.name_servers, "orders", range(200))
        yield cluster
    finally:
        cluster.close()


def _environment() -> dict[str, str]:
    found = {**os.environ, "PYTHONPATH": str(SRC), "PYSPARK_PYTHON": sys.executable}
    return {name: value for name, value in found.items() if name != "NAMESRV_ADDR"}


def _contrail(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "contrailmq.main", *words],
        env=_environment(),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )


def test_sql_answers_on_standard_output_and_says_nothing_else(
    shop: ClusterThread, tmp_path: Path
) -> None:
    query = "select tags, count(*) as n from orders group by tags order by tags"
    done = _contrail("sql", "-n", shop.name_servers, "--csv", query, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "tags,n\nt0,100\nt1,100\n"), done.stderr
    assert done.stderr == ""
    body = "select keys, tags from orders where cast(body as string) like '%\"n\": 17,%'"
    done = _contrail("sql", "--store", str(shop.stores[0]), "--json", body, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert json.loads(done.stdout) == {"keys": "k17", "tags": "t1"}
    assert list(tmp_path.iterdir()) == [], "nothing is left where the command ran"


class _Terminal:
    """A command in a terminal of its own, where Ctrl-C goes to all it has started."""

    def __init__(self, *words: str, cwd: Path) -> None:
        self._main, other = pty.openpty()
        termios.tcsetwinsize(other, (24, 120))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _IN_TERMINAL, *words], env=_environment(), cwd=cwd,
            stdin=other, stdout=other, stderr=other, start_new_session=True,
        )  # fmt: skip
        os.close(other)
        self.shown = ""

    def read_until(self, pattern: str) -> None:
        """Wait until what was shown has a match, however it is cut into pieces."""
        deadline = time.monotonic() + WAIT_S
        while not re.search(pattern, self.shown):
            assert time.monotonic() < deadline, self.shown[-3000:]
            assert self._more(), self.shown[-3000:]

    def press_ctrl_c(self) -> None:
        """What the keyboard does: the terminal interrupts its foreground processes."""
        os.write(self._main, b"\x03")

    def end(self) -> int:
        """Wait for the end; the exit code."""
        while self._more():
            continue
        return self.process.wait(WAIT_S)

    def close(self) -> None:
        """Whatever happened, nothing stays."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._main)

    def _more(self) -> bool:
        ready, _, _ = select.select([self._main], [], [], WAIT_S)
        try:
            data = os.read(self._main, 65536) if ready else b""
        except OSError:  # the other end is closed
            data = b""
        self.shown += data.decode()
        return bool(data)


def _keys(folder: Path) -> list[str]:
    files = list(folder.glob("date=*/hour=*/topic=*/*/*.parquet"))
    return sorted(
        row["keys"] for file in files for row in pq.read_table(file, columns=["keys"]).to_pylist()
    )


def test_ctrl_c_in_a_terminal_stops_and_the_same_command_goes_on(
    shop: ClusterThread, tmp_path: Path
) -> None:
    words = ["pipeline", "archive", "orders", "-n", shop.name_servers, "--out", "archive"]
    words += ["--batch-rows", "20"]
    terminal = _Terminal(*words, "--follow", "0.5", cwd=tmp_path)
    try:
        # A bar with share, rows, speed, lag and the time that is left.
        terminal.read_until(r"archive  [█░]{20} +\d+%  \d+ rows  [\d.]+ \w+/s  lag \d+  .+ left")
        terminal.press_ctrl_c()
        code = terminal.end()
    finally:
        terminal.close()
    assert code == 130, terminal.shown
    last = terminal.shown.rpartition("\033[K")[2]
    assert re.search(r"archive: \d+ messages.*; stopped, the same command goes on", last)
    assert "Traceback" not in terminal.shown
    begun = _keys(tmp_path / "archive")
    assert 0 < len(begun) < 200
    done = _contrail(*words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), "no terminal, no bar"
    assert done.stdout.startswith(f"archive: {200 - len(begun)} messages")
    assert _keys(tmp_path / "archive") == sorted(f"k{number}" for number in range(200))


def test_an_interrupted_replay_goes_on(shop: ClusterThread, tmp_path: Path) -> None:
    shop.create_topic("paced", queues=2)
    shop.create_topic("again", queues=2)
    for number in range(12):
        send(shop.name_servers, "paced", range(number, number + 1))
        time.sleep(0.25)
    words = ["pipeline", "replay", "paced", "--to", "again", "-n", shop.name_servers]
    words += ["--state", "state.json", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "contrailmq.main", *words, "--speed", "0.2"],
        env=_environment(), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        _await(lambda: _count(shop, "again") > 0, process)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, errors
    first = json.loads(out)
    assert first["stopped"] is True and 0 < first["rows"] < 12
    done = _contrail(*words, "--speed", "5", cwd=tmp_path)  # other slices than the first run had
    assert done.returncode == 0, done.stderr
    assert first["rows"] + json.loads(done.stdout)["rows"] == 12
    assert _count(shop, "again") == 12
    assert not (tmp_path / "state.json").exists()


def _count(cluster: ClusterThread, topic: str) -> int:
    given = source_options({"nameServers": cluster.name_servers, "topics": topic})
    with closing(Brokers(given.access)) as brokers:
        return sum(brokers.end_offsets(brokers.readable_queues(given)).values())


def _await(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    for _ in range(WAIT_S * 5):
        if condition():
            return
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(process.communicate()[1])
    raise AssertionError("nothing happens")


def test_a_project_runs_with_sparks_own_tool_and_goes_on(
    shop: ClusterThread, tmp_path: Path
) -> None:
    """With a local session and a catalog that is remembered; the others: ``test_connect``."""
    target = tmp_path / "project"
    words = ["pipeline", "project", "archive", str(target), "--topics", "orders"]
    assert main([*words[1:], "-n", shop.name_servers], io.StringIO()) == 0
    tool = Path(sys.executable).with_name("spark-pipelines")
    for run in range(2):
        done = subprocess.run(
            [
                str(tool), "run", "--remote", "local[2]",
                "--conf", "spark.sql.catalogImplementation=hive",
                "--conf", "spark.python.unix.domain.socket.enabled=true",
                "--conf", "spark.ui.enabled=false",
            ],
            env={**_environment(), "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}"},
            cwd=target,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )  # fmt: skip
        assert done.returncode == 0, f"run {run}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    files = [file for file in target.rglob("*.parquet") if "messages" in str(file)]
    assert sum(pq.read_metadata(file).num_rows for file in files) == 200
