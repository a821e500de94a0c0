"""Columns of records: the same values as one record at a time, on both builds, and for pyarrow."""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import sys
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contrailmq._native.spark import place as parts
from contrailmq.errors import CorruptRecord
from contrailmq.protocol import columns
from contrailmq.protocol.columns import (
    COLUMNS,
    Column,
    MapColumn,
    NumberColumn,
    RecordColumns,
    TextColumn,
)
from contrailmq.protocol.compression import Compression, compress
from contrailmq.protocol.message import Record, decode_record, encode_record
from contrailmq.protocol.properties import RESERVED_PROPERTIES
from testkit.builds import BUILDS, native_module
from testkit.golden import StoreDirectory, store_directories
from testkit.record_walk import record_positions

HOST = bytes.fromhex("7f00000100002a9f")
FIELDS: dict[str, Any] = {
    "topic": "T",
    "body": b"hello",
    "properties": b"KEYS\x01k1\x02TAGS\x01a\x02UNIQ_KEY\x01u\x02",
    "born_ms": 1700000000123,
    "born_host": HOST,
    "store_host": HOST,
    "store_ms": 1700000000456,
    "queue_id": 3,
    "queue_offset": 1 << 40,
    "commit_log_offset": 1 << 41,
    "reconsume_times": 2,
}


@pytest.fixture(params=BUILDS)
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("arrow", "arrow_fill"):
        monkeypatch.setattr(
            columns, name, native_module(f"spark.{name}", pure=request.param == "pure")
        )
    return str(request.param)


@dataclasses.dataclass
class Read:
    """Columns read back into Python values."""

    found: dict[str, Column]

    def values(self, name: str) -> list[Any]:
        column = self.found[name]
        if isinstance(column, NumberColumn):
            return list(memoryview(column.data).cast("i" if column.width == 4 else "q"))
        if isinstance(column, TextColumn):
            raw = list(pieces(column))
            return raw if name == "body" else [b if b is None else b.decode() for b in raw]
        names, values = (list(pieces(part)) for part in (column.names, column.values))
        offsets = memoryview(column.offsets).cast("i")
        assert len(names) == len(values) == column.entry_count
        entries = [
            [(names[i].decode(), values[i].decode()) for i in range(offsets[r], offsets[r + 1])]
            for r in range(len(offsets) - 1)
        ]
        maps = [dict(pairs) for pairs in entries]
        assert list(map(len, maps)) == list(map(len, entries)), "a name twice in one map"
        return maps


def pieces(column: TextColumn) -> Iterator[Any]:
    offsets = memoryview(column.offsets).cast("i")
    gaps = 0
    for index in range(len(offsets) - 1):
        there = column.validity is None or column.validity[index >> 3] >> (index & 7) & 1
        gaps += not there
        yield bytes(column.data[offsets[index] : offsets[index + 1]]) if there else None
    assert offsets[len(offsets) - 1] == len(column.data)
    assert gaps == column.gap_count


def wanted_of(record: Record) -> dict[str, Any]:
    properties = record.properties
    return {
        "queue_id": record.queue_id,
        "sys_flag": record.sys_flag,
        "reconsume_times": record.reconsume_times,
        "queue_offset": record.queue_offset,
        "commit_log_offset": record.commit_log_offset,
        "born_time": record.born_ms * 1000,
        "store_time": record.store_ms * 1000,
        "topic": record.topic,
        "body": record.payload(),
        "keys": properties.get("KEYS"),
        "tags": properties.get("TAGS"),
        "unique_key": properties.get("UNIQ_KEY"),
        "born_host": record.born_host,
        "message_id": record.offset_message_id,
        "properties": properties,
    }


def check(data: bytes, positions: list[int]) -> None:
    read = Read(RecordColumns(COLUMNS).read(data, positions))
    assert list(read.found) == list(COLUMNS)
    wanted = [wanted_of(decode_record(data, position)) for position in positions]
    for name in COLUMNS:
        assert read.values(name) == [row[name] for row in wanted], name
    # Without the map nothing is split: the same values are found another way.
    texts = ["keys", "unique_key", "tags"]
    read = Read(RecordColumns(texts).read(data, positions))
    for name in texts:
        assert read.values(name) == [row[name] for row in wanted], name


