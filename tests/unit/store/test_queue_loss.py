"""Queues that were deleted, cut off or cut short are made again from the log."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from contrailmq._native.store import scan
from contrailmq.errors import StoreError
from contrailmq.store.recovery.queue_marks import QueueMarks
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import GetStatus, NewMessage
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock, simulate

UNITS = 20  # in a queue file
SETTINGS = StoreSettings(
    root="store",
    segment_size=16384,
    queue_file_size=20 * UNITS,
    index_slots=50,
    index_entries=5000,
    message_size_max=4000,
)
MARKS = "store/queuemarks"
OLD, YOUNG, BOTH = "Old", "Young", "Both"
COUNTS = {OLD: 70, YOUNG: 65, BOTH: 130}

Work = Callable[[Store], Coroutine[Any, Any, None]]


def session(files: SimFiles, work: Work, settings: StoreSettings = SETTINGS) -> None:
    async def scenario(rng: random.Random) -> None:
        store = Store(settings, files=files, clock=SimClock())
        await store.open()
        try:
            await work(store)
        finally:
            await store.aclose()

    simulate(1, scenario)


def message(topic: str, number: int, queue_id: int = 0) -> NewMessage:
    return NewMessage(topic, queue_id, (b"%s %d " % (topic.encode(), number)).ljust(150, b"x"))


async def fill(store: Store) -> None:
    """Old messages, many of another queue between, young ones; one queue has both."""
    for number in range(COUNTS[OLD]):
        store.put(message(OLD, number))
        if number < 65:
            store.put(message(BOTH, number))
    for number in range(300):
        store.put(message("Between", number))
    for number in range(65):
        store.put(message(YOUNG, number))
        store.put(message(BOTH, 65 + number))


def bodies(store: Store, topic: str) -> list[bytes]:
    low, high = store.bounds(topic, 0)
    found: list[bytes] = []
    offset = low
    while offset < high:
        result = store.get(topic, 0, offset, count=32)
        assert result.status is GetStatus.FOUND, (topic, offset, result.status)
        at = 0
        while at < len(result.records):
            fields = scan.fields(result.records, at)
            found.append(bytes(result.records[fields[5] : fields[5] + fields[6]]).rstrip(b"x"))
            at += fields[0]
        offset = result.next_offset
    return found


async def expect_all(store: Store) -> None:
    for topic, count in COUNTS.items():
        assert store.bounds(topic, 0) == (0, count), topic
        assert bodies(store, topic) == [b"%s %d " % (topic.encode(), n) for n in range(count)]
        assert store.put(message(topic, count)).queue_offset == count


def queue_files(files: SimFiles, topic: str) -> list[str]:
    return [path for path in files.paths() if path.startswith(f"store/consumequeue/{topic}/")]


def lose(files: SimFiles, topic: str, what: str) -> None:
    paths = queue_files(files, topic)
    assert len(paths) >= 4
    if what == "the whole queue":
        for path in paths:
            files.remove(path)
    elif what == "its first file":
        files.remove(paths[0])
    elif what == "a middle file":
        files.remove(paths[1])
    elif what == "its last file":
        files.remove(paths[-1])
    elif what == "its last units":
        data = files.read(paths[-1])
        assert data is not None
        files.replace(paths[-1], data[:40] + bytes(len(data) - 40))
    elif what == "units in its middle":
        data = files.read(paths[1])
        assert data is not None
        files.replace(paths[1], data[:60] + bytes(len(data) - 60))
    elif what == "half of a file":
        data = files.read(paths[-2])
        assert data is not None
        files.replace(paths[-2], data[: len(data) // 2])


LOSSES = (
    "the whole queue",
    "its first file",
    "a middle file",
    "its last file",
    "its last units",
    "units in its middle",
    "half of a file",
)


@pytest.mark.parametrize("topic", [OLD, YOUNG, BOTH])
@pytest.mark.parametrize("what", LOSSES)
@pytest.mark.parametrize("state", ["clean", "clean, no marks", "killed", "killed, no marks"])
def test_what_a_queue_has_lost_is_made_again(topic: str, what: str, state: str) -> None:
    files = SimFiles()
    session(files, fill)
    lose(files, topic, what)
    if state.endswith("no marks"):
        files.remove(MARKS)
    if state.startswith("killed"):
        files.replace("store/abort", b"")
    session(files, expect_all)


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize("what", LOSSES)
def test_what_a_checkpoint_vouches_for_may_be_lost_all_the_same(
    what: str, with_index: bool
) -> None:
    """A crash, no marks: the walk of the log would begin long behind the records of the queue."""
    files = SimFiles()
    settings = StoreSettings(**{**_fields(SETTINGS), "index_enable": with_index})

    async def fill_and_go_on(store: Store) -> None:
        await fill(store)
        await asyncio.sleep(10)
        for number in range(300):
            store.put(message("Later", number))
            if number == 200:
                await asyncio.sleep(10)

    session(files, fill_and_go_on, settings)
    lose(files, OLD, what)
    files.remove(MARKS)
    files.replace("store/abort", b"")
    session(files, expect_all, settings)


@pytest.mark.parametrize("what", LOSSES)
def test_marks_are_true_for_a_log_that_has_grown(what: str) -> None:
    """Another broker went on with the directory, which knows nothing of the file."""
    files = SimFiles()
    session(files, fill)
    stale = files.read(MARKS)
    assert stale is not None

    async def go_on(store: Store) -> None:
        for number in range(100):
            store.put(message("Later", number))

    session(files, go_on)
    files.replace(MARKS, stale)
    lose(files, OLD, what)
    session(files, expect_all)


@pytest.mark.parametrize("place", [0, 3, 9, 40, 120, -2])
def test_damaged_marks_count_for_nothing(place: int) -> None:
    files = SimFiles()
    session(files, fill)
    data = bytearray(files.read(MARKS) or b"")
    data[place] ^= 4
    assert QueueMarks.decode(bytes(data)) is None
    assert QueueMarks.decode(bytes(data[:-3])) is None
    files.replace(MARKS, bytes(data))
    lose(files, OLD, "the whole queue")
    session(files, expect_all)


def test_marks_of_another_log_count_for_nothing() -> None:
    files, other = SimFiles(), SimFiles()
    session(files, fill)

    async def one(store: Store) -> None:
        store.put(message(OLD, 0))

    session(other, one)
    marks = QueueMarks.decode(files.read(MARKS))
    assert marks is not None
    marks.log_end = other_end = 256
    assert other_end <= SETTINGS.segment_size
    other.replace(MARKS, marks.encode())

    async def expect(store: Store) -> None:
        assert store.bounds(OLD, 0) == (0, 1)
        assert store.put(message(OLD, 1)).queue_offset == 1

    session(other, expect)


@pytest.mark.parametrize("loses_another", [True, False])
def test_a_deleted_topic_stays_deleted(loses_another: bool) -> None:
    files = SimFiles()

    async def first(store: Store) -> None:
        await fill(store)
        store.delete_topic(YOUNG)

    session(files, first)
    if loses_another:
        lose(files, OLD, "a middle file")

    async def second(store: Store) -> None:
        assert store.queues.find(YOUNG, 0) is None
        assert store.bounds(OLD, 0) == (0, COUNTS[OLD])
        assert store.put(message(YOUNG, 0)).queue_offset == 0  # a new life
        assert bodies(store, YOUNG) == [b"Young 0 "]

    session(files, second)


def killed(files: SimFiles, work: Work) -> None:
    """A session whose process dies: nothing is flushed, marked or closed at its end."""

    async def work_and_die(store: Store) -> None:
        await work(store)
        store.fence.close("killed")

    session(files, work_and_die)
    files.replace("store/abort", b"")


@pytest.mark.parametrize("kills", [1, 2])
@pytest.mark.parametrize("before", ["the same run", "an earlier run"])
def test_a_deleted_topic_stays_deleted_after_a_kill(kills: int, before: str) -> None:
    files = SimFiles()

    async def delete(store: Store) -> None:
        if before == "the same run":
            await fill(store)
        store.delete_topic(YOUNG)

    async def nothing(store: Store) -> None:
        assert store.queues.find(YOUNG, 0) is None

    if before == "an earlier run":
        session(files, fill)
    killed(files, delete)
    for _ in range(kills - 1):
        killed(files, nothing)

    async def expect(store: Store) -> None:
        await nothing(store)
        assert queue_files(files, YOUNG) == []
        assert store.bounds(BOTH, 0) == (0, COUNTS[BOTH])
        assert store.put(message(YOUNG, 0)).queue_offset == 0
        assert bodies(store, YOUNG) == [b"Young 0 "]

    session(files, expect)
    files.replace("store/abort", b"")

    async def alive(store: Store) -> None:
        assert bodies(store, YOUNG) == [b"Young 0 "]

    session(files, alive)


def test_notes_of_deleted_topics_end_with_the_log_they_speak_of() -> None:
    files = SimFiles()

    async def delete(store: Store) -> None:
        await fill(store)
        store.delete_topic(OLD)

    async def trim(store: Store) -> None:
        end = store.log.end_offset
        while store.log.segments.base_of(end - 1) > store.log.min_offset:
            store._keeping.forget_oldest()

    session(files, delete)
    found = QueueMarks.decode(files.read(MARKS))
    assert found is not None and set(found.deleted) == {OLD}
    session(files, trim)
    found = QueueMarks.decode(files.read(MARKS))
    assert found is not None and set(found.deleted) == {OLD}, "the log still has its end"

    async def go_on(store: Store) -> None:
        for number in range(200):
            store.put(message("Later", number))
        await trim(store)

    session(files, go_on)
    found = QueueMarks.decode(files.read(MARKS))
    assert found is not None and found.deleted == {}


@pytest.mark.parametrize("is_known", [True, False])
def test_whether_another_broker_deleted_a_topic_is_for_topics_json_to_say(is_known: bool) -> None:
    files = SimFiles()
    session(files, fill)
    names = [OLD, BOTH, *([YOUNG] if is_known else [])]
    table = {"topicConfigTable": {name: {} for name in names}}
    files.replace("store/config/topics.json", json.dumps(table).encode())
    lose(files, YOUNG, "the whole queue")

    async def expect(store: Store) -> None:
        assert store.bounds(YOUNG, 0) == ((0, COUNTS[YOUNG]) if is_known else (0, 0))

    session(files, expect)


def test_an_offset_is_not_given_twice_when_the_log_has_less_than_the_queue_had() -> None:
    files = SimFiles()
    session(files, fill)

    async def trim(store: Store) -> None:
        while store.log.min_offset < store.queues.get(OLD, 0).writer.log_end:
            assert store.log.remove_first() is not None
        for queue in store.queues:
            queue.correct_min(store.log.min_offset)

    session(files, trim)

    async def expect(store: Store) -> None:
        assert store.bounds(OLD, 0) == (COUNTS[OLD], COUNTS[OLD])
        assert store.put(message(OLD, 0)).queue_offset == COUNTS[OLD]
        low, high = store.bounds(BOTH, 0)
        assert (low > 0, high) == (True, COUNTS[BOTH])
        assert bodies(store, BOTH)[0] == b"Both %d " % low

    session(files, expect)
    for path in queue_files(files, BOTH)[-2:]:
        files.remove(path)

    async def again(store: Store) -> None:
        assert bodies(store, BOTH)[-1] == b"Both %d " % (COUNTS[BOTH] - 1)

    session(files, again)


def test_the_extension_is_made_again_with_its_queue() -> None:
    files = SimFiles()
    settings = StoreSettings(**{**_fields(SETTINGS), "queue_ext_enable": True})
    session(files, fill, settings)
    for path in [p for p in files.paths() if p.startswith(f"store/consumequeue_ext/{OLD}/")]:
        files.remove(path)

    async def expect(store: Store) -> None:
        queue = store.queues.get(OLD, 0)
        assert queue.ext is not None
        for offset in range(COUNTS[OLD]):
            unit = queue.unit(offset)
            assert unit is not None
            assert queue.ext.find(unit[2]) is not None

    session(files, expect, settings)


def test_files_that_are_all_of_another_size_are_left_alone() -> None:
    files = SimFiles()
    session(files, fill)
    settings = StoreSettings(**{**_fields(SETTINGS), "queue_file_size": 20 * UNITS * 2})
    before = files.paths()
    with pytest.raises(
        StoreError, match=r"its store is set to \d+; start it with the mappedFileSize"
    ):
        session(files, expect_all, settings)
    assert [p for p in files.paths() if "consumequeue" in p] == [
        p for p in before if "consumequeue" in p
    ]
    files.remove("store/abort")
    session(files, expect_all)


@pytest.mark.parametrize("what", LOSSES)
def test_repairing_twice_is_repairing_once(what: str) -> None:
    files = SimFiles()
    session(files, fill)
    lose(files, OLD, what)

    async def nothing(store: Store) -> None:
        return

    session(files, nothing)
    once = {path: files.read(path) for path in files.paths()}
    session(files, nothing)
    assert {path: files.read(path) for path in files.paths()} == once


def _fields(settings: StoreSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}
