"""What a Spark task costs without Spark: processor time of pulling, reading files and writing.

    python -m bench spark.tasks [--rows N]

JSON lines of rows per second of the task's own processor time, which does not depend on what else
the machine does: messages with 128-byte bodies, a key and two properties, over 16 queues, from and
to a broker of ours in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from bench.spark.broker import SRC, create_topic, own_broker
from bench.spark.compare import QUEUES
from contrailmq.bulk.options import sink_options, source_options, store_options
from contrailmq.spark.columns import message_schema
from contrailmq.spark.reader import TopicReader
from contrailmq.spark.sink import write_rows
from contrailmq.spark.store_reader import StoreTopicReader

PLAIN = ("keys", "body", "topic", "queue_id", "queue_offset", "store_time")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    rows = parser.parse_args().rows
    os.environ["PYTHONPATH"] = str(SRC)
    plain = StructType([field for field in message_schema().fields if field.name in PLAIN])
    for transfer_count in (32, 4096):
        with (
            tempfile.TemporaryDirectory(prefix="spark-tasks-") as folder,
            own_broker(Path(folder), transfer_count) as broker,
        ):
            create_topic(broker, "bench", QUEUES)
            sink = sink_options({"nameServers": broker.name_servers, "topic": "bench"})
            batches = [_batch(10_000)] * (rows // 10_000)
            _measure("write", transfer_count, lambda s=sink, b=batches: _write(b, s))
            source = source_options({"nameServers": broker.name_servers, "topics": "bench"})
            store = store_options({"path": str(broker.store), "topics": "bench"})
            for name, schema in (("all columns", message_schema()), ("no properties", plain)):
                for kind, reader in (
                    ("pull", TopicReader(source, schema)),
                    ("store", StoreTopicReader(store, schema)),
                ):
                    work = lambda r=reader: _read(r)  # noqa: E731
                    _measure(f"{kind}, {name}", transfer_count, work)


def _measure(name: str, transfer_count: int, work: Callable[[], int]) -> None:
    best = 0.0
    for _ in range(1 if name == "write" else 3):
        began = time.thread_time()
        rows = work()
        best = max(best, rows / (time.thread_time() - began))
    line: dict[str, Any] = {"name": name, "transfer_count": transfer_count}
    line |= {"rows_per_processor_s": round(best), "load": round(os.getloadavg()[0], 1)}
    print(json.dumps(line), flush=True)


def _batch(count: int) -> Any:
    numbers = range(count)
    kind = pa.map_(pa.string(), pa.string())
    return pa.record_batch(
        {
            "body": pa.array([b"%08d" % n * 16 for n in numbers], pa.binary()),
            "keys": pa.array([f"{n:08d}" for n in numbers]),
            "properties": pa.array(
                [[("colour", "blue"), ("size", str(n % 100))] for n in numbers], kind
            ),
        }
    )


def _write(batches: list[Any], options: Any) -> int:
    return write_rows(iter(batches), options, query=None, batch="").sent


def _read(reader: Any) -> int:
    return sum(
        batch.num_rows for partition in reader.partitions() for batch in reader.read(partition)
    )


if __name__ == "__main__":
    main()
