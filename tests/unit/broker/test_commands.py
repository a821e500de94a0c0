"""``contrail up`` and ``contrail broker`` as commands: one line, one error, a clean end."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
IDLE_SIZE_MAX = 60 * 1024 * 1024


class Processes:
    """Commands that are started, and killed if a test leaves them running."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[str]] = []

    def start(self, *args: str) -> tuple[subprocess.Popen[str], str]:
        """Start ``contrail ARGS`` and return it with the line it prints when ready."""
        process = subprocess.Popen(
            [sys.executable, "-m", "contrailmq.main", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            text=True,
        )
        self._running.append(process)
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 30)[0], "not ready in 30 s"
        return process, process.stdout.readline()

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.close()


def contrail(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "contrailmq.main", *args],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=60,
    )


def told(errors: str) -> str:
    """What was logged, without requests that took long: other work on the machine causes those."""
    lines = errors.splitlines(keepends=True)
    return "".join(line for line in lines if " request held the loop: " not in line)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_says_one_line_and_ends_cleanly(
    processes: Processes, tmp_path: Path, number: signal.Signals
) -> None:
    store = tmp_path / "store"
    process, line = processes.start(
        "up", "--port", "0", "--namesrv-port", "0", "--store", str(store)
    )
    assert re.match(
        r"contrail is up: name server 127\.0\.0\.1:\d+, broker 127\.0\.0\.1:\d+, store \S+; "
        r"ready in \d+\.\d\d s; stop it with Ctrl-C or kill \d+\n$",
        line,
    ), line
    rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    anonymous = re.search(r"^Anonymous: +(\d+) kB", rollup, re.MULTILINE)
    assert anonymous is not None
    assert int(anonymous[1]) * 1024 < IDLE_SIZE_MAX
    began = time.monotonic()
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    assert time.monotonic() - began < 4.0  # 0.2 s where nothing else runs
    assert (process.returncode, out, told(errors)) == (0, "", "")
    assert not (store / "abort").exists()
    assert (store / "config" / "topics.json").exists()


def test_many_brokers_are_processes_of_one_cluster(processes: Processes, tmp_path: Path) -> None:
    process, line = processes.start(
        "up", "--brokers", "2", "--port", "0", "--namesrv-port", "0", "--store", str(tmp_path)
    )
    found = re.search(r"brokers (\S+) (\S+), store", line)
    assert found is not None, line
    assert found[1] != found[2]
    for address in found.groups():
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), timeout=30).close()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, told(errors)) == (0, "")
    for number in range(2):
        assert not (tmp_path / f"broker-{number}" / "abort").exists()


@pytest.mark.parametrize("option", ["--port", "--namesrv-port"])
def test_a_taken_port_is_one_line(tmp_path: Path, option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ports = {"--port": "0", "--namesrv-port": "0", option: port}
        ended = contrail("up", "--store", str(tmp_path), *(x for p in ports.items() for x in p))
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert f"port {port}" in ended.stderr
    assert "cannot be used" in ended.stderr


def test_a_store_that_is_in_use_is_one_line(processes: Processes, tmp_path: Path) -> None:
    processes.start("up", "--port", "0", "--namesrv-port", "0", "--store", str(tmp_path))
    ended = contrail("up", "--port", "0", "--namesrv-port", "0", "--store", str(tmp_path))
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert str(tmp_path) in ended.stderr


def test_a_bad_value_is_one_line(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("fileReservedTime=three days\n")
    ended = contrail("broker", "-c", str(conf))
    assert ended.returncode == 1
    assert ended.stderr == ("contrail: fileReservedTime = 'three days': expected a whole number\n")


def test_an_unknown_key_under_strict_config(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerNam=x\n")
    ended = contrail("broker", "-c", str(conf), "--strict-config", "-m")
    assert ended.returncode == 1
    assert "brokerNam" in ended.stderr
    assert contrail("broker", "-c", str(conf), "-m").returncode == 0


def test_p_and_m_print_settings_as_mqbroker_does(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=broker-x\nflushDiskType=SYNC_FLUSH\n")
    everything = contrail("broker", "-c", str(conf), "-n", "a:9876;b:9876", "-p").stdout
    lines = dict(line.split("=", 1) for line in everything.splitlines())
    assert lines["brokerName"] == "broker-x"
    assert lines["flushDiskType"] == "SYNC_FLUSH"
    assert lines["namesrvAddr"] == "a:9876;b:9876"
    assert list(lines) == sorted(lines)
    important = contrail("broker", "-c", str(conf), "-m").stdout
    assert "brokerName=broker-x" in important.splitlines()
    assert len(important.splitlines()) < len(lines)
