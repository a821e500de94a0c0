"""Topics into Delta and Iceberg tables: exactly once, decoded, widened, merged, and back.

``scripts/sparks`` runs it on 4.1 with Iceberg and on 4.2 with Delta, in a process of its own: the
jars have to be there when Spark starts. For other Sparks there are none to test with.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contrailmq import blocking
from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.options import source_options
from contrailmq.errors import ConfigError
from contrailmq.pipelines import restore
from contrailmq.pipelines.places import Cluster
from contrailmq.pipelines.tables import jars
from contrailmq.pipelines.tables.bodies import AvroBodies, JsonBodies, registry
from contrailmq.pipelines.tables.lake import Table
from contrailmq.pipelines.tables.run import layout, run
from contrailmq.spark.versions import version
from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

KIND = {(4, 1): jars.ICEBERG, (4, 2): jars.DELTA}.get(version())
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(KIND is None, reason="no jars of a table format for this Spark"),
]
CONTRAIL = Path(sys.executable).with_name("contrail")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tables: an Iceberg catalog has one for all."""
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="session")
def lake(home: Path, spark_home: Path) -> Iterator[Any]:
    """A session with the jars of the format."""
    from contrailmq.spark import session

    assert KIND is not None
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.jars.packages": ",".join(jars.packages(KIND, version(), body="avro")),
        **jars.settings(KIND, root=str(home)),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(spark_home))
        found = session("contrailmq-tables", master="local[2]", settings=settings)
    found.sparkContext.setLogLevel("ERROR")
    yield found
    found.stop()


def _write(lake: Any, cluster: ClusterThread, out: str, **more: Any) -> Any:
    assert KIND is not None
    names = ("partition", "upsert", "maintain", "keep_days", "name")
    where = layout(KIND, out, **{name: more.pop(name) for name in names if name in more})
    return run(lake, Cluster(name_servers=cluster.name_servers), where, **more)


def _table(lake: Any, place: str) -> Any:
    assert KIND is not None
    table = Table(KIND, place)
    assert table.find_schema(lake) is not None, place
    if KIND == jars.ICEBERG:
        lake.sql(f"REFRESH TABLE {table.name}")
    return lake.table(table.name)


def _places(frame: Any, prefix: str = "") -> tuple[int, int]:
    columns = [f"{prefix}{name}" for name in ("topic", "broker", "queue_id", "queue_offset")]
    return frame.count(), frame.select(*columns).distinct().count()


def _send(
    cluster: ClusterThread, topic: str, bodies: list[Any], keys: list[str] | None = None
) -> None:
    with blocking.Producer("tables", name_servers=cluster.name_servers) as producer:
        for number, body in enumerate(bodies):
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            own = {} if keys is None else {"keys": [keys[number]]}
            producer.send(blocking.Message(topic, data, **own))


def test_a_table_per_topic_grows_and_new_topics_come(
    lake: Any, cluster: ClusterThread, home: Path
) -> None:
    """Every message once, a table for each topic, lag of none; and back into a topic."""
    for topic in ("raw-a", "raw-b"):
        cluster.create_topic(topic, queues=2)
        send(cluster.name_servers, topic, range(300))
    out = f"{home}/{{topic}}"
    report = _write(lake, cluster, out, topics_pattern="raw-.*", batch_rows=200)
    assert report.rows == 600
    assert report.facts["tables"] == {f"{home}/raw_a": 300, f"{home}/raw_b": 300}
    cluster.create_topic("raw-c", queues=1)
    send(cluster.name_servers, "raw-c", range(50))
    send(cluster.name_servers, "raw-a", range(300, 400))
    report = _write(lake, cluster, out, topics_pattern="raw-.*", maintain=True)
    assert report.facts["tables"] == {f"{home}/raw_a": 100, f"{home}/raw_c": 50}
    assert report.facts["files_merged"] > 0
    for name, count in (("raw_a", 400), ("raw_b", 300), ("raw_c", 50)):
        assert _places(_table(lake, f"{home}/{name}")) == (count, count)
    assert _write(lake, cluster, out, topics_pattern="raw-.*").rows == 0
    options = source_options({"nameServers": cluster.name_servers, "topicsPattern": "raw-.*"})
    brokers = Brokers(options.access)
    queues = brokers.readable_queues(options)
    assert brokers.committed(report.facts["group"], queues) == brokers.end_offsets(queues)
    brokers.close()

    assert KIND is not None
    back = restore.run(
        lake, f"{home}/raw_a", Cluster(name_servers=cluster.name_servers), to="again",
        table=Table(KIND, f"{home}/raw_a"),
    )  # fmt: skip
    assert back.rows == 400
    read = lake.read.format("rocketmq").options(nameServers=cluster.name_servers, topics="again")
    numbers = sorted(json.loads(bytes(row.body))["n"] for row in read.load().collect())
    assert numbers == list(range(400))


