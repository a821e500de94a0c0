"""Files: the machine's own and the simulated ones keep the same promises."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from contrailmq.errors import DiskFull, StoreError, StoreLocked
from contrailmq.store.files import OsFiles
from contrailmq.testing.files import PAGE, SimFiles


@pytest.fixture(params=["machine", "simulated"])
def files(request: pytest.FixtureRequest) -> Any:
    return OsFiles() if request.param == "machine" else SimFiles()


def test_a_segment_keeps_its_bytes(files: Any, tmp_path: Path) -> None:
    path = f"{tmp_path}/a/b/00000000000000000000"
    for hold in (True, False):
        segment = files.create(path, 10000, hold=hold)
        assert (segment.size, segment.path) == (10000, path)
        segment.buffer[5:8] = b"abc"
        assert segment.write(9990, b"end") == 3
        segment.populate(0, 10000)
        segment.reserve(0, 10000)
        segment.sync()
        segment.close()
    again = files.open(path, writable=False)
    assert bytes(again.buffer[:10]) == b"\0" * 5 + b"abc\0\0"
    assert bytes(again.buffer[9990:9993]) == b"end"
    with pytest.raises(TypeError):
        again.buffer[0] = 1
    again.close()
    with pytest.raises(StoreError, match="closed"):
        _ = again.buffer
    assert files.entries(f"{tmp_path}/a/b") == [("0" * 20, 10000)]
    assert files.folders(f"{tmp_path}/a") == ["b"]
    assert files.entries(f"{tmp_path}/none") == []
    assert files.folders(f"{tmp_path}/none") == []


def test_a_view_outlives_its_file(files: Any, tmp_path: Path) -> None:
    segment = files.create(f"{tmp_path}/file", 8192)
    segment.buffer[4096] = 7
    view = segment.buffer[4000:5000]
    segment.close()
    files.remove(f"{tmp_path}/file")
    files.remove(f"{tmp_path}/file")
    gc.collect()
    assert view[96] == 7
    assert not files.exists(f"{tmp_path}/file")


def test_zeros_come_back(files: Any, tmp_path: Path) -> None:
    segment = files.create(f"{tmp_path}/file", 20000)
    segment.buffer[:] = b"x" * 20000
    segment.zero(5000, 20000)
    assert bytes(segment.buffer) == b"x" * 5000 + bytes(15000)
    segment.close()


def test_small_files_are_replaced_whole(files: Any, tmp_path: Path) -> None:
    path = f"{tmp_path}/config/topics.json"
    assert files.read(path) is None
    files.replace(path, b"one", backup=True)
    assert files.read(path + ".bak") is None
    files.replace(path, b"two", backup=True)
    assert (files.read(path), files.read(path + ".bak")) == (b"two", b"one")
    assert [entry.name for entry in files.entries(f"{tmp_path}/config")] == [
        "topics.json",
        "topics.json.bak",
    ]
    files.sync_folder(f"{tmp_path}/config")


def test_one_process_has_the_lock(files: Any, tmp_path: Path) -> None:
    path = f"{tmp_path}/store/lock"
    lock = files.lock(path)
    with pytest.raises(StoreLocked, match="another broker"):
        files.lock(path)
    assert files.read(path) == b"lock"
    lock.release()
    files.lock(path).release()


def test_the_lock_is_the_one_java_takes(tmp_path: Path) -> None:
    lock = OsFiles().lock(f"{tmp_path}/lock")
    attempt = (
        "import fcntl, sys\n"
        f"file = open({str(tmp_path / 'lock')!r}, 'r+')\n"
        "try:\n"
        "    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, 0)\n"
        "except OSError:\n"
        "    sys.exit(7)\n"
    )
    assert subprocess.run([sys.executable, "-c", attempt], check=False).returncode == 7
    lock.release()
    assert subprocess.run([sys.executable, "-c", attempt], check=False).returncode == 0


def test_segments_have_real_blocks_and_unheld_ones_no_descriptor(tmp_path: Path) -> None:
    files = OsFiles()
    before = len(list(Path("/proc/self/fd").iterdir()))
    reserved = files.create(f"{tmp_path}/reserved", 1 << 20, hold=False)
    sparse = files.create(f"{tmp_path}/sparse", 1 << 20, reserve=False, hold=False)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert (tmp_path / "reserved").stat().st_blocks * 512 >= 1 << 20
    assert (tmp_path / "sparse").stat().st_blocks * 512 < 1 << 20
    reserved.close()
    sparse.close()


def test_a_mapping_goes_with_its_last_view(tmp_path: Path) -> None:
    segment = OsFiles().create(f"{tmp_path}/mapped-file", 1 << 16)
    view = segment.buffer[:10]
    segment.close()
    assert "mapped-file" in Path("/proc/self/maps").read_text()
    view.release()
    assert "mapped-file" not in Path("/proc/self/maps").read_text()


# The simulated machine


def test_a_power_cut_loses_unsynced_pages_one_by_one() -> None:
    outcomes = set()
    for seed in range(30):
        files = SimFiles()
        segment = files.create("d/file", 4 * PAGE)
        files.sync_folder("d")
        segment.buffer[:] = b"a" * (4 * PAGE)
        segment.sync()
        segment.buffer[:] = b"b" * (4 * PAGE)
        files.cut_power(random.Random(seed))
        after = files.open("d/file").buffer
        pages = tuple(chr(after[page * PAGE]) for page in range(4))
        outcomes.add(pages)
        for page, letter in enumerate(pages):
            assert bytes(after[page * PAGE : (page + 1) * PAGE]) == letter.encode() * PAGE
    assert len(outcomes) > 8


def test_a_kill_loses_nothing() -> None:
    files = SimFiles()
    segment = files.create("d/file", PAGE)
    segment.buffer[0] = 9
    files.lock("d/lock")
    files.kill()
    segment.buffer[1] = 9  # the dead process's view
    assert bytes(files.open("d/file").buffer[:2]) == b"\x09\x00"
    files.lock("d/lock")


def test_names_are_certain_when_their_folder_was_synced() -> None:
    lost = kept = 0
    for seed in range(40):
        files = SimFiles()
        files.create("d/synced", PAGE)
        files.sync_folder("d")
        files.create("d/fresh", PAGE)
        files.remove("d/synced")
        files.cut_power(random.Random(seed))
        lost += "d/fresh" not in files.paths()
        kept += "d/synced" in files.paths()
    assert 0 < lost < 40
    assert 0 < kept < 40


def test_a_failed_sync_is_reported_once_and_its_pages_are_lost() -> None:
    files = SimFiles()
    segment = files.create("d/file", 2 * PAGE)
    files.sync_folder("d")
    segment.buffer[0] = 1
    files.fail("sync", "file", after=1)
    segment.sync()
    segment.buffer[1] = 2
    segment.buffer[PAGE] = 3
    with pytest.raises(OSError, match="simulated"):
        segment.sync()
    segment.buffer[PAGE] = 4
    segment.sync()  # says yes, and has written only what changed since
    files.cut_power(random.Random(1), written=0.0)
    after = files.open("d/file").buffer
    assert (after[0], after[1], after[PAGE]) == (1, 0, 4)


def test_the_simulated_disk_runs_full() -> None:
    files = SimFiles(capacity=5 * PAGE)
    segment = files.create("d/file", 8 * PAGE, reserve=False)
    segment.reserve(0, 4 * PAGE)
    with pytest.raises(DiskFull, match="bytes free"):
        segment.reserve(2 * PAGE, 6 * PAGE)
    assert files.usage("d").free == PAGE
    files.remove("d/file")
    assert files.usage("d").used == 0
    files.fail("reserve")
    with pytest.raises(DiskFull):
        files.create("d/other", PAGE)
    files.create("d/other", PAGE)
    files.flip("d/other", 3, bit=2)
    assert files.read("d/other") == bytes(3) + b"\x04" + bytes(PAGE - 4)
