"""What a figure is: a family of points with labels, a number or a spread of times.

A source is a function that yields families with their points, as they are at that moment.  It is
called once per scrape and may be slow as a whole: whoever reads it gives the loop a turn between
some hundred points.  So a source copies the keys of a table before it walks them.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]  # sorted by name


class Kind(enum.StrEnum):
    """How the values of a family behave."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One name; ``unit`` is appended to it, as the exporter of the original does."""

    name: str
    kind: Kind
    help: str
    unit: str = ""

    @property
    def full_name(self) -> str:
        """The name with its unit, as Prometheus sees it."""
        return f"{self.name}_{self.unit}" if self.unit else self.name


class Point(NamedTuple):
    """One value."""

    labels: Labels
    value: float


class Spread(NamedTuple):
    """How often values were at most each bound, and above all of them; ``sum`` of all values."""

    labels: Labels
    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


Group = tuple[Family, Iterable[Point | Spread]]
Source = Callable[[], Iterator[Group]]


class Histogram:
    """Counts values by bounds. One ``add`` is a search among the bounds and three additions."""

    __slots__ = ("bounds", "count", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.count = 0
        self.sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """A value was seen, as often as ``times`` says."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.count += times
        self.sum += value * times

    def spread(self, labels: Labels = ()) -> Spread:
        """What was counted so far."""
        return Spread(labels, self.bounds, tuple(self.counts), self.sum)


def labels(**named: str) -> Labels:
    """Labels in the order of their names."""
    return tuple(sorted(named.items()))


def flag(value: bool) -> str:
    """A truth as the original labels it."""
    return "true" if value else "false"
