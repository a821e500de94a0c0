"""Processor time of a Spark benchmark by who used it: Spark's JVM, its Python workers, the broker.

On a machine that does other things too, the clock says little; processor time per row says nearly
the same as on a quiet one.  Reads ``/proc``, so Linux only.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Spent(NamedTuple):
    """Seconds of processor time since the processes began."""

    jvm: float
    python: float
    broker: float

    def since(self, before: Spent) -> Spent:
        """What was used between two moments."""
        return Spent(*(now - then for now, then in zip(self, before, strict=True)))

    def per_row(self, rows: int) -> dict[str, float]:
        """Microseconds a row, each and together."""
        found = {name: round(1e6 * value / rows, 2) for name, value in self._asdict().items()}
        return {**found, "all": round(1e6 * sum(self) / rows, 2)}


def spent(broker_pid: int) -> Spent:
    """What the processes below this one have used until now, ended ones included."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(") ")
        except OSError:
            continue  # it has ended
        fields = rest.split()
        pid = int(entry.name)
        parents[pid], names[pid] = int(fields[1]), name
        seconds[pid] = sum(map(int, fields[11:15])) * _TICK_S
    own = os.getpid()
    totals = {"jvm": 0.0, "python": 0.0, "broker": 0.0}
    for pid, value in seconds.items():
        above, at = [], pid
        while at in parents and at != own:
            above.append(at)
            at = parents[at]
        if at != own or pid == own:
            continue
        if broker_pid in above:
            totals["broker"] += value
        elif names[pid] == "java":
            totals["jvm"] += _own(pid)
        else:
            totals["python"] += value
    return Spent(**totals)


def _own(pid: int) -> float:
    """A JVM's own time: that of workers it has reaped is Python's, and small."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:13])) * _TICK_S
