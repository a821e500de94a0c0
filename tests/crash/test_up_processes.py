"""``contrail up --brokers N``: a killed broker comes back, a killed parent leaves none behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


def children_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def wait_for(condition: Callable[[], bool], limit_s: float = 30.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return False


def test_a_killed_broker_comes_back_and_a_killed_parent_leaves_none(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "contrailmq.main", "up", "--brokers", "2", "--port", "0"]
    command += ["--namesrv-port", "0", "--store", str(tmp_path)]
    command += ["--set", "mappedFileSizeCommitLog=1048576"]
    up = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert up.stdout is not None
        assert "contrail is up" in up.stdout.readline()
        first = children_of(up.pid)
        assert len(first) == 2
        os.kill(first[0], signal.SIGKILL)
        wait_for(lambda: len(set(children_of(up.pid)) - set(first)) == 1)
        wait_for(lambda: all(map(is_alive, children_of(up.pid))))
        time.sleep(2)
        now = children_of(up.pid)
        assert len(now) == 2
        up.kill()
        wait_for(lambda: not any(map(is_alive, now)), 20)
    finally:
        up.kill()
        up.communicate()
