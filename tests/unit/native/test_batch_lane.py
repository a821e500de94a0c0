"""The batch lane's compiled loop: what it takes, what it leaves alone, how its answers are cut."""

from __future__ import annotations

from typing import Any

import pytest

from contrailmq._native.lanes.batch import BatchLane
from contrailmq._native.lanes.send import FULL, MORE, OTHER
from contrailmq._native.store.log import LogWriter, Origin
from contrailmq.protocol.batch import BatchMessage, encode_batch
from contrailmq.protocol.command import Command, decode
from contrailmq.protocol.frame import FrameDecoder
from contrailmq.protocol.message import decode_records
from testkit.lanes import FIELDS, HOST, TIME_MS, OneTopic, lane_inputs

TEXT = "WAIT\x01true\x02UNIQ_KEY\x017F0001\x02TAGS\x01Ä"
BATCH_FIELDS = {**FIELDS, "i": TEXT, "m": "true"}
THREE = encode_batch([BatchMessage(b"one", b"a\x01b\x02"), BatchMessage(b"two"), BatchMessage(b"")])


class World:
    """A lane over one segment, and its host."""

    def __init__(self, size: int = 1 << 21) -> None:
        self.segment = bytearray(size)
        self.log = LogWriter(1 << 16, 1 << 20)
        self.log.attach(self.segment, 4096, 0)
        self.log.store_ms = TIME_MS
        self.host = OneTopic()
        self.lane = BatchLane(self.host, lane_inputs(self.log))
        self.origin = Origin(HOST, HOST, b"not used\x01here\x02")

    def run(self, *frames: bytes) -> int:
        buffer = bytearray(b"".join(frames))
        return int(self.lane.take(buffer, 0, len(buffer), self.origin))

    def answers(self) -> list[Command]:
        return [decode(frame) for frame in FrameDecoder().feed(self.lane.answers.take())]

    def records(self) -> list[Any]:
        return decode_records(bytes(self.segment[: self.log.position]))


def send(opaque: int = 5, *, body: bytes = THREE, code: int = 320, **changes: str) -> bytes:
    fields = {
        name: value for name, value in {**BATCH_FIELDS, **changes}.items() if value != "absent"
    }
    return Command(code, fields=fields, body=body, opaque=opaque).encode()


def test_batches_become_records_and_one_answer_each() -> None:
    world = World()
    frames = [send(n, e=str(n % 4), code=310 + n % 2 * 10) for n in range(6)]
    assert world.run(*frames) == sum(map(len, frames))
    assert world.lane.ended == MORE
    records, answers = world.records(), world.answers()
    assert [bytes(record.body) for record in records] == [b"one", b"two", b""] * 6
    assert [answer.opaque for answer in answers] == list(range(6))
    for number, answer in enumerate(answers):
        mine = records[3 * number : 3 * number + 3]
        assert answer.fields["msgId"].split(",") == [
            HOST.hex().upper() + f"{record.commit_log_offset:016X}" for record in mine
        ]
        assert answer.fields["queueOffset"] == str(mine[0].queue_offset)
        assert answer.fields["transactionId"] == "7F0001"
    behind = "WAIT\x01true\x02TAGS\x01Ä\x02CLUSTER\x01C\x02".encode()
    assert records[0].properties_bytes == b"a\x01b\x02" + behind
    assert records[1].properties_bytes == behind
    assert world.host.asked[1:] == ["WAIT\x01true\x02TAGS\x01Ä\x02".encode()], (
        "asked once, then known"
    )
    (topic,) = world.lane.take_touched()
    assert [topic.take(n)[0] for n in range(4)] == [6, 6, 3, 3]


@pytest.mark.parametrize("text", ["", "WAIT\x01true\x02", "TAGS\x01A\x02"])
def test_a_batch_without_a_unique_key_is_answered_with_a_new_one(text: str) -> None:
    world = World()
    frames = [send(1, i=text), send(2), send(3, i=text)]
    assert world.run(*frames) == sum(map(len, frames))
    answers = world.answers()
    assert [answer.fields["transactionId"] for answer in answers] == ["MADE1", "7F0001", "MADE2"]
    behind = text.encode() + b"CLUSTER\x01C\x02"
    assert [r.properties_bytes for r in world.records()[6:]] == [
        b"a\x01b\x02" + behind,
        *[behind] * 2,
    ]


