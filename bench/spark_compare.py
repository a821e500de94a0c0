"""How fast Spark reads and writes topics and store directories: JSON lines, one per measurement.

    python bench/spark_compare.py [--rows N] [--rounds N] [--only NAMES] [--kafka PYTHON]

A broker of ours runs in a process of its own; messages have 128-byte bodies, an 8-byte key and two
properties, over 16 queues.  Measured are a write, batch reads with and without properties, a stream
catching up, small micro-batches, triggers without data, and the store source beside a Parquet scan
of the same rows.  With ``--kafka`` the same work is done by Spark's Kafka connector with a real
Kafka broker (see ``spark_kafka.py``) under that interpreter, before and after.

Every line has the load of the machine; figures from a busy machine are no better than their ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from spark_cpu import spent

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
QUEUES = 16
CONF = """listenPort=0
mappedFileSizeCommitLog=1073741824
enablePropertyFilter=true
maxTransferCountOnMessageInMemory={count}
maxTransferBytesOnMessageInMemory={size}
maxTransferCountOnMessageInDisk={count}
maxTransferBytesOnMessageInDisk={size}
"""
# What the Kafka connector has without headers: key, value, topic, partition, offset, timestamp.
PLAIN = (
    "keys STRING, body BINARY, topic STRING, queue_id INT, queue_offset BIGINT,"
    " store_time TIMESTAMP"
)
WITH_PROPERTIES = PLAIN + ", properties MAP<STRING, STRING>"


class Broker(NamedTuple):
    """A running broker."""

    name_servers: str
    address: str
    store: Path
    pid: int


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--transfer-count", type=int, default=4096)
    parser.add_argument("--kafka", help="an interpreter with pyspark 4.2.0")
    options = parser.parse_args()
    sys.path.insert(0, str(SRC))
    os.environ["PYTHONPATH"] = str(SRC)
    if options.kafka:
        _kafka(options)
    with tempfile.TemporaryDirectory(prefix="spark-bench-") as folder:
        spark = _session(options, folder)
        with own_broker(Path(folder), options.transfer_count) as broker:
            Bench(spark, broker, options, Path(folder)).run()
        spark.stop()
    if options.kafka:
        _kafka(options)


def _kafka(options: argparse.Namespace) -> None:
    command = [options.kafka, str(ROOT / "bench" / "spark_kafka.py")]
    command += ["--rows", str(options.rows), "--rounds", str(options.rounds)]
    subprocess.run(command, check=True)


class Bench:
    """All measurements of one broker."""

    def __init__(
        self, spark: Any, broker: Broker, options: argparse.Namespace, folder: Path
    ) -> None:
        self.spark = spark
        self.broker = broker
        self.rows = options.rows
        self.rounds = options.rounds
        self.only = set(filter(None, options.only.split(",")))
        self.folder = folder
        self.options = options

    def run(self) -> None:
        """Every measurement that was asked for."""
        create_topic(self.broker, "bench", QUEUES)
        self.warm_up()
        self.measure("write", self.write, rounds=1)
        self.measure("making the rows that are written", self.make_only)
        self.measure("write with properties", self.write_elsewhere)
        self.measure("write without properties", self.write_plain)
        self.measure("batch read, all columns", self.read_all)
        self.measure("batch read with properties", self.read_with_properties)
        self.measure("batch read without properties", self.read_plain)
        self.measure("stream catch-up, one batch", self.catch_up)
        self.measure("stream catch-up, 500 k a trigger", self.catch_up_in_parts)
        self.measure("store source, all columns", self.store_all)
        self.measure("store source without properties", self.store_plain)
        self.measure("store source, body only", self.store_body)
        if self.wanted("parquet"):
            self.noop(self.store_frame(None).write.mode("overwrite"), parquet=True)
        self.measure("parquet scan of the same rows", self.parquet)
        if self.wanted("micro-batch"):
            self.small_batches()

    def wanted(self, name: str) -> bool:
        """Whether a measurement was asked for."""
        return not self.only or any(part in name for part in self.only)

    def measure(self, name: str, work: Callable[[], int], *, rounds: int | None = None) -> None:
        """Do some work several times and print the median of its speed."""
        if not self.wanted(name) and name != "write":
            return
        speeds, costs = [], []
        for _ in range(rounds or self.rounds):
            began, before = time.perf_counter(), spent(self.broker.pid)
            rows = work()
            speeds.append(rows / (time.perf_counter() - began))
            costs.append(spent(self.broker.pid).since(before).per_row(rows))
        emit(
            name=name,
            rows_per_s=round(statistics.median(speeds)),
            best=round(max(speeds)),
            cpu_us_per_row=min(costs, key=lambda cost: cost["all"]),
            rounds=len(speeds),
            rows=self.rows,
            transfer_count=self.options.transfer_count,
        )

    def warm_up(self) -> None:
        """The first use of everything is slow."""
        create_topic(self.broker, "warm", 2)
        self.write_to("warm", 20_000)
        self.noop(self.read("warm").load().write)

    # The work

    def made(self, rows: int, *, properties: bool) -> Any:
        """Rows made on the way."""
        columns = [
            "cast(lpad(cast(id as string), 8, '0') as string) as keys",
            "cast(repeat(substr(sha2(cast(id as string), 256), 1, 32), 4) as binary) as body",
        ]
        if properties:
            columns.append("map('colour', 'blue', 'size', cast(id % 100 as string)) as properties")
        return self.spark.range(0, rows, 1, self.options.cores).selectExpr(*columns)

    def write_to(self, topic: str, rows: int, *, properties: bool = True) -> int:
        """Rows made on the way into a topic."""
        frame = self.made(rows, properties=properties)
        writer = frame.write.format("rocketmq").mode("append")
        writer.options(nameServers=self.broker.name_servers, topic=topic).save()
        return rows

    def write(self) -> int:
        """The rows everything else reads."""
        return self.write_to("bench", self.rows)

    def write_elsewhere(self, *, properties: bool = True) -> int:
        """The same into another topic each time."""
        topic = f"out_{time.time_ns()}"
        create_topic(self.broker, topic, QUEUES)
        return self.write_to(topic, min(self.rows, 1_000_000), properties=properties)

    def write_plain(self) -> int:
        """Only what a Kafka record has without headers."""
        return self.write_elsewhere(properties=False)

    def make_only(self) -> int:
        """What it costs to make the rows that are written."""
        self.noop(self.made(self.rows, properties=True).write)
        return int(self.rows)

    def read(self, topic: str, schema: str | None = None) -> Any:
        """A reader of a topic."""
        reader = self.spark.read.format("rocketmq")
        reader = reader.options(nameServers=self.broker.name_servers, topics=topic)
        return reader.schema(schema) if schema else reader

    def noop(self, writer: Any, *, parquet: bool = False) -> int:
        """Do the work and throw the rows away, or keep them as Parquet."""
        if parquet:
            writer.parquet(str(self.folder / "parquet"))
        else:
            writer.format("noop").mode("overwrite").save()
        return int(self.rows)

    def read_all(self) -> int:
        """Every column."""
        return self.noop(self.read("bench").load().write)

    def read_with_properties(self) -> int:
        """What a Kafka record has with headers."""
        return self.noop(self.read("bench", WITH_PROPERTIES).load().write)

    def read_plain(self) -> int:
        """What a Kafka record has without headers."""
        return self.noop(self.read("bench", PLAIN).load().write)

    def stream(self, **limits: str) -> int:
        """Run a stream from the beginning to the end."""
        check = tempfile.mkdtemp(dir=self.folder)
        frame = (
            self.spark.readStream.format("rocketmq")
            .options(
                nameServers=self.broker.name_servers,
                topics="bench",
                startingOffsets="earliest",
                **limits,
            )
            .load()
        )
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", check)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return int(self.rows)

    def catch_up(self) -> int:
        """All in one batch."""
        return self.stream()

    def catch_up_in_parts(self) -> int:
        """Some rows a trigger."""
        return self.stream(maxOffsetsPerTrigger="500000")

    def store_frame(self, schema: str | None) -> Any:
        """The topic from the broker's own files."""
        reader = self.spark.read.format("rocketmq-store")
        reader = reader.options(path=str(self.broker.store), topics="bench")
        return (reader.schema(schema) if schema else reader).load()

    def store_all(self) -> int:
        """Every column."""
        return self.noop(self.store_frame(None).write)

    def store_plain(self) -> int:
        """What a Kafka record has without headers."""
        return self.noop(self.store_frame(PLAIN).write)

    def store_body(self) -> int:
        """The bodies alone."""
        return self.noop(self.store_frame("body BINARY").write)

    def parquet(self) -> int:
        """The same rows from Parquet."""
        return self.noop(self.spark.read.parquet(str(self.folder / "parquet")).write)

    def small_batches(self) -> None:
        """Micro-batches of a few rows, and triggers that find nothing."""
        create_topic(self.broker, "small", 2)
        frame = (
            self.spark.readStream.format("rocketmq")
            .options(
                nameServers=self.broker.name_servers, topics="small", startingOffsets="earliest"
            )
            .load()
        )
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", tempfile.mkdtemp(dir=self.folder))
            .trigger(processingTime="20 milliseconds")
            .start()
        )
        for _ in range(25):
            self.write_to("small", 200)
            query.processAllAvailable()
        time.sleep(2)
        progress = [dict(p) if not isinstance(p, dict) else p for p in query.recentProgress]
        query.stop()
        busy = [p["durationMs"] for p in progress if p["numInputRows"] > 0][3:]
        idle = [p["durationMs"] for p in progress if p["numInputRows"] == 0][3:]
        for name, found in (("small micro-batch", busy), ("empty trigger", idle)):
            times = [durations["triggerExecution"] for durations in found]
            if times:
                emit(
                    name=name,
                    median_ms=statistics.median(times),
                    best_ms=min(times),
                    count=len(times),
                    latest_offset_ms=statistics.median(d.get("latestOffset", 0) for d in found),
                )


