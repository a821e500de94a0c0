"""How long sends took, in the texts of the original (StoreStatsService).

A send that goes through a lane counts with the time of its whole socket read; one that waits for
the disk or for replicas, until its answer may leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contrailmq._native.lanes.times import BOUNDS_MS, Times

# The original names a put of less than a millisecond "<=0ms".
STEPS: Final = (
    ("<=0ms", 1), ("0~10ms", 10), ("10~50ms", 50), ("50~100ms", 100), ("100~200ms", 200),
    ("200~500ms", 500), ("500ms~1s", 1000), ("1~2s", 2000), ("2~3s", 3000), ("3~4s", 4000),
    ("4~5s", 5000), ("5~10s", 10_000),
)  # fmt: skip
LAST: Final = "10s~"


def put_latencies(*times: Times) -> dict[str, str]:
    """The keys of GET_BROKER_RUNTIME_INFO that tell how long sends took, in ms."""
    counts = [sum(same) for same in zip(*(each.counts() for each in times), strict=True)]
    return {
        "putMessageEntireTimeMax": str(max(each.worst_ns for each in times) // 1_000_000),
        "putMessageDistributeTime": distribution(counts),
        "putLatency99": f"{quantile_ms(counts, 0.99):.2f}",
        "putLatency999": f"{quantile_ms(counts, 0.999):.2f}",
    }


def distribution(counts: Sequence[int]) -> str:
    """``[<=0ms]:12 [0~10ms]:3 …``, with a blank at the end as the original has it."""
    merged = regrouped(counts, [bound for _, bound in STEPS])
    names = [name for name, _ in STEPS] + [LAST]
    return "".join(f"[{name}]:{count} " for name, count in zip(names, merged, strict=True))


def regrouped(counts: Sequence[int], bounds: Sequence[float]) -> list[int]:
    """Counts by ``BOUNDS_MS`` as counts by some of these bounds, and above the last."""
    found = [0] * (len(bounds) + 1)
    step = 0
    for bound, count in zip((*BOUNDS_MS, float("inf")), counts, strict=True):
        while step < len(bounds) and bound > bounds[step]:
            step += 1
        found[step] += count
    return found


def quantile_ms(counts: Sequence[int], share: float) -> float:
    """The time that this share of all sends did not exceed; within a step, by its place in it."""
    total = sum(counts)
    wanted = share * total
    seen = 0
    low = 0.0
    for bound, count in zip((*BOUNDS_MS, BOUNDS_MS[-1]), counts, strict=True):
        if count and seen + count >= wanted:
            return low + (bound - low) * (wanted - seen) / count
        seen += count
        low = float(bound)
    return 0.0
