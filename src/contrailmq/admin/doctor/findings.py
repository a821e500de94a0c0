"""What the doctor says: a finding has a severity, a cause and the command that helps."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Severity(enum.Enum):
    """How bad it is; only a PROBLEM makes the exit code 1."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


def counted(number: int, word: str) -> str:
    """A number of things: ``1 group``, ``2,000 groups``."""
    return f"{number:,} {word}" + ("" if number == 1 else "s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of one check."""

    check: str
    severity: Severity
    text: str
    cause: str = ""
    fix: str = ""


@dataclass(slots=True)
class Chart:
    """All findings of one visit."""

    findings: list[Finding] = field(default_factory=list)

    def ok(self, check: str, text: str) -> None:
        """A check that found nothing wrong."""
        self.findings.append(Finding(check=check, severity=Severity.OK, text=text))

    def add(self, severity: Severity, check: str, text: str, *, cause: str, fix: str) -> None:
        """A check that found something: why it is so, and what to do."""
        self.findings.append(
            Finding(check=check, severity=severity, text=text, cause=cause, fix=fix)
        )

    def has(self, check: str, *, at_least: Severity = Severity.NOTE) -> bool:
        """Whether a check found something as bad as that."""
        order = list(Severity)
        return any(
            finding.check == check and order.index(finding.severity) >= order.index(at_least)
            for finding in self.findings
        )
