"""The send lane: what it takes it stores as the ordinary path would; the rest it leaves alone."""

from __future__ import annotations

import pytest

from contrailmq._native.lanes.send import MORE, OTHER, SendLane
from contrailmq._native.store.log import LogWriter, Origin
from contrailmq.protocol.command import Command, Serialization, decode
from contrailmq.protocol.frame import FrameDecoder
from contrailmq.protocol.message import decode_records
from contrailmq.protocol.properties import decode_properties
from testkit.lanes import FIELDS, HOST, TIME_MS, OneTopic, lane_inputs

SUFFIX = b"CLUSTER\x01C\x02MSG_REGION\x01R\x02TRACE_ON\x01true\x02"
TEXT = "UNIQ_KEY\x017F0001\x02WAIT\x01true\x02TAGS\x01TagÄ"


class World:
    """A lane over one segment, and its host."""

    def __init__(self, size: int = 1 << 20, *, waits: bool = False) -> None:
        self.segment = bytearray(size)
        self.log = LogWriter(1 << 16, 1 << 15)
        self.log.attach(self.segment, 4096, 0)
        self.log.store_ms = TIME_MS
        self.host = OneTopic()
        self.origin = Origin(HOST, HOST, SUFFIX)
        self.lane = SendLane(self.host, lane_inputs(self.log))
        self.lane.steer(True, waits)

    def run(self, *frames: bytes) -> int:
        buffer = bytearray(b"".join(frames))
        return int(self.lane.take(buffer, 0, len(buffer), self.origin))

    def answers(self) -> list[Command]:
        return [decode(frame) for frame in FrameDecoder().feed(self.lane.answers.take())]


def send(opaque: int = 5, *, body: bytes = b"hello", flag: int = 0, **changes: str) -> bytes:
    fields = {
        name: value for name, value in {**FIELDS, "i": TEXT, **changes}.items() if value != "absent"
    }
    return Command(310, fields=fields, body=body, opaque=opaque, flag=flag).encode()


def test_sends_become_records_and_answers() -> None:
    world = World()
    frames = [send(n, body=b"body %d" % n, e=str(n % 4)) for n in range(10)]
    assert world.run(*frames) == sum(map(len, frames))
    assert world.lane.ended == MORE
    records = decode_records(bytes(world.segment[: world.log.position]))
    answers = world.answers()
    assert [record.body for record in records] == [b"body %d" % n for n in range(10)]
    assert [answer.opaque for answer in answers] == list(range(10))
    for number, (record, answer) in enumerate(zip(records, answers, strict=True)):
        assert (record.topic, record.queue_id) == ("orders", number % 4)
        assert (record.flag, record.born_ms) == (7, 1700000000000)
        assert record.properties["TAGS"] == "TagÄ"
        assert record.properties["CLUSTER"] == "C"
        assert answer.code == 0
        assert answer.fields["queueId"] == str(number % 4)
        assert answer.fields["queueOffset"] == str(record.queue_offset)
        assert answer.fields["transactionId"] == "7F0001"
        offset = record.commit_log_offset
        assert answer.fields["msgId"] == HOST.hex().upper() + f"{offset:016X}"
    assert world.host.asked == [b"orders"]
    (topic,) = world.lane.take_touched()
    assert [topic.take(n)[0] for n in range(4)] == [3, 3, 2, 2]


def test_binary_headers_get_binary_answers() -> None:
    world = World()
    command = Command(310, fields={**FIELDS, "i": TEXT}, body=b"x", opaque=-9)
    command.serialization = Serialization.ROCKETMQ
    assert world.run(command.encode()) == len(command.encode())
    (answer,) = world.answers()
    assert answer.serialization is Serialization.ROCKETMQ
    assert (answer.code, answer.opaque, answer.flag) == (0, -9, 1)
    assert answer.language == "PYTHON"
    assert answer.fields["MSG_REGION"] == "R"
    assert answer.fields["queueOffset"] == "0"


