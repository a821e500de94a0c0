"""Clients of other languages as test partners: built once into ``.cache/wild``, driven by lines.

The programs and their language of jobs and events are in ``tests/interop/wild``.  What a machine
lacks (Go, npm, a matching processor) raises ``Lacking`` with a sentence that names it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testkit.peer import Row, locked

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests" / "interop" / "wild"
CACHE = ROOT / ".cache" / "wild"
CPP_WHEEL = "rocketmq==0.4.4"
BUILD_S = 900
WAIT_S = 60.0
LANGUAGES = ("go", "cpp", "node")


class Lacking(Exception):
    """This machine cannot run a client; the text says why."""


def command_of(language: str) -> tuple[list[str], dict[str, str]]:
    """The command line that starts a client, and what its environment needs beside ours."""
    return {"go": _go, "cpp": _cpp, "node": _node}[language]()


class WildCall:
    """A client at work: started by the constructor, ended by ``finish`` or ``kill``."""

    def __init__(self, language: str, home: Path, **job: Any) -> None:
        command, environment = command_of(language)
        home.mkdir(parents=True, exist_ok=True)
        self.rows: list[Row] = []
        self._changed = threading.Condition()
        self._is_over = False
        self._log = home / f"{job['command']}.err"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **environment, "HOME": str(home)},
                cwd=home,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._reader = threading.Thread(target=self._read, name=language, daemon=True)
        self._reader.start()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()

    def expect(self, event: str, *, count: int = 1, timeout_s: float = WAIT_S) -> list[Row]:
        """Wait for so many rows of an event; all that have come until then."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while len(found := self._of(event)) < count:
                left_s = deadline - time.monotonic()
                if self._is_over or left_s <= 0 or not self._changed.wait(left_s):
                    raise AssertionError(f"{len(found)} of {count} {event} came; {self._said()}")
        return found

    def finish(self) -> list[Row]:
        """End its input, and wait until it says that it is done."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self.expect("done")
            return [row for row in self.rows if row["event"] != "done"]
        finally:
            self.kill()

    def kill(self) -> None:
        """End it whatever it does; harmless when it has ended."""
        self._process.kill()
        self._process.wait(60)
        self._reader.join(60)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _of(self, event: str) -> list[Row]:
        return [row for row in self.rows if row["event"] == event]

    def _said(self) -> str:
        return f"rows {self.rows}; it wrote: {self._log.read_text(errors='replace')[-2000:]}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):  # a library may print lines of its own
                with self._changed:
                    self.rows.append(json.loads(line))
                    self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


def _go() -> tuple[list[str], dict[str, str]]:
    go = tool("go", "Go (golang.org) is needed to build rocketmq-client-go")
    source = SOURCES / "go"

    def build(directory: Path) -> None:
        checked([go, "build", "-o", str(directory / "wild"), "."], directory=source)

    made = built("go", [source / "main.go", source / "go.mod", source / "go.sum"], build)
    return [str(made / "wild")], {}


def _node() -> tuple[list[str], dict[str, str]]:
    node = tool("node", "Node.js is needed to run ali-ons")
    npm = tool("npm", "npm is needed to install ali-ons")
    source = SOURCES / "node"
    files = [source / name for name in ("main.js", "package.json", "package-lock.json")]

    def build(directory: Path) -> None:
        for file in files:
            shutil.copy(file, directory)
        checked([npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], directory=directory)

    return [node, str(built("node", files, build) / "main.js")], {}


def _cpp() -> tuple[list[str], dict[str, str]]:
    machine = f"{platform.system()} on {platform.machine()}"
    if machine != "Linux on x86_64":
        raise Lacking(f"{CPP_WHEEL} ships librocketmq.so for Linux on x86_64 alone, not {machine}")
    program = SOURCES / "cpp" / "main.py"

    def build(directory: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        checked([*pip, "--target", str(directory), CPP_WHEEL], directory=directory)

    made = built(f"cpp-{CPP_WHEEL[-5:]}", [], build)
    trial = subprocess.run(
        [sys.executable, "-c", "import rocketmq.ffi"],
        env={**os.environ, "PYTHONPATH": str(made)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    if trial.returncode != 0:
        last = trial.stderr.strip().rpartition("\n")[2]
        raise Lacking(f"librocketmq.so of {CPP_WHEEL} cannot be loaded here: {last}")
    return [sys.executable, str(program)], {"PYTHONPATH": str(made)}


def tool(name: str, sentence: str) -> str:
    """The path of a program; Lacking with a sentence if this machine has none."""
    path = shutil.which(name)
    if path is None:
        raise Lacking(f"{sentence} and was not found")
    return path


def built(name: str, sources: list[Path], build: Callable[[Path], None]) -> Path:
    """The directory of what was built from these sources; built now, by one, if it is not there."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    directory = CACHE / f"{name}-{digest}"
    with locked(CACHE / f"{name}.lock"):
        if not directory.exists():
            fresh = directory.with_name(f"{directory.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            build(fresh)
            fresh.rename(directory)
    return directory


def checked(command: list[str], *, directory: Path) -> None:
    """Run a step of a build; RuntimeError with what it said if it fails."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=BUILD_S)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")


def prepare() -> None:
    """Build all clients now, so that no test waits for it; say which cannot be had here."""
    for language in LANGUAGES:
        try:
            command_of(language)
        except (Lacking, RuntimeError, subprocess.TimeoutExpired) as reason:
            print(f"contrailmq: no {language} client: {reason}", file=sys.stderr)


if __name__ == "__main__":
    prepare()
