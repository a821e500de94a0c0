"""How to install: extras that exist, hints that name them, a release that builds what is said."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from contrailmq import main as command

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
PAGE = (ROOT / "docs" / "install.md").read_text()


def test_the_page_has_every_extra() -> None:
    assert sorted(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == sorted(EXTRAS)


def test_pages_and_hints_name_extras_that_exist() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("*.py")]
    for page in pages:
        for extras in re.findall(r"(?:contrailmq|'\.)\[([a-z,]+)\]", page.read_text()):
            assert set(extras.split(",")) <= set(EXTRAS), page


def test_nothing_is_installed_from_pypi_that_is_not_there() -> None:
    """A first install is from a checkout; only where the package is an extra may be added."""
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        lines = re.findall(r".*pip install [\"']?contrailmq\b(?!-).*", page.read_text())
        assert all("later" in line for line in lines), (page.name, lines)


@pytest.mark.parametrize(
    ("package", "told"),
    [
        ("pyspark.sql", "contrailmq[spark]"), ("pyarrow", "contrailmq[arrow]"),
        ("uvicorn", "contrailmq[console]"), ("aetcd", "contrailmq[controller]"),
        ("opentelemetry.sdk", "contrailmq[otel]"), ("leftpad", "'leftpad'"),
    ],
)  # fmt: skip
def test_a_missing_package_is_said_in_one_line(
    package: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command._fail(ModuleNotFoundError(f"No module named {package!r}", name=package), "sql")
    [line] = capsys.readouterr().err.splitlines()
    assert f"the package {package} is not installed" in line
    assert told in line


def test_every_extra_is_known_to_the_hint() -> None:
    assert set(command._EXTRAS.values()) == set(EXTRAS)
    for package, extra in command._EXTRAS.items():
        if package != "py4j":  # comes with pyspark
            assert any(wanted.startswith(package) for wanted in EXTRAS[extra]), package


def test_the_release_is_made_of_steps_that_fit() -> None:
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    jobs = flow["jobs"]
    assert flow[True]["push"] == {"tags": ["v*"]}  # YAML reads "on" as true
    assert flow["permissions"] == {"contents": "read"}
    for name, job in jobs.items():
        assert set(job.get("needs", ())) <= set(jobs), name
        assert job["timeout-minutes"] <= 90
        may_write = "write" in job.get("permissions", {}).values()
        assert may_write is (name == "publish"), name
    assert jobs["publish"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    wheels = PROJECT["tool"]["cibuildwheel"]
    versions = re.findall(r"cp3(\d+)-", wheels["build"])
    least = int(PROJECT["project"]["requires-python"].rpartition(".")[2])
    assert int(versions[0]) == least
    assert {"manylinux-x86_64-image", "musllinux-aarch64-image"} <= set(wheels)
    assert wheels["test-command"].startswith("contrail ")
