"""Fixtures of every test: nothing is left behind, and a busy machine is no failure.

Warnings are errors (pyproject.toml), which covers coroutines never awaited and files never closed.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from contrailmq.store.files import DiskUsage, OsFiles
from testkit.builds import IS_PLAIN, NATIVE
from testkit.leaks import left_since, residue

# These start processes and threads that outlive one test on purpose.
OUTLIVING = ("interop", "spark", "browser")

# The same examples in every run, so that a failure comes from a change and anybody can repeat it.
# To look for new ones: pytest --hypothesis-profile=explore tests/property
settings.register_profile("explore", deadline=None)
settings.register_profile("contrail", deadline=None, derandomize=True)
settings.load_profile("contrail")

HAS_SPARK = importlib.util.find_spec("pyspark") is not None
collect_ignore = [] if HAS_SPARK else ["spark"]


def pytest_configure() -> None:
    """Stop a run that is to be plain and would not be."""
    compiled = sorted(path.name for path in NATIVE.rglob("*.so"))
    if IS_PLAIN and compiled:
        pytest.exit(f"CONTRAIL_NATIVE=none, but {NATIVE} has {compiled[0]}: use scripts/plain", 2)


def pytest_report_header() -> str:
    """Say what is left out on this machine."""
    return "spark: tested" if HAS_SPARK else "spark: not installed, tests/spark is left out"


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    if any(request.node.get_closest_marker(name) for name in OUTLIVING):
        yield
        return
    before = residue()
    yield
    left = left_since(before)
    if left:
        pytest.fail("left behind: " + "; ".join(left), pytrace=False)


@pytest.fixture(autouse=True, scope="session")
def _disk_is_half_full() -> Iterator[None]:
    """How full this machine's disk is decides no test; one that is about it brings its own."""
    patch = pytest.MonkeyPatch()
    half = DiskUsage(total=2 << 40, used=1 << 40, free=1 << 40)
    patch.setattr(OsFiles, "usage", lambda files, path: half)
    yield
    patch.undo()


@pytest.fixture(scope="session")
def fuzz_seconds() -> float:
    """How long one fuzz target may run."""
    return float(os.environ.get("CONTRAIL_FUZZ_S", "2"))


@pytest.fixture(scope="session")
def fuzz_seed() -> int:
    """Where long runs begin: the same every time, so that a run repeats; another one by request."""
    return int(os.environ.get("CONTRAIL_FUZZ_SEED", "2"))
