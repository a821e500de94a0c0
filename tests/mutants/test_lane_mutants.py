"""Tests are tested: one wrong line in the lanes is noticed.

A mutant is the package as plain Python, without compiled modules, with one place changed (all
other files are links).  The test it names must fail over it, and pass without it.
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
SEND = "tests/unit/native/test_lane.py"
BATCH = "tests/unit/native/test_batch_lane.py"
RULES = "tests/unit/broker/test_lane_rules.py"
PULL = "tests/sim/test_pull_lane.py::test_the_lane_and_the_handler_agree[0]"


class Mutant(NamedTuple):
    """One damage: in a module, this text becomes that; this test notices."""

    module: str
    text: str
    becomes: str
    test: str


MUTANTS = {
    "a batch is stored as one message": Mutant(
        "_native/lanes/send.py",
        "if entry is None or fields.is_batch:",
        "if entry is None:",
        f"{SEND}::test_what_is_not_ordinary_is_left_in_its_place",
    ),
    "a queue after the last is taken": Mutant(
        "_native/lanes/send.py",
        "fields.queue_id >= entry.queue_count",
        "fields.queue_id > entry.queue_count",
        f"{SEND}::test_what_is_not_ordinary_is_left_in_its_place",
    ),
    "a sender that does not wait has to": Mutant(
        "_native/lanes/fields.py",
        "                    found |= _NO_WAIT",
        "                    pass",
        f"{SEND}::test_waiting_matters_only_where_the_disk_is_waited_for",
    ),
    "a name is known by its first byte and its size": Mutant(
        "_native/names.py",
        "if table[place] == size and raw.same_bytes(table, place + 2, text, at, size):",
        "if table[place] == size:",
        f"{RULES}::test_a_table_has_the_names_it_was_made_of_and_no_others",
    ),
    "a property the broker acts on is stored like any other": Mutant(
        "broker/lanes/tables.py",
        "dict.fromkeys(BROKER_PROPERTIES, names.ACTED_ON)",
        "dict.fromkeys(BROKER_PROPERTIES[1:], names.ACTED_ON)",
        f"{RULES}::test_both_verdicts_occur",
    ),
    "of two unique keys of a batch one is stored": Mutant(
        "_native/lanes/fields.py",
        "if found & _HAS_KEY or not is_plain(",
        "if not is_plain(",
        f"{BATCH}::test_what_is_not_ordinary_is_left_in_its_place",
    ),
    "all messages of a batch are answered with one id": Mutant(
        "_native/lanes/batch.py",
        "offset += log.inner_record_size(queue, after, data, inner)",
        "pass",
        f"{BATCH}::test_batches_become_records_and_one_answer_each",
    ),
    "the pull lane is closed": Mutant(
        "broker/lanes/pull.py",
        "return self._is_plain and not self._offsets.has_marks",
        "return False",
        PULL,
    ),
    "a pull's commit is forgotten": Mutant(
        "_native/lanes/pull.py",
        "if fields.flags & _COMMIT and fields.commit >= 0:",
        "if False:",
        PULL,
    ),
    "what the pull lane hands out is not counted": Mutant(
        "_native/lanes/pull.py",
        "        queue.tally[1] += self.gatherer.total",
        "        pass",
        PULL,
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
    source = _plain(tmp_path)
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
def test_without_a_mutant_they_pass(tmp_path: Path) -> None:
    run = _run(_plain(tmp_path), *sorted({mutant.test for mutant in MUTANTS.values()}))
    assert run.returncode == 0, run.stdout[-2000:]


def _plain(folder: Path) -> Path:
    """The sources as links, without compiled modules."""
    source = folder / "src"
    shutil.copytree(
        ROOT / "src", source,
        copy_function=os.symlink, ignore=shutil.ignore_patterns("__pycache__", "*.so"),
    )  # fmt: skip
    return source


def _run(source: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    more = {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "CONTRAIL_NATIVE": "none"}
    return subprocess.run(
        [*command, "-o", f"pythonpath={source} tests", *tests],
        cwd=ROOT,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=100,
    )
