"""Tests are tested: one wrong line in the name server, the broker or the client is noticed.

A mutant is the package with one place changed (all other files are links); the test it names must
fail over it and pass without it, and the place must exist, so that a mutant dies of a test and not
of old age.
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
LONG_POLL = "tests/unit/broker/test_longpoll.py"
LOCKS = "tests/unit/broker/test_locks.py"
OFFSETS = "tests/unit/broker/test_offsets.py"
ROUTES = "tests/unit/namesrv/test_routes.py"
HANDED_OUT = "tests/property/test_rebalance.py"
HANDED_OUT += "::test_the_committed_offset_never_passes_an_unsettled_message"


class Mutant(NamedTuple):
    """One damage: in a module, this text becomes that; this test notices."""

    module: str
    text: str
    becomes: str
    test: str


MUTANTS = {
    "a silent broker keeps its routes": Mutant(
        "namesrv/routes.py",
        "if lease.heard_ms + lease.lease_ms < now_ms",
        "if lease.heard_ms + 2 * lease.lease_ms < now_ms",
        f"{ROUTES}::test_a_lease_ends_after_its_own_time",
    ),
    "a heartbeat is not remembered": Mutant(
        "namesrv/routes.py",
        "        lease.heard_ms = now_ms\n        return True",
        "        return True",
        f"{ROUTES}::test_a_lease_ends_after_its_own_time",
    ),
    "an append wakes nobody": Mutant(
        "broker/services/longpoll.py",
        "            self._grown[key] = None",
        "            pass",
        f"{LONG_POLL}::test_a_burst_of_appends_wakes_a_pull_once",
    ),
    "a pull that found nothing is taken for answered": Mutant(
        "broker/services/longpoll.py",
        "if not waiter.done and waiter.retry():",
        "if not waiter.done and (waiter.retry() or True):",
        f"{LONG_POLL}::test_what_does_not_match_the_filter_keeps_waiting",
    ),
    "the timer is set for the last deadline": Mutant(
        "broker/services/longpoll.py",
        "self._loop.call_at(self._deadlines[0].deadline,",
        "self._loop.call_at(self._deadlines[-1].deadline,",
        f"{LONG_POLL}::test_deadlines_are_exact_and_in_order",
    ),
    "the offset of the newest settled message is committed": Mutant(
        "client/process_queue.py",
        "return self.order[0] if self.order else self._next",
        "return max(self.settled, default=self.order[0]) if self.order else self._next",
        HANDED_OUT,
    ),
    "all that was pulled is committed": Mutant(
        "client/process_queue.py",
        "return self.order[0] if self.order else self._next",
        "return self._next",
        HANDED_OUT,
    ),
    "a lock never ends": Mutant(
        "broker/tables/locks.py",
        "if now_ms - entry[1] <= self._life_ms:",
        "if True:",
        f"{LOCKS}::test_a_queue_has_one_owner_until_its_lock_has_lived_sixty_seconds",
    ),
    "anybody gives a lock back": Mutant(
        "broker/tables/locks.py",
        "if entry is not None and entry[0] == client_id:",
        "if entry is not None:",
        f"{LOCKS}::test_only_the_owner_gives_a_lock_back",
    ),
    "a commit undoes a reset": Mutant(
        "broker/tables/offsets.py",
        "if marks and pair in marks and queue_id in marks[pair]:",
        "if False:",
        f"{OFFSETS}::test_a_reset_outranks_commits_until_a_pull_has_taken_the_mark",
    ),
}


def test_the_places_exist() -> None:
    for name, mutant in MUTANTS.items():
        module = ROOT / "src" / "contrailmq" / mutant.module
        assert module.read_text().count(mutant.text) == 1, f"change the mutant too: {name}"


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    source = tmp_path / "src"
    shutil.copytree(
        ROOT / "src", source,
        copy_function=os.symlink, ignore=shutil.ignore_patterns("__pycache__"),
    )  # fmt: skip
    module = source / "contrailmq" / mutant.module
    text = module.read_text()
    assert text.count(mutant.text) == 1, "the place has changed: change the mutant with it"
    module.unlink()
    module.write_text(text.replace(mutant.text, mutant.becomes))
    run = _run(source, mutant.test)
    assert run.returncode == 1, f"survived, or did not run:\n{run.stdout[-2000:]}"
    assert "1 failed" in run.stdout


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_without_a_mutant_they_pass() -> None:
    tests = sorted({mutant.test for mutant in MUTANTS.values()})
    run = _run(ROOT / "src", *tests)
    assert run.returncode == 0, run.stdout[-2000:]
    assert f"{len(tests)} passed" in run.stdout


def _run(source: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "-o", f"pythonpath={source} tests", *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