def positions_of(data: bytes) -> list[int]:
    return record_positions(data)


@pytest.mark.parametrize("store", store_directories(), ids=lambda store: store.name)
def test_every_golden_record(store: StoreDirectory, build: str) -> None:
    checked = 0
    for path in sorted((store.path / "commitlog").iterdir()):
        data = path.read_bytes()
        positions = positions_of(data)[: 60 if build == "pure" else None]
        check(data, positions)
        checked += len(positions)
    assert checked


RAW = st.one_of(
    st.binary(max_size=40),
    st.lists(
        st.tuples(st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "n", "é"]), st.text(max_size=5)),
        max_size=6,
    ).map(lambda pairs: "\x02".join(f"{n}\x01{v}" for n, v in pairs).encode("utf-8", "replace")),
)
RECORDS = st.fixed_dictionaries(
    {
        "topic": st.one_of(st.binary(max_size=150), st.just(b"TopicTest")),
        "body": st.binary(max_size=50),
        "properties": RAW,
        "born_ms": st.integers(0, 2**43),
        "store_ms": st.integers(0, 2**43),
        "born_host": st.one_of(
            st.just(HOST), st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20)
        ),
        "store_host": st.one_of(st.just(HOST), st.binary(min_size=20, max_size=20)),
        "queue_id": st.integers(-(2**31), 2**31 - 1),
        "queue_offset": st.integers(-(2**63), 2**63 - 1),
        "commit_log_offset": st.integers(-(2**63), 2**63 - 1),
    }
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(RECORDS, max_size=12))
def test_any_records(build: str, many: list[dict[str, Any]]) -> None:
    data = b"".join(bytes(encode_record(**fields)) for fields in many)
    positions = positions_of(data)
    assert len(positions) == len(many)
    check(data, positions)
    check(data, positions[::-1])


def test_compressed_bodies_between_others(build: str) -> None:
    plain = encode_record(**FIELDS)
    records = [plain]
    for kind in Compression:
        change = {"body": compress(b"z" * 500, kind), "sys_flag": kind.flags}
        records += [encode_record(**{**FIELDS, **change}), plain]
    data = b"".join(map(bytes, records))
    check(data, positions_of(data))
    small = RecordColumns(["body"], body_size_max=100)
    with pytest.raises(CorruptRecord, match="grows beyond 100 bytes"):
        small.read(data, positions_of(data))
    # Without the body nothing has to be decompressed.
    broken = encode_record(**{**FIELDS, "body": b"no zlib", "sys_flag": 1})
    found = RecordColumns(["tags"], body_size_max=100).read(broken, [0])
    assert Read(found).values("tags") == ["a"]
    with pytest.raises(CorruptRecord, match="ZLIB body of 7 bytes"):
        RecordColumns(["body"]).read(broken, [0])


def test_very_many_properties_keep_the_last_of_each_name(build: str) -> None:
    pairs = "".join(f"n{index % 90}\x01v{index}\x02" for index in range(300))
    data = bytes(encode_record(**{**FIELDS, "properties": pairs.encode()}))
    check(data, [0])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    many=st.lists(RECORDS, max_size=8),
    without=st.sets(st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "n", "é", "ne", "A" * 60])),
)
def test_names_left_out_of_the_map(
    build: str, many: list[dict[str, Any]], without: set[str]
) -> None:
    data = b"".join(bytes(encode_record(**fields)) for fields in many)
    positions = positions_of(data)
    found = RecordColumns(COLUMNS, without=without).read(data, positions)
    rows = [wanted_of(decode_record(data, position)) for position in positions]
    for row in rows:
        properties = row["properties"].items()
        row["properties"] = {name: value for name, value in properties if name not in without}
    for name in COLUMNS:
        assert Read(found).values(name) == [row[name] for row in rows], name


