"""Records into Arrow column buffers: records a second on one core, one JSON line a case.

    python bench/micro_columns.py [rounds]

Best of the rounds, in time of this thread, so that a busy machine disturbs less.
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from contrailmq._native import arrow, records
from contrailmq.protocol.columns import COLUMNS, RecordColumns
from contrailmq.protocol.message import encode_record

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


def main() -> None:
    """Run every case over chunks of three sizes."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    if Path(str(arrow.__file__)).suffix == ".py":
        sys.exit("contrailmq._native.arrow is not compiled")
    record = bytes(
        encode_record(
            topic="TopicTest",
            body=b"x" * 128,
            properties=PROPERTIES,
            born_ms=1700000000000,
            born_host=HOST,
            store_host=HOST,
        )
    )
    for count in (1000, 4000, 10_000):
        data = record * count
        positions = array("q", bytes(8 * count))
        records.scan_records(data, 0, len(data), positions)
        for case, wanted in CASES.items():
            reader = RecordColumns(wanted)
            best = float("inf")
            for _ in range(rounds):
                begin = time.thread_time()
                reader.read(data, positions)
                best = min(best, time.thread_time() - begin)
            row = {"case": case, "chunk": count, "record_size": len(record)}
            print(json.dumps({**row, "per_s": round(count / best)}), flush=True)


if __name__ == "__main__":
    main()
