"""Processor time of a Spark benchmark by who used it: Spark's JVM, its Python workers, the broker.

On a machine that does other things too, the clock says little; processor time per row says nearly
the same as on a quiet one.  Reads ``/proc``, so Linux only.  What a process used that ended in
between is not counted; Spark keeps its workers while they have work.
"""

from __future__ import annotations

import os
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
KINDS = ("jvm", "python", "broker")

Spent = dict[tuple[int, str], float]


def spent(broker_pid: int) -> Spent:
    """Seconds each process below this one has used until now, by number and kind."""
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
        seconds[pid] = sum(map(int, fields[11:13])) * _TICK_S
    found: Spent = {}
    for pid, value in seconds.items():
        above, at = [], pid
        while at in parents and at != os.getpid():
            above.append(at)
            at = parents[at]
        if at != os.getpid() or pid == at:
            continue
        kind = "jvm" if names[pid] == "java" else "python"
        found[pid, "broker" if broker_pid in above else kind] = value
    return found


def per_row(before: Spent, after: Spent, rows: int) -> dict[str, float]:
    """Microseconds a row between two moments, by kind and together."""
    totals = dict.fromkeys(KINDS, 0.0)
    for (pid, kind), value in after.items():
        totals[kind] += value - before.get((pid, kind), 0.0)
    found = {kind: round(1e6 * value / rows, 2) for kind, value in totals.items()}
    return {**found, "all": round(1e6 * sum(totals.values()) / rows, 2)}


def middle(costs: list[dict[str, float]]) -> dict[str, float]:
    """The round in the middle, by what it took altogether."""
    return sorted(costs, key=lambda cost: cost["all"])[len(costs) // 2]