def test_a_name_is_left_out_only_as_a_whole(build: str) -> None:
    names = [*sorted(RESERVED_PROPERTIES), "KEY", "KEYSS", "keys", "own", "A" * 200]
    text = "".join(f"{name}\x01{name[::-1]}\x02" for name in names)
    data = bytes(encode_record(**{**FIELDS, "properties": text.encode()}))
    found = RecordColumns(["properties", "keys"], without=RESERVED_PROPERTIES).read(data, [0])
    kept = {name: name[::-1] for name in ("KEY", "KEYSS", "keys", "own", "A" * 200)}
    assert Read(found).values("properties") == [kept]
    assert Read(found).values("keys") == ["SYEK"]


NAMES = ("KEYS", "colour", "n", "UNIQ_KEY", "TAGS", "MSG_REGION", "a-name-of-more-than-16", "é")
PAIR_VALUES = ["v", "blue", "", "\x01", "a\x01b", "é", "x" * 40, "7" * 61, "y" * 130]
# A record beside the one before: mostly the same names, but not all, not in order, not once.
NEIGHBOURS = st.lists(
    st.one_of(
        st.just(NAMES),
        st.just(NAMES[::2]),
        st.sets(st.sampled_from(range(len(NAMES)))).map(
            lambda kept: tuple(name for at, name in enumerate(NAMES) if at in kept)
        ),
        st.lists(st.sampled_from(NAMES), max_size=9).map(
            lambda names: sorted(names, key=NAMES.index)
        ),
        st.lists(st.sampled_from([*NAMES, "COLOUR", "colours", "colou", "KEYZ"]), max_size=9),
    ).flatmap(
        lambda names: st.tuples(
            st.tuples(*(st.tuples(st.just(name), st.sampled_from(PAIR_VALUES)) for name in names)),
            st.sampled_from(["", "\x02", "\x02\x02", "\x02x", "\x02\x01", "\x02colour"]),
        )
    ),
    min_size=1,
    max_size=10,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(many=NEIGHBOURS, without=st.sampled_from([(), ("KEYS", "n"), NAMES]))
def test_neighbours_with_almost_the_same_names(
    build: str, many: list[tuple[list[tuple[str, str]], str]], without: tuple[str, ...]
) -> None:
    strings = ["\x02".join(map("\x01".join, pairs)) + end for pairs, end in many]
    data = b"".join(
        bytes(encode_record(**{**FIELDS, "properties": text.encode()})) for text in strings
    )
    check_maps(data, without)


def check_maps(data: bytes, without: tuple[str, ...]) -> None:
    """The columns made of properties, entries in their order, with and without the map."""
    positions = positions_of(data)
    rows = [decode_record(data, position).properties for position in positions]
    wanted = ("tags", "properties", "unique_key", "keys")
    read = Read(RecordColumns(wanted, without=without).read(data, positions))
    assert [list(found.items()) for found in read.values("properties")] == [
        [(name, value) for name, value in row.items() if name not in without] for row in rows
    ]
    unsplit = Read(RecordColumns(["keys", "unique_key", "tags"]).read(data, positions))
    for column, name in (("tags", "TAGS"), ("keys", "KEYS"), ("unique_key", "UNIQ_KEY")):
        values = [row.get(name) for row in rows]
        assert read.values(column) == values
        assert unsplit.values(column) == values


STRINGS = st.one_of(
    st.just(
        b"KEYS\x0100000001\x02colour\x01blue\x02n\x017\x02UNIQ_KEY\x010123456789\x02TAGS\x01t\x02"
    ),
    st.sampled_from(
        [
            b"KEYS\x0112345678901",
            b"n\x01v\x02KEYS\x01abcdefg\x02",
            b"n\x01v\x02\x02n\x01w\x02KEYS\x01",
        ]
    ),
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(PAIR_VALUES)), min_size=2, max_size=9
    ).map(lambda pairs: "\x02".join(map("\x01".join, pairs)).encode()),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    strings=st.lists(STRINGS, min_size=1, max_size=2),
    changes=st.lists(
        st.lists(
            st.tuples(st.integers(0, 10**6), st.sampled_from(b"\x01\x02aKn9\xc3\xa9\x00")),
            max_size=3,
        ),
        max_size=12,
    ),
    without=st.sampled_from([(), ("KEYS", "n"), NAMES]),
)
def test_strings_of_the_same_length_with_other_bytes(
    build: str,
    strings: list[bytes],
    changes: list[list[tuple[int, int]]],
    without: tuple[str, ...],
) -> None:
    """What has the shape of its neighbours, and what has almost."""
    found = strings * 3
    for number, change in enumerate(changes):
        text = bytearray(strings[number % len(strings)])
        for place, byte in change:
            text[place % len(text)] = byte
        found += [bytes(text), strings[0]]
    data = b"".join(bytes(encode_record(**{**FIELDS, "properties": text})) for text in found)
    check_maps(data, without)


