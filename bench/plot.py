"""A bar chart as SVG, drawn without a library."""

from __future__ import annotations

from html import escape

WIDTH, ROW, LEFT, RIGHT, TOP = 900, 46, 220, 120, 64
OURS, THEIRS, TEXT = "#0b7285", "#adb5bd", "#212529"


def bars(rows: list[tuple[str, float, float]], *, title: str, unit: str) -> str:
    """Two bars a row, ours above the other's."""
    height = TOP + ROW * len(rows) + 20
    largest = max([max(ours, theirs) for _, ours, theirs in rows] or [1.0]) or 1.0
    room = WIDTH - LEFT - RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="16" y="26" font-size="17" fill="{TEXT}">{escape(title)}</text>',
        f'<rect x="16" y="38" width="12" height="12" fill="{OURS}"/>'
        f'<text x="34" y="49" fill="{TEXT}">ContrailMQ</text>',
        f'<rect x="130" y="38" width="12" height="12" fill="{THEIRS}"/>'
        f'<text x="148" y="49" fill="{TEXT}">RocketMQ (Java), {escape(unit)}</text>',
    ]
    for index, (name, ours, theirs) in enumerate(rows):
        y = TOP + ROW * index
        parts.append(
            f'<text x="{LEFT - 10}" y="{y + 22}" text-anchor="end" fill="{TEXT}">'
            f"{escape(name)}</text>"
        )
        for value, color, line in ((ours, OURS, 0), (theirs, THEIRS, 1)):
            length = max(room * value / largest, 1)
            parts.append(
                f'<rect x="{LEFT}" y="{y + 4 + 17 * line}" width="{length:.1f}" height="15" '
                f'fill="{color}"/><text x="{LEFT + length + 6:.1f}" y="{y + 16 + 17 * line}" '
                f'fill="{TEXT}">{text_of(value)}</text>'
            )
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def text_of(value: float) -> str:
    """A number short enough for a bar."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:.2f} M"
    if value >= 10_000:
        return f"{value / 1000:.0f} k"
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
