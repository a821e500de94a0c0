"""Brokers to attack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testkit.victim import Victim


@pytest.fixture
def victims(tmp_path: Path) -> Iterator[Callable[..., Victim]]:
    """Starts brokers with the settings it is given; what still runs is killed at the end."""
    started: list[Victim] = []

    def start(**settings: object) -> Victim:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Victim(folder, **settings))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for victim in started:
        victim.end()
