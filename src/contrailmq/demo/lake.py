"""The Spark half of the tour: a topic into Parquet, an aggregate into a topic, dead letters back.

Spark runs in threads of this process and in a Java process of its own, whose log goes to a file in
the temporary folder; it is ended, and waited for, before the tour ends.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from contrailmq.demo.screen import Screen
from contrailmq.demo.shop import BILLING, ORDERS, TOTALS
from contrailmq.errors import ContrailError
from contrailmq.pipelines.local import JAVA_VERSION, java_fault, python_fault
from contrailmq.protocol.names import dlq_topic

JAVA_END_S: Final = 20.0
POLL_S: Final = 0.2
BATCHES: Final = 3
_ORDER: Final = "order INT, customer STRING, country STRING, amount DOUBLE, card STRING"


@dataclass(slots=True)
class LakeFacts:
    """What happened, for the summary."""

    rows: int = 0
    stream_s: float = 0.0
    batches: int = 0
    last_rate: float = 0.0  # rows a second of the last micro-batch: Spark is warm by then
    totals: list[tuple[str, int, float]] = field(default_factory=list)
    redriven: int = 0


def why_not() -> str | None:
    """One line that says why Spark cannot run here, or None."""
    fault = java_fault()
    if fault is not None:
        needed = f"the Spark part needs Java {JAVA_VERSION} or newer"
        return f"{needed}; install it to see that part too ({fault})"
    fault = python_fault()
    if fault is not None:
        return fault
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        return f"the Spark part needs the package {error.name}: pip install 'contrailmq[spark]'"
    return None


# Spark puts Unix sockets with names of some 40 letters there; a path may have 107 at most.
SOCKET_FOLDER_MAX: Final = 60


class Lake:
    """A Spark session over the cluster of the tour; every method blocks, use a thread."""

    def __init__(self, name_servers: str, directory: Path, screen: Screen) -> None:
        self._name_servers = name_servers
        self._directory = directory
        self._screen = screen
        self._spark: Any = None
        self.facts = LakeFacts()

    def start(self) -> float:
        """Start Spark quietly; how many seconds it took."""
        from contrailmq.spark.session import session

        began_ms = self._screen.clock.monotonic_ms()
        scratch = self._directory / "java"  # what Java unpacks goes with the folder, too
        scratch.mkdir()
        if len(str(scratch)) > SOCKET_FOLDER_MAX:
            scratch = Path("/tmp")  # where Java itself would put it
        settings = {
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch}",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": str(self._directory / "spark"),
            "spark.sql.warehouse.dir": str(self._directory / "warehouse"),
            "spark.sql.streaming.numRecentProgressUpdates": "1000",
        }
        with _errors_into(self._directory / "spark.log"):
            self._spark = session("contrail demo", master="local[2]", settings=settings)
            self._spark.sparkContext.setLogLevel("ERROR")
        return (self._screen.clock.monotonic_ms() - began_ms) / 1000

    def stop(self) -> None:
        """End Spark and its Java process."""
        if self._spark is None:
            return
        from pyspark import SparkContext

        gateway = SparkContext._gateway
        with _errors_into(self._directory / "spark.log"):
            self._spark.stop()
            if gateway is not None:
                gateway.shutdown()
                process = getattr(gateway, "proc", None)
                SparkContext._gateway = SparkContext._jvm = None
                if process is not None:
                    process.stdin.close()
                    try:
                        process.wait(JAVA_END_S)
                    except subprocess.TimeoutExpired:
                        process.kill()
                        process.wait()
        self._spark = None

    def all_of_it(self, expected: int) -> int:
        """All steps one after another; how many dead letters were sent again.

        What Spark complains of becomes one line, while Java is still there to be asked for it.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            self.into_parquet(expected)
            self.totals_back()
            return self.redrive()
        except (Py4JError, PySparkException) as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise ContrailError(f"Spark failed: {' '.join(lines[:6])[:600]}") from error

    def into_parquet(self, expected: int) -> None:
        """Stream all orders into Parquet, in a few micro-batches."""
        from pyspark.sql.functions import col, from_json

        bar = self._screen.bar("orders into Parquet", expected)
        frame = (
            self._spark.readStream.format("rocketmq")
            .option("nameServers", self._name_servers)
            .option("topics", ORDERS)
            .option("startingOffsets", "earliest")
            .option("group", "lake")
            .option("maxOffsetsPerTrigger", str(-(-expected // BATCHES)))
            .load()
            .select(from_json(col("body").cast("string"), _ORDER).alias("o"), "tags", "store_time")
            .select("o.*", "tags", "store_time")
        )
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(self._directory / "orders.parquet"))
            .option("checkpointLocation", str(self._directory / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        while not query.awaitTermination(POLL_S):
            bar.set(sum(progress["numInputRows"] for progress in query.recentProgress))
        batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
        facts = self.facts
        facts.rows = sum(progress["numInputRows"] for progress in batches)
        facts.batches = len(batches)
        facts.last_rate = batches[-1].processedRowsPerSecond if batches else 0.0
        bar.set(facts.rows)
        facts.stream_s = bar.finish(f"{len(batches)} micro-batches")

    def totals_back(self) -> None:
        """Aggregate the Parquet files and write one message a country to a topic."""
        frame = self._spark.read.parquet(str(self._directory / "orders.parquet"))
        frame.createOrReplaceTempView("orders")
        totals = self._spark.sql(
            "SELECT country, count(*) AS orders, round(sum(amount), 2) AS total FROM orders "
            "GROUP BY country ORDER BY total DESC"
        ).cache()  # shown here, and written below
        self.facts.totals = [(row.country, row.orders, row.total) for row in totals.collect()]
        bar = self._screen.bar("totals into a topic", len(self.facts.totals))
        messages = totals.selectExpr(
            "country AS keys", "to_json(struct(country, orders, total)) AS body", "'total' AS tags"
        )
        self._write(messages, TOTALS)
        bar.set(len(self.facts.totals))
        bar.finish(f"topic {TOTALS}")

    def redrive(self) -> int:
        """Repair dead letters and send them to their topic again; how many there were."""
        dead = (
            self._spark.read.format("rocketmq")
            .options(nameServers=self._name_servers, topics=dlq_topic(BILLING))
            .load()
            .cache()
        )
        count: int = dead.count()
        bar = self._screen.bar("dead letters re-driven", count)
        repaired = dead.selectExpr(
            "regexp_replace(cast(body AS string), 'expired', 'renewed') AS body",
            "keys",
            "'redriven' AS tags",
            "map_filter(properties, (k, v) -> k IN ('amount', 'country')) AS properties",
        )
        self._write(repaired, ORDERS)
        bar.set(count)
        bar.finish(f"repaired, back in topic {ORDERS}")
        self.facts.redriven = count
        return count

    def _write(self, frame: Any, topic: str) -> None:
        writer = frame.write.format("rocketmq").mode("append")
        writer.options(nameServers=self._name_servers, topic=topic).save()


@contextlib.contextmanager
def _errors_into(path: Path) -> Iterator[None]:
    """What is written to standard error meanwhile, by children too, goes to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
