"""kill -9 of a real writer, many rounds over one directory: nothing acknowledged is lost.

A killed process leaves its pages to the kernel, so this complements the simulated power cuts and
does not replace them. ``CONTRAIL_KILLS=500`` runs more rounds.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from contrailmq.clock import SystemClock
from contrailmq.protocol.message import decode_record
from contrailmq.store.files import OsFiles
from contrailmq.store.offline.check import check
from contrailmq.store.offline.reader import StoreReader
from contrailmq.store.store import Store

HERE = Path(__file__).resolve().parent
SRC = HERE.parents[1] / "src"
ROUNDS = int(os.environ.get("CONTRAIL_KILLS", "50"))


@pytest.mark.crash
@pytest.mark.timeout(900)
def test_acknowledged_messages_survive_kill_9(tmp_path: Path) -> None:
    directory, notes = tmp_path / "store", tmp_path / "notes"
    rng = random.Random(1)
    for number in range(ROUNDS):
        _write_and_kill(directory, notes, number, seconds=rng.uniform(0.3, 0.9))
        _check_reader(directory, notes)
        if number % 10 == 9:
            asyncio.run(_check_recovered(directory, notes))


def _write_and_kill(directory: Path, notes: Path, number: int, *, seconds: float) -> None:
    before = notes.stat().st_size if notes.exists() else 0
    process = subprocess.Popen(
        [sys.executable, str(HERE / "store_writer.py"), str(directory), str(notes), str(number)],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        stderr=subprocess.PIPE,
    )
    try:
        while process.poll() is None and (not notes.exists() or notes.stat().st_size == before):
            try:
                process.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors.decode()


def _acknowledged(notes: Path) -> dict[str, tuple[int, int]]:
    lines = [line.split() for line in notes.read_text().splitlines() if line.count(" ") == 2]
    return {text: (int(queue_offset), int(offset)) for text, queue_offset, offset in lines}


def _check_reader(directory: Path, notes: Path) -> None:
    """The directory as the dead process left it, read by the read-only reader."""
    with StoreReader(directory, index_slots=100) as reader:
        found = {
            record.body.decode().rstrip("."): (record.queue_offset, record.commit_log_offset)
            for topic, queue_id in reader.queues()
            for record in reader.records(topic, queue_id, check_crc=True)
        }
    wanted = _acknowledged(notes)
    assert wanted
    assert wanted.items() <= found.items()


async def _check_recovered(directory: Path, notes: Path) -> None:
    """The same after our own recovery and a clean stop."""
    sys.path.insert(0, str(HERE))
    try:
        from store_writer import settings_of
    finally:
        sys.path.remove(str(HERE))
    store = Store(settings_of(str(directory)), files=OsFiles(), clock=SystemClock())
    await store.open()
    try:
        for text, (_, offset) in _acknowledged(notes).items():
            raw = store.record_at(offset)
            assert raw is not None, text
            record = decode_record(raw, check_crc=True)
            assert record.body.decode().rstrip(".") == text
            found = store.query_key(record.topic, text, count=64, begin_ms=0, end_ms=1 << 62)
            assert offset in found.offsets, text
    finally:
        await store.aclose()
    with StoreReader(directory, index_slots=100) as reader:
        report = check(reader)
        assert report.is_whole, report.findings[:5]
