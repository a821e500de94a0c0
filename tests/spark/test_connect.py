"""Spark Connect: sources, sink and pipelines through a server that is not in this process.

The server also runs the declarative projects of the pipelines, as ``spark-pipelines run`` does on a
cluster; with a local session they are run in ``test_pipelines_commands``.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from contrailmq import blocking
from contrailmq.bulk.options import source_options
from contrailmq.client.settings import ConsumerSettings
from contrailmq.clock import SystemClock
from contrailmq.errors import ContrailError
from contrailmq.pipelines.project import PROJECTS, create
from contrailmq.spark.columns import message_schema
from contrailmq.spark.reader import TopicReader
from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

pytestmark = pytest.mark.spark
HERE = Path(__file__).resolve().parent
HOME = Path(pyspark.__file__).parent
COUNT = 200
DEAD = 20
WAIT_S = 180


def _environment() -> dict[str, str]:
    found = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    found |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return {name: value for name, value in found.items() if name != "NAMESRV_ADDR"}


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server as a process; its address."""
    folder = tmp_path_factory.mktemp("connect")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.memory": "1500m",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]", "--class"]
    command += ["org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    log = folder / "server.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, env=_environment(), cwd=folder, stdout=out, stderr=out, start_new_session=True
        )
    try:
        deadline = time.monotonic() + WAIT_S
        while not _answers(port):
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()[-4000:]
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(30)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def shop() -> Iterator[ClusterThread]:
    """A broker with orders, the first of which the group billing could not bill."""
    cluster = ClusterThread(brokers=1, properties={"traceTopicEnable": "true"})
    try:
        for topic in ("orders", "streamed", "written", "redriven", "replayed", "restored"):
            cluster.create_topic(topic, queues=2)
        send(cluster.name_servers, "orders", range(COUNT))
        _fail_to_bill(cluster)
        yield cluster
    finally:
        cluster.close()


def _fail_to_bill(cluster: ClusterThread) -> None:
    done = threading.Semaphore(0)

    def bill(message: Any) -> None:
        done.release()
        if json.loads(message.body)["n"] < DEAD:
            raise ValueError("cannot be billed")

    with blocking.PushConsumer(
        "billing", topics="orders", name_servers=cluster.name_servers, start_from="first",
        handler=bill, settings=ConsumerSettings(retries_max=0),
    ):  # fmt: skip
        for _ in range(COUNT):
            assert done.acquire(timeout=60)
    deadline = time.monotonic() + 60
    while sum(_found(cluster, "%DLQ%billing").values()) < DEAD:
        assert time.monotonic() < deadline, "the dead letters do not come"
        time.sleep(0.1)


def _found(cluster: ClusterThread, topic: str) -> Counter[int]:
    given = source_options({"nameServers": cluster.name_servers, "topics": topic})
    reader = TopicReader(given, message_schema())
    try:
        parts = reader.partitions()
    except ContrailError:
        return Counter()
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    return Counter(int(json.loads(row["body"])["n"]) for row in rows)


def test_sources_and_sink_are_found_and_work(
    remote: str, shop: ClusterThread, tmp_path: Path
) -> None:
    words = [remote, shop.name_servers, str(shop.stores[0]), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(HERE / "remote_client.py"), *words],
        env=_environment(), cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    every = list(range(COUNT))
    for name in ("batch", "files", "stream", "streamed", "written"):
        assert found[name] == every, name
    assert (found["pushed"], found["total"]) == (5, sum(every))
    assert found["sql"] == [[["t0", COUNT // 2], ["t1", COUNT // 2]]] * 2
    assert found["redrive"] == {"would send": DEAD}


def _run(project: Path, remote: str) -> None:
    tool = Path(sys.executable).with_name("spark-pipelines")
    done = subprocess.run(
        [str(tool), "run", "--remote", remote],
        env={**_environment(), "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}"},
        cwd=project, capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"


def _rows(folder: Path, table: str) -> list[dict[str, Any]]:
    files = [file for file in folder.rglob("*.parquet") if table in file.parts]
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def test_every_pipeline_has_a_project_that_runs(
    remote: str, shop: ClusterThread, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    warehouse = next(tmp_path_factory.getbasetemp().glob("connect*"))
    archive = tmp_path / "old"
    _write_archive(archive, shop)
    now_ms = SystemClock().now_ms()
    settings = {
        "audit": {"topics": "orders"},
        "redrive": {"groups": "billing", "to": "redriven"},
        "replay": {"topics": "orders", "to": "replayed", "speed": "1000", "leadMs": "1",
                   "since": str(now_ms - 3_600_000), "until": str(now_ms)},
        "restore": {"topics": "orders", "to": "restored", "archive": str(archive)},
        "sql": {"topics": "orders,%DLQ%billing",
                "query": "select o.tags, count(*) as n from orders o"
                         " left semi join _DLQ_billing d on o.keys = d.keys group by all"},
    }  # fmt: skip
    assert {*settings, "archive", "table"} == set(PROJECTS)  # a table needs its format's jars
    for name, given in settings.items():
        create(name, tmp_path / name, settings={"nameServers": shop.name_servers, **given})
        _run(tmp_path / name, remote)
    every, dead = Counter(range(COUNT)), Counter(range(DEAD))
    assert _found(shop, "redriven") == dead
    assert [row["status"] for row in _rows(warehouse, "redriven")] == ["sent"] * DEAD
    for topic in ("replayed", "restored"):
        assert _found(shop, topic) == every, topic
        assert sum(row["sent"] for row in _rows(warehouse, topic)) == COUNT
    tags = {row["tags"]: row["n"] for row in _rows(warehouse, "result")}
    assert tags == {"t0": DEAD // 2, "t1": DEAD // 2}
    assert len(_rows(warehouse, "slim_messages")) == COUNT
    failures = [row for row in _rows(warehouse, "failures") if row["group"] == "billing"]
    assert sum(row["dead_letters"] for row in failures) == DEAD
    lag = [row for row in _rows(warehouse, "lag") if row["group"] == "billing"]
    assert sum(row["end_offset"] for row in lag if row["topic"] == "orders") == COUNT

    _run(tmp_path / "restore", remote)  # a second run sends nothing twice
    assert _found(shop, "restored") == every
    assert sum(row["there"] for row in _rows(warehouse, "restored")) == COUNT


def _write_archive(path: Path, cluster: ClusterThread) -> None:
    """Files as the pipeline ``archive`` writes them, of the messages of the topic."""
    given = source_options({"nameServers": cluster.name_servers, "topics": "orders"})
    reader = TopicReader(given, message_schema())
    place = path / "date=2026-11-15" / "hour=9" / "topic=orders" / "batch=x-0"
    place.mkdir(parents=True)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    pq.write_table(pa.Table.from_batches(batches).drop_columns(["topic"]), place / "part.parquet")