def test_nobody_waits_for_the_key_of_a_batch_that_wants_no_answer() -> None:
    world = World()
    command = Command(320, fields={**BATCH_FIELDS, "i": ""}, body=THREE, opaque=1, flag=2)
    assert world.run(command.encode()) == len(command.encode())
    assert (len(world.records()), world.host.made, world.answers()) == (3, 0, [])


@pytest.mark.parametrize(
    "changes",
    [
        {"b": "unknown"}, {"b": "o" * 128}, {"b": "absent"}, {"e": "4"}, {"e": "-1"}, {"f": "4"},
        {"g": "soon"}, {"h": "3000000000"}, {"a": "absent"}, {"i": "absent"}, {"j": "1"},
        {"k": "true"}, {"m": "maybe"}, {"i": "TAGS\x01A\x02B"}, {"i": 'UNIQ_KEY\x01"quoted"\x02'},
        {"i": "UNIQ_KEY\x01U\x02no separator\x02"}, {"i": "UNIQ_KEY\x01A\x02UNIQ_KEY\x01B\x02"},
        {"i": "UNIQ_KEY\x01\x02"}, {"i": "UNIQ_KEY\x01" + "U" * 256}, {"i": "\x02UNIQ_KEY\x01U"},
        {"i": "A\x01B\x01C\x02"},
    ],
)  # fmt: skip
def test_what_is_not_ordinary_is_left_in_its_place(changes: dict[str, str]) -> None:
    world = World()
    first, odd, last = send(1), send(2, **changes), send(3)
    assert world.run(first, odd, last) == len(first)
    assert world.lane.ended == OTHER
    assert [answer.opaque for answer in world.answers()] == [1]
    assert len(world.records()) == 3


def test_single_sends_and_other_codes_are_left() -> None:
    assert World().run(send(code=310, m="false")) == 0
    assert World().run(send(code=10)) == 0
    assert World().run(Command(34, opaque=1).encode()) == 0
    assert World().run(send(m="false")) > 0, "its code says it is a batch"


@pytest.mark.parametrize("body", [b"", THREE[:-1], THREE + b"\0", bytes((1 << 20) + 1)])
def test_torn_and_oversized_bodies_are_left(body: bytes) -> None:
    world = World()
    assert world.run(send(body=body)) == 0
    assert not any(world.segment)


def test_what_the_handler_refuses_is_left_to_it() -> None:
    world = World()
    world.host.is_refused = True
    assert world.run(send()) == 0
    assert world.log.position == 0


def test_a_full_segment_is_left_to_the_ordinary_path() -> None:
    world = World(size=1000)
    frames = [send(n) for n in range(4)]
    taken = world.run(*frames)
    count = len(world.answers())
    assert 0 < count < 4
    assert taken == sum(map(len, frames[:count]))
    assert world.lane.ended == OTHER


def test_a_full_reply_buffer_ends_the_run_and_nothing_is_lost() -> None:
    world = World(size=8 << 20)
    many = encode_batch([BatchMessage(b"x")] * 700)
    frames = [send(n, body=many) for n in range(40)]
    buffer = bytearray(b"".join(frames))
    position, answers, turns = 0, [], 0
    while position < len(buffer):
        position = world.lane.take(buffer, position, len(buffer), world.origin)
        assert position == len(buffer) or world.lane.ended == FULL
        answers += world.answers()
        turns += 1
    assert turns > 2
    assert [answer.opaque for answer in answers] == list(range(40))
    ids = [part for answer in answers for part in answer.fields["msgId"].split(",")]
    assert [int(part[16:], 16) for part in ids] == [r.commit_log_offset for r in world.records()]


def test_an_answer_that_fits_no_buffer_is_the_handlers() -> None:
    world = World(size=8 << 20)
    assert world.run(send(body=encode_batch([BatchMessage(b"x")] * 9000))) == 0
    assert world.lane.ended == OTHER


def test_a_frame_cut_anywhere_waits_for_its_rest() -> None:
    world = World()
    frame = send()
    for size in range(len(frame)):
        assert world.run(frame[:size]) == 0
        assert world.lane.ended == MORE
    assert world.log.position == 0
