"""Records: what goes in comes out; what is cut or damaged is refused; both builds agree."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrailmq._native import record as record_map
from contrailmq.errors import CorruptRecord, RemoteProtocolError
from contrailmq.protocol.message import (
    Record,
    decode_record,
    decode_records,
    encode_record,
    record_size,
)
from testkit.builds import native_module

COMPILED = native_module("records", pure=False)
PURE = native_module("records", pure=True)
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
HOSTS = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1)
FLAGS = st.integers(0, 0x7FF).map(lambda flag: flag & ~0x31)

FIELDS = st.fixed_dictionaries(
    {
        "topic": st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
        "body": st.binary(max_size=300),
        "properties": st.dictionaries(NAMES, NAMES, max_size=5),
        "born_ms": I64,
        "born_host": HOSTS,
        "store_host": HOSTS,
        "queue_id": I32,
        "queue_offset": I64,
        "commit_log_offset": I64,
        "store_ms": I64,
        "flag": I32,
        "sys_flag": FLAGS,
        "reconsume_times": I32,
        "prepared_transaction_offset": I64,
    }
)
ORDINARY: dict[str, Any] = {
    "topic": "TopicTest",
    "body": b"hello",
    "properties": {"KEYS": "k1", "TAGS": "TagA"},
    "born_ms": 1700000000000,
    "born_host": bytes.fromhex("7f0000010000c350"),
    "store_host": bytes.fromhex("7f00000100002a9f"),
}


class PureRecord(PURE.RecordFields):  # type: ignore[misc,name-defined]
    """A record of the uncompiled build."""


NUMBERS = [
    "queue_id",
    "queue_offset",
    "commit_log_offset",
    "store_size",
    "sys_flag",
    "flag",
    "born_ms",
    "store_ms",
    "reconsume_times",
    "prepared_transaction_offset",
    "body_crc",
]
OTHERS = ["topic", "body", "born_host_bytes", "store_host_bytes", "properties_bytes"]


@given(FIELDS)
def test_a_record_comes_back(fields: dict[str, Any]) -> None:
    encoded = encode_record(**fields)
    record = decode_record(encoded, check_crc=True)
    for name in ("topic", "body", "born_ms", "queue_id", "queue_offset", "commit_log_offset"):
        assert getattr(record, name) == fields[name]
    for name in ("store_ms", "flag", "reconsume_times", "prepared_transaction_offset"):
        assert getattr(record, name) == fields[name]
    assert record.properties == fields["properties"]
    assert (record.born_host_bytes, record.store_host_bytes) == (
        fields["born_host"],
        fields["store_host"],
    )
    assert record.sys_flag & ~0x30 == fields["sys_flag"]
    assert record.store_size == len(encoded)
    topic = len(fields["topic"].encode())
    assert (int.from_bytes(encoded[record_map.MAGIC_AT :][:4], "big") == record_map.MAGIC_V2) is (
        topic > 127
    )
    assert len(encoded) == record_size(
        body=len(record.body),
        topic=topic,
        properties=len(record.properties_bytes),
        sys_flag=record.sys_flag,
    )


@given(st.lists(FIELDS, max_size=5), st.binary(max_size=3))
def test_records_back_to_back_on_both_builds(many: list[dict[str, Any]], gap: bytes) -> None:
    encoded = [bytes(encode_record(**fields)) for fields in many]
    data = b"".join(encoded)
    compiled = COMPILED.decode_records(data, Record, 1 << 40, True)
    pure = PURE.decode_records(data, PureRecord, 1 << 40, True)
    assert len(compiled) == len(pure) == len(many)
    for one, other in zip(compiled, pure, strict=True):
        for name in NUMBERS + OTHERS:
            assert getattr(one, name) == getattr(other, name), name
    assert [record.fields() for record in compiled] == [
        decode_record(record).fields() for record in encoded
    ]
    assert decoded(COMPILED, data + gap, Record) == decoded(PURE, data + gap, PureRecord)
    if gap:
        assert decoded(PURE, data + gap, PureRecord) == (record_map.CUT, len(data))


@given(st.binary(max_size=200))
def test_garbage_is_refused_alike(garbage: bytes) -> None:
    assert decoded(COMPILED, garbage, Record) == decoded(PURE, garbage, PureRecord)
    with pytest.raises(CorruptRecord):
        decode_record(garbage)
    if garbage:
        with pytest.raises(RemoteProtocolError):
            decode_records(garbage)


@settings(max_examples=300)
@given(FIELDS, st.data())
def test_changed_bytes_never_do_more_than_raise(
    fields: dict[str, Any], data: st.DataObject
) -> None:
    encoded = encode_record(**fields)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(encoded) - 1))
        encoded[place] = data.draw(st.integers(0, 255))
    raw = bytes(encoded)
    assert decoded(COMPILED, raw, Record) == decoded(PURE, raw, PureRecord)


@pytest.mark.parametrize("long_topic", [False, True])
def test_every_truncation_is_refused(long_topic: bool) -> None:
    fields = {**ORDINARY, "topic": "t" * 150} if long_topic else ORDINARY
    encoded = bytes(encode_record(**fields))
    for size in range(len(encoded)):
        with pytest.raises(CorruptRecord):
            decode_record(encoded[:size])
        if size:
            with pytest.raises(RemoteProtocolError):
                decode_records(encoded[:size])
        # After a whole record the cut one is found, and the whole one is not lost.
        if size:
            cut = encoded + encoded[:size]
            assert decoded(COMPILED, cut, Record) == (record_map.CUT, len(encoded))
            assert len(COMPILED.decode_records(cut, Record, 1, True)) == 1


@given(st.lists(st.tuples(NAMES, NAMES), max_size=6), NAMES, st.booleans())
def test_a_property_is_found_as_in_the_dict(
    pairs: list[tuple[str, str]], name: str, last: bool
) -> None:
    raw = "\x02".join(f"{key}\x01{value}" for key, value in pairs).encode() + b"\x02" * last
    wanted = {key: value for key, value in pairs}  # noqa: C416 the last of equal names wins
    for native in (COMPILED, PURE):
        assert native.decode_properties(raw) == wanted
        for key in [name, *wanted]:
            value = wanted.get(key)
            found = native.find_property(raw, key.encode())
            assert found == (None if value is None else value.encode())


@given(st.binary(max_size=60), st.binary(max_size=4))
def test_damaged_properties_read_alike(raw: bytes, name: bytes) -> None:
    assert COMPILED.decode_properties(raw) == PURE.decode_properties(raw)
    marked = raw.replace(b"a", b"\x01").replace(b"b", b"\x02")
    properties = PURE.decode_properties(marked)
    assert COMPILED.decode_properties(marked) == properties
    found = PURE.find_property(marked, name)
    assert COMPILED.find_property(marked, name) == found
    if b"\x01" not in name and b"\x02" not in name and name.isascii():
        value = properties.get(name.decode())
        assert (found and found.decode("utf-8", "replace")) == value


@given(st.text(), st.binary(max_size=30))
def test_java_hash_on_both_builds(text: str, raw: bytes) -> None:
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for place in range(0, len(units), 2):
        value = (value * 31 + int.from_bytes(units[place : place + 2], "big")) % 2**32
    signed = value - 2**32 if value >= 2**31 else value
    decoded_text = raw.decode("utf-8", "replace")
    for pure in (False, True):
        native = native_module("hashing", pure=pure)
        assert native.java_hash_of(text) == signed
        whole = native.java_hash(raw or bytes(1), 0, len(raw), 0)
        assert native.as_int(whole) == native.java_hash_of(decoded_text)


def test_a_topic_is_not_taken_from_its_neighbour_by_mistake() -> None:
    # One character of a neighbour's topic, and one byte of ours, with the same number.
    first = encode_record(**{**ORDINARY, "topic": "\u00e9"})
    second = encode_record(**{**ORDINARY, "topic": b"\xe9"})
    data = bytes(first + second)
    for native, make in ((COMPILED, Record), (PURE, PureRecord)):
        records = native.decode_records(data, make, 10, False)
        assert [record.topic for record in records] == ["\u00e9", "\ufffd"]


def test_what_ends_records_has_a_reason() -> None:
    encoded = bytes(encode_record(**ORDINARY))
    blank = (100).to_bytes(4, "big") + record_map.MAGIC_BLANK.to_bytes(4, "big") + bytes(92)
    for native, make in ((COMPILED, Record), (PURE, PureRecord)):
        assert decoded(native, encoded + blank, make) == (record_map.BLANK, len(encoded))
        assert decoded(native, encoded + bytes(20), make) == (record_map.EMPTY, len(encoded))
        assert decoded(native, encoded + encoded[:-1], make) == (record_map.CUT, len(encoded))
        assert decoded(native, encoded + b"\1" * 20, make) == (record_map.BAD_MAGIC, len(encoded))


def decoded(native: ModuleType, data: bytes, make: type) -> object:
    try:
        records = native.decode_records(data, make, 1 << 40, True)
    except native.RecordDamage as error:
        return (error.reason, error.position)
    return [[getattr(record, name) for name in NUMBERS + OTHERS] for record in records]
