"""``.ci/run`` over stand-ins: steps beside others, limits, the table, the exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = """\
.venv/.stamps/native: ; @touch $@
check: ; @echo checked
test: ; @echo tested; test ! -e broken
	@if test -e failed.json; then mkdir -p .pytest_cache/ci-test/v/cache; \
	cp failed.json .pytest_cache/ci-test/v/cache/lastfailed; exit 1; fi
interop: ; @if test -e endless; then echo $$$$ > endless; exec sleep 100; fi
spark: ; @echo sparked
.PHONY: check test interop spark
"""
PYTHON = f"""\
#!/bin/sh
case $1 in -c) exec {sys.executable} "$@" ;; esac
echo "python $*"
test ! -e steady_failure
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository of stand-ins."""
    for name in (".ci", ".venv/bin", ".venv/.stamps", "scripts"):
        (tmp_path / name).mkdir(parents=True)
    text = (ROOT / ".ci" / "run").read_text()
    assert "[interop]=" in text
    (tmp_path / ".ci" / "run").write_text(re.sub(r"\[interop\]=\d+", "[interop]=2", text))
    (tmp_path / ".venv" / "bin" / "python").write_text(PYTHON)
    for name in ("pythons", "sparks"):
        (tmp_path / "scripts" / name).write_text(f"#!/bin/sh\necho {name}\n")
        (tmp_path / "scripts" / name).chmod(0o755)
    (tmp_path / "scripts" / "plain").write_text('#!/bin/sh\necho "plain $*"\n')
    for program in (".ci/run", ".venv/bin/python", "scripts/plain"):
        (tmp_path / program).chmod(0o755)
    (tmp_path / "Makefile").write_text(MAKEFILE)
    return tmp_path


def _run(folder: Path, *steps: str, **env: str) -> tuple[int, str, dict[str, str]]:
    """Exit code, what was said, and the table: step to result."""
    done = subprocess.run(
        [".ci/run", *steps],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    rows = re.findall(r"^(\w+) +(ok|FAILED|skipped) +\d+ s$", done.stdout, re.MULTILINE)
    return done.returncode, done.stdout + done.stderr, dict(rows)


def test_late_steps_are_left_out_and_named(folder: Path) -> None:
    code, said, table = _run(folder, CONTRAIL_CI_LATE_S="-1")
    assert code == 0
    assert [step for step, result in table.items() if result == "skipped"] == ["sparks", "pythons"]
    assert "run it alone: .ci/run sparks" in said


def test_all_steps_run_and_are_in_the_table(folder: Path) -> None:
    code, said, table = _run(folder)
    steps = [
        "prepare", "check", "test", "plain", "slow", "interop", "spark", "soak", "sparks",
        "pythons", "total",
    ]  # fmt: skip
    assert (code, list(table), set(table.values())) == (0, steps, {"ok"})
    for words in (
        "checked",
        "tested",
        "plain -n 2",
        "sparked",
        "-m soak ",
        "slow or crash or fuzz",
    ):
        assert said.count(words) == 1, words


def test_a_failure_does_not_stop_the_others(folder: Path) -> None:
    (folder / "broken").touch()
    code, said, table = _run(folder)
    assert code == 1
    assert {step for step, result in table.items() if result == "FAILED"} == {"test", "total"}
    assert "sparked" in said


@pytest.mark.parametrize(("count", "is_steady"), [(1, False), (3, False), (1, True), (4, False)])
def test_a_few_failed_tests_run_once_more_and_are_named(
    folder: Path, count: int, is_steady: bool
) -> None:
    names = [f"tests/a.py::test_{number}" for number in range(count)]
    (folder / "failed.json").write_text(json.dumps(dict.fromkeys(names, True)))
    if is_steady:
        (folder / "steady_failure").touch()
    code, said, table = _run(folder, "test")
    is_ok = count <= 3 and not is_steady
    assert (code, table["test"]) == ((0, "ok") if is_ok else (1, "FAILED"))
    assert ("--last-failed" in said) == (count <= 3)
    assert [f"second run: {name}" in said for name in names] == [count <= 3] * count


def _is_gone(folder: Path) -> bool:
    """Whether the step's process has ended, or does so soon: it was told to, not waited for."""
    number = int((folder / "endless").read_text())
    deadline = time.monotonic() + 30
    while Path(f"/proc/{number}").exists() and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    return not Path(f"/proc/{number}").exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_step_that_hangs_is_ended_at_its_limit(folder: Path) -> None:
    (folder / "endless").touch()
    code, said, table = _run(folder, "interop", "spark")
    assert (code, table) == (1, {"interop": "FAILED", "spark": "ok", "total": "FAILED"})
    assert "step interop was ended at its limit of 2 s" in said
    assert _is_gone(folder)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_what_is_interrupted_leaves_no_process(folder: Path) -> None:
    (folder / "endless").touch()
    process = subprocess.Popen([".ci/run", "interop"], cwd=folder, stdout=subprocess.PIPE)
    with process:
        while not (folder / "endless").read_text().strip():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130
    assert _is_gone(folder)


def test_a_step_nobody_knows_is_refused(folder: Path) -> None:
    code, said, table = _run(folder, "nonsense")
    assert (code, table) == (2, {})
    assert "there is no step nonsense" in said
