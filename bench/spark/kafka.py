"""The work of ``bench/spark/compare.py`` done by Spark's Kafka connector with a real Kafka broker.

    PYTHON_WITH_PYSPARK bench/spark/kafka.py [--rows N] [--rounds N] [--only NAMES]

The connector has the version of the interpreter's pyspark; take one whose connector is on Maven
Central with all it needs (``python -m venv V && V/bin/pip install pyspark==4.0.0``).  Kafka and the
connector come from there into ``~/.cache/contrailmq/spark-kafka``; needs ``mvn`` and Java 17.  Rows
have 8-byte keys, 128-byte values and, where it says *with properties*, two headers, over 16
partitions; names are those of ``bench/spark/compare.py``.  *Tuned* means
``kafka.max.poll.records=20000`` and ``kafka.fetch.max.wait.ms=10``, and for writing
``batch.size=262144`` and ``linger.ms=20``.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from bench.memory import UsedMemory
from bench.spark.cpu import middle, per_row, spent

SPARK = pyspark.__version__
KAFKA = "4.3.1"
PARTITIONS = 16
CACHE = Path.home() / ".cache" / "contrailmq" / "spark-kafka"
TUNED_READ = {"kafka.max.poll.records": "20000", "kafka.fetch.max.wait.ms": "10"}
TUNED_WRITE = {"kafka.batch.size": "262144", "kafka.linger.ms": "20"}
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>{name}</artifactId><version>1</version><dependencies>
<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>
<version>{version}</version></dependency></dependencies></project>"""
SERVER = """process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{control}
log.dirs={logs}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
num.partitions={partitions}
auto.create.topics.enable=true
log.retention.hours=24
broker.session.timeout.ms=60000
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    server = jars("kafka", "org.apache.kafka", f"kafka_2.13:{KAFKA}")
    connector = jars(f"connector-{SPARK}", "org.apache.spark", f"spark-sql-kafka-0-10_2.13:{SPARK}")
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as folder:
        spark = session(options, connector, folder)
        with kafka(server, Path(folder)) as broker, UsedMemory(Path(folder)) as memory:
            Bench(spark, broker, options, Path(folder), memory=memory).run()
        spark.stop()


class Bench:
    """All measurements."""

    def __init__(
        self,
        spark: Any,
        broker: tuple[str, int],
        options: argparse.Namespace,
        folder: Path,
        *,
        memory: UsedMemory,
    ) -> None:
        self.spark = spark
        self.new = ""  # the topic that is written to
        self.address, self.pid = broker
        self.only = set(filter(None, options.only.split(",")))
        self.rows = options.rows
        self.rounds = options.rounds
        self.cores = options.cores
        self.folder = folder
        self.memory = memory

    def run(self) -> None:
        """Every measurement."""
        for topic in ("warm", "plain", "headers"):
            self.create(topic)
        self.write("warm", 20_000, {}, headers=True)
        self.read("warm", {}, headers=True)
        self.write("plain", self.rows, TUNED_WRITE, headers=False)
        self.write("headers", self.rows, TUNED_WRITE, headers=True)
        for tuned, read, write in ((False, {}, {}), (True, TUNED_READ, TUNED_WRITE)):
            self.run_once(read, write, tuned=tuned)

    def run_once(self, read: dict[str, str], write: dict[str, str], *, tuned: bool) -> None:
        """Everything with some settings."""
        some = min(self.rows, 1_000_000)
        parts = {**read, "maxOffsetsPerTrigger": "500000"}
        work: dict[str, Callable[[], int]] = {
            "write with properties": lambda: self.write(self.new, some, write, headers=True),
            "write without properties": lambda: self.write(self.new, some, write, headers=False),
            "batch read with properties": lambda: self.read("headers", read, headers=True),
            "batch read without properties": lambda: self.read("plain", read),
            "stream catch-up with properties, one batch": lambda: self.stream("headers", read),
            "stream catch-up with properties, 500 k a trigger": lambda: self.stream(
                "headers", parts
            ),
            "stream catch-up without properties, one batch": lambda: self.stream("plain", read),
        }
        for name, one in work.items():
            if self.wanted(name):
                self.measure(name, one, tuned=tuned)
        if self.wanted("small micro-batch"):
            self.small_batches(read, tuned=tuned)

    def wanted(self, name: str) -> bool:
        """Whether a measurement was asked for."""
        return not self.only or any(part in name for part in self.only)

    def measure(self, name: str, work: Callable[[], int], *, tuned: bool) -> None:
        """Do some work several times and print the median of its speed."""
        speeds, costs = [], []
        for _ in range(self.rounds):
            if name.startswith("write"):
                self.new = self.create(fresh())
            self.memory.renew()
            began, before = time.perf_counter(), spent(self.pid)
            rows = work()
            speeds.append(rows / (time.perf_counter() - began))
            costs.append(per_row(before, spent(self.pid), rows))
        emit(
            name=name,
            tuned=tuned,
            rows_per_s=round(statistics.median(speeds)),
            best=round(max(speeds)),
            cpu_us_per_row=middle(costs),
            rounds=len(speeds),
            rows=self.rows,
        )

    def create(self, topic: str) -> str:
        """Create a topic; left to the first write it may not be ready before that gives up."""
        jvm = self.spark._jvm
        settings = jvm.java.util.HashMap()
        settings.put("bootstrap.servers", self.address)
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        new = jvm.org.apache.kafka.clients.admin.NewTopic(topic, PARTITIONS, 1)
        admin.createTopics(jvm.java.util.Collections.singletonList(new)).all().get()
        admin.close()
        time.sleep(1)
        return topic

    def write(self, topic: str, rows: int, extra: dict[str, str], *, headers: bool) -> int:
        """Rows made on the way into a topic."""
        columns = [
            "cast(lpad(cast(id as string), 8, '0') as binary) as key",
            "cast(repeat(lpad(hex(xxhash64(id)), 16, '0'), 8) as binary) as value",
        ]
        if headers:
            columns.append(
                "array(named_struct('key', 'colour', 'value', cast('blue' as binary)),"
                " named_struct('key', 'size', 'value', cast(cast(id % 100 as string) as binary)))"
                " as headers"
            )
        frame = self.spark.range(0, rows, 1, self.cores).selectExpr(*columns)
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", self.address)
        writer.options(**extra).option("topic", topic).save()
        return rows

    def read(self, topic: str, extra: dict[str, str], *, headers: bool = False) -> int:
        """A topic from beginning to end."""
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.address)
        reader = reader.options(subscribe=topic, includeHeaders=str(headers).lower(), **extra)
        reader.load().write.format("noop").mode("overwrite").save()
        return int(self.rows)

    def stream(self, topic: str, extra: dict[str, str]) -> int:
        """A stream from the beginning to the end."""
        query = (
            self._stream(topic, extra, headers=topic == "headers")
            .option("checkpointLocation", tempfile.mkdtemp(dir=self.folder))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return int(self.rows)

    def small_batches(self, extra: dict[str, str], *, tuned: bool) -> None:
        """Micro-batches of a few rows."""
        topic = self.create(fresh())
        self.write(topic, 200, {}, headers=True)
        query = (
            self._stream(topic, extra, headers=True)
            .option("checkpointLocation", tempfile.mkdtemp(dir=self.folder))
            .trigger(processingTime="20 milliseconds")
            .start()
        )
        for _ in range(40):
            self.write(topic, 200, {}, headers=True)
            query.processAllAvailable()
        times = [
            p["durationMs"]["triggerExecution"]
            for p in query.recentProgress
            if p["numInputRows"] > 0
        ][15:]
        query.stop()
        emit(
            name="small micro-batch",
            tuned=tuned,
            median_ms=statistics.median(times),
            best_ms=min(times),
            count=len(times),
        )

    def _stream(self, topic: str, extra: dict[str, str], *, headers: bool) -> Any:
        reader = self.spark.readStream.format("kafka")
        reader = reader.option("kafka.bootstrap.servers", self.address).options(
            subscribe=topic,
            includeHeaders=str(headers).lower(),
            startingOffsets="earliest",
            **extra,
        )
        return reader.load().writeStream.format("noop")


def fresh() -> str:
    """A topic nobody has used."""
    return f"t{time.time_ns()}"


def emit(**fields: Any) -> None:
    """Print one measurement."""
    fields["load"] = round(os.getloadavg()[0], 1)
    print(json.dumps({"system": f"kafka {KAFKA}, spark {SPARK}", **fields}), flush=True)


def jars(name: str, group: str, artifact: str) -> Path:
    """A folder with an artifact and all it needs, fetched once."""
    folder = CACHE / name
    if not (folder / ".complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        artifact_id, _, version = artifact.partition(":")
        pom = folder / "pom.xml"
        pom.write_text(POM.format(name=name, group=group, artifact=artifact_id, version=version))
        command = ["mvn", "-q", "-B", "-U", "-f", str(pom)]
        command.append("dependency:copy-dependencies")
        command += [f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
        subprocess.run(command, check=True)
        (folder / ".complete").touch()
    return folder


@contextmanager
def kafka(lib: Path, folder: Path) -> Iterator[tuple[str, int]]:
    """One Kafka broker in KRaft mode on loopback."""
    ports = free_ports(2)
    conf = folder / "server.properties"
    logs = folder / "kafka-logs"
    conf.write_text(
        SERVER.format(port=ports[0], control=ports[1], logs=logs, partitions=PARTITIONS)
    )
    java = ["java", "-Xms1g", "-Xmx1g", "-cp", f"{lib}/*"]
    cluster = str(uuid.uuid4().hex[:22])
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(conf)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with (folder / "kafka.log").open("w") as out:
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(conf)], stdout=out, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + 60
        while not is_open(ports[0]):
            assert process.poll() is None and time.monotonic() < deadline, (
                folder / "kafka.log"
            ).read_text()[-3000:]
            time.sleep(0.2)
        time.sleep(2)
        yield f"127.0.0.1:{ports[0]}", process.pid
    finally:
        process.terminate()
        process.wait(30)


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def is_open(port: int) -> bool:
    """Whether somebody listens."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def session(options: argparse.Namespace, connector: Path, folder: str) -> Any:
    """A session with the connector's jars."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    skip = ("spark-sql_", "spark-core_", "scala-library", "spark-tags", "slf4j", "hadoop-client")
    found = [str(jar) for jar in sorted(connector.glob("*.jar")) if not jar.name.startswith(skip)]
    return (
        SparkSession.builder.appName("kafka-bench")
        .master(f"local[{options.cores}]")
        .config("spark.driver.extraClassPath", ":".join(found))
        .config("spark.driver.memory", "4g")
        .config("spark.local.dir", folder)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        .getOrCreate()
    )


if __name__ == "__main__":
    main()
