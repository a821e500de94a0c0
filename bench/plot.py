"""Charts as SVG, drawn without a library: bars beside a reference, and curves on two log scales."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

WIDTH, ROW, LEFT, RIGHT, TOP = 900, 44, 300, 110, 72
OURS, THEIRS, TEXT, FAINT, MARK = "#0b7285", "#adb5bd", "#212529", "#dee2e6", "#c92a2a"
RATIO_MAX = 8.0
LETTER = 0.5  # the mean width of a letter, in sizes of the font
PANEL_W, PANEL_H, PER_LINE = 440, 270, 2

Bar = tuple[str, float, float, float | None]


def ratio_bars(rows: list[Bar], *, title: str, note: str) -> str:
    """Two bars a row, the other's always of the same length and ours in proportion to it.

    A row is name, our value, the other's, and the ratio aimed at, if any.  Bars that would be
    longer than ``RATIO_MAX`` are cut there; the figure beside them is not.
    """
    height = TOP + ROW * len(rows) + 16
    ratios = [min(ours / theirs, RATIO_MAX) if theirs else 1.0 for _, ours, theirs, _ in rows]
    unit = (WIDTH - LEFT - RIGHT) / max([1.0, *ratios, *(aim or 0 for *_, aim in rows)])
    parts = [
        _open(WIDTH, height),
        _words(16, 26, title, size=17),
        f'<rect x="16" y="40" width="12" height="12" fill="{OURS}"/>',
        _words(34, 51, "ContrailMQ"),
        f'<rect x="124" y="40" width="12" height="12" fill="{THEIRS}"/>',
        _words(142, 51, "RocketMQ (Java)"),
        _words(270, 51, note),
    ]
    for index, (name, ours, theirs, aim) in enumerate(rows):
        y = TOP + ROW * index
        size = min(13, int((LEFT - 14) / (LETTER * len(name))))  # a long name in small letters
        figures = [_words(LEFT - 10, y + 22, name, anchor="end", size=size)]
        for value, length, color, line in (
            (ours, ratios[index], OURS, 0),
            (theirs, 1.0, THEIRS, 1),
        ):
            wide = max(length * unit, 1)
            parts.append(
                f'<rect x="{LEFT}" y="{y + 4 + 16 * line}" width="{wide:.1f}" height="14" '
                f'fill="{color}"/>'
            )
            figures.append(_words(LEFT + wide + 6, y + 15 + 16 * line, text_of(value)))
        if aim:
            x = LEFT + aim * unit
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y + 1}" y2="{y + 36}" stroke="{MARK}" '
                f'stroke-width="2" stroke-dasharray="4 2"/>'
            )
        parts += figures  # above the mark, with an edge of white
    return "\n".join([*parts, "</svg>"]) + "\n"


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One chart of a page of curves."""

    title: str
    x_name: str
    points: list[tuple[float, float]]
    is_total: bool = False  # y is a whole, not a cost per piece: linear growth is a slope of one


def curves(panels: list[Panel], *, title: str) -> str:
    """Charts on two log scales, each with a dashed guide: what linear growth of the whole gives."""
    lines = -(-len(panels) // PER_LINE)
    parts = [_open(PANEL_W * PER_LINE + 20, 44 + lines * PANEL_H), _words(16, 26, title, size=17)]
    for index, panel in enumerate(panels):
        left = 10 + PANEL_W * (index % PER_LINE)
        parts += _panel(panel, left, 44 + PANEL_H * (index // PER_LINE))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel, left: float, top: float) -> list[str]:
    points = [(x, max(y, 1e-6)) for x, y in panel.points]
    first_x, first_y = points[0]
    last_x = max(x for x, _ in points)
    guide_y = first_y * (last_x / first_x if panel.is_total else 1.0)
    low, high = _span([y for _, y in points] + [first_y, guide_y])
    start, end = math.log10(first_x), math.log10(max(last_x, first_x * 10))
    x0, x1, y0, y1 = left + 58, left + PANEL_W - 24, top + PANEL_H - 44, top + 30

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - start) / (end - start)
        up = (math.log10(y) - low) / (high - low)
        return x0 + across * (x1 - x0), y0 + up * (y1 - y0)

    parts = [_words(left + 10, top + 16, panel.title, size=14)]
    for power in range(low, high + 1):
        y = place(first_x, 10.0**power)[1]
        parts.append(
            f'<line x1="{x0}" x2="{x1}" y1="{y:.1f}" y2="{y:.1f}" stroke="{FAINT}"/>'
            + _words(x0 - 6, y + 4, text_of(10.0**power), anchor="end", size=11)
        )
    for x, _ in points:
        at = place(x, 10.0**low)[0]
        parts.append(_words(at, y0 + 16, text_of(x), anchor="middle", size=11))
    parts.append(_words((x0 + x1) / 2, y0 + 34, panel.x_name, anchor="middle", size=12))
    guide = [place(first_x, first_y), place(last_x, guide_y)]
    parts.append(_line(guide, MARK, 'stroke-dasharray="5 4"'))
    drawn = [place(x, y) for x, y in points]
    parts.append(_line(drawn, OURS, 'stroke-width="2"'))
    for (x, y), (_, value) in zip(drawn, points, strict=True):
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{OURS}"/>')
        parts.append(_words(x, y - 8, text_of(value), anchor="middle", size=11))
    return parts


def _span(values: list[float]) -> tuple[int, int]:
    low = math.floor(math.log10(min(values)))
    return low, max(math.ceil(math.log10(max(values)) + 0.15), low + 1)


def _open(width: float, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="13">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>'
    )


def _words(x: float, y: float, text: str, *, anchor: str = "start", size: int = 13) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{TEXT}" stroke="white" stroke-width="4" stroke-linejoin="round" '
        f'paint-order="stroke">{escape(text)}</text>'
    )


def _line(points: list[tuple[float, float]], color: str, style: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{color}" {style}/>'


def text_of(value: float) -> str:
    """A number short enough for a chart."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:.2f} M"
    if value >= 10_000:
        return f"{value / 1000:.0f} k"
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"
