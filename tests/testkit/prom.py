"""Read what an exporter tells, strictly: a line that is none is an error."""

from __future__ import annotations

import re
import urllib.request
from dataclasses import dataclass, field

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)(?: \d+)?\Z")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"(?:,|\Z)')

Labels = frozenset[tuple[str, str]]


@dataclass(slots=True)
class Page:
    """Types by family, and values by name and labels."""

    types: dict[str, str] = field(default_factory=dict)
    values: dict[str, dict[Labels, float]] = field(default_factory=dict)

    def value(self, name: str, **wanted: str) -> float:
        """The sum over all points of a name that have these labels; KeyError if there is none."""
        found = [
            value
            for labels, value in self.values.get(name, {}).items()
            if wanted.items() <= dict(labels).items()
        ]
        if not found:
            raise KeyError(f"{name} {wanted}: there are {list(self.values.get(name, {}))[:5]}")
        return sum(found)

    def label_names(self, name: str) -> set[frozenset[str]]:
        """Which sets of labels the points of a name have."""
        return {frozenset(key for key, _ in labels) for labels in self.values.get(name, {})}


def read_page(text: str) -> Page:
    """Parse the text format 0.0.4."""
    page = Page()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in page.types, f"two types: {line}"
            page.types[name] = kind
        elif line and not line.startswith("#"):
            found = _SAMPLE.match(line)
            assert found is not None, line
            name, inner, value = found.groups()
            labels = _LABEL.findall(inner or "")
            assert len("".join(f'{n}="{v}",' for n, v in labels)) - len(inner or "") in (0, 1), line
            points = page.values.setdefault(name, {})
            key = frozenset(labels)
            assert key not in points, f"told twice: {line}"
            points[key] = float(value)
    return page


def fetch_page(address: str) -> Page:
    """Fetch and parse a page. Blocks."""
    with urllib.request.urlopen(address, timeout=20) as answer:
        return read_page(answer.read().decode())
