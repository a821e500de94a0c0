"""Charts as SVG text, for a page that needs nothing else."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

COLOURS: Final = (
    "#2f6db5", "#d9722e", "#3f9c6c", "#b34a78", "#7a5fb0", "#9a8425", "#2e99a6", "#777777",
)  # fmt: skip
SERIES_MAX: Final = len(COLOURS)
OTHERS: Final = "others"
_WIDTH: Final = 860
_HEIGHT: Final = 240
_LEFT: Final = 64
_RIGHT: Final = 16
_TOP: Final = 12
_BOTTOM: Final = 34
_ROW: Final = 24
_LABEL: Final = 260

Series = Mapping[str, Mapping[datetime.datetime, float]]


def ranking(series: Series) -> list[str]:
    """The names of series, the largest first."""
    return sorted(series, key=lambda name: (-sum(series[name].values()), name))


def top_series(
    series: Series, order: Sequence[str] | None = None
) -> dict[str, dict[datetime.datetime, float]]:
    """The first series by their own names, the rest added up as one; the largest come first."""
    ranked = list(order) if order is not None else ranking(series)
    kept = ranked if len(ranked) <= SERIES_MAX else ranked[: SERIES_MAX - 1]
    found = {name: dict(series[name]) for name in kept}
    if len(kept) < len(ranked):
        rest: dict[datetime.datetime, float] = {}
        for name in ranked[len(kept) :]:
            for moment, value in series[name].items():
                rest[moment] = rest.get(moment, 0) + value
        found[OTHERS] = rest
    return found


def columns(
    series: Series,
    *,
    hours: Sequence[datetime.datetime],
    unit: str = "",
    order: Sequence[str] | None = None,
) -> str:
    """Stacked columns, one an hour; with an ``order``, a name has its colour in every chart."""
    shown = top_series(series, order)
    totals = [sum(values.get(hour, 0) for values in shown.values()) for hour in hours]
    top = nice_ceiling(max(totals, default=0))
    step = (_WIDTH - _LEFT - _RIGHT) / max(len(hours), 1)
    width = min(max(step * 0.8, 1.0), 48.0)
    parts = [_axes(top, hours, unit, step)]
    plot = _HEIGHT - _TOP - _BOTTOM
    for index, hour in enumerate(hours):
        base = float(_HEIGHT - _BOTTOM)
        x = _LEFT + step * (index + 0.5) - width / 2
        for number, (name, values) in enumerate(shown.items()):
            value = values.get(hour, 0)
            height = plot * value / top
            if height <= 0:
                continue
            base -= height
            parts.append(
                f'<rect x="{x:.1f}" y="{base:.1f}" width="{width:.1f}" height="{height:.2f}"'
                f' fill="{COLOURS[number]}"><title>{escape(name)}, {_hour(hour)}:'
                f" {short(value)}{escape(unit)}</title></rect>"
            )
    return _figure("".join(parts), list(shown))


def lines(series: Series, *, hours: Sequence[datetime.datetime], unit: str = "") -> str:
    """A line with a point an hour for each series; gaps stay gaps."""
    ranked = sorted(series, key=lambda name: (-max(series[name].values(), default=0), name))
    shown = {name: series[name] for name in ranked[:SERIES_MAX]}
    top = nice_ceiling(max((v for values in shown.values() for v in values.values()), default=0))
    step = (_WIDTH - _LEFT - _RIGHT) / max(len(hours), 1)
    plot = _HEIGHT - _TOP - _BOTTOM
    parts = [_axes(top, hours, unit, step)]
    for number, (name, values) in enumerate(shown.items()):
        colour, path, was_there = COLOURS[number], [], False
        for index, hour in enumerate(hours):
            value = values.get(hour)
            if value is None:
                was_there = False
                continue
            x, y = _LEFT + step * (index + 0.5), _HEIGHT - _BOTTOM - plot * value / top
            path.append(f"{'L' if was_there else 'M'}{x:.1f} {y:.1f}")
            was_there = True
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"><title>{escape(name)},'
                f" {_hour(hour)}: {short(value)}{escape(unit)}</title></circle>"
            )
        parts.append(f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return _figure("".join(parts), list(shown))


def bars(values: Sequence[tuple[str, float]], *, unit: str = "", rows_max: int = 20) -> str:
    """Horizontal bars, one a name, as given."""
    shown = values[:rows_max]
    top = max((value for _, value in shown), default=0) or 1
    height = _ROW * len(shown) + 8
    room = _WIDTH - _LABEL - 90
    parts = []
    for index, (name, value) in enumerate(shown):
        y = 4 + index * _ROW
        width = max(room * value / top, 1.0)
        parts.append(
            f'<text x="{_LABEL - 8}" y="{y + 15}" text-anchor="end">{escape(_cut(name))}'
            f"<title>{escape(name)}</title></text>"
            f'<rect x="{_LABEL}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 8}" rx="2"'
            f' fill="{COLOURS[0]}"/>'
            f'<text x="{_LABEL + width + 6:.1f}" y="{y + 15}">{short(value)}{escape(unit)}</text>'
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg">'
        f"{''.join(parts)}</svg>"
    )


def nice_ceiling(value: float) -> float:
    """The next of 1, 2, 2.5 and 5 times a power of ten; 1 for nothing at all."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999999)


def short(value: float) -> str:
    """A number in few characters: 1.5k, 20M."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return _digits(value / size) + letter
    return _digits(value)


def _digits(value: float) -> str:
    """About three digits of a number below a thousand."""
    text = f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _axes(top: float, hours: Sequence[datetime.datetime], unit: str, step: float) -> str:
    parts = []
    plot = _HEIGHT - _TOP - _BOTTOM
    for quarter in range(5):
        y = _HEIGHT - _BOTTOM - plot * quarter / 4
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{short(top * quarter / 4)}{escape(unit)}</text>"
        )
    every = max(1, math.ceil(len(hours) / 8))
    for index in range(0, len(hours), every):
        x = _LEFT + step * (index + 0.5)
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">'
            f"{_hour(hours[index])}</text>"
        )
    return "".join(parts)


def _figure(inside: str, names: Sequence[str]) -> str:
    keys = "".join(
        f'<span><i style="background:{COLOURS[number]}"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg">'
        f'{inside}</svg><p class="key">{keys}</p>'
    )


def _hour(hour: datetime.datetime) -> str:
    return hour.strftime("%m-%d %H:%M")


def _cut(text: str) -> str:
    return text if len(text) <= 38 else text[:37] + "…"
