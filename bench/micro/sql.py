"""SQL92 filters: evaluations a second on one core, one JSON line a case.

    python -m bench micro.sql [seconds a case]

``dict`` looks properties up in a dict; ``raw`` finds them in a stored property string.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

from contrailmq.protocol.filter.sql import compile_sql
from contrailmq.protocol.properties import encode_properties

PROPERTIES = {
    "KEYS": "order-4711",
    "a": "7",
    "UNIQ_KEY": "7F" * 16,
    "b": "x",
    "price": "12.5",
    "WAIT": "true",
}
EXPRESSIONS = (
    "a > 5 AND b = 'x'",
    "a = 7",
    "b IN ('x', 'y', 'z')",
    "price BETWEEN 10.5 AND 20.5",
    "a IS NOT NULL AND (b = 'x' OR b = 'y') AND NOT (a < 3)",
    "missing > 5 OR b CONTAINS 'x'",
)
ROUNDS = 5


def rate(call: Callable[[object], object], argument: object, seconds: float) -> int:
    """Calls a second: the median of some rounds."""
    rates = []
    for _ in range(ROUNDS):
        count, begin = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - begin) < seconds / ROUNDS:
            for _ in range(1000):
                call(argument)
            count += 1000
        rates.append(count / elapsed)
    return round(statistics.median(rates))


def main() -> None:
    """Run every expression both ways, then measure compilation."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    raw = encode_properties(PROPERTIES)
    for expression in EXPRESSIONS:
        condition = compile_sql(expression)
        assert condition.matches(PROPERTIES), expression
        assert condition.matches_raw(raw), expression
        row = {
            "case": expression,
            "dict_per_s": rate(condition.matches, PROPERTIES, seconds),  # type: ignore[arg-type]
            "raw_per_s": rate(condition.matches_raw, raw, seconds),  # type: ignore[arg-type]
        }
        print(json.dumps(row), flush=True)
    compiled = rate(compile_sql, EXPRESSIONS[0], seconds)  # type: ignore[arg-type]
    print(json.dumps({"case": f"compile {EXPRESSIONS[0]}", "per_s": compiled}))


if __name__ == "__main__":
    main()
