"""Families as text for Prometheus: its own format 0.0.4, or OpenMetrics 1.0.

The text of a point's labels is kept between scrapes.  At most ``limit`` points of a family are
told one by one; the values of the others are added up under ``topic="__other__"``, and
``contrail_metrics_dropped_series`` tells how many they are.  A histogram beyond the limit is left
out.  No time stamps are written: they would keep a series alive that has ended.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from typing import Final

from contrailmq.metrics.model import Family, Group, Kind, Labels, Point, Spread

TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TURN_S: Final = 0.001
SCOPE: Final = "otel_scope_name"  # the first label of every point, as the original writes it
OTHER: Final = "__other__"
KEPT_FACTOR: Final = 4
DROPPED: Final = Family(
    "contrail_metrics_dropped_series", Kind.GAUGE, "Points that are told together, by family."
)
_LARGE: Final = 2.0**53


class TextWriter:
    """Writes what sources tell. One of each page, since it keeps the text of labels."""

    def __init__(
        self, scope: str, common: Labels, *, limit: int = 50_000, bare_names: bool = False
    ) -> None:
        self._scope = scope
        self._common = common
        self._limit = limit
        self._bare_names = bare_names
        self._texts: dict[Labels, str] = {}
        self.dropped: list[Point] = []  # of the last page

    async def write(self, groups: Iterable[Group], *, is_open: bool = False) -> bytes:
        """The whole page; others have a turn of the loop after every ``TURN_S``."""
        if len(self._texts) > KEPT_FACTOR * self._limit:
            self._texts.clear()  # of series that have ended; the others are back at once
        loop = asyncio.get_running_loop()
        turn_end = loop.time() + TURN_S
        pieces: list[bytes] = []
        lines: list[str] = []
        self.dropped = []
        for family, points in groups:
            lines += head(family, is_open=is_open)
            beyond = 0
            rest: float = 0
            for place, point in enumerate(points):
                if place >= self._limit:
                    beyond += 1
                    rest += point.value if isinstance(point, Point) else 0
                elif isinstance(point, Point):
                    self._point(lines, family, point)
                else:
                    self._spread(lines, family.full_name, point)
                if loop.time() >= turn_end:
                    pieces.append(joined(lines))
                    lines = []
                    await asyncio.sleep(0)
                    turn_end = loop.time() + TURN_S
            if beyond:
                self.dropped.append(Point((("family", family.full_name),), beyond))
                if family.kind is not Kind.HISTOGRAM:
                    self._point(lines, family, Point((("topic", OTHER),), rest))
        pieces.append(joined(lines))
        return b"".join(pieces)

    def rest(self) -> list[str]:
        """The lines of ``DROPPED`` for the page just written."""
        lines: list[str] = []
        for point in self.dropped or (Point((), 0),):
            self._point(lines, DROPPED, point)
        return lines

    def _point(self, lines: list[str], family: Family, point: Point) -> None:
        text = f"{{{self._text(point.labels)}}} {number(point.value)}"
        lines.append(family.full_name + text)
        if self._bare_names and family.unit:
            lines.append(family.name + text)

    def _spread(self, lines: list[str], name: str, spread: Spread) -> None:
        text = self._text(spread.labels)
        seen = 0
        for bound, count in zip((*spread.bounds, None), spread.counts, strict=True):
            seen += count
            edge = "+Inf" if bound is None else number(float(bound))
            lines.append(f'{name}_bucket{{{text},le="{edge}"}} {seen}')
        lines.append(f"{name}_count{{{text}}} {seen}")
        lines.append(f"{name}_sum{{{text}}} {number(spread.sum)}")

    def _text(self, labels: Labels) -> str:
        found = self._texts.get(labels)
        if found is None:
            pairs = sorted({**dict(self._common), **dict(labels)}.items())
            pairs.insert(0, (SCOPE, self._scope))
            found = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
            self._texts[labels] = found
        return found


def head(family: Family, *, is_open: bool = False) -> list[str]:
    """The lines before the points of a family."""
    name = family.full_name
    if is_open and family.kind is Kind.COUNTER:
        name = name.removesuffix("_total")
    return [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind.value}"]


def scope_lines(scopes: Iterable[str], *, is_open: bool = False) -> list[str]:
    """Who tells: ``target_info`` and ``otel_scope_info``, as the original has them."""
    target, kind = "target_info gauge", "otel_scope_info gauge"
    if is_open:
        target, kind = "target info", "otel_scope info"
    told = [f'otel_scope_info{{{SCOPE}="{_escaped(scope)}"}} 1' for scope in scopes]
    return [f"# TYPE {target}", "target_info 1", f"# TYPE {kind}", *told]


def number(value: float) -> str:
    """A value as both formats write it."""
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value) and abs(value) < _LARGE:
        return f"{int(value)}.0"
    return repr(value)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def joined(lines: list[str]) -> bytes:
    """Lines as bytes of a page."""
    return ("\n".join(lines) + "\n").encode() if lines else b""
