"""Tests are tested: each small damage to the maps and the store's native loops is noticed.

A mutant is a copy of the package without its compiled modules and with one place changed.  So the
plain build of the whole package runs the named tests, which must fail on it; the place must exist,
so that a mutant dies of a test and not of old age.
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
MAPS = "tests/unit/native/test_maps.py"
SCAN = "tests/unit/native/test_scan.py"
LOOPS = "tests/unit/store/test_native_loops.py"
MESSAGE = "tests/unit/protocol/test_message.py"
IDS = "tests/unit/protocol/test_ids_and_names.py"


class Mutant(NamedTuple):
    """One damage: in a native module this text becomes that; these tests notice."""

    module: str
    text: str
    becomes: str
    tests: str


MUTANTS = {
    "an IPv6 host moves too much": Mutant("record", "- 2 * HOST_SIZE\n", "- HOST_SIZE\n", MAPS),
    "properties may reach over the end": Mutant("record", "if stop > end:", "if False:", MAPS),
    "a long topic has a short length": Mutant(
        "record", "head = 1 if magic(data, at) == MAGIC_V1 else 2", "head = 1", MAPS
    ),
    "a name is looked for in the next pair": Mutant(
        "text", "rest.find(NAME_END, 0, stop)", "rest.find(NAME_END)", MAPS
    ),
    "a record in the wrong place is whole": Mutant(
        "store/scan", "if record.log_offset(data, position) != base + position:", "if False:", SCAN
    ),
    "a body may have any checksum": Mutant(
        "store/scan",
        "return crc & record.CRC_MASK == record.body_crc(data, position)",
        "return True",
        SCAN,
    ),
    "a lost page is not noticed": Mutant("store/scan", "if data[at] == 0:", "if False:", SCAN),
    "a unit may have any queue offset": Mutant(
        "store/scan",
        "            or record.queue_offset(memory, position) != first + index\n",
        "",
        SCAN,
    ),
    "a half message is in its queue": Mutant(
        "store/queues",
        "        if record.has_queue_offset(sys_flag):\n",
        "        if True:\n",
        LOOPS,
    ),
    "a record is derived twice": Mutant(
        "store/queues", "if log_end <= queue.log_end:", "if False:", LOOPS
    ),
    "a half message takes a queue offset": Mutant(
        "store/log", "        if record.has_queue_offset(sys_flag):\n", "        if True:\n", LOOPS
    ),
    "properties run together": Mutant(
        "store/log",
        "return 0 if properties[at + size - 1] == text.VALUE_END else 1",
        "return 0",
        LOOPS,
    ),
    "an entry of another key is found": Mutant(
        "store/index", "if entry_hash == value and is_late", "if is_late", LOOPS
    ),
    "a unit is believed": Mutant(
        "store/gather", "or record.size_of(view.address, position) != size:", "or False:", LOOPS
    ),
    "a damaged body is decoded": Mutant(
        "records",
        "if check_crc and zlib.crc32(made.body) & record.CRC_MASK != made.body_crc:",
        "if False:",
        MESSAGE,
    ),
    "a hash has no sign": Mutant("hashing", "else value - _TWO_32", "else value", IDS),
}


def _plain(tmp_path: Path) -> Path:
    source = tmp_path / "src"
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "src", source, ignore=ignored)
    return source


def test_the_places_exist() -> None:
    for name, mutant in MUTANTS.items():
        module = ROOT / "src" / "contrailmq" / "_native" / f"{mutant.module}.py"
        assert module.read_text().count(mutant.text) == 1, f"change the mutant too: {name}"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    source = _plain(tmp_path)
    module = source / "contrailmq" / "_native" / f"{mutant.module}.py"
    text = module.read_text()
    assert text.count(mutant.text) == 1, "the place has changed: change the mutant with it"
    module.write_text(text.replace(mutant.text, mutant.becomes))
    run = _run(source, mutant.tests)
    assert run.returncode == 1, f"survived, or did not run:\n{run.stdout[-2000:]}"
    assert "1 failed" in run.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_without_a_mutant_they_pass(tmp_path: Path) -> None:
    run = _run(_plain(tmp_path), *sorted({mutant.tests for mutant in MUTANTS.values()}))
    assert run.returncode == 0, run.stdout[-2000:]


def _run(source: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "-k", "not compiled", "-o", f"pythonpath={source} tests", *tests],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(source),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CONTRAIL_NATIVE": "none",
        },
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
