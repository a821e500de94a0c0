"""The compiled loops of the store, on both builds: append, derive, index, gather."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testkit.builds import BUILDS
from testkit.golden import GOLDEN, VERSIONS
from testkit.store_loops import store_loops

BORN = bytes.fromhex("7f0000010000c350")
HOST = bytes.fromhex("7f00000100002a9f")
HOST6 = bytes(range(16)) + bytes.fromhex("00002a9f")
PROPERTIES = b"KEYS\x01k1\x02TAGS\x01TagA\x02"
# docs/store-format.md: the record of 123 bytes
RECORD = bytes.fromhex(
    "0000007b daa320a7 3610a686 00000002 00000000 0000000000000007 00000000000003e8 00000000"
    "0000018bcfe56800 7f0000010000c350 0000018bcfe5687b 7f00000100002a9f 00000000"
    "0000000000000000 00000005 68656c6c6f 09 546f70696354657374 0012"
    "4b455953016b310254414753015461674102"
)


@pytest.fixture(params=BUILDS, scope="module")
def loops(request: pytest.FixtureRequest) -> SimpleNamespace:
    return store_loops(pure=request.param == "pure")


class Owner:
    """A queue's files: one buffer."""

    def __init__(self) -> None:
        self.buffer = bytearray(20 * 400)
        self.skipped: list[int] = []

    def make_room(self, queue: Any) -> None:
        queue.attach(self.buffer, queue.max_offset * 20, len(self.buffer))

    def skip_to(self, queue: Any, offset: int) -> None:
        self.skipped.append(offset)
        queue.max_offset = offset
        queue.detach()

    def unit(self, number: int) -> tuple[int, int, int]:
        return struct.unpack_from(">qiq", self.buffer, 20 * number)  # type: ignore[return-value]


class Host:
    """What the deriver asks."""

    def __init__(self, loops: SimpleNamespace) -> None:
        self.loops = loops
        self.deriver = loops.queues.Deriver(self)
        self.full = 0

    def new_topic(self, topic: bytes) -> Any:
        return self.loops.queues.TopicQueues(topic, topic == b"SCHEDULE_TOPIC_XXXX")

    def find_queue(self, topic: bytes, queue_id: int) -> Any:
        return self.loops.queues.QueueWriter(Owner(), topic, queue_id)

    def delivery_code(self, delay: bytes, store_ms: int, code: int) -> int:
        return store_ms + 1000 * int(delay)

    def index_room(self, index: Any) -> Any:
        self.full += 1
        fresh = self.loops.index.IndexWriter(bytearray(40 + 4 * 5 + 20 * 8), 5, 8)
        fresh.begin(index.end_ms, index.end_offset)
        fresh.limit = 8
        return fresh


class Log:
    """One segment, appended to through the loops."""

    def __init__(self, loops: SimpleNamespace, *, size: int = 20000, position: int = 0) -> None:
        self.loops = loops
        self.buffer = bytearray(size)
        self.host = Host(loops)
        self.writer = loops.log.LogWriter(4000)
        self.writer.attach(self.buffer, 0, position)
        self.writer.store_ms = 1700000000123
        self.start = position

    def put(self, topic: bytes = b"TopicTest", queue_id: int = 2, **changes: Any) -> int:
        given = {
            "body": b"hello",
            "properties": PROPERTIES,
            "flag": 0,
            "sys_flag": 0,
            "suffix": b"",
            "born": BORN,
            "host": HOST,
            **changes,
        }
        origin = self.loops.log.Origin(given["born"], given["host"], given["suffix"])
        body, text = given["body"], given["properties"]
        queue = self.host.deriver.find(topic, queue_id)
        return self.writer.append(  # type: ignore[no-any-return]
            queue,
            origin,
            body or b"\0",
            0,
            len(body),
            text or b"\0",
            0,
            len(text),
            given["flag"],
            given["sys_flag"],
            1700000000000,
            0,
            0,
        )

    def derive(self) -> int:
        end = self.writer.position
        self.start = self.host.deriver.run(self.buffer, 0, self.start, end)
        return self.start

    def queue(self, topic: bytes = b"TopicTest", queue_id: int = 2) -> Any:
        return self.host.deriver.find(topic, queue_id)


