"""The 5.x SDKs as test partners: built once into ``.cache/wild``, run with an endpoint and a name.

The programs and their events are in ``tests/interop/sdk``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testkit.wild import ROOT, Lacking, built, checked, tool

SOURCES = ROOT / "tests" / "interop" / "sdk"
PYTHON_SDK = "rocketmq-python-client==5.1.2"
RUN_S = 150
LANGUAGES = ("python", "node", "go", "java")


def run(language: str, endpoint: str, name: str, *, home: Path) -> list[dict[str, Any]]:
    """Everything an SDK's program says; AssertionError with its errors if it fails."""
    done = subprocess.run(
        [*command_of(language), endpoint, name],
        env={**os.environ, "HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, f"{language}: {rows} {done.stderr[-3000:]}"
    return rows


def command_of(language: str) -> list[str]:
    """The command line of a program; built now if it is not there. Raises Lacking."""
    return _COMMANDS[language]()


def _python() -> list[str]:
    program = SOURCES / "python" / "main.py"

    def build(directory: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(directory)]
        checked([*pip, PYTHON_SDK], directory=directory)

    made = built(f"sdk-pypi-{PYTHON_SDK.rpartition('=')[2]}", [], build)
    code = (
        f"import sys, runpy; sys.path.insert(0, {str(made)!r}); "
        f"runpy.run_path({str(program)!r}, run_name='__main__')"
    )
    return [sys.executable, "-I", "-c", code]


def _node() -> list[str]:
    node = tool("node", "Node.js is needed to run rocketmq-client-nodejs")
    npm = tool("npm", "npm is needed to install rocketmq-client-nodejs")
    source = SOURCES / "node"
    files = [source / name for name in ("main.js", "package.json", "package-lock.json")]

    def build(directory: Path) -> None:
        for file in files:
            shutil.copy(file, directory)
        checked([npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], directory=directory)

    return [node, str(built("sdk-node", files, build) / "main.js")]


def _go() -> list[str]:
    go = tool("go", "Go (golang.org) is needed to build rocketmq-clients")
    source = SOURCES / "go"

    def build(directory: Path) -> None:
        checked([go, "build", "-o", str(directory / "sdk"), "."], directory=source)

    files = [source / "main.go", source / "go.mod", source / "go.sum"]
    return [str(built("sdk-go", files, build) / "sdk")]


def _java() -> list[str]:
    java = tool("java", "Java is needed to run rocketmq-client-java")
    compiler = tool("javac", "a JDK is needed to compile for rocketmq-client-java")
    maven = tool("mvn", "Maven is needed to fetch rocketmq-client-java")
    source = SOURCES / "java"

    def build(directory: Path) -> None:
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={directory / 'lib'}"]
        checked([maven, "-q", "-B", "-f", str(source / "pom.xml"), *goal], directory=directory)
        path = f"{directory / 'lib'}/*"
        checked(
            [compiler, "-cp", path, "-d", str(directory), str(source / "Sdk.java")],
            directory=directory,
        )

    made = built("sdk-java", [source / "pom.xml", source / "Sdk.java"], build)
    return [java, "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{made}:{made / 'lib'}/*", "Sdk"]


_COMMANDS: dict[str, Callable[[], list[str]]] = {
    "python": _python,
    "node": _node,
    "go": _go,
    "java": _java,
}


def prepare() -> None:
    """Build all programs now, so that no test waits for it; say which cannot be had here."""
    for language in LANGUAGES:
        try:
            command_of(language)
        except (Lacking, RuntimeError, subprocess.TimeoutExpired) as reason:
            print(f"contrailmq: no {language} SDK: {reason}", file=sys.stderr)


if __name__ == "__main__":
    prepare()
