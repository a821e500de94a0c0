"""How fast Spark reads and writes topics and store directories: JSON lines, one per measurement.

    python -m bench spark.compare [--rows N] [--rounds N] [--only NAMES] [--kafka PYTHON]

A broker of ours runs in a process of its own, with its default settings unless ``--transfer-count``
says how many messages it may give to a pull; messages have 128-byte bodies, an 8-byte key and two
properties, over 16 queues.  Measured are writes, batch reads, a stream catching up, each with and
without properties; small micro-batches, triggers without data; and the store source beside a
Parquet scan of the same rows.  With ``--kafka`` the same work is done in the same run by Spark's
Kafka connector with a real Kafka broker (see ``spark/kafka.py``) under that interpreter, and the
ratios are printed at the end.

*With own properties* are the columns of the Kafka connector with headers: two pairs a message on
both sides; *with properties* the same with all eight pairs our messages have (clients and brokers
add six); *without* those without headers; *all columns* are our sixteen.  Every read ends in
Spark's ``noop``, here and with Kafka.  *Tuned* is a write without a limit of bytes for an Arrow
batch (``spark.sql.execution.arrow.maxBytesPerBatch``), and what ``spark/kafka.py`` says.  Topics
that are written to are made before the clock runs, and before each round free memory is put to use
(``memory.py``).  Every line has the processor time a row took and the load of the machine; figures
from a busy machine are no better than their ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.memory import UsedMemory
from bench.spark.broker import SRC, Broker, create_topic, own_broker
from bench.spark.cpu import middle, per_row, spent

ROOT = Path(__file__).resolve().parents[2]
QUEUES = 16
# What the Kafka connector has without headers: key, value, topic, partition, offset, timestamp.
PLAIN = (
    "keys STRING, body BINARY, topic STRING, queue_id INT, queue_offset BIGINT,"
    " store_time TIMESTAMP"
)
ARROW_LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"
WITH_PROPERTIES = PLAIN + ", properties MAP<STRING, STRING>"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--transfer-count", type=int, default=32)
    parser.add_argument("--kafka", help="an interpreter with the pyspark of a Kafka connector")
    options = parser.parse_args()
    sys.path.insert(0, str(SRC))
    os.environ["PYTHONPATH"] = str(SRC)
    others = _kafka(options) if options.kafka else []
    with tempfile.TemporaryDirectory(prefix="spark-bench-") as folder:
        spark = _session(options, folder)
        with (
            own_broker(Path(folder), options.transfer_count) as broker,
            UsedMemory(Path(folder)) as memory,
        ):
            bench = Bench(spark, broker, options, Path(folder), memory=memory)
            bench.run()
        spark.stop()
    for line in ratios(bench.found, others):
        print(json.dumps(line), flush=True)


def _kafka(options: argparse.Namespace) -> list[dict[str, Any]]:
    """What the Kafka connector measured."""
    command = [options.kafka, "-m", "bench", "spark.kafka"]
    command += ["--rows", str(options.rows), "--rounds", str(options.rounds)]
    command += ["--only", options.only]
    found = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                print(line, end="", flush=True)
                found.append(json.loads(line))
    if process.returncode:
        raise SystemExit(f"spark.kafka ended with {process.returncode}")
    return found


def ratios(ours: list[dict[str, Any]], others: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Our speed through the other's, for work both have done; above 1 ours is faster."""
    for mine in ours:
        for other in others:
            same = mine["name"].replace("own properties", "properties")
            if other["name"] != same or (mine.get("tuned") and not other["tuned"]):
                continue
            if "rows_per_s" in mine:
                ratio = mine["rows_per_s"] / other["rows_per_s"]
            else:
                ratio = other["median_ms"] / max(mine["median_ms"], 1)
            yield {
                "ratio": round(ratio, 2),
                "name": mine["name"],
                "tuned": [mine.get("tuned", False), other["tuned"]],
            }


