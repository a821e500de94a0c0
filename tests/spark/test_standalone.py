"""A real cluster: master and two workers as processes; one worker is killed on the way."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from contrailmq.testing.cluster import ClusterThread
from testkit import spark_driver
from testkit.spark_kit import send

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(pyspark.__file__).parent
TOTAL = 20_000


class Standalone:
    """Processes of one Spark cluster on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.web = _free_port(), _free_port()
        self.processes: list[subprocess.Popen[bytes]] = []
        host = ["--host", "127.0.0.1"]
        self._start("master.Master", *host, "--port", str(self.port), "--webui-port", str(self.web))
        self._wait(0)
        for index in range(2):
            work = ["-d", str(folder / f"work-{index}"), "-c", "2", "-m", "1400m"]
            self._start("worker.Worker", *host, *work, "--webui-port", "0", self.address)
        self._wait(2)

    @property
    def address(self) -> str:
        """What a driver is given as its master."""
        return f"spark://127.0.0.1:{self.port}"

    def state(self) -> Any:
        """What the master says of itself."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.web}/json/", timeout=5) as answer:
            return json.load(answer)

    def kill_worker(self) -> None:
        """A machine is lost: the worker and the executor it runs."""
        os.killpg(self.processes[1].pid, signal.SIGKILL)
        self.processes[1].wait(30)

    def close(self) -> None:
        """Stop everything."""
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)

    def _start(self, name: str, *arguments: str) -> None:
        env = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
        env["PYTHONPATH"] = f"{ROOT / 'src'}:{ROOT / 'tests'}"
        env["PYSPARK_PYTHON"] = sys.executable
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        with (self.folder / "cluster.log").open("ab") as log:
            self.processes.append(
                subprocess.Popen(
                    [*command, *arguments], env=env, stdout=log, stderr=log, start_new_session=True
                )
            )

    def _wait(self, workers: int) -> None:
        deadline = time.monotonic() + 90
        while True:
            try:
                if self.state()["aliveworkers"] >= workers:
                    return
            except OSError:
                pass
            assert time.monotonic() < deadline, (self.folder / "cluster.log").read_text()[-3000:]
            time.sleep(0.2)


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    """A master and two workers."""
    found = Standalone(tmp_path)
    try:
        yield found
    finally:
        found.close()


def test_batch_stream_and_sink_with_a_worker_lost(
    spark: Any, standalone: Standalone, cluster: ClusterThread, tmp_path: Path
) -> None:
    for topic in ("in", "out", "copy"):
        cluster.create_topic(topic, queues=4)
    send(cluster.name_servers, "in", range(TOTAL), size=100)
    common = ["--name-servers", cluster.name_servers, "--master", standalone.address]
    batch = _driver(tmp_path, "batch", *common)
    assert json.loads(_end(batch, tmp_path)) == [TOTAL, TOTAL, sum(range(TOTAL))]

    checkpoint = tmp_path / "check"
    stream = [*common, "--checkpoint", str(checkpoint), "--limit", "500", "--now"]
    driver = _driver(tmp_path, "topic", *stream)
    deadline = time.monotonic() + 180
    while len(list((checkpoint / "commits").glob("[0-9]*"))) < 4:
        assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-4000:]
        assert time.monotonic() < deadline, "the stream does not get on"
        time.sleep(0.02)
    standalone.kill_worker()
    driver.communicate(timeout=300)
    if driver.returncode != 0:  # a lost executor may end the query: it goes on where it was
        _end(_driver(tmp_path, "topic", *stream), tmp_path)
    for topic in ("out", "copy"):
        reader = spark.read.format("rocketmq")
        reader = reader.options(nameServers=cluster.name_servers, topics=topic)
        numbers = [int(row[0]) for row in reader.load().selectExpr("properties['n']").collect()]
        assert sorted(numbers) == list(range(TOTAL)), topic


def _driver(tmp_path: Path, job: str, *options: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    env["PYSPARK_PYTHON"] = sys.executable
    env["SPARK_LOCAL_IP"] = "127.0.0.1"
    with (tmp_path / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(spark_driver.__file__), job, *options],
            env=env,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )


def _end(driver: subprocess.Popen[bytes], tmp_path: Path) -> str:
    out, _ = driver.communicate(timeout=300)
    assert driver.returncode == 0, (tmp_path / "driver.log").read_text()[-4000:]
    return out.decode()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