def test_a_record_has_the_bytes_of_the_format(loops: SimpleNamespace) -> None:
    log = Log(loops, position=1000)
    log.queue().next_offset = 7
    assert log.put() == len(RECORD)
    assert log.buffer[1000:1123] == RECORD
    assert log.queue().next_offset == 8
    assert log.writer.end_offset() == 1123


def test_a_long_topic_makes_a_version_two_record(loops: SimpleNamespace) -> None:
    log = Log(loops)
    size = log.put(topic=b"t" * 200)
    assert struct.unpack_from(">II", log.buffer) == (size, 0xDAA320AB)
    assert log.buffer[93:95] == b"\x00\xc8"
    assert log.derive() == size
    assert log.queue(b"t" * 200).owner.unit(0)[:2] == (0, size)


@pytest.mark.parametrize(("born", "host", "flags"), [(HOST6, HOST, 16), (BORN, HOST6, 32)])
def test_ipv6_hosts_are_longer_and_set_their_bits(
    loops: SimpleNamespace, born: bytes, host: bytes, flags: int
) -> None:
    log = Log(loops)
    assert log.put(born=born, host=host, sys_flag=1) == len(RECORD) + 12
    assert struct.unpack_from(">i", log.buffer, 36)[0] == flags | 1
    assert log.derive() == len(RECORD) + 12
    assert log.host.deriver.store_ms == 1700000000123


def test_an_empty_body_has_no_checksum_and_others_have(loops: SimpleNamespace) -> None:
    log = Log(loops)
    log.put(body=b"", properties=b"")
    assert log.buffer[8:12] == bytes(4)
    at = log.writer.position
    body = bytes(range(256)) * 3
    log.put(body=body)
    assert int.from_bytes(log.buffer[at + 8 : at + 12], "big") == zlib.crc32(body) & 0x7FFFFFFF


def test_what_does_not_fit_leaves_the_segment_alone(loops: SimpleNamespace) -> None:
    log = Log(loops, size=len(RECORD) + 7)
    assert log.put() == loops.log.NO_ROOM
    assert log.put(properties=b"x" * 32768) == loops.log.BAD_PROPERTIES
    assert log.put(properties=b"x" * 32700, suffix=b"y" * 100) == loops.log.BAD_PROPERTIES
    assert log.put(body=b"x" * 4000) == loops.log.BAD_SIZE
    assert not any(log.buffer)
    assert log.queue().next_offset == 0


def test_a_blank_record_closes_the_segment(loops: SimpleNamespace) -> None:
    log = Log(loops, size=400)
    size = log.put()
    log.writer.close_segment()
    assert struct.unpack_from(">II", log.buffer, size) == (400 - size, 0xCBD43194)
    assert log.writer.end_offset() == 400
    assert log.derive() == 400
    assert log.host.deriver.ended == loops.queues.BLANK


@pytest.mark.parametrize(
    ("properties", "stored"),
    [(b"a\x01b", b"a\x01b\x02C\x01D"), (b"a\x01b\x02", b"a\x01b\x02C\x01D"), (b"", b"C\x01D")],
)
def test_the_suffix_stands_behind_one_separator(
    loops: SimpleNamespace, properties: bytes, stored: bytes
) -> None:
    log = Log(loops)
    size = log.put(properties=properties, suffix=b"C\x01D")
    assert log.buffer[size - len(stored) - 2 : size] == struct.pack(">h", len(stored)) + stored


def inner(*messages: tuple[bytes, bytes]) -> bytes:
    return b"".join(
        struct.pack(">iiiii", 22 + len(body) + len(text), 0, 0, 9, len(body))
        + body
        + struct.pack(">h", len(text))
        + text
        for body, text in messages
    )


def batch(log: Log, data: bytes, suffix: bytes = b"") -> int:
    origin = log.loops.log.Origin(BORN, HOST, suffix)
    return log.writer.append_batch(  # type: ignore[no-any-return]
        log.queue(), origin, data, 0, len(data), 0, 1, 0
    )