class Bench:
    """All measurements of one broker."""

    def __init__(
        self,
        spark: Any,
        broker: Broker,
        options: argparse.Namespace,
        folder: Path,
        *,
        memory: UsedMemory,
    ) -> None:
        self.spark = spark
        self.broker = broker
        self.rows = options.rows
        self.rounds = options.rounds
        self.only = set(filter(None, options.only.split(",")))
        self.folder = folder
        self.memory = memory
        self.new = ""  # the topic that is written to
        self.options = options
        self.found: list[dict[str, Any]] = []

    def run(self) -> None:
        """Every measurement that was asked for."""
        create_topic(self.broker, "bench", QUEUES)
        self.warm_up()
        self.write()
        self.measure("making the rows that are written", self.make_only)
        for tuned in (False, True):
            with self.arrow_limit(unlimited=tuned):
                self.measure("write with properties", self.write_elsewhere, tuned=tuned)
                self.measure("write without properties", self.write_plain, tuned=tuned)
        self.measure("batch read, all columns", self.read_all)
        self.measure("batch read with properties", self.read_with_properties)
        self.measure("batch read with own properties", self.read_own_properties)
        self.measure("batch read without properties", self.read_plain)
        self.measure("stream catch-up with properties, one batch", self.catch_up)
        self.measure("stream catch-up with own properties, one batch", self.catch_up_own)
        self.measure("stream catch-up with properties, 500 k a trigger", self.catch_up_in_parts)
        self.measure("stream catch-up without properties, one batch", self.catch_up_plain)
        self.measure("store source, all columns", self.store_all)
        self.measure("store source with own properties", self.store_own)
        self.measure("store source without properties", self.store_plain)
        self.measure("store source, body only", self.store_body)
        if self.wanted("parquet"):
            self.noop(self.store_frame(None).write.mode("overwrite"), parquet=True)
        self.measure("parquet scan of the same rows", self.parquet)
        if self.wanted("small micro-batch"):
            self.small_batches("small micro-batch", lambda stream: stream.format("noop"))
        if self.wanted("small micro-batch, topic to topic"):
            self.small_batches("small micro-batch, topic to topic", self.to_topic)

    def wanted(self, name: str) -> bool:
        """Whether a measurement was asked for."""
        return not self.only or any(part in name for part in self.only)

    @contextmanager
    def arrow_limit(self, *, unlimited: bool) -> Iterator[None]:
        """Without a limit of bytes a batch Spark need not measure the batch for every row."""
        if unlimited:
            self.spark.conf.set(ARROW_LIMIT, str(2**31 - 1))
        yield
        self.spark.conf.unset(ARROW_LIMIT)

    def measure(self, name: str, work: Callable[[], int], *, tuned: bool = False) -> None:
        """Do some work several times and print the median of its speed."""
        if not self.wanted(name):
            return
        speeds, costs = [], []
        for _ in range(self.rounds):
            if name.startswith("write"):
                self.new = f"out_{time.time_ns()}"
                create_topic(self.broker, self.new, QUEUES)
            self.memory.renew()
            began, before = time.perf_counter(), spent(self.broker.pid)
            rows = work()
            speeds.append(rows / (time.perf_counter() - began))
            costs.append(per_row(before, spent(self.broker.pid), rows))
        self.emit(
            name=name,
            tuned=tuned,
            rows_per_s=round(statistics.median(speeds)),
            best=round(max(speeds)),
            cpu_us_per_row=middle(costs),
            rounds=len(speeds),
            rows=self.rows,
            transfer_count=self.options.transfer_count,
        )

    def emit(self, **fields: Any) -> None:
        """Print and keep one measurement."""
        fields["load"] = round(os.getloadavg()[0], 1)
        self.found.append(fields)
        print(json.dumps({"system": "contrailmq", **fields}), flush=True)

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
            "cast(repeat(lpad(hex(xxhash64(id)), 16, '0'), 8) as binary) as body",
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
        return self.write_to(self.new, min(self.rows, 1_000_000), properties=properties)

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

    def read_own_properties(self) -> int:
        """What a Kafka record has with headers, and nothing more."""
        frame = self.read("bench", WITH_PROPERTIES).option("properties", "own").load()
        return self.noop(frame.write)

    def read_plain(self) -> int:
        """What a Kafka record has without headers."""
        return self.noop(self.read("bench", PLAIN).load().write)

    def stream(self, schema: str, **limits: str) -> int:
        """Run a stream from the beginning to the end."""
        check = tempfile.mkdtemp(dir=self.folder)
        frame = (
            self.spark.readStream.format("rocketmq")
            .schema(schema)
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
        return self.stream(WITH_PROPERTIES)

    def catch_up_own(self) -> int:
        """All in one batch, without what clients and brokers add."""
        return self.stream(WITH_PROPERTIES, properties="own")

    def catch_up_in_parts(self) -> int:
        """Some rows a trigger."""
        return self.stream(WITH_PROPERTIES, maxOffsetsPerTrigger="500000")

    def catch_up_plain(self) -> int:
        """All in one batch, fewer columns."""
        return self.stream(PLAIN)

    def store_frame(self, schema: str | None, **options: str) -> Any:
        """The topic from the broker's own files."""
        reader = self.spark.read.format("rocketmq-store")
        reader = reader.options(path=str(self.broker.store), topics="bench", **options)
        return (reader.schema(schema) if schema else reader).load()

    def store_all(self) -> int:
        """Every column."""
        return self.noop(self.store_frame(None).write)

    def store_own(self) -> int:
        """What a Kafka record has with headers."""
        return self.noop(self.store_frame(WITH_PROPERTIES, properties="own").write)

    def store_plain(self) -> int:
        """What a Kafka record has without headers."""
        return self.noop(self.store_frame(PLAIN).write)

    def store_body(self) -> int:
        """The bodies alone."""
        return self.noop(self.store_frame("body BINARY").write)

    def parquet(self) -> int:
        """The same rows from Parquet."""
        return self.noop(self.spark.read.parquet(str(self.folder / "parquet")).write)

    def to_topic(self, stream: Any) -> Any:
        """A stream that writes to a topic effectively once."""
        create_topic(self.broker, "small_out", 2)
        return stream.format("rocketmq").options(
            nameServers=self.broker.name_servers, topic="small_out", delivery="effectively-once"
        )

    def small_batches(self, name: str, into: Callable[[Any], Any]) -> None:
        """Micro-batches of a few rows, and triggers that find nothing."""
        topic = f"small_{time.time_ns()}"
        create_topic(self.broker, topic, 2)
        frame = (
            self.spark.readStream.format("rocketmq")
            .options(nameServers=self.broker.name_servers, topics=topic, startingOffsets="earliest")
            .load()
        )
        query = (
            into(frame.writeStream)
            .option("checkpointLocation", tempfile.mkdtemp(dir=self.folder))
            .trigger(processingTime="20 milliseconds")
            .start()
        )
        for _ in range(40):
            self.write_to(topic, 200)
            query.processAllAvailable()
        time.sleep(2)
        progress = [dict(p) if not isinstance(p, dict) else p for p in query.recentProgress]
        query.stop()
        busy = [p["durationMs"] for p in progress if p["numInputRows"] > 0][15:]
        idle = [p["durationMs"] for p in progress if p["numInputRows"] == 0][3:]
        for kind, found in (
            (name, busy),
            (name.replace("small micro-batch", "empty trigger"), idle),
        ):
            times = [durations["triggerExecution"] for durations in found]
            if times:
                self.emit(
                    name=kind,
                    median_ms=statistics.median(times),
                    best_ms=min(times),
                    count=len(times),
                    parts_ms={
                        part: statistics.median(durations.get(part, 0) for durations in found)
                        for part in found[0]
                    },
                )


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
