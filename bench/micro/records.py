"""Records and properties, compiled against pure: one JSON line a case.

    python -m bench micro.records [seconds a case]

``per_s`` is records (or calls) a second on one core; the median of five rounds.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from contrailmq._native import records as compiled
from contrailmq.protocol.message import Record, encode_record
from contrailmq.protocol.properties import encode_properties

ROOT = Path(__file__).resolve().parents[2]
COUNT = 1000
PROPERTIES = {"KEYS": "order-4711", "TAGS": "TagA", "UNIQ_KEY": "7F" * 16, "WAIT": "true"}
HOST = bytes.fromhex("7f00000100002a9f")
ROUNDS = 5


def pure_build() -> ModuleType:
    """The same module as plain Python."""
    path = ROOT / "src" / "contrailmq" / "_native" / "records.py"
    spec = importlib.util.spec_from_file_location("pure_records", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(body_size: int) -> bytes:
    """One ordinary record."""
    return bytes(
        encode_record(
            topic="TopicTest",
            body=b"x" * body_size,
            properties=PROPERTIES,
            born_ms=1700000000000,
            born_host=HOST,
            store_host=HOST,
        )
    )


def cases(native: ModuleType, make: type) -> Iterator[tuple[str, int, Callable[[], object]]]:
    """Name, things a call, and the call."""
    for size in (128, 1024):
        data = record(size) * COUNT
        yield (
            f"decode {size} B",
            COUNT,
            lambda data=data: native.decode_records(data, make, COUNT, False),
        )
        yield (
            f"decode + CRC {size} B",
            COUNT,
            lambda data=data: native.decode_records(data, make, COUNT, True),
        )
    raw = encode_properties(PROPERTIES)
    data = record(128) * COUNT

    def decode_with_properties() -> None:
        for found in native.decode_records(data, make, COUNT, False):
            native.decode_properties(found.properties_bytes)

    yield "decode 128 B + 4 properties", COUNT, decode_with_properties
    yield "properties to dict", 1, lambda: native.decode_properties(raw)
    yield "find one property", 1, lambda: native.find_property(raw, b"UNIQ_KEY")


def rate(call: Callable[[], object], things: int, seconds: float) -> float:
    """Things a second: the median of some rounds."""
    call()
    rates = []
    for _ in range(ROUNDS):
        count, begin = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - begin) < seconds / ROUNDS:
            for _ in range(10):
                call()
            count += 10
        rates.append(count * things / elapsed)
    return statistics.median(rates)


def main() -> None:
    """Run every case on both builds."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    pure = pure_build()

    class PureRecord(pure.RecordFields):  # type: ignore[misc,name-defined]
        __slots__ = ()

    if Path(str(compiled.__file__)).suffix == ".py":
        sys.exit("contrailmq._native.records is not compiled")
    pairs = zip(cases(compiled, Record), cases(pure, PureRecord), strict=True)
    for (name, things, fast), (_, _, slow) in pairs:
        quick, plain = rate(fast, things, seconds), rate(slow, things, seconds)
        row = {"case": name, "compiled_per_s": round(quick), "pure_per_s": round(plain)}
        print(json.dumps({**row, "times": round(quick / plain, 1)}), flush=True)
    encode = rate(lambda: record(128), 1, seconds)
    print(json.dumps({"case": "encode 128 B + 4 properties", "python_per_s": round(encode)}))


if __name__ == "__main__":
    main()
