"""A store directory goes from us to Java and back, after a clean stop and after a crash."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from contrailmq.clock import SystemClock
from contrailmq.protocol.properties import encode_properties
from contrailmq.settings import as_properties
from contrailmq.store.files import OsFiles
from contrailmq.store.offline.check import check
from contrailmq.store.offline.reader import StoreReader
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage
from testkit.peer import VERSIONS, JavaBroker, JavaNameServer, Row

pytestmark = pytest.mark.timeout(240)
TOPIC = "Handover"
QUEUES = 4
COUNT = 300
FILE_KEYS = (
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "maxHashSlotNum",
    "maxIndexNum",
)


def _settings(root: Path) -> StoreSettings:
    return StoreSettings(
        root=str(root),
        segment_size=64 * 1024,
        queue_file_size=400,
        index_slots=100,
        index_entries=200,
        message_size_max=8000,
    )


def _java_conf(settings: StoreSettings) -> dict[str, str]:
    properties = as_properties(settings)
    return {
        "storePathRootDir": settings.root,
        "storePathCommitLog": f"{settings.root}/commitlog",
        "storePathConsumeQueue": f"{settings.root}/consumequeue",
        "storePathIndex": f"{settings.root}/index",
        **{key: properties[key] for key in FILE_KEYS},
    }


def _write(root: Path, *, ending: str) -> None:
    async def session() -> None:
        store = Store(_settings(root), files=OsFiles(), clock=SystemClock())
        await store.open()
        for number in range(COUNT):
            store.put(_message(number))
        if ending != "clean":
            store.fence.close("the process is about to be killed")
        await store.aclose()

    asyncio.run(session())
    config = root / "config"
    config.mkdir(exist_ok=True)
    (config / "topics.json").write_text(json.dumps(_topics()))
    assert (root / "abort").exists() == (ending != "clean")
    if ending == "torn":
        _tear(root)


def _message(number: int) -> NewMessage:
    properties = {"UNIQ_KEY": f"{number:032X}", "KEYS": f"key{number} all", "TAGS": "T"}
    return NewMessage(
        topic=TOPIC,
        queue_id=number % QUEUES,
        body=f"ours {number} ".encode() + b"x" * (number * 37 % 900),
        properties=encode_properties(properties),
        born_ms=1_700_000_000_000 + number,
    )


def _topics() -> dict[str, object]:
    topic = {
        "topicName": TOPIC,
        "readQueueNums": QUEUES,
        "writeQueueNums": QUEUES,
        "perm": 6,
        "order": False,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
    }
    return {"dataVersion": {"counter": 1, "timestamp": 1}, "topicConfigTable": {TOPIC: topic}}


def _tear(root: Path) -> None:
    """Lose the second half of the last record, as a power cut does."""
    with StoreReader(root) as reader:
        offset, raw = list(reader.log_records())[-1]
        segment = reader.log.find_segment(offset)
        assert segment is not None
        at, size = offset - segment.offset, len(raw)
    data = bytearray(Path(segment.path).read_bytes())
    data[at + size // 2 : at + size] = bytes(size - size // 2)
    Path(segment.path).write_bytes(data)


def _found(rows: list[Row]) -> dict[tuple[int, int], str]:
    assert not [row for row in rows if row["event"] in ("failed", "timeout")], rows
    return {
        (row["queueId"], row["queueOffset"]): row["body"]
        for row in rows
        if row["event"] == "message"
    }


def _ours(root: Path) -> dict[tuple[int, int], str]:
    with StoreReader(root) as reader:
        return {
            (record.queue_id, record.queue_offset): record.payload().decode()
            for topic, queue_id in reader.queues(TOPIC)
            for record in reader.records(topic, queue_id, check_crc=True)
        }


@pytest.mark.parametrize("ending", ["clean", "killed", "torn"])
@pytest.mark.parametrize("version", VERSIONS)
def test_there_and_back_again(
    java_namesrv: Callable[..., JavaNameServer],
    java_broker: Callable[..., JavaBroker],
    java_run: Callable[..., list[Row]],
    tmp_path: Path,
    version: str,
    ending: str,
) -> None:
    root = tmp_path / "store"
    _write(root, ending=ending)
    expected = _ours(root)
    assert len(expected) == (COUNT - 1 if ending == "torn" else COUNT)

    name_server = java_namesrv(version)
    broker = java_broker(version, namesrv=name_server.address, conf=_java_conf(_settings(root)))
    where = {"namesrv": name_server.address, "topic": TOPIC}
    assert _found(java_run(version, "pull", **where)) == expected
    for number in (0, 17, COUNT - 2):
        rows = java_run(version, "query", by="key", key=f"key{number}", **where)
        assert list(_found(rows).values()) == [
            _message(number).body.decode()  # type: ignore[union-attr]
        ]
    messages = [{"body": f"java {n}", "tags": "J", "keys": f"javakey{n}"} for n in range(20)]
    java_run(version, "produce", messages=messages, **where)
    if ending == "clean":
        broker.stop()
    else:
        broker.kill()

    both = _ours(root)
    assert expected.items() <= both.items()
    assert sorted(set(both.values()) - set(expected.values())) == sorted(
        message["body"] for message in messages
    )
    asyncio.run(_open_again(root, both))
    with StoreReader(root) as reader:
        report = check(reader)
        assert report.is_whole, report.findings[:5]


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_java_goes_on_behind_damage_that_we_have_mended(
    java_namesrv: Callable[..., JavaNameServer],
    java_broker: Callable[..., JavaBroker],
    java_run: Callable[..., list[Row]],
    tmp_path: Path,
    version: str,
    is_clean: bool,
) -> None:
    root = tmp_path / "store"
    _write(root, ending="killed")
    before = _ours(root)
    (root / "abort").write_bytes(OsFiles().boot_id())
    segments = sorted((root / "commitlog").iterdir())
    data = bytearray(segments[1].read_bytes())
    data[8192:12288] = bytes(4096)
    segments[1].write_bytes(data)

    async def mend() -> None:
        store = Store(_settings(root), files=OsFiles(), clock=SystemClock())
        await store.open()
        await store.aclose()

    asyncio.run(mend())
    expected = _ours(root)
    assert expected.items() <= before.items()
    assert COUNT - 40 < len(expected) < COUNT
    if not is_clean:
        (root / "abort").touch()
    name_server = java_namesrv(version)
    broker = java_broker(version, namesrv=name_server.address, conf=_java_conf(_settings(root)))
    where = {"namesrv": name_server.address, "topic": TOPIC}
    assert _found(java_run(version, "pull", **where)) == expected
    messages = [{"body": f"java {n}", "tags": "J"} for n in range(20)]
    java_run(version, "produce", messages=messages, **where)
    broker.stop()
    both = _ours(root)
    assert expected.items() <= both.items()
    assert len(both) == len(expected) + 20


async def _open_again(root: Path, expected: dict[tuple[int, int], str]) -> None:
    """Our store over what Java left: everything is there, and goes on."""
    store = Store(_settings(root), files=OsFiles(), clock=SystemClock())
    await store.open()
    try:
        for queue_id in range(QUEUES):
            low, high = store.bounds(TOPIC, queue_id)
            assert low == 0
            assert high == sum(key[0] == queue_id for key in expected)
        for number in range(20):
            answer = store.query_key(TOPIC, f"javakey{number}", count=4, begin_ms=0, end_ms=1 << 62)
            assert len(answer.offsets) == 1
        store.put(_message(COUNT))
    finally:
        await store.aclose()
