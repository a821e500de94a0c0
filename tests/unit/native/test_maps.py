"""The maps of the native core: their C side, their Python side and the page say the same."""

from __future__ import annotations

import random
import re
from pathlib import Path
from types import ModuleType

import pytest

from contrailmq._native import frame, index_file, inner, record, text, unit
from contrailmq._native.spark import place
from contrailmq._native.store import scan
from contrailmq.protocol import sysflag
from contrailmq.protocol.command import Command, Serialization
from contrailmq.protocol.message import encode_record

MAPS = (frame, index_file, inner, place, record, text, unit)
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "store-format.md").read_text()
HOST = bytes.fromhex("7f00000100002a9f")
HOST_V6 = bytes(15) + b"\x01" + (10911).to_bytes(4, "big")
TEXT = " ".join(PAGE.split())  # whatever its line breaks


def _c_side(module: ModuleType) -> str:
    found = Path(str(module.__file__)).with_suffix(".pxd").read_text()
    assert found.startswith("# inline")
    return found


def _c_constants(module: ModuleType) -> dict[str, int]:
    found = _c_side(module)
    items = re.findall(r"^    ([A-Z][A-Z0-9_]*) = (\w+)$", found, re.MULTILINE)
    items += re.findall(r"#define CONTRAIL_(\w+) (0x\w+)u$", found, re.MULTILINE)
    return {name: int(value, 0) for name, value in items}


@pytest.mark.parametrize("module", MAPS)
def test_both_sides_have_the_same_constants(module: ModuleType) -> None:
    ours = {n: v for n, v in vars(module).items() if n.isupper() and isinstance(v, int)}
    assert ours
    assert _c_constants(module) == ours


@pytest.mark.parametrize("module", MAPS)
def test_both_sides_have_the_same_functions_and_fields(module: ModuleType) -> None:
    found = _c_side(module)
    functions = set(re.findall(r"^cdef inline [^(]*?\b([a-z]\w+)\(", found, re.MULTILINE))
    ours = {
        name
        for name, value in vars(module).items()
        if name[0].islower() and getattr(value, "__module__", "") == module.__name__
    }
    assert functions == ours
    for name, fields in re.findall(r"cdef struct (\w+):\n    Py_ssize_t (.*)\n", found):
        assert tuple(fields.split(", ")) == getattr(module, name)._fields


def test_the_page_has_the_places_of_a_record() -> None:
    rows = re.findall(r"^\| (\d*) \| ([^|]*) \| ([^|]*) \|$", PAGE, re.MULTILINE)
    ours = sorted(v for n, v in vars(record).items() if n.endswith("_AT"))
    told = []
    for at, sizes, _ in rows:
        place = int(at) if at else None
        for size in sizes.split(" + "):
            if place is not None:
                told.append(place)
                place = place + int(size) if size.isdecimal() else None
    assert told == ours
    assert f"{record.MAGIC_V1:X}" in TEXT
    assert f"{record.MAGIC_V2:X}" in TEXT
    assert f"{record.MAGIC_BLANK:X}" in TEXT
    assert f"an IPv6 host is {record.IPV6_EXTRA} bytes" in TEXT


def test_the_page_has_the_sizes_of_queues_and_index() -> None:
    assert f"A unit is {unit.SIZE} bytes: offset in the log (8), size (4), tags code (8)" in TEXT
    assert (unit.RECORD_SIZE_AT, unit.CODE_AT, unit.SIZE) == (8, 8 + 4, 8 + 4 + 8)
    sizes = f"{index_file.HEAD_SIZE} + {index_file.SLOT_SIZE}·maxHashSlotNum + "
    assert f"{sizes}{index_file.ENTRY_SIZE}·maxIndexNum" in TEXT
    assert index_file.entry_at(3, 2) == index_file.slot_at(3) + 2 * index_file.ENTRY_SIZE


def test_sizes_follow_from_places() -> None:
    assert record.SIZE_MIN == record.BODY_AT + 1 + record.PROPERTIES_HEAD
    assert record.HOST_SIZE_V6 - record.HOST_SIZE == record.IPV6_EXTRA
    assert record.BODY_AT - record.BODY_LENGTH_AT == 4
    assert inner.SIZE_MIN == inner.BODY_AT + inner.PROPERTIES_HEAD
    shared = {n for n in vars(record) if n.isupper()} & {n for n in vars(sysflag) if n.isupper()}
    assert len(shared) == 8
    assert all(getattr(record, name) == getattr(sysflag, name) for name in shared)


