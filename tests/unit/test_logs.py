"""The log as JSON, in a file, and louder while a server runs."""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from contrailmq.errors import ConfigError
from contrailmq.logs import (
    JsonFormatter,
    LogLevel,
    add_log_options,
    begin_logging,
    log_arguments,
    set_level,
)


def _record(text: str, *arguments: object, error: Exception | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, None)
    return logging.LogRecord("contrailmq.x", logging.WARNING, "x.py", 1, text, arguments, info)


def _json(text: str, *arguments: object, error: Exception | None = None) -> dict[str, object]:
    line = JsonFormatter().format(_record(text, *arguments, error=error))
    assert "\n" not in line
    return dict(json.loads(line))


def test_arguments_are_fields() -> None:
    found = _json("request refused: peer=%s code=%s ms=%.0f", "1.2.3.4:5", 10, 1.5)
    assert found.pop("time").endswith("Z")  # type: ignore[attr-defined]
    assert found == {
        "level": "WARNING", "logger": "contrailmq.x", "event": "request refused",
        "peer": "1.2.3.4:5", "code": 10, "ms": 1.5,
    }  # fmt: skip


def test_what_is_no_fixed_text_is_told_whole() -> None:
    assert _json("slow:%s", " plain")["event"] == "slow: plain"
    assert _json("a 100% line")["event"] == "a 100% line"
    assert _json("lost: error=%s level=%s", OSError("x\ny"), 1) | {"time": ""} == {
        "time": "", "level": "WARNING", "logger": "contrailmq.x", "event": "lost",
        "error_": "x\ny", "level_": 1,
    }  # fmt: skip


def test_an_error_has_its_trace() -> None:
    found = _json("handler failed: code=%s", 1, error=ValueError("no"))
    assert found["error"] == "ValueError('no')"
    assert "ValueError: no" in str(found["trace"])


def _options(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_log_options(parser)
    return parser.parse_args(argv)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--log-file"):
        begin_logging(_options("--log-file", str(tmp_path / "file" / "x.log")))


def test_processes_of_their_own_have_files_of_their_own() -> None:
    options = _options("--log-file", "/var/log/c.log", "--log-format", "json")
    assert log_arguments(options, suffix="broker-1") == [
        "--log-level", "warning", "--log-format", "json", "--log-file", "/var/log/c-broker-1.log",
    ]  # fmt: skip


def test_the_level_changes_while_running() -> None:
    own = logging.getLogger("contrailmq")
    before = own.level
    try:
        set_level(LogLevel.DEBUG)
        assert logging.getLogger("contrailmq.broker.app").isEnabledFor(logging.DEBUG)
        set_level(LogLevel.AS_STARTED)
        assert own.level == logging.NOTSET
    finally:
        own.setLevel(before)


def test_a_server_logs_json_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log" / "names.log"
    command = [sys.executable, "-m", "contrailmq.main", "namesrv", "--port", "0", "--log-format",
               "json", "--log-file", str(path), "--store", str(tmp_path / "s")]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert "boot success" in process.stdout.readline()
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert errors == ""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    [listening] = [line for line in lines if line["event"] == "listening"]
    assert isinstance(listening["port"], int)
