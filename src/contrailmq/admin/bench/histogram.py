"""Latencies with their percentiles, in bounded memory: buckets that grow by about one percent."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any, Final

_PER_OCTAVE: Final = 64
PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9, 99.99)


class Histogram:
    """Counts of latencies in seconds; percentiles are exact to about one percent."""

    def __init__(self) -> None:
        self._buckets: defaultdict[int, int] = defaultdict(int)
        self._sum = 0.0
        self.count = 0
        self.max_s = 0.0

    def record(self, seconds: float, count: int = 1) -> None:
        """Note a latency; what is under a microsecond counts as one."""
        micros = max(seconds * 1e6, 1.0)
        self._buckets[int(math.log2(micros) * _PER_OCTAVE)] += count
        self._sum += seconds * count
        self.count += count
        self.max_s = max(self.max_s, seconds)

    def percentile(self, share: float) -> float:
        """The latency that ``share`` percent did not exceed, in seconds; 0 when there is none."""
        if not self.count:
            return 0.0
        wanted = math.ceil(self.count * share / 100)
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                top_s: float = 2 ** ((bucket + 1) / _PER_OCTAVE) / 1e6
                return min(top_s, self.max_s)
        return self.max_s

    @property
    def mean_s(self) -> float:
        """The average, in seconds."""
        return self._sum / self.count if self.count else 0.0

    def summary(self) -> dict[str, Any]:
        """Milliseconds by name: mean, p50 … p99.99, max."""
        found: dict[str, Any] = {"meanMs": _ms(self.mean_s)}
        for share in PERCENTILES:
            found[f"p{share:g}Ms"] = _ms(self.percentile(share))
        found["maxMs"] = _ms(self.max_s)
        return found

    def __repr__(self) -> str:
        return f"<Histogram count={self.count} max={self.max_s:.6f}>"


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
