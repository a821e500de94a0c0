"""A damaged place is found and named by file and position."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
from pathlib import Path

import pytest

from contrailmq.admin.commands.store import main
from contrailmq.errors import StoreError
from contrailmq.store.offline.check import check
from contrailmq.store.offline.findings import Report, Severity
from contrailmq.store.offline.reader import StoreReader
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock, simulate
from testkit.golden import store_directories

GOLDEN = {directory.name: directory for directory in store_directories()}
CLEAN = GOLDEN["v49-clean"]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    target = tmp_path / "store"
    shutil.copytree(CLEAN.path, target)
    return target


def _check(root: Path) -> Report:
    with StoreReader(root) as reader:
        return check(reader)


def _damages(root: Path) -> list[tuple[str, int]]:
    return [
        (str(Path(finding.path).relative_to(root)), finding.position)
        for finding in _check(root).findings
        if finding.severity is Severity.DAMAGE
    ]


def _change(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def test_a_whole_directory_is_whole(copy: Path) -> None:
    assert _damages(copy) == []


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
@pytest.mark.parametrize("place", ["commitlog", "consumequeue/GoldCleanA/0"])
def test_what_is_no_file_in_place_of_a_segment_is_damage(copy: Path, kind: str, place: str) -> None:
    path = max((copy / place).iterdir())
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("elsewhere")
    assert (f"{place}/{path.name}", -1) in _damages(copy)


def _some_message() -> dict[str, int]:
    return list(CLEAN.rows("message"))[40]


@pytest.mark.parametrize("field", [0, 4, 8, 28, 84, 88])
def test_a_changed_record_is_found_where_it_is(copy: Path, field: int) -> None:
    message = _some_message()
    segment = sorted((copy / "commitlog").iterdir())[0]
    size = segment.stat().st_size
    segment = copy / "commitlog" / f"{message['commitLogOffset'] // size * size:020d}"
    at = message["commitLogOffset"] % size
    _change(segment, at + field, bytes([segment.read_bytes()[at + field] ^ 0xFF]))
    assert (f"commitlog/{segment.name}", at) in _damages(copy)


@pytest.mark.parametrize("field", [0, 7, 8, 11, 12, 19])
def test_a_changed_unit_is_found_where_it_is(copy: Path, field: int) -> None:
    file = copy / "consumequeue/GoldCleanA/1" / f"{0:020d}"
    _change(file, 20 * 3 + field, bytes([file.read_bytes()[20 * 3 + field] ^ 0xFF]))
    assert ("consumequeue/GoldCleanA/1/" + file.name, 60) in _damages(copy)


def test_a_unit_that_was_wiped_is_noticed_wherever_it_is(copy: Path) -> None:
    file = copy / "consumequeue/GoldCleanA/3" / f"{0:020d}"
    kept = file.read_bytes()
    for position in range(0, len(kept), 20):
        _change(file, position, bytes(20))
        assert _damages(copy) != [], position
        file.write_bytes(kept)
    assert _damages(copy) == []


def test_wiped_units_are_noticed_when_a_store_has_no_other_queue() -> None:
    """Then no newer unit tells where the queue should end: a clean stop does."""
    files = SimFiles()
    settings = StoreSettings(root="store", segment_size=65536, queue_file_size=20_000)

    async def write(rng: random.Random) -> None:
        store = Store(settings, files=files, clock=SimClock())
        await store.open()
        for number in range(100):
            store.put(NewMessage("T", 0, b"%d" % number))
        await store.aclose()

    simulate(1, write)
    path = f"store/consumequeue/T/0/{0:020d}"
    for number in range(100):
        segment = files.open(path, writable=True)
        kept = bytes(segment.buffer[number * 20 : number * 20 + 20])
        segment.buffer[number * 20 : number * 20 + 20] = bytes(20)
        with StoreReader("store", files=files) as reader:
            assert not check(reader).is_whole, number
        segment.buffer[number * 20 : number * 20 + 20] = kept
        segment.close()
    with StoreReader("store", files=files) as reader:
        assert check(reader).is_whole


def test_a_topic_that_was_deleted_and_made_again_is_no_damage() -> None:
    """Its old records are in no queue, and nothing of it came since."""
    files = SimFiles()
    settings = StoreSettings(root="store", segment_size=65536, queue_file_size=2000)

    async def write(rng: random.Random) -> None:
        store = Store(settings, files=files, clock=SimClock())
        await store.open()
        for topic in ("T", "U", "T", "U"):
            store.put(NewMessage(topic, 0, b"x"))
        store.delete_topic("T")
        await store.aclose()
        files.replace("store/config/topics.json", b'{"topicConfigTable":{"T":{},"U":{}}}')

    simulate(1, write)
    with StoreReader("store", files=files) as reader:
        assert check(reader).findings == []
    files.remove(f"store/consumequeue/U/0/{0:020d}")
    with StoreReader("store", files=files) as reader:
        (finding,) = [f for f in check(reader).findings if f.severity is Severity.DAMAGE]
        assert "not in U queue 0" in finding.text


BATCH_UNIT_SIZES = {"offset": 8, "size": 4, "tags": 8, "store time": 8, "base": 8, "messages": 2}


@pytest.mark.parametrize("field", BATCH_UNIT_SIZES)
def test_a_changed_batch_unit_is_found_where_it_is(tmp_path: Path, field: str) -> None:
    copy = tmp_path / "store"
    shutil.copytree(GOLDEN["v52-features"].path, copy)
    (file,) = copy.glob("batchconsumequeue/*/*/*")
    with StoreReader(copy) as reader:
        ((topic, queue_id),) = [key for key in reader.queues() if reader.is_batch(*key)]
        last = 46 * (len(reader.batch_units(topic, queue_id)) - 1)
    names = list(BATCH_UNIT_SIZES)
    end = last + sum(BATCH_UNIT_SIZES[name] for name in names[: names.index(field) + 1])
    _change(file, end - 1, bytes([file.read_bytes()[end - 1] ^ 1]))
    assert (str(file.relative_to(copy)), last) in _damages(copy)


def test_a_batch_that_is_in_no_queue_is_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "store"
    shutil.copytree(GOLDEN["v52-features"].path, copy)
    (file,) = copy.glob("batchconsumequeue/*/*/*")
    with StoreReader(copy) as reader:
        ((topic, queue_id),) = [key for key in reader.queues() if reader.is_batch(*key)]
        last = reader.batch_units(topic, queue_id)[-1]
        segment = reader.log.find_segment(last.offset)
    assert segment is not None
    for position in range(0, file.stat().st_size, 46):
        if file.read_bytes()[position : position + 8] == last.offset.to_bytes(8, "big"):
            _change(file, position, bytes(46))
    place = str(Path(segment.path).relative_to(copy)), last.offset - segment.offset
    assert _damages(copy) == [place]


@pytest.mark.parametrize("position", [0, 20, 40])
def test_a_unit_that_points_before_the_log_is_noticed(copy: Path, position: int) -> None:
    """Also where bisection takes it for one whose record is gone."""
    file = copy / "consumequeue/GoldCleanA/1" / f"{0:020d}"
    _change(file, position, bytes([file.read_bytes()[position] ^ 0x80]))
    assert ("consumequeue/GoldCleanA/1/" + file.name, position) in _damages(copy)


def test_a_unit_with_the_extension_of_another_record_is_noticed(tmp_path: Path) -> None:
    """Even if both records have the same tags, if they were stored at different times."""
    copy = tmp_path / "store"
    shutil.copytree(GOLDEN["v49-features"].path, copy)
    found = 0
    with StoreReader(copy) as reader:
        for topic, queue_id in reader.queues():
            file = copy / f"consumequeue/{topic}/{queue_id}" / f"{0:020d}"
            data = file.read_bytes()
            codes = [int.from_bytes(data[at : at + 8], "big", signed=True) for at in (12, 32)]
            first, second = (reader.ext_unit(topic, queue_id, code) for code in codes)
            if first is None or second is None or first.store_ms == second.store_ms:
                continue
            _change(file, 32, data[12:20])
            assert (str(file.relative_to(copy)), 20) in _damages(copy)
            file.write_bytes(data)
            found += 1
    assert found > 5


def test_a_missing_queue_is_noticed(copy: Path) -> None:
    shutil.rmtree(copy / "consumequeue/GoldCleanA/2")
    report = _check(copy)
    assert any("GoldCleanA queue 2" in finding.text for finding in report.findings)


def test_a_short_queue_is_noticed(copy: Path) -> None:
    file = sorted((copy / "consumequeue/GoldCleanA/2").iterdir())[-1]
    _change(file, 0, bytes(file.stat().st_size))
    report = _check(copy)
    assert any("not in GoldCleanA queue 2" in finding.text for finding in report.findings)


def test_index_chains_slots_and_entries(copy: Path) -> None:
    for position, data in [(40 + 4 * 7, b"\x00\x00\x00\xc8"), (32, b"\0\0\0\1"), (36, b"\0\0\1\0")]:
        shutil.rmtree(copy)
        shutil.copytree(CLEAN.path, copy)
        file = sorted((copy / "index").iterdir())[0]
        _change(file, position, data)
        assert any(path.startswith("index/") for path, _ in _damages(copy)), position
    file = sorted((copy / "index").iterdir())[1]
    _change(file, 40 + 400 + 20 * 9 + 4, (1 << 40).to_bytes(8, "big"))
    assert (f"index/{file.name}", 40 + 400 + 20 * 9) in _damages(copy)


@pytest.mark.parametrize("field", [0, 3, 4, 11, 12, 15, 19])
def test_a_changed_index_entry_is_found_where_it_is(copy: Path, field: int) -> None:
    file = sorted((copy / "index").iterdir())[1]
    at = 40 + 400 + 20 * 9
    _change(file, at + field, bytes([file.read_bytes()[at + field] ^ 0x80]))
    found = [position for path, position in _damages(copy) if path == f"index/{file.name}"]
    assert found, "a chain that is broken may be noticed elsewhere, but in this file"
    if field < 16:
        assert at in found


def test_files_of_a_wrong_size_or_gone(copy: Path) -> None:
    segments = sorted((copy / "commitlog").iterdir())
    segments[1].unlink()
    assert (f"commitlog/{segments[2].name}", -1) in _damages(copy)
    (copy / "checkpoint").write_bytes(b"short")
    assert ("checkpoint", -1) in _damages(copy)


def test_a_log_that_lies_elsewhere_is_one_finding(copy: Path) -> None:
    shutil.move(copy / "commitlog", copy.parent / "log")
    (finding,) = _check(copy).findings
    assert (finding.severity, "--conf" in finding.text) == (Severity.DAMAGE, True)
    conf = copy.parent / "broker.conf"
    conf.write_text(f"storePathCommitLog={copy.parent / 'log'}\n")
    assert _run("check", "--conf", str(conf), str(copy))[0] == 0


def test_a_config_file_that_cannot_be_read(copy: Path) -> None:
    (copy / "config/delayOffset.json").write_bytes(b"{")
    assert ("config/delayOffset.json", -1) in _damages(copy)
    (copy / "config/topics.json").write_bytes(b"{")  # has a .bak
    assert ("config/topics.json", -1) not in _damages(copy)


def test_a_killed_broker_is_a_note_and_a_torn_record_is_damage() -> None:
    killed = _check(GOLDEN["v49-killed"].path)
    assert killed.is_whole
    assert killed.totals[Severity.NOTE] == 2
    torn = _check(GOLDEN["v49-torn"].path)
    assert not torn.is_whole


def test_not_a_store_directory(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a store directory"):
        StoreReader(tmp_path)


def _run(*argv: str) -> tuple[int, str]:
    out = io.StringIO()
    return main(argv, out), out.getvalue()


def test_command_check_says_it_by_its_exit_code() -> None:
    code, text = _run("check", str(CLEAN.path))
    assert (code, text.splitlines()[-1]) == (0, "whole")
    code, text = _run("check", str(GOLDEN["v49-torn"].path))
    assert code == 1
    assert "commitlog" in text
    assert " at " in text
    code, text = _run("check", "--json", str(GOLDEN["v49-torn"].path))
    assert code == 1
    assert json.loads(text.splitlines()[-1])["whole"] is False


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_command_dump_has_the_fields_of_the_expected_rows(name: str) -> None:
    code, text = _run("dump", "--json", str(GOLDEN[name].path))
    assert code == 0
    found = [json.loads(line) for line in text.splitlines()]
    expected = list(GOLDEN[name].rows("message"))
    order = [(row["topic"], row["queueId"], row["queueOffset"]) for row in found]
    assert order == sorted(order)
    place = "commitLogOffset"
    assert sorted(found, key=lambda row: row[place]) == sorted(expected, key=lambda r: r[place])


def test_command_dump_chooses() -> None:
    def offsets(*argv: str) -> set[int]:
        _, text = _run("dump", "--json", str(CLEAN.path), *argv)
        return {json.loads(line)["commitLogOffset"] for line in text.splitlines()}

    rows = list(CLEAN.rows("message"))

    def expected(**wanted: object) -> set[int]:
        return {
            row["commitLogOffset"]
            for row in rows
            if all(row.get(k, row["properties"].get(k)) == v for k, v in wanted.items())
        }

    some = rows[50]
    topic, ms = some["topic"], some["storeTimestamp"]
    assert offsets("-t", topic) == expected(topic=topic)
    assert offsets("-t", topic, "-q", "1") == expected(topic=topic, queueId=1)
    assert offsets("--tag", "TagA") == expected(TAGS="TagA")
    key = some["uniqKey"]
    assert offsets("--key", key) == offsets("-t", topic, "--key", key) == expected(uniqKey=key)
    since = {row["commitLogOffset"] for row in rows if row["storeTimestamp"] >= ms}
    assert offsets("--from", str(ms)) == since
    assert offsets("--to", str(ms)) == {row["commitLogOffset"] for row in rows} - since
    assert len(offsets("-n", "5")) == 5


def test_command_dump_takes_moments_as_all_commands_do() -> None:
    assert _run("dump", "-n", "1", "--from", "1970-01-01", str(CLEAN.path))[0] == 0
    assert _run("dump", "-n", "1", "--from", "now", str(CLEAN.path))[0] == 1


def test_commands_ls_and_stats() -> None:
    code, text = _run("ls", str(CLEAN.path))
    assert code == 0
    assert "GoldCleanA" in text
    _, text = _run("ls", "--json", "-t", "GoldCleanA", str(CLEAN.path))
    assert [json.loads(line)["queue_id"] for line in text.splitlines()] == [0, 1, 2, 3]
    assert _run("ls", "-t", "NoSuchTopic", str(CLEAN.path))[0] == 1
    _, text = _run("stats", "--json", str(CLEAN.path))
    stats = json.loads(text)
    assert stats["state"] == "stopped"
    assert stats["messages"] == len(list(CLEAN.rows("message")))
    code, text = _run("stats", str(GOLDEN["v49-killed"].path))
    assert (code, "killed" in text) == (0, True)