def test_a_batch_is_ordinary_records(loops: SimpleNamespace) -> None:
    log, single = Log(loops), Log(loops)
    data = inner((b"hello", b"TAGS\x01A"), (b"you", PROPERTIES), (b"", b""))
    assert batch(log, data, b"CLUSTER\x01C\x02") == 3
    single.put(properties=b"TAGS\x01A\x02CLUSTER\x01C\x02", flag=9)
    single.put(body=b"you", properties=PROPERTIES + b"CLUSTER\x01C\x02", flag=9)
    single.put(body=b"", properties=b"CLUSTER\x01C\x02", flag=9)
    for buffer in (log.buffer, single.buffer):  # the batch gives another time of birth
        at = 0
        while size := struct.unpack_from(">i", buffer, at)[0]:
            buffer[at + 40 : at + 48] = bytes(8)
            at += size
    assert log.buffer == single.buffer
    assert log.queue().next_offset == 3
    origin = loops.log.Origin(BORN, HOST, b"CLUSTER\x01C\x02")
    offsets = log.writer.batch_offsets(log.queue(), origin, data, 0, len(data), 0)
    assert offsets == starts(log.buffer)


def starts(buffer: bytearray) -> list[int]:
    found, at = [], 0
    while size := struct.unpack_from(">i", buffer, at)[0]:
        found.append(at)
        at += size
    return found


class Staged(Log):
    """A writer that stages, and an owner that writes what it is told to."""

    def __init__(self, loops: SimpleNamespace, *, size: int = 3_000_000, limit: int = 4000) -> None:
        super().__init__(loops, size=size)
        self.writer = loops.log.LogWriter(limit)
        self.writer.attach(self.buffer, 0, 0, self.write)
        self.writer.store_ms = 1700000000123
        self.written: list[int] = []

    def write(self) -> None:
        data = self.writer.staged()
        self.written.append(len(data))
        self.buffer[self.writer.start : self.writer.start + len(data)] = data
        self.writer.settled()

    def settle(self) -> None:
        if self.writer.settle():
            self.write()


def test_a_staged_run_is_seen_when_it_is_settled_and_has_the_same_bytes(
    loops: SimpleNamespace,
) -> None:
    staged, plain = Staged(loops), Log(loops, size=3_000_000)
    for run in range(1, 40):
        begin = staged.writer.position
        for number in range(run):
            body = bytes([run, number]) * (run * number % 300)
            assert staged.put(body=body) == plain.put(body=body) > 0
        assert not any(staged.buffer[begin : staged.writer.position])
        assert staged.writer.settled_offset() == begin
        staged.settle()
        assert staged.writer.settled_offset() == staged.writer.end_offset()
        assert staged.buffer == plain.buffer
    assert staged.written, "long runs are written"
    assert len(staged.written) < 39, "short runs are copied"
    staged.writer.close_segment()
    plain.writer.close_segment()
    assert staged.buffer == plain.buffer


def test_a_long_run_goes_into_the_file_at_once_or_to_the_owner(
    loops: SimpleNamespace, tmp_path: Path
) -> None:
    staged, path = Staged(loops), tmp_path / "segment"
    path.write_bytes(bytes(20_000))
    with path.open("r+b") as able, path.open("rb") as unable:
        file = SimpleNamespace(descriptor=able.fileno())
        staged.writer.attach(staged.buffer, 0, 0, staged.write, file)
        for fd in (able.fileno(), unable.fileno(), -1, able.fileno()):
            file.descriptor = fd
            begin = staged.writer.position
            assert staged.put(body=b"short") > 0
            assert staged.writer.settle() == 0  # copied
            for letter in b"abc":
                assert staged.put(body=bytes([letter]) * 1000) > 0
            size = staged.writer.position - staged.writer.start
            is_written = fd == able.fileno()
            assert staged.writer.settle() == (0 if is_written else size)
            data = path.read_bytes()[begin : begin + size]
            assert any(data) == is_written
            if not is_written:
                assert staged.writer.settled_offset() < staged.writer.end_offset()
                staged.write()  # what the owner does then
            assert staged.writer.settled_offset() == staged.writer.end_offset()
    assert len(staged.written) == 2
    both = bytes(max(pair) for pair in zip(path.read_bytes(), staged.buffer, strict=False))
    plain = Log(loops)
    for body in (b"short", b"a" * 1000, b"b" * 1000, b"c" * 1000) * 4:
        plain.put(body=body)
    assert both == plain.buffer


