"""Drivers killed in the middle of batches, brokers restarted, files rolled: none lost or twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contrailmq.testing.cluster import ClusterThread
from testkit import spark_driver
from testkit.spark_kit import send

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.crash, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
TOTAL = 24_000


class Driver:
    """A driver process and all it starts."""

    def __init__(self, job: str, *options: str, log: Path) -> None:
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
        env["PYSPARK_PYTHON"] = sys.executable
        command = [sys.executable, str(spark_driver.__file__), job, *options]
        self.log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                command, env=env, stdout=subprocess.PIPE, stderr=out, start_new_session=True
            )

    def kill(self) -> None:
        """No goodbye: driver, JVM and whatever is in their group."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=30)

    def finish(self, timeout_s: float = 300) -> str:
        """Wait for its end; what it said."""
        out, _ = self.process.communicate(timeout=timeout_s)
        assert self.process.returncode == 0, self.log.read_text()[-4000:]
        return out.decode()


def _until(condition: Callable[[], bool], driver: Driver, timeout_s: float = 180) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert driver.process.poll() is None, driver.log.read_text()[-4000:]
        assert time.monotonic() < deadline, "the driver does not get on"
        time.sleep(0.02)


def _batches(checkpoint: Path) -> int:
    """How many batches the slower of the two streams has begun."""
    kinds = ("parquet", "topic")
    return min(len(list((checkpoint / kind / "offsets").glob("[0-9]*"))) for kind in kinds)


def test_killed_drivers_and_restarted_brokers_lose_and_double_nothing(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    """Two streams of one driver: into Parquet exactly once, into a topic effectively once."""
    cluster.create_topic("in", queues=4)
    cluster.create_topic("out", queues=3)
    checkpoint = tmp_path / "check"
    options = ["--name-servers", cluster.name_servers, "--checkpoint", str(checkpoint)]
    options += ["--out", str(tmp_path / "files")]
    sender = threading.Thread(
        target=lambda: [
            send(cluster.name_servers, "in", range(first, first + 2000), size=200)
            for first in range(0, TOTAL, 2000)
        ]
    )
    sender.start()
    for round_number in range(3):
        driver = Driver("both", *options, log=tmp_path / "driver.log")
        goal = _batches(checkpoint) + 2 + round_number
        _until(lambda goal=goal: _batches(checkpoint) >= goal, driver)  # type: ignore[misc]
        driver.kill()
        if round_number == 0:
            sender.join()
        cluster.stop_broker(round_number % 2)
        cluster.start_broker(round_number % 2)
    Driver("both", *options, "--now", log=tmp_path / "driver.log").finish()
    files = spark.read.parquet(str(tmp_path / "files"))
    topic = spark.read.format("rocketmq").options(nameServers=cluster.name_servers, topics="out")
    for frame in (files, topic.load()):
        found = frame.selectExpr("unique_key", "properties['n']").collect()
        assert Counter(int(row[1]) for row in found) == Counter(range(TOTAL))
        assert max(Counter(row[0] for row in found).values()) == 1