def test_one_byte_changed_in_a_shape(build: str) -> None:
    for size in (*range(14, 19), 31, 32, 33, 47, 48, 49, 511, 512, 513):
        text = b"KEYS\x01k\x02n\x01" + b"v" * (size - 11) + b"\x02o"
        records = [text] * 4
        places = range(size) if size < 60 else (*range(12), *range(size - 18, size))
        for place in places:
            for byte in b"\x01\x02x\xff":
                records += [text[:place] + bytes([byte]) + text[place + 1 :], text]
        data = b"".join(bytes(encode_record(**{**FIELDS, "properties": one})) for one in records)
        check_maps(data, ("n",) if size % 2 else ())


def test_a_shape_is_kept_for_the_next_reading(build: str) -> None:
    reader = RecordColumns(["keys", "properties"], without=["n"])
    for name in (b"n", b"n", b"m", b"n"):
        text = b"KEYS\x0112345678\x02" + name + b"\x01value\x02o\x01" + name
        data = bytes(encode_record(**{**FIELDS, "properties": text})) * 4
        read = Read(reader.read(data, positions_of(data)))
        kept = (
            {"KEYS": "12345678"} | ({"m": "value"} if name == b"m" else {}) | {"o": name.decode()}
        )
        assert read.values("properties") == [kept] * 4
        assert read.values("keys") == ["12345678"] * 4