def test_a_stage_without_room_is_emptied_in_the_middle_of_a_run(loops: SimpleNamespace) -> None:
    limit = 700_000
    staged, plain = Staged(loops, limit=limit), Log(loops, size=3_000_000)
    plain.writer = loops.log.LogWriter(limit)
    plain.writer.attach(plain.buffer, 0, 0)
    plain.writer.store_ms = 1700000000123
    for size in (300_000, 300_000, 5, 650_000, 7, 524_288, 9):  # two are larger than the stage
        body = (b"%d " % size) * (size // 7)
        assert staged.put(body=body) == plain.put(body=body) > 0
    assert len(staged.written) >= 4
    staged.settle()
    assert staged.buffer == plain.buffer
    assert staged.writer.settle() == 0, "nothing is left"


def test_a_segment_is_not_closed_over_staged_records(loops: SimpleNamespace) -> None:
    staged = Staged(loops)
    staged.put()
    with pytest.raises(ValueError, match="staged"):
        staged.writer.close_segment()


def test_an_owner_that_cannot_write_stops_the_append(loops: SimpleNamespace) -> None:
    staged = Staged(loops, limit=400_000)

    def fail() -> None:
        raise OSError("no disk")

    staged.writer.attach(staged.buffer, 0, 0, fail)
    staged.put(body=b"x" * 300_000)
    before = staged.writer.position, staged.queue().next_offset
    with pytest.raises(OSError, match="no disk"):
        staged.put(body=b"y" * 300_000)
    assert (staged.writer.position, staged.queue().next_offset) == before
    assert staged.writer.settled_offset() == 0


def test_a_batch_is_written_whole_or_not_at_all(loops: SimpleNamespace) -> None:
    log = Log(loops, size=300)
    assert batch(log, inner((b"a" * 50, b""), (b"b" * 200, b""))) == loops.log.NO_ROOM
    assert not any(log.buffer)
    good = inner((b"hello", b"x\x01y"), (b"you", b""))
    for size in range(len(good)):
        if size != 30:  # the first message alone is a batch of its own
            assert batch(log, good[:size]) == loops.log.BAD_BATCH, size
    assert batch(log, b"\0" + good) == loops.log.BAD_BATCH
    assert not any(log.buffer)


def test_a_unit_says_where_the_record_is_and_what_its_tag_hashes_to(
    loops: SimpleNamespace,
) -> None:
    log = Log(loops)
    size = log.put()
    second = log.put(properties=b"TAGS\x01polygenelubricants\x02")
    third = log.put(properties="TAGS\x01订单\x02".encode())
    log.put(properties=b"TAGS\x01\x02NOTTAGS\x01a\x02")
    log.put(properties=b"TAGS\x01a\x02TAGS\x01b")
    log.derive()
    owner = log.queue().owner
    assert owner.unit(0) == (0, size, 2598919)
    assert owner.unit(1) == (size, second, -2147483648)
    assert owner.unit(2) == (size + second, third, 1129459)
    assert owner.unit(3)[2] == 0
    assert owner.unit(4)[2] == ord("b")


def test_half_and_rolled_back_messages_have_no_place_in_a_queue(loops: SimpleNamespace) -> None:
    log = Log(loops)
    for sys_flag in (0x4, 0xC):
        at = log.writer.position
        log.put(sys_flag=sys_flag)
        assert log.buffer[at + 20 : at + 28] == bytes(8)
    log.put(sys_flag=0x8)
    log.derive()
    assert log.queue().max_offset == 1
    assert log.queue().owner.unit(0)[0] == 2 * len(RECORD)


def test_a_delayed_message_keeps_its_time_of_delivery(loops: SimpleNamespace) -> None:
    log = Log(loops)
    log.put(topic=b"SCHEDULE_TOPIC_XXXX", properties=b"DELAY\x013\x02TAGS\x01a\x02")
    log.put(properties=b"DELAY\x013\x02")
    log.derive()
    assert log.queue(b"SCHEDULE_TOPIC_XXXX").owner.unit(0)[2] == 1700000000123 + 3000
    assert log.queue().owner.unit(0)[2] == 0


def test_deriving_twice_changes_nothing(loops: SimpleNamespace) -> None:
    log = Log(loops)
    log.host.deriver.index = loops.index.IndexWriter(bytearray(44), 1, 0)
    for number in range(3):
        log.put(properties=b"UNIQ_KEY\x01u%d\x02KEYS\x01a b\x02" % number)
    end = log.derive()
    deriver = log.host.deriver
    assert [queue.max_offset for queue in deriver.take_touched()] == [3]
    index, units = deriver.index, bytes(log.queue().owner.buffer)
    assert (log.host.full, index.count) == (2, 3)
    deriver.run(log.buffer, 0, 0, end)
    assert deriver.take_touched() == []
    assert (deriver.index, index.count) == (index, 3)
    assert log.queue().owner.buffer == units


def test_a_queue_that_begins_later_asks_its_owner(loops: SimpleNamespace) -> None:
    log = Log(loops)
    log.queue().next_offset = 40
    log.put()
    log.derive()
    assert log.queue().owner.skipped == [40]
    assert log.queue().owner.unit(40)[:2] == (0, len(RECORD))


def test_a_damaged_record_is_an_error_and_nothing_else(loops: SimpleNamespace) -> None:
    log = Log(loops)
    size = log.put()
    whole = bytes(log.buffer[:size])
    for limit in range(8, size):
        with pytest.raises(ValueError, match="derive"):
            Host(loops).deriver.run(whole[:limit], 0, 0, limit)
    for at in range(size):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        host = Host(loops)
        try:
            host.deriver.run(damaged, 0, 0, size)
        except ValueError:
            continue
        assert host.deriver.position <= size
    with pytest.raises(ValueError, match="outside"):
        Host(loops).deriver.run(whole, 0, 0, size + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_hashes_are_javas(loops: SimpleNamespace, version: str) -> None:
    rows = (GOLDEN / "vectors" / version / "string-hash.jsonl").read_text().splitlines()
    assert rows
    for row in map(json.loads, rows):
        try:
            data = row["text"].encode()
        except UnicodeEncodeError:
            continue  # half a surrogate pair is not text
        value = loops.hashing.java_hash(data or b"\0", 0, len(data), 0)
        assert value == row["hashCode"] & 0xFFFFFFFF
        assert loops.index.key_hash(value) == row["indexKeyHash"]
        for cut in range(len(data)):
            with_seed = loops.hashing.java_hash(data, 0, cut, 0) if data[:cut].isascii() else None
            if with_seed is not None:
                assert loops.hashing.java_hash(data, cut, len(data), with_seed) == value


def test_an_index_finds_what_was_put_newest_first(loops: SimpleNamespace) -> None:
    slots, entries = 3, 10
    buffer = bytearray(40 + 4 * slots + 20 * entries)
    writer = loops.index.IndexWriter(buffer, slots, entries)
    writer.begin(0, 0)
    assert not writer.put(1, 0, 0)
    writer.limit = entries
    for number in range(9):
        assert writer.put(number % 2, 1000 + number, 5000 + 1500 * number)
    assert writer.is_full()
    assert not writer.put(1, 1, 1)
    head = struct.unpack_from(">qqqqii", buffer)
    assert head == (5000, 5000 + 1500 * 8, 1000, 1008, 2, 10)

    def found(value: int, begin: int = 0, end: int = 1 << 60, limit: int = 64) -> list[int]:
        return loops.index.find(buffer, slots, entries, value, begin, end, limit)  # type: ignore[no-any-return]

    assert found(0) == [1008, 1006, 1004, 1002, 1000]
    assert found(1, limit=2) == [1007, 1005]
    assert found(3) == []  # the slot of 0, another hash
    assert found(0, begin=5000 + 3000, end=5000 + 9000) == [1006, 1004, 1002]
    again = loops.index.IndexWriter(buffer, slots, entries)
    assert (again.count, again.end_offset, again.slot_count) == (10, 1008, 2)


def test_a_damaged_index_cannot_lead_outside(loops: SimpleNamespace) -> None:
    buffer = bytearray(40 + 4 * 2 + 20 * 4)
    writer = loops.index.IndexWriter(buffer, 2, 4)
    writer.begin(0, 0)
    writer.limit = 4
    for _ in range(3):
        writer.put(0, 7, 0)
    for at in range(32, len(buffer)):
        damaged = bytearray(buffer)
        damaged[at] = 0xFF
        assert len(loops.index.find(damaged, 2, 4, 0, 0, 1 << 60, 64)) <= 4
    with pytest.raises(ValueError, match="short"):
        loops.index.find(buffer[:-1], 2, 4, 0, 0, 1, 1)
    with pytest.raises(ValueError, match="short"):
        loops.index.IndexWriter(buffer[:-1], 2, 4)


def gathered(loops: SimpleNamespace, count: int = 6) -> tuple[Any, bytearray, bytearray]:
    log = Log(loops)
    for number in range(count):
        log.put(properties=b"TAGS\x01%d\x02" % (number % 2))
    log.derive()
    gatherer = loops.gather.Gatherer(len(log.buffer))
    gatherer.add(log.buffer, 0)
    gatherer.end_offset = log.writer.position
    return gatherer, log.queue().owner.buffer, log.buffer


def select(loops: SimpleNamespace, gatherer: Any, units: Any, **changes: Any) -> int:
    given = {
        "start": 0,
        "end": 120,
        "count": 32,
        "memory": (100, 1 << 20),
        "disk": (2, 1 << 20),
        "disk_before": 0,
        "codes": None,
        "program": None,
        **changes,
    }
    limits = loops.gather.Limits(*given["memory"])
    limits.on_disk(*given["disk"])
    return gatherer.select(  # type: ignore[no-any-return]
        units,
        given["start"],
        given["end"],
        given["count"],
        limits,
        given["disk_before"],
        given["codes"],
        given["program"],
    )


def test_a_pull_takes_records_up_to_its_limits(loops: SimpleNamespace) -> None:
    gatherer, units, log = gathered(loops)
    size = struct.unpack_from(">i", log)[0]
    assert select(loops, gatherer, units) == 6
    assert gatherer.copy() == log[: 6 * size]
    assert select(loops, gatherer, units, start=20, count=2) == 2
    assert gatherer.copy() == log[size : 3 * size]
    assert select(loops, gatherer, units, memory=(100, 3 * size)) == 3
    assert select(loops, gatherer, units, memory=(100, 1)) == 1  # never less than one
    assert select(loops, gatherer, units, disk_before=1 << 40) == 2
    assert select(loops, gatherer, units, codes=frozenset({ord("1")})) == 6
    assert gatherer.copy() == b"".join(log[at * size : (at + 1) * size] for at in (1, 3, 5))
    assert select(loops, gatherer, units, codes=frozenset({5})) == 6
    assert (gatherer.status, gatherer.count) == (loops.gather.NO_MATCH, 0)
    assert gatherer.copy() == b""


def test_a_pull_takes_nothing_that_is_not_there(loops: SimpleNamespace) -> None:
    gatherer, units, log = gathered(loops)
    size = struct.unpack_from(">i", log)[0]
    gatherer.end_offset = 3 * size - 1
    assert select(loops, gatherer, units) == 6
    assert gatherer.copy() == log[: 2 * size]
    gatherer.min_offset = 10 * size
    select(loops, gatherer, units)
    assert gatherer.status == loops.gather.REMOVING
    gatherer.remove(0)
    gatherer.min_offset = 0
    assert select(loops, gatherer, units) == 6
    assert (gatherer.status, gatherer.copy()) == (loops.gather.REMOVING, b"")


def test_units_that_lie_are_passed_over(loops: SimpleNamespace) -> None:
    gatherer, units, _ = gathered(loops)
    for at in range(120):
        damaged = bytearray(units[:120])
        damaged[at] ^= 0xA5
        looked = taken = 0
        while looked < 6:  # a size that is a lie may end one pull, never the next
            seen = select(loops, gatherer, damaged, start=20 * looked)
            assert seen > 0
            looked += seen
            taken += gatherer.count
        assert taken == (5 if at % 20 < 12 else 6)  # the tag code is not the record's affair
    with pytest.raises(ValueError, match="outside"):
        select(loops, gatherer, units, end=len(units) + 1)


def test_a_watched_pull_ends_where_memory_ends(
    loops: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    gatherer, units, log = gathered(loops)
    size = struct.unpack_from(">i", log)[0]
    gatherer.remove(0)
    gatherer.add(log, 0, True)
    gatherer.watched = True
    assert select(loops, gatherer, units) == 6  # ordinary memory is there
    if not hasattr(loops, "raw"):
        return  # the kernel decides for the compiled build
    asked: list[tuple[int, int]] = []

    def is_resident(data: Any, at: int, length: int) -> bool:
        asked.append((at, length))
        return False

    monkeypatch.setattr(loops.raw, "is_resident", is_resident)
    assert select(loops, gatherer, units) == 6  # seen a moment ago
    gatherer.age()
    assert select(loops, gatherer, units) == 6
    assert asked == []
    gatherer.age()
    assert select(loops, gatherer, units, start=20) == 0
    assert (gatherer.status, gatherer.count) == (loops.gather.COLD, 0)
    assert (gatherer.cold_offset, asked) == (0, [(0, 6 * size)])  # not behind the end of the log
    gatherer.watched = False
    assert select(loops, gatherer, units) == 6
    gatherer.watched = True
    gatherer.note_loaded(0, 6 * size)
    assert select(loops, gatherer, units) == 6
    for _ in range(600):
        gatherer.age()
        gatherer.note_loaded(0, 1)
        assert select(loops, gatherer, units) == 6


def test_a_pull_that_comes_to_a_mark_says_so_once(
    loops: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    gatherer, units, log = gathered(loops)
    gatherer.remove(0)
    gatherer.add(log, 0, True)
    gatherer.watched = True
    select(loops, gatherer, units)
    assert gatherer.touched == -1
    gatherer.note_loaded(0, 10)
    select(loops, gatherer, units)
    assert gatherer.touched == 0
    gatherer.touched = -1
    select(loops, gatherer, units)
    assert gatherer.touched == -1
    gatherer.watched = False
    gatherer.note_loaded(0, 10)
    select(loops, gatherer, units)
    assert gatherer.touched == -1  # whoever may wait for the disk is not led

    assert not gatherer.must_load(0, 10)  # known
    for _ in range(2):
        gatherer.age()
    assert not gatherer.must_load(0, 10)  # there: as if it had been loaded
    gatherer.watched, gatherer.touched = True, -1
    select(loops, gatherer, units)
    assert gatherer.touched == 0
    assert not gatherer.must_load(1 << 40, (1 << 40) + 1)  # no such segment
    if not hasattr(loops, "raw"):
        return  # the kernel decides for the compiled build
    for _ in range(2):
        gatherer.age()
    monkeypatch.setattr(loops.raw, "is_resident", lambda data, at, length: False)
    assert gatherer.must_load(0, 10)
    gatherer.note_loaded(0, 10)
    assert not gatherer.must_load(0, 10)


def test_bytes_outside_a_file_are_nobodys_to_wait_for(
    loops: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    gatherer = loops.gather.Gatherer(1 << 20)
    chunk = loops.gather.CHUNK
    view = loops.gather.LogView(bytearray(3 * chunk), 0, True)
    for start, end in ((-1, 5), (0, 3 * chunk + 1), (7, 7), (9, 8)):
        assert not gatherer.is_away(view, start, end, end)
    assert not gatherer.is_away(view, 0, 3 * chunk, 3 * chunk)
    if not hasattr(loops, "raw"):
        return
    asked: list[tuple[int, int]] = []

    def is_resident(data: Any, at: int, length: int) -> bool:
        asked.append((at, length))
        return at < chunk

    monkeypatch.setattr(loops.raw, "is_resident", is_resident)
    for _ in range(2):
        gatherer.age()
    assert not gatherer.is_away(view, 5, chunk, 2 * chunk + 9)
    assert gatherer.is_away(view, chunk - 1, 2 * chunk + 1, 2 * chunk + 9)
    assert gatherer.away_at == chunk
    assert asked == [(0, chunk), (chunk, chunk)]
    assert not gatherer.is_away(loops.gather.LogView(bytes(chunk), 0, False), 0, chunk, chunk)
