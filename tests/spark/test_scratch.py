"""Folders of a driver that was killed go with the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from contrailmq.spark.scratch import sweep

pytestmark = pytest.mark.spark
SCRIPT = "from contrailmq.spark.scratch import Scratch; s = Scratch(); print(s.path); input()"


def test_what_a_killed_process_left_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "contrail-spark-other").mkdir()  # not one of these: it has no owner
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        folders = []
        for process in processes:
            assert process.stdout is not None
            folders.append(Path(process.stdout.readline().strip()))
        assert sweep(tmp_path) == 0
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait()
        assert sweep(tmp_path) == 1
        assert not folders[0].exists()
        assert folders[1].is_dir()
        assert (tmp_path / "contrail-spark-other").is_dir()
    finally:
        for process in processes:
            process.kill()
            process.communicate()
