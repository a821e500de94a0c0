"""Tests are tested: each small damage to writing, flushing and reading is noticed.

A mutant is a copy of the package with one place changed; the named tests must fail on it, and the
place must exist, so that a mutant dies of a test and not of old age.
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
FLUSH, STORE = "tests/unit/store/test_flush.py", "tests/unit/store/test_store.py"
GROUP = "tests/unit/store/test_group_commit.py"


class Mutant(NamedTuple):
    """One damage: in a module of the store, this text becomes that; these tests notice."""

    module: str
    text: str
    becomes: str
    tests: str


MUTANTS = {
    "every waiter is told after any fsync": Mutant(
        "group_commit", "if waiter.end_offset <= flushed:", "if True:", FLUSH
    ),
    "a failed fsync does not fence": Mutant(
        "flush", "            self.reason = reason\n", "            pass\n", FLUSH
    ),
    "the flush claims what was written meanwhile": Mutant(
        "flush",
        "self._log.flushed_offset = max(self._log.flushed_offset, target)",
        "self._log.flushed_offset = self._log.end_offset",
        FLUSH,
    ),
    "no last flush when stopped": Mutant(
        "flush",
        "            if self._fence.reason is None:\n                await self.flush()",
        "            pass",
        FLUSH,
    ),
    "a failed fsync goes unnoticed": Mutant(
        "group_commit", "if error is not None:", "if error is not None and False:", FLUSH
    ),
    "what was appended is not written before its sync": Mutant(
        "group_commit", "self._log.write_staged()", "pass", GROUP
    ),
    "what was appended is written although the store is fenced": Mutant(
        "group_commit",
        "        if self._fence.reason is None:\n            try:",
        "        if True:\n            try:",
        FLUSH,
    ),
    "who does not wait may lose a message by a kill": Mutant(
        "store",
        "            self.log.settle()  # for who does not wait",
        "            pass  # for who does not wait",
        GROUP,
    ),
    "waits never time out": Mutant(
        "group_commit", "popleft().done(False)", "popleft().done(True)", FLUSH
    ),
    "readers do not follow the disk": Mutant(
        "store",
        "self.follower.follows = not self._is_sync and not settings.has_write_buffer",
        "self.follower.follows = True",
        FLUSH,
    ),
    "half a write is taken for all of it": Mutant(
        "commit_log", "done += written", "done = len(data)", FLUSH
    ),
    "a name is not made certain": Mutant(
        "commit_log", "            self._files.sync_folder(posixpath.dirname(path))\n", "", FLUSH
    ),
    "messages are taken while queues are behind": Mutant(
        "store",
        "            self.derivation.run(self.log.end_offset)  # DiskFull again, or caught up",
        "            pass",
        STORE,
    ),
    "times are found one too late": Mutant(
        "read", "if at < ms or (upper and at == ms):", "if at <= ms:", STORE
    ),
    "listeners are not told": Mutant(
        "derive", "self.follower.on_readable = listener", "pass", STORE
    ),
}


def test_the_places_exist() -> None:
    for name, mutant in MUTANTS.items():
        module = ROOT / "src" / "contrailmq" / "store" / f"{mutant.module}.py"
        assert module.read_text().count(mutant.text) == 1, f"change the mutant too: {name}"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    module = source / "contrailmq" / "store" / f"{mutant.module}.py"
    text = module.read_text()
    assert text.count(mutant.text) == 1, "the place has changed: change the mutant with it"
    module.write_text(text.replace(mutant.text, mutant.becomes))
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"),
            *("-o", f"pythonpath={source} tests", mutant.tests),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 1, f"survived:\n{run.stdout[-2000:]}"
