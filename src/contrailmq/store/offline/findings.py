"""What a check of a store directory finds, and how it is counted."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

SHOWN_MAX: Final = 1000  # of each severity; beyond it findings are only counted


class Severity(enum.Enum):
    """Whether a finding makes the directory less than whole."""

    DAMAGE = "damage"
    NOTE = "note"


class Finding(NamedTuple):
    """One thing found: in which file, at which byte (-1: the file as such), and what."""

    severity: Severity
    path: str
    position: int
    text: str


@dataclass(slots=True)
class Report:
    """Everything a check found; ``counts`` says how much was looked at."""

    findings: list[Finding] = field(default_factory=list)
    totals: Counter[Severity] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged."""
        return self.totals[Severity.DAMAGE] == 0

    def damage(self, path: str, position: int, text: str) -> None:
        """Something is lost or altered."""
        self._add(Finding(Severity.DAMAGE, path, position, text))

    def note(self, path: str, position: int, text: str) -> None:
        """Something to know that repairs itself."""
        self._add(Finding(Severity.NOTE, path, position, text))

    def _add(self, finding: Finding) -> None:
        self.totals[finding.severity] += 1
        if self.totals[finding.severity] <= SHOWN_MAX:
            self.findings.append(finding)
