"""The commands as users run them, in processes of their own; the projects with Spark's tool."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from contrailmq.pipelines.project import create
from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
SRC = Path(__file__).resolve().parents[2] / "src"
WAIT_S = 180


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
    assert list(tmp_path.iterdir()) == [], "nothing is left where the command ran"


def test_an_interrupted_archive_goes_on(shop: ClusterThread, tmp_path: Path) -> None:
    words = ["pipeline", "archive", "orders", "-n", shop.name_servers, "--out", "archive"]
    words += ["--batch-rows", "20", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "contrailmq.main", *words, "--follow", "0.5"],
        env=_environment(),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _await_file(tmp_path / "archive", process)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, errors
    first = json.loads(out)
    assert first["stopped"] is True
    done = _contrail(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    files = list((tmp_path / "archive").glob("date=*/hour=*/topic=*/*/*.parquet"))
    rows = [row for file in files for row in pq.read_table(file, columns=["keys"]).to_pylist()]
    assert sorted(row["keys"] for row in rows) == sorted(f"k{number}" for number in range(200))


def _await_file(folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a batch is in its place."""
    for _ in range(WAIT_S * 5):
        if any(folder.glob("date=*/hour=*/topic=*/*/*.parquet")):
            return
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(process.communicate()[1])
    raise AssertionError("no file was written")


@pytest.mark.parametrize(("name", "table"), [("archive", "messages"), ("audit", "slim_messages")])
def test_the_projects_run_with_sparks_own_tool(
    shop: ClusterThread, tmp_path: Path, name: str, table: str
) -> None:
    target = tmp_path / "project"
    create(name, target, name_servers=shop.name_servers, topics=["orders"])
    tool = Path(sys.executable).with_name("spark-pipelines")
    for run in range(2 if name == "archive" else 1):
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
    files = [file for file in target.rglob("*.parquet") if table in str(file)]
    assert sum(pq.read_metadata(file).num_rows for file in files) == 200
