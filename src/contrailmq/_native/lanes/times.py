"""How long the lanes worked, by bounds in nanoseconds: no Python object per read.

A run of a lane is timed as a whole, and its time counts once for each request in it: each of them
waited for all of it.  The bounds hold all of those that RocketMQ tells (``[0~10ms]`` and so on, and
the buckets of ``rpc_latency``), so that its figures are exact sums of ours.
"""

from __future__ import annotations

BOUNDS_MS = (
    0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 7, 10, 20, 50, 100, 200, 500,
    1000, 2000, 3000, 4000, 5000, 10000,
)  # fmt: skip
_COUNT = 21
_LONG = 8


class Times:
    """Times of requests: counts by bound, ``sum_ns`` of all, ``worst_ns`` of one."""

    def __init__(self) -> None:
        self._bounds = memoryview(bytearray(_LONG * _COUNT)).cast("q")
        for index, bound in enumerate(BOUNDS_MS):
            self._bounds[index] = round(bound * 1_000_000)
        self._counts = memoryview(bytearray(_LONG * (_COUNT + 1))).cast("q")
        self.total = 0
        self.sum_ns = 0
        self.worst_ns = 0

    def add(self, took_ns: int, times: int) -> None:
        """A run of ``times`` requests took so long."""
        index = 0
        while index < _COUNT and took_ns > self._bounds[index]:
            index += 1
        self._counts[index] += times
        self.total += times
        self.sum_ns += took_ns * times
        if took_ns > self.worst_ns:
            self.worst_ns = took_ns

    def counts(self) -> list[int]:
        """How many requests took at most each of ``BOUNDS_MS``, and longer than all."""
        return list(self._counts)
