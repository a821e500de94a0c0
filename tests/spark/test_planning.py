"""Without a session: how ranges are cut and packed, what a journal says, what options mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contrailmq.errors import ConfigError, SystemBusy
from contrailmq.protocol.queue import MessageQueue

pytest.importorskip("pyspark")

from contrailmq.bulk.loss import Losses, MessagesLost
from contrailmq.bulk.option_values import time_ms
from contrailmq.bulk.options import (
    Position,
    sink_options,
    source_options,
    store_options,
)
from contrailmq.bulk.places import check_named, note_beyond, resolve
from contrailmq.bulk.planning import QueueRange, limited, limited_size, pack, partition_count
from contrailmq.spark import journal
from contrailmq.spark.columns import message_schema
from contrailmq.spark.journal import Advance
from contrailmq.spark.store_stream import StoreStreamReader
from contrailmq.spark.stream import TopicStreamReader

HERE = {"nameServers": "127.0.0.1:9876"}
RANGES = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 300)), max_size=12).map(
    lambda found: [
        QueueRange(MessageQueue("t", "b", number), start, start + size)
        for number, (start, size) in enumerate(found)
    ]
)


def _queue(number: int) -> MessageQueue:
    return MessageQueue("t", "b", number)


@given(RANGES, st.integers(1, 20))
def test_packing_loses_and_repeats_nothing(ranges: list[QueueRange], count: int) -> None:
    parts = pack(ranges, count)
    assert len(parts) <= count
    assert all(parts)
    flat = [(part.queue, at) for parts in parts for part in parts for at in range(*part[1:])]
    assert flat == [(part.queue, at) for part in ranges for at in range(*part[1:])]
    sizes = [sum(piece.size for piece in part) for part in parts]
    if sizes:
        assert max(sizes) <= -(-sum(sizes) // count) + 1


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 500), min_size=1), st.integers(1, 900))
@example({0: 1, 1: 1, 2: 4}, 3)
def test_a_limit_is_kept_and_starves_nobody(waiting: dict[int, int], rows: int) -> None:
    starts = {_queue(number): 7 * number for number in waiting}
    ends = {_queue(number): 7 * number + size for number, size in waiting.items()}
    found = limited(starts, ends, rows)
    taken = {queue: found[queue] - starts[queue] for queue in starts}
    assert sum(taken.values()) == min(rows, sum(waiting.values()))
    assert all(0 <= taken[queue] <= ends[queue] - starts[queue] for queue in taken)
    if rows >= len(waiting):
        assert all(taken[_queue(number)] for number, size in waiting.items() if size)


def test_a_message_larger_than_the_limit_still_passes() -> None:
    starts, ends = {_queue(0): 0}, {_queue(0): 10}
    assert limited_size(starts, ends, {_queue(0): 1e6}, size_max=100) == {_queue(0): 1}
    assert limited_size(starts, ends, {_queue(0): 10.0}, size_max=1000) == ends


def test_few_rows_make_few_tasks() -> None:
    assert partition_count(10, min_partitions=None, max_records=None, cores=8) == 1
    assert partition_count(10**6, min_partitions=None, max_records=None, cores=8) == 8
    assert partition_count(10, min_partitions=4, max_records=None, cores=8) == 4
    assert partition_count(3, min_partitions=4, max_records=None, cores=8) == 3
    assert partition_count(100, min_partitions=None, max_records=10, cores=8) == 10


class Bounds:
    """Queues that a test fills and empties."""

    def __init__(self) -> None:
        self.first: dict[MessageQueue, int] = {}
        self.end: dict[MessageQueue, int] = {}

    def first_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        return {queue: self.first.get(queue, 0) for queue in queues}

    def end_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        return {queue: self.end.get(queue, 0) for queue in queues}

    def offsets_at(self, queues: Sequence[MessageQueue], ms: int) -> dict[MessageQueue, int]:
        return self.end_offsets(queues)

    def committed(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        return {}


def _all(starts: journal.Offsets, ends: journal.Offsets) -> journal.Offsets:
    return ends


def test_a_stream_begins_once_and_reads_each_offset_once() -> None:
    bounds, queues = Bounds(), [_queue(0), _queue(1)]
    bounds.end = {_queue(0): 5, _queue(1): 3}
    place = Position(word="latest")
    advance = Advance(place, group=None, losses=Losses(fail=True))
    start = journal.symbol(place)
    first = advance.next(start, bounds, queues, limit=_all)
    assert journal.ranges(start, first) == []
    bounds.end[_queue(0)] = 9
    again = advance.next(
        start, bounds, queues, limit=_all
    )  # the first batch was never written down
    assert journal.ranges(start, again) == [QueueRange(_queue(0), 5, 9)]
    assert advance.next(again, bounds, queues, limit=_all) is again
    bounds.end[_queue(2)] = 4
    bounds.first[_queue(2)] = 1
    more = advance.next(again, bounds, [*queues, _queue(2)], limit=_all)
    assert journal.ranges(again, more) == [QueueRange(_queue(2), 1, 4)]
    later = advance.next(more, bounds, queues, limit=_all)  # queue 2 is not in the route now
    assert later is more


def test_a_queue_that_shrinks_is_a_loss() -> None:
    bounds, queue = Bounds(), _queue(0)
    bounds.end = {queue: 2}
    reached = journal.offset_of({queue: 8})
    strict = Advance(Position(word="latest"), group=None, losses=Losses(fail=True, wait_s=0.0))
    with pytest.raises(MessagesLost, match=r"queue 0: offsets 2 to 7 \(6 messages\)"):
        strict.next(reached, bounds, [queue], limit=_all)
    tolerant = Advance(Position(word="latest"), group=None, losses=Losses(fail=False, wait_s=0.0))
    after = tolerant.next(reached, bounds, [queue], limit=_all)
    assert journal.reached(after) == {queue: 2}
    assert journal.ranges(reached, after) == []


class Ticks:
    """A clock that is set."""

    now = 0

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now


@pytest.mark.parametrize("with_target", [False, True])
def test_a_queue_that_recovers_is_no_loss(with_target: bool) -> None:
    """A broker that was killed has its newest messages in their queues only after a moment."""
    bounds, queue, clock = Bounds(), _queue(0), Ticks()
    losses = Losses(fail=True, wait_s=5.0, clock=clock)
    advance = Advance(Position(word="latest"), group=None, losses=losses)
    reached = journal.offset_of({queue: 8})
    target = {queue: 2} if with_target else None
    for round_ms in (0, 60_000):  # the second time counts anew
        bounds.end = {queue: 2}
        for step_ms in (0, 4_000):
            clock.now = round_ms + step_ms
            with pytest.raises(SystemBusy, match=r"queue 0: offsets 2 to 7 \(6 messages\)"):
                advance.next(reached, bounds, [queue], limit=_all, target=target)
        bounds.end = {queue: 8}
        assert advance.next(reached, bounds, [queue], limit=_all, target=target) is reached
    bounds.end = {queue: 2}
    with pytest.raises(SystemBusy):
        advance.next(reached, bounds, [queue], limit=_all, target=target)
    clock.now += 5_000
    with pytest.raises(MessagesLost):
        advance.next(reached, bounds, [queue], limit=_all, target=target)


@pytest.mark.parametrize("kind", ["topics", "store"])
def test_a_batch_is_cut_the_same_way_on_another_machine(kind: str) -> None:
    start = journal.symbol(Position(word="earliest"))
    end = journal.offset_of({_queue(0): 100_000}, {_queue(0): 0})

    def parts(cores: int, offset: journal.Offset) -> list[Any]:
        given = {"topics": "t", "cores": str(cores)}
        reader: Any = (
            TopicStreamReader(source_options({**HERE, **given}), message_schema())
            if kind == "topics"
            else StoreStreamReader(store_options({"path": "/none", **given}), message_schema())
        )
        return [part.ranges for part in reader.partitions(start, offset)]

    assert len(parts(1, end)) == 1
    assert len(parts(4, end)) == 4
    written_down = journal.cut(end, 3)
    assert len(parts(1, written_down)) == 3
    assert parts(1, written_down) == parts(8, written_down)
    assert journal.ranges(start, written_down) == journal.ranges(start, end)


def test_a_foreign_checkpoint_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not of this source"):
        journal.reached({"logOffset": 3})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "give one of the options topics"),
        ({"topics": "a", "assign": '{"a": [0]}'}, "give one of the options topics"),
        ({"topics": "a", "tags": "x", "sql": "a = 1"}, "one of the options tags and sql"),
        ({"topics": "a", "startingOffsets": "newest"}, "expected earliest, latest, committed"),
        ({"topics": "a", "startingOffsets": "committed"}, "needs the option group"),
        ({"topics": "a", "startingOffsets": '{"a": 3}'}, "expected JSON such as"),
        ({"topics": "a", "startingOffsets": "latest", "startingTimestamp": "1"}, "not both"),
        ({"topics": "a", "startingTimestamp": "noon"}, "expected milliseconds or a time"),
        ({"topics": "a", "minPartitions": "0"}, "expected a number above 0"),
        ({"topics": "a", "failOnDataLoss": "maybe"}, "expected true or false"),
        ({"topics": "a", "accessKey": "k"}, "belong together"),
        ({"topics": "a", "maxOffsetPerTrigger": "1"}, "unknown option maxoffsetpertrigger"),
        ({"topicsPattern": "("}, "is not a regular expression"),
        ({"assign": "[1]"}, "expected JSON such as"),
        ({"topics": "a", "endingOffsets": "committed"}, "endingOffsets=committed needs"),
        ({"topics": "a", "sql": "n >< 3"}, r"sql='n >< 3': expected a value.*column 4"),
        (
            {"topics": "a", "startingOffsets": '{"a": {"b": {"0": -3}}}'},
            "offset -3 of a b 0: expected 0 or more, -2 for earliest",
        ),
    ],
)
def test_wrong_options_say_what_is_expected(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        source_options({**HERE, **options})


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/a/one/,/b/two", ["one", "two"]),
        ("/a/store, /b/store", ["a/store", "b/store"]),
        ("/x/a/store,/y/a/store,/y/b/other", ["x/a/store", "y/a/store", "y/b/other"]),
        ('["/a,b/store"]', ["store"]),
    ],
)
def test_directories_have_names_that_tell_them_apart(path: str, names: list[str]) -> None:
    """RocketMQ's own name for a directory is "store", so two brokers have the same."""
    assert [name for _, name in store_options({"path": path}).paths] == names


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"path": "/a/store,/a/store/"}, "/a/store is in it twice"),
        ({"path": "/proc/self/root/usr,/usr"}, r"/usr is in it twice \(as /proc/self/root/usr"),
        ({"path": '["/a'}, "expected directories with commas between them, or a JSON list"),
        ({"path": "[1]"}, "expected directories with commas between them, or a JSON list"),
        ({"path": "[]"}, "at least one directory"),
        ({"path": "/a,/b", "broker": "x,x"}, "'x,x': 1 different names for 2 directories"),
        ({"path": "/a", "startingOffsets": "committed"}, "earliest, latest, time or offsets"),
    ],
)
def test_wrong_directories_are_named(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        store_options(options)


@pytest.mark.parametrize("end", [{"endingOffsets": "latest"}, {"endingTimestamp": "5"}])
def test_a_stream_has_no_end(end: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="a stream has no end; with trigger"):
        TopicStreamReader(source_options({**HERE, "topics": "t", **end}), message_schema())
    with pytest.raises(ConfigError, match="a stream has no end; with trigger"):
        StoreStreamReader(store_options({"path": "/none", **end}), message_schema())


def test_queues_that_offsets_leave_out_are_read_from_end_to_end() -> None:
    bounds, queues = Bounds(), [_queue(0), _queue(1), _queue(2)]
    bounds.first = dict.fromkeys(queues, 2)
    bounds.end = dict.fromkeys(queues, 9)
    place = Position(offsets=((_queue(0), 5), (_queue(1), -1)))
    assert list(resolve(bounds, queues, place, group=None).values()) == [5, 9, 2]
    assert list(resolve(bounds, queues, place, group=None, is_end=True).values()) == [5, 9, 9]


def test_offsets_of_a_queue_that_is_not_read_are_an_error() -> None:
    place = Position(offsets=((MessageQueue("t", "c", 1), 5),))
    with pytest.raises(
        ConfigError, match=r"startingOffsets names queue 1 of topic t on broker c.*: b 0, 1"
    ):
        check_named([_queue(0), _queue(1)], {"startingOffsets": place})
    check_named([MessageQueue("t", "c", 1)], {"startingOffsets": place, "endingOffsets": None})


def test_a_start_behind_the_end_is_a_loss() -> None:
    bounds, queue = Bounds(), _queue(0)
    bounds.end = {queue: 9}
    with pytest.raises(MessagesLost, match=r"queue 0: offsets 9 to 11 \(3 messages\) not in the"):
        note_beyond(bounds, Losses(fail=True), starts={queue: 12}, ends={queue: 9})
    bounds.end = {queue: 12}  # written, read and committed since the end was asked for
    note_beyond(bounds, Losses(fail=True), starts={queue: 12}, ends={queue: 9})


def test_what_a_group_has_not_read_and_is_gone_is_a_loss() -> None:
    class Read(Bounds):
        def committed(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
            return dict.fromkeys(queues, 3)

    bounds, queue, place = Read(), _queue(0), Position(word="committed")
    bounds.first, bounds.end = {queue: 5}, {queue: 9}
    strict = Advance(place, group="g", losses=Losses(fail=True))
    with pytest.raises(MessagesLost, match=r"queue 0: offsets 3 to 4 \(2 messages\) deleted"):
        strict.next(journal.symbol(place), bounds, [queue], limit=_all)
    tolerant = Advance(place, group="g", losses=Losses(fail=False))
    start = journal.symbol(place)
    end = tolerant.next(start, bounds, [queue], limit=_all)
    assert journal.ranges(start, end) == [QueueRange(queue, 5, 9)]


def test_options_do_not_mind_their_case() -> None:
    found = source_options(
        {"NAMESERVERS": "h:1;g:2", "Topics": "a, b", "STARTINGOFFSETS": "Latest"}
    )
    assert found.access.name_servers == ("h:1", "g:2")
    assert found.topics == ("a", "b")
    assert found.starting == Position(word="latest")
    assert time_ms("1970-01-01T00:00:01Z") == time_ms("1000") == 1000
    assert sink_options({**HERE, "compression": "lz4"}).compression.name == "LZ4"
    with pytest.raises(ConfigError, match="expected zlib, lz4 or zstd"):
        sink_options({**HERE, "compression": "brotli"})