def test_json_becomes_columns_that_grow_and_bad_bodies_are_kept_apart(
    lake: Any, cluster: ClusterThread, home: Path
) -> None:
    """New fields are added, also inside; a batch that Spark runs again changes nothing."""
    cluster.create_topic("docs", queues=1)
    out = f"{home}/docs"
    whole = {"topics": ["docs"], "bodies": JsonBodies(None, keep_body=False)}
    _send(cluster, "docs", [{"id": 1, "who": {"name": "a"}}, b"no json", {"id": 2}, b"[1]"])
    assert _write(lake, cluster, out, **whole).facts["quarantine"] == {f"{out}_quarantine": 2}
    more = [
        {"id": 3, "odd name": True, "who": {"name": "b", "age": 7}},
        {"id": "four"},
        {"id": 5, "_topic": "mine"},
    ]
    _send(cluster, "docs", more)
    report = _write(lake, cluster, out, **whole)
    assert "odd_name" in report.facts["new_columns"]
    frame = _table(lake, out)
    rows = {row["id"]: row for row in frame.collect()}
    assert set(rows) == {1, 2, 3, 5}
    assert (rows[1]["odd_name"], rows[3]["odd_name"]) == (None, True)
    assert (rows[1].who.age, rows[3].who.age, rows[3].who.name) == (None, 7, "b")
    assert (rows[5]["_topic"], rows[5]["_topic_"]) == ("docs", "mine")
    bad = _table(lake, f"{out}_quarantine").collect()
    assert sorted((bytes(row.body), row.reason) for row in bad) == [
        (b"[1]", "the body is no JSON object"),
        (b"no json", "the body is no JSON object"),
        (b'{"id": "four"}', "a value does not fit the type of its column"),
    ]
    commits = sorted((home / "_checkpoint" / "docs" / "commits").glob("[0-9]*"))
    for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
        path.unlink(missing_ok=True)  # as if the driver had died there
    report = _write(lake, cluster, out, **whole)
    assert report.rows == 3
    assert (_table(lake, out).count(), _table(lake, f"{out}_quarantine").count()) == (4, 3)


class _Registry(http.server.BaseHTTPRequestHandler):
    """Two schemas under the numbers 7 and 258."""

    def do_GET(self) -> None:
        fields = [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]
        if self.path == "/schemas/ids/258":
            fields.append({"name": "more", "type": "int"})
        schema = json.dumps({"type": "record", "name": "R", "fields": fields})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"schema": schema}).encode())

    def log_message(self, *text: Any) -> None:
        """Say nothing."""


def test_avro_with_schemas_of_a_registry(lake: Any, cluster: ClusterThread, home: Path) -> None:
    """Several schemas in one batch; what has no number or is no record is kept apart."""
    cluster.create_topic("avro", queues=1)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    old, new = b"\0" + (7).to_bytes(4, "big"), b"\0" + (258).to_bytes(4, "big")
    _send(cluster, "avro", [old + b"\x02\x02a", new + b"\x04\x02b\x12", b"nothing", old + b"\xff"])
    find = registry(f"http://127.0.0.1:{server.server_port}")
    bodies = AvroBodies(None, registry=find, keep_body=False)
    out = f"{home}/avro"
    try:
        report = _write(lake, cluster, out, topics=["avro"], bodies=bodies)
    finally:
        server.shutdown()
        server.server_close()
    assert report.facts["quarantine"] == {f"{out}_quarantine": 2}
    rows = sorted((row["id"], row["name"], row["more"]) for row in _table(lake, out).collect())
    assert rows == [(1, "a", None), (2, "b", 9)]
    with pytest.raises(ConfigError, match="schema 9 cannot be had from the registry"):
        find(9)


def test_the_newest_row_per_key_stays(lake: Any, cluster: ClusterThread, home: Path) -> None:
    cluster.create_topic("state", queues=1)
    out = f"{home}/state"
    whole = {"topics": ["state"], "upsert": ["_keys"], "bodies": JsonBodies(None, keep_body=False)}
    _send(cluster, "state", [{"v": 1}, {"v": 2}, {"v": 3}, {"v": 9}], ["a", "a", "b", "c"])
    _write(lake, cluster, out, **whole)
    _send(cluster, "state", [{"v": 4}, b" ", b"null", {"v": 6}], ["b", "c", "d", "e"])
    report = _write(lake, cluster, out, **whole)
    assert report.facts["tables"] == {out: 3}
    found = {row["_keys"]: row["v"] for row in _table(lake, out).collect()}
    assert found == {"a": 2, "b": 4, "e": 6}


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(900)
def test_a_killed_driver_loses_and_doubles_nothing(
    lake: Any, cluster: ClusterThread, home: Path, tmp_path: Path
) -> None:
    """The command, killed twice in the middle of small batches, then once to its end."""
    assert KIND is not None
    total = 6000
    cluster.create_topic("much", queues=4)
    send(cluster.name_servers, "much", range(total))
    out = f"{tmp_path}/much"
    command = [
        str(CONTRAIL), "pipeline", "table", "much", "--format", KIND,
        "--out", out, "-n", cluster.name_servers, "--batch-rows", "250", "--fetch-jars",
        "--master", "local[2]",
    ]  # fmt: skip
    offsets = tmp_path / "_checkpoint" / "much" / "offsets"
    for least in (2, 4):
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--every", "0.1"], stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + 300
        while not offsets.is_dir() or len(list(offsets.glob("[0-9]*"))) < least:
            assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, "it does not get on"
            if version() < (4, 2) and offsets.is_dir():
                send(cluster.name_servers, "much", range(total, total + 50))
                total += 50
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = subprocess.run(
        [*command, "--once", "--json"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    kind = "delta" if KIND == jars.DELTA else "iceberg"
    frame = lake.read.format(kind).load(out)
    assert _places(frame) == (total, total)
    assert frame.select("unique_key").distinct().count() == total


def test_a_missing_jar_is_named(home: Path, cluster: ClusterThread) -> None:
    assert KIND is not None
    done = subprocess.run(
        [str(CONTRAIL), "pipeline", "table", "x", "--format", KIND, "--once",
         "--out", f"{home}/x", "-n", cluster.name_servers, "--master", "local[1]"],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert f"the jar of {KIND} is missing in this Spark" in done.stderr
    assert "--fetch-jars" in done.stderr
    assert "Traceback" not in done.stderr
