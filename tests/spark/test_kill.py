"""Drivers killed in the middle of batches, brokers restarted, files rolled: none lost or twice."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from contrailmq.testing.cluster import ClusterThread
from testkit import spark_driver
from testkit.spark_kit import send

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.crash, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
TOTAL = 24_000
# Spark ends a query whose Python process is not there after ten seconds, which happens on a machine
# that does much else; and two queries that begin together share the environment variables of their
# source's processes, a Scala map that one may change while the other's task is made of it.
# Either is one more driver that dies: the next goes on where it was.
SPARKS_OWN = ("Python worker failed to connect back", "of collection, expected")
SPARKS_OWN_MAX = 5


class Driver:
    """A driver process and all it starts; a number of them one after the other."""

    def __init__(self, *command: str, folder: Path) -> None:
        self._command = [sys.executable, str(spark_driver.__file__), *command]
        self._log = folder / "driver.log"
        self._failures = 0
        self._start()

    def _start(self) -> None:
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
        env["PYSPARK_PYTHON"] = sys.executable
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                self._command, env=env, stdout=out, stderr=out, start_new_session=True
            )

    def until(self, condition: Callable[[], bool], timeout_s: float = 300) -> None:
        """Let it run until something is so."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert not self._has_ended(), f"it has ended: {self._said()}"
            assert time.monotonic() < deadline, f"it does not get on: {self._said()}"
            time.sleep(0.02)

    def finish(self, timeout_s: float = 400) -> None:
        """Let it run to its end."""
        deadline = time.monotonic() + timeout_s
        while not self._has_ended():
            assert time.monotonic() < deadline, f"it does not end: {self._said()}"
            time.sleep(0.02)

    def _has_ended(self) -> bool:
        """Whether it has come to its end; one that Spark itself ended is replaced."""
        code = self._process.poll()
        if code and self._failures < SPARKS_OWN_MAX:
            said = self._log.read_text()
            if any(text in said for text in SPARKS_OWN):
                self._failures += 1
                self.kill()
                self._start()
                return False
        assert not code, self._said()
        return code is not None

    def kill(self) -> None:
        """No goodbye: driver, JVM and whatever is in their group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=60)

    def _said(self) -> str:
        return self._log.read_text()[-6000:]


@contextlib.contextmanager
def _killed_after(driver: Driver) -> Iterator[Driver]:
    """Kill it at the end, and if anything goes wrong."""
    try:
        yield driver
    finally:
        driver.kill()


def _batches(checkpoint: Path) -> int:
    """How many batches the slower of the two streams has begun."""
    kinds = ("parquet", "topic")
    return min(len(list((checkpoint / kind / "offsets").glob("[0-9]*"))) for kind in kinds)


def _rows(frame: Any) -> list[Any]:
    """Where each row came from, or is, and which message it is."""
    columns = ("broker", "queue_id", "queue_offset", "unique_key", "int(properties['n']) as n")
    return frame.selectExpr(*columns).collect()  # type: ignore[no-any-return]


def _check(found: Counter[Any], wanted: Counter[Any], what: str) -> None:
    """Fail with what is missing and what is too much, not with all that was compared."""
    missing, more = wanted - found, found - wanted
    assert not missing and not more, (
        f"{what}: missing {missing.total()}, for example {sorted(missing)[:20]};"
        f" too many {more.total()}, for example {sorted(more)[:20]}"
    )


def test_killed_drivers_and_restarted_brokers_lose_and_double_nothing(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    """Two streams of one driver: into Parquet exactly once, into a topic effectively once."""
    cluster.create_topic("in", queues=4)
    cluster.create_topic("out", queues=3)
    checkpoint = tmp_path / "check"
    options = ["--name-servers", cluster.name_servers, "--checkpoint", str(checkpoint)]
    options += ["--out", str(tmp_path / "files")]
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(_send_all, cluster.name_servers)
        for round_number in range(3):
            goal = _batches(checkpoint) + 2 + round_number
            with _killed_after(Driver("both", *options, folder=tmp_path)) as driver:
                driver.until(lambda goal=goal: _batches(checkpoint) >= goal)  # type: ignore[misc]
            sending.result(timeout=300)
            cluster.stop_broker(round_number % 2)
            cluster.start_broker(round_number % 2)
    with _killed_after(Driver("both", *options, "--now", folder=tmp_path)) as driver:
        driver.finish()
    reader = spark.read.format("rocketmq").option("nameServers", cluster.name_servers)
    given, out = (_rows(reader.option("topics", topic).load()) for topic in ("in", "out"))
    files = _rows(spark.read.parquet(str(tmp_path / "files")))
    # A send whose answer came too late was sent again and is in the topic twice: that is allowed,
    # and both of them are messages that the streams have to bring over.
    assert {row.n for row in given} == set(range(TOTAL))
    _check(Counter(row[:3] for row in files), Counter(row[:3] for row in given), "files")
    _check(Counter(row.n for row in out), Counter(row.n for row in given), "topic")
    _check(Counter(row.unique_key for row in out), Counter({r.unique_key for r in out}), "keys")


def _send_all(name_servers: str) -> None:
    for first in range(0, TOTAL, 2000):
        send(name_servers, "in", range(first, first + 2000), size=200)
