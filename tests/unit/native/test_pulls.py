"""Pulls in both builds: whatever a broker gives, in whatever order, comes out once and in order."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrailmq._native.spark.arrow import find_records
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command, decode
from contrailmq.protocol.message import decode_record, encode_record
from testkit.builds import BUILDS, native_module

MODULES = {name: native_module("spark.pulls", pure=name == "pure") for name in BUILDS}
ANSWERS = {MODULES[name]: native_module("spark.answers", pure=name == "pure") for name in BUILDS}
# What a compiled class offers to compiled callers alone, the plain build needs of its own kind.
ANSWERS[MODULES["pure"]].RequestScan = native_module("net.request", pure=True).RequestScan  # type: ignore[attr-defined]
MODULES["pure"].Body = ANSWERS[MODULES["pure"]].Body  # type: ignore[attr-defined]
HOST = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")


@pytest.fixture(params=BUILDS)
def pulls(request: pytest.FixtureRequest) -> ModuleType:
    return MODULES[request.param]


class FakeBroker:
    """Queues of records; gives at most ``most`` to a pull, in an order of its own.

    What is before ``first`` is gone: a pull there brings what is left.
    """

    def __init__(self, sizes: list[int], most: int, seed: int, first: int = 0) -> None:
        self.first = first
        self.sizes = sizes
        self.most = most
        self.random = random.Random(seed)
        self.waiting: list[bytes] = []

    def ask(self, data: memoryview) -> list[tuple[int, int, int]]:
        """Take requests; their queue, offset and count."""
        seen, at = [], 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            command = decode(bytes(data[at + 4 : at + 4 + size]))
            at += 4 + size
            assert command.code == RequestCode.PULL_MESSAGE
            queue, offset = int(command.fields["queueId"]), int(command.fields["queueOffset"])
            count = int(command.fields["maxMsgNums"])
            seen.append((queue, offset, count))
            self.waiting.append(self._answer(queue, offset, count, command.opaque))
        assert at == len(data)
        return seen

    def _answer(self, queue: int, offset: int, count: int, opaque: int) -> bytes:
        offset = max(offset, min(self.first, self.sizes[queue] - 1))
        given = min(count, self.sizes[queue] - offset)
        if self.most < given:
            given = self.random.randint(1, self.most)
        body = b"".join(_record(queue, offset + index) for index in range(given))
        fields = {"minOffset": "0", "nextBeginOffset": str(offset + given)}
        answer = Command(0, fields=fields, body=body, opaque=opaque, flag=1)
        return answer.encode()

    def give(self) -> bytes:
        """Some of the answers."""
        self.random.shuffle(self.waiting)
        count = self.random.randint(1, len(self.waiting))
        out, self.waiting = self.waiting[:count], self.waiting[count:]
        return b"".join(out)


def _record(queue: int, offset: int) -> bytes:
    return bytes(
        encode_record(
            topic="t",
            body=b"x" * (offset % 7),
            properties=b"",
            born_ms=1,
            born_host=HOST,
            store_host=HOST,
            queue_id=queue,
            queue_offset=offset,
        )
    )


def _lines(pulls: ModuleType, ranges: list[tuple[int, int]], *, chained: bool) -> list[Any]:
    lines = []
    for queue, (start, end) in enumerate(ranges):
        line = pulls.Line(start, end, chained)
        parts = [
            b'{"code":11,"flag":0,"language":"OTHER","version":401,"extFields":{"queueId":"'
            + str(queue).encode()
            + b'","queueOffset":"',
            b'","maxMsgNums":"',
            b'"},"opaque":',
            b"}",
        ]
        first, second = len(parts[0]), len(parts[0] + parts[1])
        line.template(b"".join(parts), first, second, second + len(parts[2]))
        lines.append(line)
    return lines


def _receive(intake: Any, data: bytes, step: int) -> list[Any]:
    """What a socket that gives ``step`` bytes at a time leads to."""
    answers: list[Any] = []
    at = 0
    while at < len(data):
        arena = intake.room()
        size = min(step, len(data) - at, len(arena.data) - arena.filled)
        assert size > 0
        arena.view[arena.filled : arena.filled + size] = data[at : at + size]
        arena.filled += size
        at += size
        assert not intake.parse(answers)
    return answers


def _rows(pulls: ModuleType, flow: Any) -> list[tuple[int, int]]:
    rows = []
    for bodies in flow.collect():
        data, spans, room = ANSWERS[pulls].joined(bodies)
        positions = memoryview(bytearray(8 * room)).cast("q")
        count, bad = find_records(data, spans, positions)
        assert bad == -1
        for index in range(count):
            record = decode_record(data, positions[index])
            rows.append((record.queue_id, record.queue_offset))
        flow.release(bodies)
    return rows


def _flow(pulls: ModuleType) -> Any:
    class Noting(pulls.Flow):  # type: ignore[misc,name-defined]
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.said: list[tuple[Any, int, int]] = []

        def gone(self, line: Any, start: int, end: int) -> None:
            self.said.append((line, start, end))

    return Noting


def _run(
    pulls: ModuleType,
    broker: FakeBroker,
    lines: list[Any],
    *,
    held_size_max: int,
    arena_size: int,
    step: int,
    breaks: int,
) -> list[tuple[int, int]]:
    """Read everything, over a connection that breaks some times."""
    chained = lines[0].chained
    starts = [line.next for line in lines]
    found: list[tuple[int, int]] = []
    said: list[Any] = []
    for left in range(breaks, -1, -1):
        intake = ANSWERS[pulls].Intake(arena_size, 4096)
        flow = _flow(pulls)(intake, lines, not chained, held_size_max)
        flow.give_out()
        out = flow.plan([])
        broker.ask(flow.encode(out))
        answers = 0
        while flow.asked and (left == 0 or answers < 3):
            answers += 1
            assert len(flow.asked) <= 256
            again = flow.settle(_receive(intake, broker.give(), step))
            out = flow.plan(again)
            if out:
                broker.ask(flow.encode(out))
            if flow.ready_size > 5000:
                found += _rows(pulls, flow)
        found += _rows(pulls, flow)
        said += flow.said
        broker.waiting.clear()
        for line in lines:
            line.rewind()
    assert all(line.is_done() for line in lines)
    if not chained:  # filtered, nobody knows what is gone
        gone = [(line, at) for line, start, end in said for at in range(start, end)]
        assert gone == [
            (line, at)
            for line, start in zip(lines, starts, strict=True)
            for at in range(start, min(line.end, broker.first))
        ]
        assert breaks or len(said) == len({line for line, _ in gone})
    return found


@pytest.mark.parametrize("build", BUILDS)
@given(
    ranges=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 300)), min_size=1, max_size=4),
    most=st.sampled_from([1, 3, 32, 5000]),
    seed=st.integers(0, 1000),
    held_size_max=st.sampled_from([1, 3000, 2**30]),
    arena_size=st.sampled_from([300, 5000, 1 << 20]),
    chained=st.booleans(),
    step=st.sampled_from([11, 700, 100_000]),
    first=st.sampled_from([0, 20, 200]),
    breaks=st.sampled_from([0, 0, 1, 3]),
)
@settings(max_examples=250, deadline=None)
def test_all_records_come_once_and_in_order(
    build: str,
    ranges: list[tuple[int, int]],
    most: int,
    seed: int,
    held_size_max: int,
    arena_size: int,
    chained: bool,
    step: int,
    first: int,
    breaks: int,
) -> None:
    pulls = MODULES[build]
    ranges = [(start, start + count) for start, count in ranges]
    # The queues go on behind the ranges: what a filtered pull brings of that is left out.
    broker = FakeBroker([end + 50 for _, end in ranges], most, seed, first)
    lines = _lines(pulls, ranges, chained=chained)
    found = _run(
        pulls,
        broker,
        lines,
        held_size_max=held_size_max,
        arena_size=arena_size,
        step=step,
        breaks=breaks,
    )
    assert found == [
        (q, at) for q, (start, end) in enumerate(ranges) for at in range(max(start, first), end)
    ]


def test_one_chunk_at_a_time_tries_for_more(pulls: ModuleType) -> None:
    broker = FakeBroker([1_000_000], 10**9, 1)
    intake = ANSWERS[pulls].Intake(1 << 22, 4096)
    flow = pulls.Flow(intake, _lines(pulls, [(0, 1_000_000)], chained=False), True, 2**30)
    counts = [count for _, _, count in broker.ask(flow.encode(flow.plan([])))]
    assert sorted(counts)[-1] == 64
    assert counts.count(32) == len(counts) - 1 == 255
    tried = []
    for _ in range(3):
        data = b"".join(broker.waiting)  # all that was asked for
        broker.waiting.clear()
        again = flow.settle(_receive(intake, data, 1 << 20))
        counts = [count for _, _, count in broker.ask(flow.encode(flow.plan(again)))]
        tried.append((counts.count(max(counts)), max(counts), min(counts)))
        flow.release([body for bodies in flow.collect() for body in bodies])
    assert tried == [(1, 128, 64), (1, 256, 128), (1, 512, 256)]


def test_a_try_that_found_a_gap_is_over(pulls: ModuleType) -> None:
    broker = FakeBroker([1_000_000], 10**9, 1, first=900_000)
    intake = ANSWERS[pulls].Intake(1 << 22, 4096)
    flow = pulls.Flow(intake, _lines(pulls, [(0, 1_000_000)], chained=False), True, 2**30)
    broker.ask(flow.encode(flow.plan([])))
    again = flow.settle(_receive(intake, b"".join(broker.waiting), 1 << 20))
    counts = [chunk.end - chunk.at for _, chunk in flow.plan(again)]
    assert counts.count(64) == 1 and counts.count(32) == len(counts) - 1 == 255


def test_less_is_asked_of_a_broker_that_gives_less(pulls: ModuleType) -> None:
    broker = FakeBroker([1_000_000], 10**9, 1)
    intake = ANSWERS[pulls].Intake(1 << 22, 4096)
    flow = pulls.Flow(intake, _lines(pulls, [(0, 1_000_000)], chained=False), True, 2**30)
    flow.encode(flow.plan([]))
    given = b"".join(
        broker._answer(0, chunk.at, 5, opaque) for opaque, (_, chunk) in flow.asked.items()
    )
    again = flow.settle(_receive(intake, given, 1 << 20))
    assert len(again) == 256  # each of them fell short
    out = flow.plan(again[:1])
    assert out[0] is again[0]
    assert {chunk.end - chunk.at for _, chunk in out[1:]} == {5}


def test_requests_go_out_together(pulls: ModuleType) -> None:
    broker = FakeBroker([1_000_000], 10**9, 1)
    intake = ANSWERS[pulls].Intake(1 << 22, 4096)
    flow = pulls.Flow(intake, _lines(pulls, [(0, 1_000_000)], chained=False), True, 2**30)
    broker.ask(flow.encode(flow.plan([])))
    some, more = b"".join(broker.waiting[:127]), broker.waiting[127]
    flow.settle(_receive(intake, some, 1 << 20))
    assert flow.plan([]) == []
    flow.settle(_receive(intake, more, 1 << 20))
    assert len(flow.plan([])) == 128


def test_what_is_not_in_front_waits_until_it_is(pulls: ModuleType) -> None:
    broker = FakeBroker([1_000_000] * 2, 10**9, 1)
    intake = ANSWERS[pulls].Intake(1 << 22, 4096)
    lines = _lines(pulls, [(0, 32), (0, 1_000_000)], chained=False)
    flow = pulls.Flow(intake, lines, True, 5000)
    broker.ask(flow.encode(flow.plan([])))
    front, behind = broker.waiting[0], b"".join(broker.waiting[1:200])
    assert flow.settle(_receive(intake, behind, 1 << 20)) == []
    assert flow.plan([]) == []  # too much is held
    flow.settle(_receive(intake, front, 1 << 20))
    assert {line for line, _ in flow.plan([])} == {lines[1]}
    (group,) = flow.collect()  # one buffer, one group
    assert len(group) == 200


def test_large_pieces_are_groups_of_their_own(pulls: ModuleType) -> None:
    broker = FakeBroker([1_000_000], 10**9, 1)
    intake = ANSWERS[pulls].Intake(300_000, 300_000)
    flow = pulls.Flow(intake, _lines(pulls, [(0, 1_000_000)], chained=False), True, 2**30)
    broker.ask(flow.encode(flow.plan([])))
    flow.settle(_receive(intake, b"".join(broker.waiting), 1 << 20))
    groups = flow.collect()
    assert [len({id(body.arena) for body in bodies}) for bodies in groups] == [1] * len(groups)
    sizes = [sum(body.end - body.start for body in bodies) for bodies in groups]
    assert len(groups) > 2 and min(sizes[:-1]) >= 131_072


def test_answers_nobody_waits_for_and_odd_ones(pulls: ModuleType) -> None:
    seen: list[Any] = []

    class Kept(pulls.Flow):  # type: ignore[misc,name-defined]
        def odd(self, line: Any, chunk: Any, answer: Any) -> None:
            seen.append((chunk.at, answer.code, answer.following, bytes(answer.body())))
            chunk.at = chunk.end

        def gone(self, line: Any, start: int, end: int) -> None:
            seen.append((start, end))

    intake = ANSWERS[pulls].Intake(1 << 16, 4096)
    lines = _lines(pulls, [(5, 10), (0, 3)], chained=False)
    flow = Kept(intake, lines, True, 2**30)
    flow.encode(flow.plan([]))
    first, second = flow.asked
    stranger = Command(0, body=b"x", opaque=999, flag=1).encode()
    moved = Command(21, fields={"nextBeginOffset": "7"}, opaque=second, flag=1).encode()
    gap = b"".join(_record(0, at) for at in (8, 9))
    late = Command(0, fields={"nextBeginOffset": "10"}, body=gap, opaque=first, flag=1).encode()
    assert flow.settle(_receive(intake, stranger + late + moved, 1 << 16)) == []
    assert seen == [(5, 8), (0, 21, 7, b"")]
    assert _rows(pulls, flow) == [(0, 8), (0, 9)]
    assert intake.arena.pins == 0
    assert not flow.asked


@pytest.mark.parametrize("body", [b"", b"short"])
def test_a_success_without_records_is_odd(pulls: ModuleType, body: bytes) -> None:
    flow = pulls.Flow(
        intake := ANSWERS[pulls].Intake(4096, 4096), _lines(pulls, [(0, 3)], chained=False), True, 1
    )
    flow.encode(flow.plan([]))
    (opaque,) = flow.asked
    answer = Command(0, fields={"nextBeginOffset": "3"}, body=body, opaque=opaque, flag=1)
    with pytest.raises(ValueError, match="code 0 without records"):
        flow.settle(_receive(intake, answer.encode(), 4096))


@pytest.mark.parametrize("value", [0, 1, 9, 10, 12345, 2**31 - 1, 2**62])
def test_numbers_of_requests(pulls: ModuleType, value: int) -> None:
    flow = pulls.Flow(
        ANSWERS[pulls].Intake(4096, 4096),
        _lines(pulls, [(value, value + 1)], chained=False),
        True,
        1,
    )
    broker = FakeBroker([2**63], 1, 1)
    assert broker.ask(flow.encode(flow.plan([]))) == [(0, value, 1)]


def test_places_outside_the_text(pulls: ModuleType) -> None:
    line = pulls.Line(0, 1, False)
    with pytest.raises(ValueError, match="places 3, 2, 4"):
        line.template(b"abcde", 3, 2, 4)


def test_a_frame_that_says_it_is_huge_gets_no_room(pulls: ModuleType) -> None:
    intake = ANSWERS[pulls].Intake(64, 64)
    arena = intake.room()
    arena.view[:4] = (2**31 - 1).to_bytes(4, "big")
    arena.filled = 4
    assert not intake.parse([])
    arena.pins = 1
    assert len(intake.room().data) <= 128
