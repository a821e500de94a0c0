"""The command ``contrail``: its table, its exit codes, and errors on one line."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from contrailmq import main as command
from contrailmq.errors import ConfigError, DiskFull, StoreLocked
from contrailmq.version import VERSION

SRC = str(Path(__file__).resolve().parents[2] / "src")


def _contrail(*argv: str, optimise: bool = False) -> subprocess.CompletedProcess[str]:
    flags = ["-O"] if optimise else []
    return subprocess.run(
        [sys.executable, *flags, "-m", "contrailmq.main", *argv],
        env={**os.environ, "PYTHONPATH": SRC},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A table with one command, ``probe``, that lives in this very module."""
    monkeypatch.setattr(command, "COMMANDS", {"probe": command.Entry("probe_module:run", "try")})
    monkeypatch.setitem(sys.modules, "probe_module", argparse.Namespace(run=None))  # type: ignore[arg-type]
    monkeypatch.setattr(command, "_exists", lambda target: True)
    return monkeypatch


def _install(probe: pytest.MonkeyPatch, run: object) -> None:
    probe.setattr(importlib.import_module("probe_module"), "run", run)


def test_version_and_help_of_the_real_command() -> None:
    version = _contrail("--version")
    assert (version.returncode, version.stdout, version.stderr) == (0, f"contrail {VERSION}\n", "")
    for argv in ([], ["help"], ["--help"], ["-h"]):
        shown = _contrail(*argv)
        assert shown.returncode == 0
        assert shown.stdout.startswith("usage: contrail ")


def test_an_unknown_command_is_a_usage_error_on_one_line() -> None:
    refused = _contrail("no-such-thing")
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.splitlines() == [
        "contrail: there is no command 'no-such-thing'; contrail help lists them"
    ]


def test_python_without_assertions_is_refused() -> None:
    refused = _contrail("--version", optimise=True)
    assert refused.returncode == 2
    assert "python -O" in refused.stderr


def test_the_exit_code_of_a_command_is_the_exit_code(probe: pytest.MonkeyPatch) -> None:
    seen: list[Sequence[str]] = []

    def run(argv: Sequence[str]) -> int:
        seen.append(argv)
        return 7

    _install(probe, run)
    assert command.main(["probe", "-x", "1"]) == 7
    assert seen == [["-x", "1"]]


def test_help_name_asks_the_command_itself(probe: pytest.MonkeyPatch) -> None:
    seen: list[Sequence[str]] = []
    _install(probe, lambda argv: seen.append(argv) or 0)
    assert command.main(["help", "probe"]) == 0
    assert seen == [["--help"]]


def test_argparse_may_stop_a_command(
    probe: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(argv: Sequence[str]) -> int:
        argparse.ArgumentParser(prog="contrail probe").parse_args(argv)
        return 0

    _install(probe, run)
    assert command.main(["probe", "--unknown"]) == 2
    assert command.main(["probe", "--help"]) == 0
    assert "--unknown" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConfigError("listenPort=x\nis no number"), "contrail: listenPort=x is no number"),
        (OSError(71, "Protocol error"), "contrail: Protocol error"),
        (
            ValueError("odd"),
            "contrail: ValueError: odd (contrail --debug shows where)",
        ),
        (
            ModuleNotFoundError("No module named 'pyspark'", name="pyspark"),
            "contrail: the package pyspark is not installed; "
            "pip install 'contrailmq[spark]' has it",
        ),
    ],
)
def test_a_failure_is_one_line_and_exit_code_1(
    probe: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, line: str
) -> None:
    def run(argv: Sequence[str]) -> int:
        raise error

    _install(probe, run)
    assert command.main(["probe"]) == 1
    assert capsys.readouterr().err.splitlines() == [line]


@pytest.mark.parametrize("name", ["up", "send"])
def test_the_remedy_fits_the_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A server is given another folder; what others cannot read may be any file."""

    def told(error: Exception) -> str:
        assert command._fail(error, name) == 1
        [line] = capsys.readouterr().err.splitlines()
        return line

    refused = told(PermissionError(13, "Permission denied", "/x"))
    assert refused.startswith("contrail: /x: Permission denied; choose")
    assert ("--store DIR" in refused) == (name == "up")
    assert "make room there" in told(OSError(28, "No space left on device"))
    assert "make room there" in told(DiskFull("no room for /x: 3 of 5 bytes free"))


def test_debug_shows_the_stack_trace(probe: pytest.MonkeyPatch) -> None:
    def run(argv: Sequence[str]) -> int:
        raise ConfigError("bad")

    _install(probe, run)
    with pytest.raises(ConfigError):
        command.main(["--debug", "probe"])


def test_an_interrupt_is_no_failure_of_ours(probe: pytest.MonkeyPatch) -> None:
    def run(argv: Sequence[str]) -> int:
        raise KeyboardInterrupt

    _install(probe, run)
    assert command.main(["probe"]) == 130


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_early_is_not_reported(unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        shown = subprocess.run(
            [sys.executable, "-m", "contrailmq.main", "help"],
            env={**os.environ, "PYTHONPATH": SRC, "PYTHONUNBUFFERED": unbuffered},
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    finally:
        os.close(writer)
    assert (shown.returncode, shown.stderr) == (0, "")


@pytest.mark.parametrize("name", sorted(command.available()))
def test_every_command_of_the_table_loads_and_has_help(name: str) -> None:
    pytest.importorskip("pyspark") if "spark" in command.COMMANDS[name].target else None
    shown = _contrail(name, "--help")
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"\busage\b", shown.stdout, re.IGNORECASE)
    assert name == "completion" or re.search(r"^exit codes: 0 ", shown.stdout, re.MULTILINE)


def test_a_slip_of_the_fingers_gets_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["tpoic", "list"]) == 2
    assert capsys.readouterr().err.rstrip().endswith("did you mean topic?")


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (PermissionError(13, "Permission denied", "/srv/x"), "one that you may use"),
        (OSError(30, "Read-only file system", "/srv/x"), "one that you may use"),
        (OSError(28, "No space left on device", "/srv/x"), "make room"),
        (OSError(98, "('/srv/x', 9876): address already in use"), "--port 0"),
        (OSError(99, "('/srv/x', 9876): cannot assign requested address"), "--host"),
        (StoreLocked("/srv/x/lock is locked: another broker has this store open"), "--store DIR"),
    ],
)
def test_first_mistakes_get_a_remedy(
    probe: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    remedy: str,
) -> None:
    def fail(argv: Sequence[str]) -> int:
        raise error

    _install(probe, fail)
    assert command.main(["probe"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "/srv/x" in line
    assert remedy in line
