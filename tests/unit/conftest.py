"""Unit tests may run commands and clusters on the loops a user has."""

from __future__ import annotations

import asyncio

import pytest

from contrailmq.net.loop import run


@pytest.fixture(scope="session", autouse=True)
def _libuv_is_ready() -> None:
    """libuv opens one pipe for signals in its first loop and keeps it for the process's life."""
    run(asyncio.sleep(0))