def test_every_reason_has_a_text_and_scan_has_the_map_of_them() -> None:
    names = [n for n in vars(record) if n in ("END", "EMPTY", "BLANK", "FULL", "CUT", "LOST_PAGE")]
    names += [n for n in vars(record) if n.startswith("BAD_")]
    assert {getattr(record, name) for name in names} == set(record.REASONS)
    assert len(set(record.REASONS.values())) == len(names)
    assert scan.DAMAGE is record.DAMAGE
    assert not {record.END, record.EMPTY, record.BLANK, record.FULL} & set(record.DAMAGE)


@pytest.mark.parametrize("topic", ["T", "t" * 127, "t" * 128, "t" * 300])
@pytest.mark.parametrize("born", [HOST, HOST_V6])
@pytest.mark.parametrize("store", [HOST, HOST_V6])
@pytest.mark.parametrize("body", [b"", b"body"])
def test_the_spans_of_a_record_of_every_shape(
    topic: str, born: bytes, store: bytes, body: bytes
) -> None:
    data = bytes(
        encode_record(
            topic=topic, body=body, properties={"a": "b"}, queue_id=3, queue_offset=5,
            commit_log_offset=6, born_ms=1, store_ms=7, born_host=born, store_host=store,
        )
    )  # fmt: skip
    found = record.locate(data, 0, len(data))
    flag = record.sys_flag(data, 0)
    assert (found.size, found.end) == (len(data), len(data))
    assert data[found.body : found.body + found.body_size] == body
    assert data[found.topic : found.topic + found.topic_size] == topic.encode()
    assert data[found.properties : found.end].startswith(b"a\x01b")
    assert (record.queue_id(data, 0), record.queue_offset(data, 0)) == (3, 5)
    assert (record.log_offset(data, 0), record.store_ms(data, 0)) == (6, 7)
    assert record.size_with(len(body), len(topic), found.properties_size, flag) == len(data)
    host_at = record.store_ms_at(flag) + 8
    assert data[host_at : host_at + record.store_host_size(flag)] == store
    for cut in range(record.SIZE_MIN, len(data)):
        assert record.locate(data, 0, cut) == record.no_record(record.BAD_FIELDS)


def test_the_places_of_a_binary_header() -> None:
    data = Command(
        310, fields={"a": "1"}, opaque=0x01020304, flag=2, serialization=Serialization.ROCKETMQ
    ).encode()
    head = data[frame.HEADER_AT :]
    assert data[frame.MARK_AT] == frame.BINARY
    assert int.from_bytes(head[frame.BINARY_CODE_AT :][:2], "big") == 310
    assert int.from_bytes(head[frame.BINARY_OPAQUE_AT :][:4], "big") == 0x01020304
    assert int.from_bytes(head[frame.BINARY_FLAG_AT :][:4], "big") == frame.ONEWAY
    assert int.from_bytes(head[frame.BINARY_FIELDS_LENGTH_AT :][:4], "big") == len(head) - 21
    assert head[frame.BINARY_SIZE_MIN :] == b"\0\x01a\0\0\0\x011"


def test_numbers_as_text() -> None:
    for value in (0, 7, 9, 10, 99, 100, -1, -10, 2**63 - 1, -(2**63), 10**18, 10**18 - 1):
        out = bytearray(30)
        assert text.put_number(out, 2, value) == 2 + text.digits(value)
        assert out[2 : 2 + text.digits(value)].decode() == str(value)
    out = bytearray(20)
    assert text.put_hex_64(out, 1, 0xAB) == 17
    assert out[1:17] == b"00000000000000AB"
    assert text.put_hex_8(out, 0, 0x5F) == 2
    assert out[:2] == b"5F"
    assert chr(text.lower_hex(11)) == "b"


def test_a_walk_finds_the_pairs_of_any_bytes() -> None:
    seeded = random.Random(20261117)
    for _ in range(2000):
        data = bytes(seeded.choice(b"\x01\x02ab") for _ in range(seeded.randrange(12)))
        pairs = []
        at = 0
        while at < len(data):
            pair = text.pair_at(data, at, len(data))
            if pair.name_size >= 0:
                name = data[pair.name : pair.name + pair.name_size]
                pairs.append((name, data[pair.value : pair.value + pair.value_size]))
                assert pair.value + pair.value_size == pair.end
            at = pair.end + 1
        assert pairs == [tuple(p.split(b"\x01", 1)) for p in data.split(b"\x02") if b"\x01" in p]
