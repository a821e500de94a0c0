"""Small patches to the store that some test must notice: the tests are tested.

Each mutant is applied to a copy of the sources; the simulated power cuts, or the unit test named,
must fail over it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
POWER_CUT = "tests/sim/test_power_cut.py"
RETENTION = "tests/unit/store/test_retention.py"
RECOVERY = "tests/golden/test_store_recovery.py"
QUEUE_LOSS = "tests/unit/store/test_queue_loss.py"


class Mutant(NamedTuple):
    """What is wrong about it, where, and which tests must notice."""

    name: str
    path: str
    before: str
    after: str
    tests: str


MUTANTS = [
    Mutant(
        "acknowledges every waiter after any flush",
        "group_commit.py",
        "if waiter.end_offset <= flushed:",
        "if waiter.end_offset <= self._log.end_offset:",
        POWER_CUT,
    ),
    Mutant(
        "what was found after a kill is not synced",
        "recovery/certainty.py",
        "await uninterrupted(loop.run_in_executor(None, segment.sync))",
        "await asyncio.sleep(0)",
        POWER_CUT,
    ),
    Mutant(
        "queues are not cut back after a crash",
        "recovery/recovery.py",
        "await self._cut_queues(start)",
        "await self._cut_queues(segments.limit_offset)",
        POWER_CUT,
    ),
    Mutant(
        "old bytes behind the end of the log are left",
        "commit_log.py",
        "segment.clear(end_offset - base)",
        "pass",
        POWER_CUT,
    ),
    Mutant(
        "index files are believed as they are",
        "recovery/index_repair.py",
        "    if not 1 < count <= entries:\n        return False",
        "    return True",
        POWER_CUT,
    ),
    Mutant(
        "the dirty tail is not cut: checksums do not matter",
        "recovery/recovery.py",
        "check_crc=self._settings.check_crc_on_recover,",
        "check_crc=False,",
        POWER_CUT,
    ),
    Mutant(
        "recovery begins at the last segment whatever its age",
        "recovery/horizon.py",
        "if 0 < scan.store_time(data, 0) <= trusted_ms:",
        "if 0 < scan.store_time(data, 0):",
        POWER_CUT,
    ),
    Mutant(
        "the last segment is deleted too",
        "retention.py",
        "for written_ms in situation.written_ms[:-1]:",
        "for written_ms in situation.written_ms:",
        RETENTION,
    ),
    Mutant(
        "short queues are not noticed after a clean stop",
        "recovery/recovery.py",
        "start = first if marks is None else max(first, min(marks.log_end, derived))",
        "start = derived",
        RECOVERY,
    ),
    Mutant(
        "queues shorter than their marks are believed",
        "recovery/queue_loss.py",
        "if is_front_lost or known.max_offset < mark.max_offset:",
        "if is_front_lost:",
        QUEUE_LOSS,
    ),
    Mutant(
        "marks of another log are believed",
        "recovery/queue_marks.py",
        "return _tail(segments, self.log_end) == self.tail",
        "return True",
        QUEUE_LOSS,
    ),
]


def _run(sources: Path, tests: str, *, marker: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
            "-m", marker, "-o", f"pythonpath={sources} {ROOT / 'tests'}", str(ROOT / tests),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{sources}:{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
    )  # fmt: skip


def test_the_places_exist() -> None:
    for mutant in MUTANTS:
        source = ROOT / "src" / "contrailmq" / "store" / mutant.path
        assert mutant.before in source.read_text(), f"change the mutant too: {mutant.name}"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("tests", sorted({mutant.tests for mutant in MUTANTS}))
def test_the_sources_as_they_are_pass(tests: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src")
    result = _run(tmp_path / "src", tests, marker="not slow")
    assert result.returncode == 0, result.stdout[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_killed(mutant: Mutant, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src")
    source = tmp_path / "src" / "contrailmq" / "store" / mutant.path
    text = source.read_text()
    assert text.count(mutant.before) >= 1, "the mutant no longer fits its source"
    source.write_text(text.replace(mutant.before, mutant.after))
    result = _run(tmp_path / "src", mutant.tests, marker="slow or not slow")
    assert result.returncode == 1, f"survived: {mutant.name}\n{result.stdout[-2000:]}"
    assert "failed" in result.stdout
