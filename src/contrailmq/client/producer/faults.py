"""Which brokers to avoid for a while: slow or failed ones, by Java's latency tables.

``FaultLog`` keeps one entry per broker: how long the last attempt took and until when the broker
is avoided.  It decides nothing else; ``choose.py`` asks it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class LatencyTable:
    """From which latency a broker is avoided for how long (MQFaultStrategy)."""

    latency_ms: tuple[int, ...]
    avoid_ms: tuple[int, ...]
    isolation_ms: int

    def avoid_for(self, latency_ms: int) -> int:
        """How long to avoid a broker that took so long."""
        for limit, avoid in zip(reversed(self.latency_ms), reversed(self.avoid_ms), strict=True):
            if latency_ms >= limit:
                return avoid
        return 0


TABLE_4_9: Final = LatencyTable(
    latency_ms=(50, 100, 550, 1000, 2000, 3000, 15000),
    avoid_ms=(0, 0, 30000, 60000, 120000, 180000, 600000),
    isolation_ms=30000,
)
TABLE_5: Final = LatencyTable(
    latency_ms=(50, 100, 550, 1800, 3000, 5000, 15000),
    avoid_ms=(0, 0, 2000, 5000, 6000, 10000, 30000),
    isolation_ms=10000,
)


@dataclass(slots=True)
class _Fault:
    latency_ms: int
    avoid_until_ms: int
    reachable: bool


class FaultLog:
    """What the last attempts told about each broker; a broker never heard of is fine."""

    def __init__(self, table: LatencyTable = TABLE_5) -> None:
        self._table = table
        self._faults: dict[str, _Fault] = {}  # one entry per broker name of the routes

    def note(
        self,
        broker_name: str,
        latency_ms: int,
        *,
        now_ms: int,
        isolate: bool = False,
        reachable: bool = True,
    ) -> None:
        """Remember an attempt; ``isolate`` counts it as the table's isolation latency."""
        avoid = self._table.avoid_for(self._table.isolation_ms if isolate else latency_ms)
        self._faults[broker_name] = _Fault(latency_ms, now_ms + avoid, reachable)

    def is_available(self, broker_name: str, now_ms: int) -> bool:
        """Whether the broker need not be avoided now."""
        fault = self._faults.get(broker_name)
        return fault is None or now_ms >= fault.avoid_until_ms

    def is_reachable(self, broker_name: str) -> bool:
        """Whether the last attempt got through to the broker at all."""
        fault = self._faults.get(broker_name)
        return fault is None or fault.reachable

    def forget(self, broker_name: str) -> None:
        """Drop what is known of a broker that left the routes."""
        self._faults.pop(broker_name, None)