def test_the_quick_ways_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand records of one kind are not split one by one, and hardly matched."""
    arrow = native_module("spark.arrow", pure=True)
    fill = native_module("spark.arrow_fill", pure=True)
    calls: list[str] = []
    for name in ("_fit", "_match", "_split"):
        monkeypatch.setattr(arrow.Survey, name, _counted(vars(arrow.Survey)[name], calls))
    for lengths, matches in (([8], 2), ([8, 8, 8, 9], 252), (list(range(8, 40)), 1000)):
        data = b"".join(
            bytes(encode_record(**{**FIELDS, "properties": text.encode()}))
            for text in (
                f"KEYS\x01{number:0{lengths[number % len(lengths)]}}\x02colour\x01blue\x02"
                for number in range(1000)
            )
        )
        survey = arrow.Survey([b"KEYS"])
        survey.begin(data, array("q", positions_of(data)))
        assert survey.more()
        sizes = [lengths[number % len(lengths)] for number in range(survey.count)]
        assert (survey.names_size, survey.values_size) == (
            10 * len(sizes),
            sum(sizes) + 4 * len(sizes),
        )
        fill.fill(survey, [])
        assert calls.count("_fit") == 1000
        assert calls.count("_match") <= matches
        assert calls.count("_split") == 1
        calls.clear()


def _counted(way: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    def counted(*given: Any) -> Any:
        calls.append(way.__name__)
        return way(*given)

    return counted


def test_separators_and_wide_letters_at_every_place(build: str) -> None:
    """A property string is read in blocks of 64 bytes, the last one up to the end of the data."""
    for size in (1, 2, 15, 16, 17, 31, 32, 33, 61, 62, 63, 64, 65, 66, 127, 128, 129, 300):
        strings = [f"KEYS\x01{'k' * size}\x02n\x01v{end}" for end in ("", "\x02")]
        strings += [f"n\x01{'é' * size}\x02KEYS\x01é", f"n\x01{'w' * size}", f"n\x01é{'w' * size}"]
        records = [
            bytes(encode_record(**{**FIELDS, "body": b"b" * size, "properties": text.encode()}))
            for text in strings
        ]
        for last in records:
            check(records[0] + last, [0, len(records[0])])
            check_maps(last * 2, ("n",))
    broken = bytearray(encode_record(**{**FIELDS, "properties": b"n\x01" + b"w" * 130}))
    for at in range(len(broken) - 130, len(broken)):
        changed = broken.copy()
        changed[at] = 0xFF
        check(bytes(broken + changed), [0, len(broken)])


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect of Linux")
def test_nothing_is_read_behind_the_data(build: str) -> None:
    """The data ends where no memory is: reading one byte more would kill this process."""
    page = mmap.PAGESIZE
    with mmap.mmap(-1, 2 * page) as memory:
        libc = ctypes.CDLL(None, use_errno=True)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        assert libc.mprotect(ctypes.c_void_p(start + page), page, 0) == 0
        with memoryview(memory) as view:
            for size in (*range(70), 200, 300):
                properties = f"KEYS\x01{'k' * size}\x02".encode()
                fields = {**FIELDS, "body": b"b" * size, "properties": properties}
                data = bytes(encode_record(**fields)) * 3
                with view[page - len(data) : page] as end:
                    end[:] = data
                    read = Read(RecordColumns(COLUMNS).read(end, positions_of(data)))
                assert read.values("keys") == ["k" * size or None] * 3
                assert read.values("body") == [b"b" * size] * 3
        assert libc.mprotect(ctypes.c_void_p(start + page), page, 3) == 0


def many_records(sizes: list[int]) -> bytes:
    """Records of which every third has no key, every fifth no property, some hosts are IPv6."""
    hosts = (HOST, HOST, bytes(range(20)), bytes.fromhex("0a00000100002a9f"))
    pieces = []
    for number, size in enumerate(sizes):
        pairs = (
            f"n\x01{number}\x02" if number % 3 == 0 else f"KEYS\x01k{number}\x02n\x01{'v' * size}"
        )
        fields = {
            "body": b"%d" % number * size,
            "properties": b"" if number % 5 == 0 else pairs.encode(),
            "born_host": hosts[number % 4],
            "store_host": hosts[number % 3],
            "queue_offset": number,
        }
        pieces.append(bytes(encode_record(**{**FIELDS, **fields})))
    return b"".join(pieces)


def test_blocks_behind_each_other_and_columns_that_grow(build: str) -> None:
    """A survey takes 512 records at a time; the columns of the first reading have no room."""
    reader = RecordColumns(COLUMNS)
    for sizes in (
        [number // 100 for number in range(1200)],
        [3] * 1024,
        [40 - number // 50 for number in range(1100)],
        [1] * 511 + [90, 0],
        [0],
        [],
    ):
        data = many_records(sizes)
        positions = positions_of(data)
        assert len(positions) == len(sizes)
        read = Read(reader.read(data, positions))
        rows = [wanted_of(decode_record(data, position)) for position in positions]
        for name in COLUMNS:
            assert read.values(name) == [row[name] for row in rows], name
        assert reader.row_count == len(sizes)


def test_what_is_odd_or_damaged_in_a_later_block(build: str) -> None:
    data = many_records([2] * 1100)
    positions = positions_of(data)
    odd = bytes(encode_record(**{**FIELDS, "properties": b"KEYS\x01\xff\x02"}))
    squeezed = {"body": compress(b"z" * 500, Compression.ZLIB), "sys_flag": 1}
    for change in (odd, bytes(encode_record(**{**FIELDS, **squeezed}))):
        at = positions[700]
        changed = data[:at] + change + data[positions[701] :]
        check(changed, positions_of(changed))
    broken = bytearray(data)
    broken[positions[1050] + 4] ^= 1
    broken[positions[1060] + 4] ^= 1
    with pytest.raises(CorruptRecord) as refused:
        RecordColumns(COLUMNS).read(broken, positions)
    assert refused.value.offset == positions[1050]


def test_columns_without_room_are_refused(build: str) -> None:
    arrow = native_module("spark.arrow", pure=build == "pure")
    fill = native_module("spark.arrow_fill", pure=build == "pure")
    survey = arrow.Survey([b"KEYS"])
    assert not survey.more()
    survey.begin(bytes(encode_record(**FIELDS)), array("q", [0]))
    assert survey.more()
    for column in (fill.Ints(0, 12), fill.Longs(0, 20, 1), fill.Hits(0)):
        with pytest.raises(ValueError, match="no room for 1 rows"):
            column.add(survey)
    for number in (-1, 1):
        column = fill.Hits(number)
        column.begin(1)
        with pytest.raises(ValueError, match=f"column {number} of 1"):
            column.add(survey)
    topics = fill.Spans(parts.TOPIC)
    topics.add(survey)  # texts get room when they need it
    topics.add(survey)
    assert [bytes(part) for part in topics.take()] == [array("i", [0, 1, 2]).tobytes(), b"TT"]
    if build == "pure":
        vars(fill)["_SIZE_MAX"] = 11
        bodies = fill.Spans(parts.BODY)
        bodies.add(survey)
        bodies.add(survey)
        with pytest.raises(ValueError, match="column of 15 bytes, at most 11"):
            bodies.add(survey)


def test_the_data_is_let_go(build: str) -> None:
    data = bytearray(encode_record(**FIELDS))
    reader = RecordColumns(COLUMNS)
    reader.read(data, [0])
    data.append(0)  # refused as long as somebody looks at it
    del data[50:]
    with pytest.raises(CorruptRecord):
        reader.read(data, [0])
    data.append(0)


def test_records_that_are_replaced_by_their_messages(build: str) -> None:
    whole = bytes(encode_record(**{**FIELDS, "sys_flag": 0x80}))
    plain = bytes(encode_record(**{**FIELDS, "body": b"one"}))
    calls = []

    def unfold(data: Any, positions: array[int]) -> tuple[bytes, array[int]]:
        calls.append((bytes(data), list(positions)))
        return plain * 3, array("q", [0, len(plain), 2 * len(plain)])

    reader = RecordColumns(["body"], unfold=unfold)
    assert Read(reader.read(plain, [0])).values("body") == [b"one"]
    assert (reader.row_count, calls) == (1, [])
    assert Read(reader.read(plain + whole, [0, len(plain)])).values("body") == [b"one"] * 3
    assert (reader.row_count, calls) == (3, [(plain + whole, [0, len(plain)])])
    assert Read(RecordColumns(["body"]).read(whole, [0])).values("body") == [b"hello"]
    with pytest.raises(CorruptRecord):
        reader.read(whole + b"damage", [0, len(whole)])
    assert len(calls) == 1


@pytest.mark.parametrize("wanted", [["body"], ["queue_id", "properties"], []])
def test_only_what_is_wanted_is_made(build: str, wanted: list[str]) -> None:
    data = bytes(encode_record(**FIELDS))
    assert list(RecordColumns(wanted).read(data, [0])) == wanted


def test_no_records_and_no_such_column(build: str) -> None:
    read = Read(RecordColumns(COLUMNS).read(b"", []))
    assert all(read.values(name) == [] for name in COLUMNS)
    with pytest.raises(ValueError, match="no such columns: offset"):
        RecordColumns(["offset"])


def test_damage_is_named_by_its_position(build: str) -> None:
    record = bytes(encode_record(**FIELDS))
    reader = RecordColumns(COLUMNS)
    for size in range(len(record)):
        with pytest.raises(CorruptRecord) as refused:
            reader.read(record + record[:size], [0, len(record)])
        assert refused.value.offset == len(record)
    for position in (-1, 1, 2**62):
        with pytest.raises(CorruptRecord):
            reader.read(record, [position])
    assert Read(reader.read(record, [0, 0])).values("body") == [b"hello"] * 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_changed_bytes_are_refused_or_read_as_the_decoder_does(
    build: str, data: st.DataObject
) -> None:
    record = encode_record(**FIELDS)
    for _ in range(data.draw(st.integers(1, 3))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    raw = bytes(record)
    names = [name for name in COLUMNS if name != "body" and not name.endswith("_time")]
    try:
        wanted = decode_record(raw)
    except CorruptRecord:
        with pytest.raises(CorruptRecord):
            RecordColumns(names).read(raw, [0])
        return
    read = Read(RecordColumns(names).read(raw, [0]))
    row = wanted_of_without_body(wanted)
    for name in names:
        assert read.values(name) == [row[name]], name


def wanted_of_without_body(record: Record) -> dict[str, Any]:
    flag = record.sys_flag
    record.sys_flag = flag & ~1
    row = wanted_of(record)
    return {**row, "sys_flag": flag}


@pytest.mark.spark
def test_pyarrow_takes_the_buffers() -> None:
    pa = pytest.importorskip("pyarrow")
    data = b"".join(
        bytes(encode_record(**{**FIELDS, "properties": properties}))
        for properties in (b"KEYS\x01k\x02n\x01\xff\x02", b"", "TAGS\x01é\x02".encode())
    )
    found = RecordColumns(COLUMNS).read(data, positions_of(data))
    for name, column in found.items():
        made = arrow_array(pa, name, column)
        made.validate(full=True)
        wanted = Read(found).values(name)
        assert made.to_pylist() == [list(v.items()) if isinstance(v, dict) else v for v in wanted]


def arrow_array(pa: Any, name: str, column: Column) -> Any:
    if isinstance(column, NumberColumn):
        kind = pa.int32() if column.width == 4 else pa.int64()
        return pa.Array.from_buffers(kind, 3, [None, pa.py_buffer(column.data)])
    if isinstance(column, TextColumn):
        return arrow_text(pa, column, 3, pa.binary() if name == "body" else pa.string())
    assert isinstance(column, MapColumn)
    names, values = (
        arrow_text(pa, part, column.entry_count, pa.string())
        for part in (column.names, column.values)
    )
    offsets = pa.Array.from_buffers(pa.int32(), 4, [None, pa.py_buffer(column.offsets)])
    return pa.MapArray.from_arrays(offsets, names, values)


def arrow_text(pa: Any, column: TextColumn, count: int, kind: Any) -> Any:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, count, buffers, column.gap_count)


def _with_bad() -> tuple[bytes, array[int]]:
    """Five records: the second has a wrong checksum, the fourth a body that is no zlib."""
    pieces = [
        encode_record(
            **{**FIELDS, "body": b"body %d" % number, "queue_offset": number},
            sys_flag=1 if number == 3 else 0,
        )
        for number in range(5)
    ]
    pieces[1][88 + 5] = ord("9")
    starts, at = array("q"), 0
    for piece in pieces:
        starts.append(at)
        at += len(piece)
    return b"".join(pieces), starts


def test_a_body_that_cannot_be_opened_fails_with_its_place(build: str) -> None:
    with pytest.raises(CorruptRecord, match=r"topic T queue 3 offset 1: .*checksum.*onBadMessage"):
        RecordColumns(["body"]).read(*_with_bad())


@pytest.mark.parametrize("on_bad", ["report", "skip"])
def test_bodies_that_cannot_be_opened_are_reported_or_skipped(build: str, on_bad: str) -> None:
    reader = RecordColumns(["queue_offset", "body", "properties"], on_bad=on_bad)
    noted: list[str] = []
    reader.on_bad_message = lambda place, reason: noted.append(place)
    found = reader.read(*_with_bad())
    assert noted == [f"topic T queue 3 offset {offset}" for offset in (1, 3)]
    offsets, bodies = found["queue_offset"], found["body"]
    assert isinstance(offsets, NumberColumn) and isinstance(bodies, TextColumn)
    kept = [0, 1, 2, 3, 4] if on_bad == "report" else [0, 2, 4]
    assert reader.row_count == len(kept)
    assert list(array("q", bytes(offsets.data)[: 8 * len(kept)])) == kept
    whole = b"".join(b"body %d" % number for number in (0, 2, 4))
    ends = array("i", bytes(bodies.offsets)[: 4 * len(kept) + 4])
    assert bytes(bodies.data)[: ends[-1]] == whole
    properties = found["properties"]
    assert isinstance(properties, MapColumn)
    names = bytes(properties.names.data)
    assert names.count(b"BAD_MESSAGE") == (2 if on_bad == "report" else 0)


def test_without_the_body_nothing_is_checked(build: str) -> None:
    reader = RecordColumns(["queue_offset"])
    reader.read(*_with_bad())
    assert reader.row_count == 5
