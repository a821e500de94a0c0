"""The load generator counts what it does: sends of a number, one pass over queues, open loops."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contrailmq.testing.cluster import ClusterThread

ROOT = Path(__file__).resolve().parents[3]
Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("loadgen") / "loadgen"
    warnings = ["-Wall", "-Wextra", "-Werror"]
    source = ROOT / "bench" / "broker" / "loadgen.c"
    subprocess.run(["cc", "-O2", *warnings, "-o", str(made), str(source)], check=True)
    return made


@pytest.fixture
def run(program: Path) -> Iterator[Run]:
    cluster = ClusterThread()

    def call(mode: str, *arguments: str) -> dict[str, Any]:
        port = cluster.addresses[0].rpartition(":")[2]
        command = [str(program), mode, "-P", port, "-t", "load", "-q", "4", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    try:
        call("create")
        yield call
    finally:
        cluster.close()


def test_a_fill_is_exact_and_is_read_once(run: Run) -> None:
    sent = run("send", "-c", "3", "-w", "8", "-N", "500", "-s", "30")
    assert (sent["requests"], sent["errors"]) == (500, 0)
    assert sent["seconds"] < 30
    run("send", "-c", "2", "-n", "25", "-N", "500", "-s", "30")
    read = run("pull", "-c", "2", "-o", "-s", "30")
    assert read["caught_up"] is True
    assert read["messages"] == 1000


def test_an_open_loop_counts_all_that_were_due(run: Run) -> None:
    found = run("send", "-c", "4", "-w", "4", "-r", "400", "-s", "1")
    assert (found["requests"], found["errors"]) == (400, 0)
    assert found["seconds"] >= 399 / 400
    assert 0 < found["p50_us"] <= found["p99_us"] <= found["max_us"]


def test_every_waiting_reader_gets_every_message(run: Run) -> None:
    found = run("latency", "-c", "3", "-r", "200", "-s", "0.5")
    assert (found["requests"], found["errors"]) == (300, 0)


def test_binary_headers_and_filters(run: Run) -> None:
    assert run("send", "-x", "-N", "100", "-s", "30")["errors"] == 0
    found = run("pull", "-x", "-c", "4", "-o", "-f", "TAG:TagB", "-s", "30")
    assert (found["caught_up"], found["messages"]) == (True, 10)
