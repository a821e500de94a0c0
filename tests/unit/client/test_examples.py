"""The examples of the documentation run, against a broker of ours."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys

import pytest

from contrailmq.client.loop_thread import LoopThread
from contrailmq.testing.cluster import ClusterThread

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if not path.name.startswith("test_"))

# The first uvloop of a process opens a pipe that libuv keeps for its signals.
LoopThread().close()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs(path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cluster = ClusterThread()
    try:
        result = module.main(cluster.name_servers)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    finally:
        cluster.close()
    assert capsys.readouterr().out


def test_the_test_example_passes() -> None:
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "contrailmq.testing.pytest_plugin",
        "-p", "no:cacheprovider", "--rootdir", str(EXAMPLES), "-c", os.devnull,
        str(EXAMPLES / "test_my_service.py"),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
