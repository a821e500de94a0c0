"""Messages of a Java store, written again, are the same bytes: log, queues, index, extension."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from contrailmq._native.store import scan
from contrailmq.settings import parse_properties, read
from contrailmq.store.files import OsFiles
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage
from testkit.golden import GOLDEN

STORES = GOLDEN / "store"
INNER_BATCH = 0x80
TRAN = 0xC
IPV6 = 0x30


class RecordClock:
    """Shows the store time of the record that is written next."""

    def __init__(self) -> None:
        self.ms = 1

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


def settings_of(name: str, root: str) -> StoreSettings:
    text = (STORES / f"{name}.conf").read_text()
    settings = read(StoreSettings, parse_properties(text))
    return dataclasses.replace(settings, root=root, commit_log_path="", message_size_max=60000)


def records(name: str) -> Iterator[memoryview]:
    """Every record of a golden log, in order."""
    for path in sorted((STORES / name / "commitlog").iterdir()):
        data = memoryview(path.read_bytes())
        position = 0
        while (size := scan.check(data, position, len(data), int(path.name), True)) > 0:
            yield data[position : position + size]
            position += size


def message_of(record: memoryview) -> NewMessage:
    """The message a record was made from."""
    fields = scan.fields(record, 0)
    _, queue_id, _, sys_flag, _, body, body_size, topic, topic_size, text, text_size = fields
    born = 20 if sys_flag & 0x10 else 8
    store = 20 if sys_flag & 0x20 else 8
    after = 48 + born + 8 + store
    return NewMessage(
        topic=bytes(record[topic : topic + topic_size]).decode(),
        queue_id=queue_id,
        body=bytes(record[body : body + body_size]),
        properties=bytes(record[text : text + text_size]),
        flag=int.from_bytes(record[16:20], "big", signed=True),
        sys_flag=sys_flag & ~IPV6,
        born_ms=int.from_bytes(record[40:48], "big"),
        born_host=bytes(record[48 : 48 + born]),
        store_host=bytes(record[after - store : after]),
        reconsume_times=int.from_bytes(record[after : after + 4], "big"),
        prepared_offset=int.from_bytes(record[after + 4 : after + 12], "big"),
    )


async def write_again(name: str, root: Path) -> None:
    clock = RecordClock()
    store = Store(settings_of(name, str(root)), files=OsFiles(), clock=clock)
    bitmaps = golden_bitmaps(name)
    store.derivation.bitmap_of = lambda topic, record: bitmaps.get(record[28:36], b"")
    await store.open()
    for record in records(name):
        message = message_of(record)
        clock.ms = scan.store_time(record, 0)
        if message.sys_flag & INNER_BATCH:
            # One record for several queue offsets: not a thing this store makes by itself.
            queue = store.writing.queue(message.topic, message.queue_id)
            queue.next_offset = scan.fields(record, 0)[2]
        appended = store.put(message)
        assert store.record_at(appended.offset) == record
    await store.aclose()


def golden_bitmaps(name: str) -> dict[bytes, bytes]:
    """The bit map of the filters of that time for each log offset, from the golden extension."""
    found: dict[bytes, bytes] = {}
    root = STORES / name
    for queue in sorted(root.glob("consumequeue_ext/*/*")):
        size = next(queue.iterdir()).stat().st_size
        ext = {int(path.name): path.read_bytes() for path in queue.iterdir()}
        for path in sorted((root / "consumequeue" / queue.parent.name / queue.name).iterdir()):
            data = path.read_bytes()
            for at in range(0, len(data), 20):
                code = int.from_bytes(data[at + 12 : at + 20], "big", signed=True)
                if code <= -(1 << 31) - 1:
                    address = code + (1 << 63)
                    base = address - address % size
                    place = address - base
                    length = int.from_bytes(ext[base][place + 18 : place + 20], "big")
                    found[data[at : at + 8]] = ext[base][place + 20 : place + 20 + length]
    return found


@pytest.mark.parametrize(
    "name", sorted(path.name[:-5] for path in STORES.glob("*.conf") if "torn" not in path.name)
)
def test_writing_a_java_store_again_gives_its_bytes(name: str, tmp_path: Path) -> None:
    ours, java = tmp_path / "store", STORES / name
    asyncio.run(write_again(name, ours))
    _same_files(java / "commitlog", ours / "commitlog")
    queues = sorted(path for path in java.glob("consumequeue/*/*") if any(path.iterdir()))
    assert queues
    for queue in queues:
        _same_files(queue, ours / queue.relative_to(java), behind=name.endswith("killed"))
    for queue in sorted(java.glob("consumequeue_ext/*/*")):
        _same_files(queue, ours / queue.relative_to(java))
    indexes = [path.read_bytes() for path in sorted((java / "index").iterdir())]
    ours_indexes = [path.read_bytes() for path in sorted((ours / "index").iterdir())]
    if not name.endswith("killed"):
        assert ours_indexes == indexes
    else:
        # Java was killed before its index had caught up with its log.
        assert ours_indexes[: len(indexes) - 1] == indexes[:-1]


def _same_files(java: Path, ours: Path, *, behind: bool = False) -> None:
    written = [path for path in sorted(java.iterdir()) if any(path.read_bytes())]
    assert written
    for path in written:
        expected, got = path.read_bytes(), (ours / path.name).read_bytes()
        if behind:
            expected = expected.rstrip(b"\0")
            got = got[: len(expected)]
        assert got == expected, path
