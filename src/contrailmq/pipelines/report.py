"""What a pipeline did, and how it says so at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from contrailmq.admin.output import byte_size, cell_text, span


@dataclass(slots=True, kw_only=True)
class Report:
    """The outcome of one run; ``is_stopped``: it was interrupted, and a second run goes on."""

    pipeline: str
    rows: int = 0
    size: int = 0
    seconds: float = 0.0
    is_stopped: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)  # one a message, where kept

    def as_row(self) -> Mapping[str, Any]:
        """The report as one JSON object, without its messages."""
        return {
            "pipeline": self.pipeline,
            "rows": self.rows,
            "bytes": self.size,
            "seconds": round(self.seconds, 3),
            "stopped": self.is_stopped,
            **self.facts,
        }

    def summary(self) -> str:
        """The lines for people."""
        head = f"{self.pipeline}: {self.rows:,} messages"
        if self.size:
            head += f", {byte_size(self.size)}"
        head += f" in {span(self.seconds)}"
        if self.rows and self.seconds > 0:
            head += f" ({self.rows / self.seconds:,.0f} a second)"
        if self.is_stopped:
            head += "; stopped, the same command goes on from here"
        lines = [f"  {name.replace('_', ' ')}: {_shown(v)}" for name, v in self.facts.items()]
        return "\n".join([head, *lines])


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {cell_text(count)}" for name, count in value.items()) or "-"
    return cell_text(value)
