"""Records into Arrow column buffers: records a second on one core, one JSON line a case.

    python -m bench micro.columns [rounds]

Best of the rounds, in time of this thread, so that a busy machine disturbs less.
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from pathlib import Path

from contrailmq._native.spark import arrow
from contrailmq.protocol.columns import COLUMNS, RecordColumns
from contrailmq.protocol.message import encode_record
from contrailmq.protocol.properties import RESERVED_PROPERTIES

# What a message sent with a key and two properties has, and which of them are its own.
BROKERED = {
    "KEYS": "00004711",
    "colour": "blue",
    "size": "42",
    "UNIQ_KEY": "7F" * 16,
    "WAIT": "true",
    "CLUSTER": "DefaultCluster",
    "MSG_REGION": "DefaultRegion",
    "TRACE_ON": "true",
}
PROPERTIES = {"KEYS": "order-4711", "TAGS": "TagA", "UNIQ_KEY": "7F" * 16, "WAIT": "true"}
HOST = bytes.fromhex("7f00000100002a9f")
CASES: dict[str, tuple[str, ...]] = {
    "all 15 columns": COLUMNS,
    "all but the map": tuple(name for name in COLUMNS if name != "properties"),
    "the map": ("properties",),
    "keys, tags, unique key": ("keys", "tags", "unique_key"),
    "body, topic, queue, offset, store time": (
        "body",
        "topic",
        "queue_id",
        "queue_offset",
        "store_time",
    ),
    "body": ("body",),
}
PLAIN = ("keys", "body", "topic", "queue_id", "queue_offset", "store_time")
BROKER_CASES: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "as a broker gives them: own properties": ((*PLAIN, "properties"), RESERVED_PROPERTIES),
    "as a broker gives them: all eight properties": ((*PLAIN, "properties"), frozenset()),
    "as a broker gives them: no properties": (PLAIN, frozenset()),
}


def main() -> None:
    """Run every case over chunks of three sizes."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    if Path(str(arrow.__file__)).suffix == ".py":
        sys.exit("contrailmq._native.spark.arrow is not compiled")
    for count in (1000, 4000, 10_000):
        for case, wanted in CASES.items():
            measure(case, RecordColumns(wanted), PROPERTIES, count, rounds)
        for case, (wanted, without) in BROKER_CASES.items():
            measure(case, RecordColumns(wanted, without=without), BROKERED, count, rounds)


def measure(
    case: str, reader: RecordColumns, properties: dict[str, str], count: int, rounds: int
) -> None:
    """Print the best of some rounds over a chunk of equal records."""
    record = bytes(
        encode_record(
            topic="TopicTest",
            body=b"x" * 128,
            properties=properties,
            born_ms=1700000000000,
            born_host=HOST,
            store_host=HOST,
        )
    )
    data = record * count
    positions = array("q", range(0, len(data), len(record)))
    best = float("inf")
    for _ in range(rounds):
        begin = time.thread_time()
        reader.read(data, positions)
        best = min(best, time.thread_time() - begin)
    row = {"case": case, "chunk": count, "record_size": len(record)}
    print(json.dumps({**row, "per_s": round(count / best)}), flush=True)


if __name__ == "__main__":
    main()
