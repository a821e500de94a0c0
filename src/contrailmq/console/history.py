"""Series of figures over time, in memory and bounded: the newest points of the newest series."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

POINTS_MAX: Final = 450  # 15 minutes at one every two seconds, 75 at one every ten
SERIES_MAX: Final = 600  # the one that was touched longest ago goes


class History:
    """Points ``(ms, value)`` by the name of a series, such as ``in``, ``lag`` or ``lag:orders``."""

    def __init__(self) -> None:
        self._series: OrderedDict[str, deque[tuple[int, float]]] = OrderedDict()

    def add(self, name: str, at_ms: int, value: float) -> None:
        """Note a value."""
        points = self._series.get(name)
        if points is None:
            points = self._series[name] = deque(maxlen=POINTS_MAX)
            if len(self._series) > SERIES_MAX:
                self._series.popitem(last=False)
        self._series.move_to_end(name)
        points.append((at_ms, round(value, 3)))

    def points(self, name: str) -> list[tuple[int, float]]:
        """All points of a series, oldest first."""
        return list(self._series.get(name, ()))

    def last(self, name: str) -> float | None:
        """The newest value."""
        points = self._series.get(name)
        return points[-1][1] if points else None