def test_a_oneway_is_stored_and_not_answered() -> None:
    world = World()
    assert world.run(send(flag=2)) > 0
    assert world.lane.answers.take() == b""
    assert world.log.position > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"b": "unknown"},
        {"b": "absent"},
        {"e": "4"},
        {"e": "-1"},
        {"e": "x"},
        {"f": "4"},
        {"f": "2"},
        {"g": "soon"},
        {"h": "3000000000"},
        {"a": "absent"},
        {"i": "absent"},
        {"j": "1"},
        {"k": "true"},
        {"m": "true"},
        {"i": "TAGS\x01A\x02"},
        {"i": "UNIQ_KEY\x01U\x02DELAY\x013\x02"},
        {"i": "UNIQ_KEY\x01U\x02TRAN_MSG\x01true\x02"},
        {"i": "UNIQ_KEY\x01U\x02TIMER_DELAY_SEC\x013\x02"},
        {"i": "UNIQ_KEY\x01U\x02POP_CK\x01x\x02"},
        {"i": "UNIQ_KEY\x01U\x02INNER_NUM\x012\x02"},
        {"i": 'UNIQ_KEY\x01"quoted"\x02'},
        {"i": "UNIQ_KEY\x01U\x02no separator\x02"},
        {"i": "UNIQ_KEY\x01U\x02a\x01b\x01c\x02"},
        {"i": "UNIQ_KEY\x01U\x02empty\x01\x02"},
        {"i": "UNIQ_KEY\x01U\x02" + "x" * 33000 + "\x01y\x02"},
    ],
)
def test_what_is_not_ordinary_is_left_in_its_place(changes: dict[str, str]) -> None:
    world = World()
    first, odd, last = send(1), send(2, **changes), send(3)
    assert world.run(first, odd, last) == len(first)
    assert world.lane.ended == OTHER
    assert [answer.opaque for answer in world.answers()] == [1]
    assert len(decode_records(bytes(world.segment[: world.log.position]))) == 1


@pytest.mark.parametrize("size", [0, (1 << 15) + 1])
def test_bodies_beyond_the_limits_are_left(size: int) -> None:
    assert World().run(send(body=bytes(size))) == 0


def test_a_name_like_the_unique_key_is_a_users_property() -> None:
    world = World()
    frame = send(i="UNIQ_KEY\x017F0001\x02UNIT_KEY\x01mine\x02UNIQ_KEX\x01too\x02")
    assert world.run(frame) == len(frame)
    (answer,) = world.answers()
    assert answer.fields["transactionId"] == "7F0001"
    assert world.run(send(i="UNIT_KEY\x01mine\x02")) == 0, "it has no unique key yet"


def test_other_codes_are_left() -> None:
    assert World().run(Command(34, opaque=1).encode()) == 0


def test_a_full_segment_is_left_to_the_ordinary_path() -> None:
    world = World(size=700)
    frames = [send(n) for n in range(4)]
    taken = world.run(*frames)
    count = len(world.answers())
    assert 0 < count < 4
    assert taken == sum(map(len, frames[:count]))
    assert world.lane.ended == OTHER


def test_a_full_reply_buffer_ends_the_run_and_nothing_is_lost() -> None:
    world = World(size=8 << 20)
    frames = [send(n) for n in range(2000)]
    buffer = bytearray(b"".join(frames))
    position, answers = 0, []
    while position < len(buffer):
        position = world.lane.take(buffer, position, len(buffer), world.origin)
        answers += world.answers()
    assert [answer.opaque for answer in answers] == list(range(2000))


def test_waiting_matters_only_where_the_disk_is_waited_for() -> None:
    frame = send(i="UNIQ_KEY\x01U\x02WAIT\x01false\x02")
    assert World().run(frame) == len(frame)
    assert World(waits=True).run(frame) == 0


def test_a_frame_cut_anywhere_waits_for_its_rest() -> None:
    world = World()
    frame = send()
    for size in range(len(frame)):
        assert world.run(frame[:size]) == 0
        assert world.lane.ended == MORE
    assert world.log.position == 0


def test_properties_are_those_of_the_ordinary_encoding() -> None:
    world = World()
    world.run(send())
    (record,) = decode_records(bytes(world.segment[: world.log.position]))
    assert record.properties_bytes == TEXT.encode() + b"\x02" + SUFFIX
    assert decode_properties(record.properties_bytes) == record.properties