def emit(**fields: Any) -> None:
    """Print one measurement."""
    fields["load"] = round(os.getloadavg()[0], 1)
    print(json.dumps({"system": "contrailmq", **fields}), flush=True)


def create_topic(broker: Broker, topic: str, queues: int) -> None:
    """Create a topic and wait until its route is known."""
    from contrailmq.protocol.codes import RequestCode
    from contrailmq.protocol.command import Command
    from contrailmq.protocol.headers.topic import CreateTopicRequest
    from contrailmq.spark.cluster import Brokers
    from contrailmq.spark.options import Access

    header = CreateTopicRequest(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    brokers = Brokers(Access(name_servers=(broker.name_servers,)))
    wire = brokers.wire(broker.address)
    answer = wire.call(Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header))
    assert answer.code == 0, answer
    while brokers.find_route(topic) is None:
        time.sleep(0.05)
    brokers.close()


@contextmanager
def own_broker(folder: Path, transfer_count: int) -> Iterator[Broker]:
    """A name server and a broker in a process of their own."""
    size = 262_144 if transfer_count <= 32 else 1_048_576
    conf = folder / "broker.conf"
    conf.write_text(CONF.format(count=transfer_count, size=size))
    store = folder / "broker-a"
    command = [sys.executable, "-m", "contrailmq.main", "up", "-c", str(conf)]
    command += ["--store", str(store), "--namesrv-port", "0", "--host", "127.0.0.1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        name_server = re.search(r"name server ([^ ,]+)", line)
        address = re.search(r"broker ([^ ,]+)", line)
        assert name_server and address, line
        yield Broker(name_server[1], address[1], store, process.pid)
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(store, ignore_errors=True)


def _session(options: argparse.Namespace, folder: str) -> Any:
    from contrailmq.spark import session

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.local.dir": folder,
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.noDataProgressEventInterval": "0",
        "spark.sql.streaming.numRecentProgressUpdates": "2000",
        "spark.log.level": "ERROR",
    }
    return session("spark-bench", master=f"local[{options.cores}]", settings=settings)


if __name__ == "__main__":
    main()
