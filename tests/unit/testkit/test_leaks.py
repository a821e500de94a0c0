"""The leak checks see what they are for."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from pathlib import Path

import pytest

from testkit import leaks


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "JOIN_S", 0.01)


def test_a_quiet_test_leaves_nothing() -> None:
    before = leaks.residue()
    asyncio.run(asyncio.sleep(0))
    assert leaks.left_since(before) == []


def test_a_thread_is_seen() -> None:
    before = leaks.residue()
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="straggler")
    thread.start()
    assert leaks.left_since(before) == ["thread straggler"]
    done.set()
    thread.join()


def test_a_pending_task_of_another_loop_is_seen() -> None:
    before = leaks.residue()
    loop = asyncio.new_event_loop()
    task = loop.create_task(asyncio.sleep(3600), name="straggler")
    assert any("straggler" in line for line in leaks.left_since(before))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


def test_an_open_file_is_seen(tmp_path: Path) -> None:
    before = leaks.residue()
    with (tmp_path / "straggler").open("w"):
        left = leaks.left_since(before)
    assert len(left) == 1
    assert left[0].endswith("straggler")


def test_a_child_process_is_seen() -> None:
    before = leaks.residue()
    with subprocess.Popen(["sleep", "60"]) as child:
        assert f"child process {child.pid}" in leaks.left_since(before)
        child.kill()
