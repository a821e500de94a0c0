"""The build says in one sentence what is missing, and what it makes can be installed and run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from contrailmq.version import VERSION
from testkit.builds import native_names

ROOT = Path(__file__).resolve().parents[2]


def _run(*command: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        **{"cwd": ROOT, "capture_output": True, "text": True, "timeout": 600, **more},  # type: ignore[call-overload]
    )


def _tools(directory: Path, *names: str) -> dict[str, str]:
    """An environment whose PATH has these tools and no others."""
    directory.mkdir()
    for name in names:
        found = _run("/bin/sh", "-c", f"command -v {name}").stdout.strip()
        (directory / name).symlink_to(found)
    kept = {name: value for name, value in os.environ.items() if name not in ("CC", "PYTHON")}
    return {**kept, "PATH": str(directory)}


def test_without_a_compiler_the_build_stops_with_one_sentence(tmp_path: Path) -> None:
    env = _tools(tmp_path / "bin", "sh")
    built = _run(sys.executable, "setup.py", "build_ext", "-b", tmp_path, env=env)
    assert built.returncode == 1
    (line,) = built.stderr.splitlines()
    assert "no C compiler" in line
    assert "apt-get install gcc python3-dev" in line


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("python", "Python 3.11 or newer is needed"),
        ("compiler", "a C compiler is needed"),
        ("java", "Java 17 is needed"),
        ("maven", "Maven is needed"),
    ],
)
def test_what_is_missing_is_named_in_one_line(tmp_path: Path, tool: str, words: str) -> None:
    env = _tools(tmp_path / "bin", "sh", "sed", "head")
    asked = _run("/bin/sh", "scripts/need", tool, env=env)
    assert asked.returncode == 1
    (line,) = asked.stderr.splitlines()
    assert words in line
    assert "install" in line
    quiet = _run("/bin/sh", "scripts/need", "--quiet", tool, env=env)
    assert (quiet.returncode, quiet.stderr) == (1, "")


def test_an_old_java_is_named(tmp_path: Path) -> None:
    env = _tools(tmp_path / "bin", "sh", "sed", "head")
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    asked = _run("/bin/sh", "scripts/need", "java", env=env)
    assert asked.returncode == 1
    assert "this machine has 11" in asked.stderr


def test_what_is_no_python_is_named_in_one_line(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho other 9.1\necho its licence\nexit 1\n")
    other.chmod(0o755)
    asked = _run("/bin/sh", "scripts/need", "python", env={**os.environ, "PYTHON": str(other)})
    assert asked.returncode == 1
    (line,) = asked.stderr.splitlines()
    assert f"({other} is other 9.1); install it" in line


def test_a_compiler_or_a_java_that_was_named_and_is_not_there(tmp_path: Path) -> None:
    """What the caller named is used or complained of; nothing else is taken in its place."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CC", "JAVA_HOME")}
    for tool, variable, words in (
        ("compiler", "CC", "names no C compiler"),
        ("java", "JAVA_HOME", "has no bin/java"),
    ):
        env = {**kept, variable: str(tmp_path / "nowhere")}
        asked = _run("/bin/sh", "scripts/need", tool, env=env)
        assert asked.returncode == 1
        (line,) = asked.stderr.splitlines()
        assert f"{variable}={tmp_path}/nowhere {words}" in line
        assert f"without {variable}" in line
    env = {**kept, "CC": str(tmp_path / "nowhere")}
    built = _run(sys.executable, "setup.py", "build_ext", "-b", tmp_path, env=env)
    assert built.returncode == 1
    (line,) = built.stderr.splitlines()
    assert "names no C compiler" in line
    assert _run("/bin/sh", "scripts/need", "compiler", env={**kept, "CC": "sh -x"}).returncode == 0


def test_make_help_lists_the_targets_and_prepares_nothing(tmp_path: Path) -> None:
    copy = tmp_path / "Makefile"
    copy.write_text((ROOT / "Makefile").read_text())
    for arguments in ([], ["help"]):
        shown = _run("make", *arguments, cwd=tmp_path)
        assert shown.returncode == 0, shown.stderr
        for target in ("demo", "test", "check", "interop", "bench", "build", "docs", "clean"):
            assert f"\n  {target} " in shown.stdout
    assert not (tmp_path / ".venv").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_wheel_of_a_source_distribution_installs_and_runs(tmp_path: Path) -> None:
    """From a clean copy: sdist, then a wheel out of it, then a new environment with the wheel."""
    copy = tmp_path / "copy"
    listed = _run("git", "ls-files", "-z", "src", "*.toml", "*.py", "*.md", "LICENSE").stdout
    for name in listed.rstrip("\0").split("\0"):
        source = ROOT / name
        if name.startswith("tests/") or not source.exists():
            continue
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(source.read_bytes())
    backend = "from setuptools import build_meta as b; b.build_sdist('dist')"
    made = _run(sys.executable, "-c", backend, cwd=copy)
    assert made.returncode == 0, made.stderr
    (sdist,) = (copy / "dist").glob("*.tar.gz")
    pip = [sys.executable, "-m", "pip", "wheel", "--verbose", "--no-deps", "--no-build-isolation"]
    made = _run(*pip, "-w", tmp_path, sdist)
    assert made.returncode == 0, made.stderr
    said = (made.stdout + made.stderr).splitlines()
    assert [line for line in said if re.search(r"\.[ch]:\d+(:\d+)?: warning: ", line)] == []
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for native in native_names():
        assert any(
            n.startswith(f"contrailmq/_native/{native.replace('.', '/')}.cp") for n in names
        ), native
    shipped = [name.removeprefix("src/") for name in listed.split("\0") if name.startswith("src/")]
    assert not [name for name in shipped if name not in names]
    assert any(name.endswith("licenses/LICENSE") for name in names)

    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    installed = _run(home / "bin" / "python", "-m", "pip", "install", "--quiet", wheel)
    assert installed.returncode == 0, installed.stderr
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    version = _run(home / "bin" / "contrail", "--version", cwd=tmp_path, env=env)
    assert (version.returncode, version.stdout) == (0, f"contrail {VERSION}\n"), version.stderr
    loaded = "; ".join(
        f"import contrailmq._native.{name} as m; assert m.__file__.endswith('.so'), m.__file__"
        for name in native_names()
    )
    loaded += "; import importlib.metadata as m"
    loaded += "; print(*[point.value for point in m.entry_points(group='pytest11')])"
    checked = _run(home / "bin" / "python", "-c", loaded, cwd=tmp_path, env=env)
    assert checked.returncode == 0, checked.stderr
    assert "contrailmq.testing.pytest_plugin" in checked.stdout.split()
