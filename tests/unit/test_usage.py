"""Every command line that is wrong gets one line on stderr, exit code 2, and no stack trace.

The cases are made from the parsers themselves, so a new command or option is tested by existing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contrailmq import main as command
from contrailmq.admin.main import COMMANDS as ADMIN_COMMANDS
from contrailmq.usage import CommandParser, port, positive, seconds, whole

SRC = str(Path(__file__).resolve().parents[2] / "src")
WORDS_OF_NUMBERS = {"N", "S", "MB", "PORT", "OFFSET", "ID", "COUNT"}


def _leaves(
    parser: argparse.ArgumentParser, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from _leaves(child, (*path, name))


def _parsers() -> dict[tuple[str, ...], argparse.ArgumentParser]:
    found: dict[tuple[str, ...], argparse.ArgumentParser] = {}
    for name, entry in command.available().items():
        make = command._find_parser(entry.target)
        parser = make() if make is not None else None
        if isinstance(parser, argparse.ArgumentParser):
            found |= dict(_leaves(parser, (name,)))
    return found


PARSERS = _parsers()
PATHS = sorted(PARSERS)


def _takes_value(action: argparse.Action) -> bool:
    return bool(action.option_strings) and action.nargs not in (0, "?")


def _filled(parser: argparse.ArgumentParser) -> list[str]:
    """What must be given, given."""
    words: list[str] = []
    for action in parser._actions:
        value = action.choices[0] if isinstance(action.choices, list | tuple) else "1"
        if action.option_strings and action.required:
            words += [action.option_strings[0], value]
        elif not action.option_strings and action.nargs not in ("?", "*"):
            words.append(value)
    return words


def _has_commands(parser: argparse.ArgumentParser) -> bool:
    return any(isinstance(action, argparse._SubParsersAction) for action in parser._actions)


def _refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line a wrong command line gets."""
    assert command.main(words) == 2, words
    return _one_line(capsys)


def _refused_by(
    parser: argparse.ArgumentParser, words: list[str], capsys: pytest.CaptureFixture[str]
) -> str:
    """As ``_refused``, for many options: without making all parsers each time."""
    with pytest.raises(SystemExit) as stop:
        parser.parse_args([*_filled(parser), *words])
    assert stop.value.code == 2, words
    line = _one_line(capsys)
    assert line.startswith(f"{parser.prog}: ")
    assert line.endswith(f"; {parser.prog} --help shows how")
    return line


def _one_line(capsys: pytest.CaptureFixture[str]) -> str:
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith("\n")
    [line] = shown.err.splitlines()
    assert "Traceback" not in line
    assert "usage:" not in line
    return line


def test_the_table_is_whole() -> None:
    tops = {path[0] for path in PATHS}
    assert set(command.available()) - tops == {"completion"}, "commands without a parser"
    assert {path[1] for path in PATHS if path[0] == "admin" and len(path) > 1} == set(
        ADMIN_COMMANDS
    )
    assert len(PATHS) > len(ADMIN_COMMANDS) + 30
    assert all(isinstance(parser, CommandParser) for parser in PARSERS.values())


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_an_unknown_option(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    parser = PARSERS[path]
    line = _refused(
        [*path, *([] if _has_commands(parser) else _filled(parser)), "--no-such"], capsys
    )
    assert line.startswith(f"contrail {path[0]}")
    assert line.endswith(f"{parser.prog} --help shows how")
    assert "--no-such" in line or "required" in line


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_something_is_missing(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """A positional argument or an option that must be given; else the value of an option."""
    parser = PARSERS[path]
    if _filled(parser) and path != ("admin",):  # which alone lists its commands
        line = _refused(list(path), capsys)
        assert "the following arguments are required" in line
    for action in parser._actions:
        if _takes_value(action):
            assert "expected" in _refused_by(parser, [action.option_strings[-1]], capsys)


def _numbers() -> Iterator[Any]:
    for path in PATHS:
        for action in PARSERS[path]._actions:
            if action.type not in (None, str, Path, str.split):
                name = action.option_strings[-1] if action.option_strings else action.dest
                yield pytest.param(path, action, id=" ".join([*path, name]))


@pytest.mark.parametrize(("path", "action"), list(_numbers()))
def test_a_bad_number(
    path: tuple[str, ...], action: argparse.Action, capsys: pytest.CaptureFixture[str]
) -> None:
    """And whatever else has a form: times, pairs, permissions."""
    for wrong in ("x", "1x", ""):
        words = [f"{action.option_strings[-1]}={wrong}"]
        line = _refused_by(PARSERS[path], words, capsys)
        assert f"argument {'/'.join(action.option_strings)}: {wrong!r}: " in line


def test_every_number_has_a_type() -> None:
    """An option whose value is called a number is checked before anything is done."""
    without = [
        f"{' '.join(path)} {action.option_strings[-1]}"
        for path in PATHS
        for action in PARSERS[path]._actions
        if action.metavar in WORDS_OF_NUMBERS and action.type in (None, str, int, float)
    ]
    assert without == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["up", "--namesrv-prot", "0"], "did you mean --namesrv-port?"),
        (["up", "--port", "70000"], "argument --port: '70000': expected a whole number, from 0 to"),
        (["up", "--brokers", "0"], "argument --brokers: '0': expected a whole number, from 1 to"),
        (["broker", "--log-level", "loud"], "there is no loud; there is debug, info,"),
        (["namesrv", "--port", "x"], "argument --port: 'x': expected a whole number"),
        (["demo", "--orders", "5"], "argument --orders: '5': expected a whole number, at least"),
        (["sql"], "the following arguments are required: query"),
        (["sql", "select 1", "--rows", "all"], "argument --rows: 'all': expected a whole number"),
        (["tail", "orders", "--debug"], "--debug comes before the command"),
        (["tail", "orders", "--timeout", "nan"], "'nan': expected a number above 0"),
        (["tail", "orders", "two\nlines"], "unrecognized arguments: two lines"),
        (["completion"], "give one shell, bash, zsh or fish"),
        (["completion", "csh"], "give one shell, bash, zsh or fish"),
        (["admin", "brokerStatus"], "give -b, the address of a broker, or -c"),
        (["admin", "updateTopic", "-t", "a", "-r", "many"], "'many': expected a whole number"),
        (["group", "reset", "g", "orders", "--yes"], "say where to"),
        (["no-such-thing"], "there is no command 'no-such-thing'"),
        (["--no-such"], "there is no option --no-such"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_what_is_said(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told in _refused(words, capsys)


@pytest.mark.parametrize("name", ["up", "namesrv", "broker", "demo", "topic"])
def test_as_a_process(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "contrailmq.main", name, "--no-such"],
        env={**os.environ, "PYTHONPATH": SRC},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (whole(), ["0", "7", "9223372036854775807"], ["-1", "9223372036854775808", "1.5", "", "٣"]),
        (whole(None), ["-1", "0"], ["x", "--1", "-9223372036854775809"]),
        (whole(1, 3), ["1", "3"], ["0", "4"]),
        (port, ["0", "65535"], ["65536", "-1", "http"]),
        (positive, ["0.1", "3"], ["0", "-1", "nan", "inf", "one"]),
        (seconds, ["0", "0.5"], ["-1", "nan", "inf", "5s"]),
    ],
    ids=["whole", "any whole", "a span", "port", "positive", "seconds"],
)
def test_kinds_of_numbers(kind: Any, good: list[str], bad: list[str]) -> None:
    for text in good:
        assert kind(text) == (float(text) if "." in text else int(text))
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match="expected"):
            kind(text)
