"""A real cluster: master and two workers as processes; workers are killed on the way."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyspark
import pytest

from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.options import source_options
from contrailmq.testing.cluster import ClusterThread
from testkit import spark_driver
from testkit.spark_kit import send

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(pyspark.__file__).parent
TOTAL = 20_000
DEAD = 300


class Standalone:
    """Processes of one Spark cluster on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.web = _free_port(), _free_port()
        self.processes: list[subprocess.Popen[bytes]] = []
        host = ["--host", "127.0.0.1"]
        self._start("master.Master", *host, "--port", str(self.port), "--webui-port", str(self.web))
        self._wait(0)
        self.complete()

    def complete(self) -> None:
        """Start workers until there are two; a lost one comes back as another."""
        while sum(process.poll() is None for process in self.processes) < 3:
            work = ["-d", str(self.folder / f"work-{len(self.processes)}"), "-c", "2"]
            self._start(
                "worker.Worker", "--host", "127.0.0.1", *work, "-m", "1400m",
                "--webui-port", "0", self.address,
            )  # fmt: skip
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
        process = next(one for one in self.processes[1:] if one.poll() is None)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)

    def close(self) -> None:
        """Stop everything."""
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)

    def _start(self, name: str, *arguments: str) -> None:
        env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
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
        deadline = time.monotonic() + 180
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


def test_everything_with_workers_lost(
    spark: Any, standalone: Standalone, cluster: ClusterThread, tmp_path: Path
) -> None:
    """One driver: batch, files, sink, stream and every pipeline; two workers are lost."""
    for topic in ("in", "out", "copy", "restored", "replayed", "%DLQ%billing", "redriven"):
        cluster.create_topic(topic, queues=4)
    send(cluster.name_servers, "%DLQ%billing", range(DEAD))
    for first in range(0, TOTAL, TOTAL // 8):  # some seconds of traffic
        send(cluster.name_servers, "in", range(first, first + TOTAL // 8), size=100)
        time.sleep(0.5)
    driver = _driver(
        tmp_path, "all", "--name-servers", cluster.name_servers, "--master", standalone.address,
        "--stores", ",".join(map(str, cluster.stores)), "--checkpoint", str(tmp_path / "check"),
        "--out", str(tmp_path), "--limit", "1000", "--speed", "0.4", "--now",
    )  # fmt: skip
    commits = tmp_path / "check" / "topic" / "commits"
    _await(lambda: len(list(commits.glob("[0-9]*"))) >= 4, driver, tmp_path)
    standalone.kill_worker()
    _await(lambda: _count(cluster, "out") == TOTAL, driver, tmp_path)
    standalone.complete()
    _await(lambda: _count(cluster, "replayed") > 0, driver, tmp_path)
    assert _count(cluster, "replayed") < TOTAL
    standalone.kill_worker()  # tasks that were sending are run again by the other one
    done = json.loads(_end(driver, tmp_path))
    assert done["batch"] == [TOTAL, TOTAL, sum(range(TOTAL))]
    for name in ("files", "archive", "restore", "sql"):
        assert done[name] == TOTAL, name
    assert done["redrive"] == _count(cluster, "redriven") == DEAD
    assert done["audit"] == TOTAL + DEAD
    assert (tmp_path / "audit" / "report.html").exists()
    for topic in ("copy", "out", "restored", "replayed"):
        reader = spark.read.format("rocketmq")
        reader = reader.options(nameServers=cluster.name_servers, topics=topic)
        numbers = [int(row[0]) for row in reader.load().selectExpr("properties['n']").collect()]
        assert sorted(numbers) == list(range(TOTAL)), topic
    frame = spark.read.parquet(str(tmp_path / "archive")).selectExpr("properties['n']")
    assert sorted(int(row[0]) for row in frame.collect()) == list(range(TOTAL))


def _await(condition: Callable[[], bool], driver: subprocess.Popen[bytes], tmp_path: Path) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-4000:]
        assert time.monotonic() < deadline, "the driver does not get on"
        time.sleep(0.05)


def _count(cluster: ClusterThread, topic: str) -> int:
    given = source_options({"nameServers": cluster.name_servers, "topics": topic})
    with closing(Brokers(given.access)) as brokers:
        return sum(brokers.end_offsets(brokers.readable_queues(given)).values())


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
