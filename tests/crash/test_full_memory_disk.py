"""A store on a memory disk that is full starts, serves what it has, and goes on with room."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.crash

# Fills the store until it refuses, or opens it and reads all; prints how many there are.
PROGRAM = """
import asyncio, sys
from contrailmq.clock import SystemClock
from contrailmq.errors import DiskFull
from contrailmq.store.files import OsFiles
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import GetStatus, NewMessage

async def main(root, what):
    settings = StoreSettings(root=root, segment_size=1 << 20, queue_file_size=2000,
                             index_slots=50, index_entries=500)
    store = Store(settings, files=OsFiles(), clock=SystemClock())
    await store.open()
    try:
        while what == "fill":
            store.put(NewMessage(topic="T", queue_id=0, body=bytes(9000), born_ms=1))
    except DiskFull:
        pass
    print(store.bounds("T", 0)[1], flush=True)
    if what == "fill":
        import os
        os._exit(9)  # as a kill does
    assert store.get("T", 0, 0, count=1).status is GetStatus.FOUND
    await store.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def memory_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4500k", "tmpfs", str(tmp_path)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a memory disk can only be mounted by root")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def run(root: Path, what: str) -> tuple[int, int, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(root / "store"), what],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, int(done.stdout or -1), done.stderr


def test_a_store_on_a_full_memory_disk_opens(memory_disk: Path) -> None:
    code, stored, _ = run(memory_disk, "fill")
    assert (code, stored > 100) == (9, True)
    rest = memory_disk / "rest"
    with contextlib.suppress(OSError), rest.open("wb", buffering=0) as file:
        while True:  # every page there is
            file.write(bytes(4096))
    code, _, said = run(memory_disk, "look")
    assert code == 1, f"ended by {code}"  # a refusal, not a signal
    assert "no room for" in said
    rest.unlink()
    assert run(memory_disk, "look")[:2] == (0, stored)
