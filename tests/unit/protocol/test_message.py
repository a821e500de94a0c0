"""Records and batches: the vector of the format's page, limits, and what a record offers."""

from __future__ import annotations

import copy
import mmap
import pickle
import struct
from typing import Any

import pytest

from contrailmq._native import record
from contrailmq.errors import CorruptRecord, LocalProtocolError, RemoteProtocolError
from contrailmq.protocol.batch import BatchMessage, decode_batch, encode_batch
from contrailmq.protocol.filter.tags import build_subscription, parse_tags
from contrailmq.protocol.message import (
    Record,
    decode_record,
    decode_records,
    encode_record,
)

SAMPLE = bytes.fromhex(
    "0000007bdaa320a73610a68600000002000000000000000000000007000000000000"
    "03e8000000000000018bcfe568007f0000010000c3500000018bcfe5687b7f000001"
    "00002a9f00000000000000000000000000000005"
    "68656c6c6f09546f70696354657374001"
    "24b455953016b310254414753015461674102"
)
FIELDS: dict[str, Any] = {
    "topic": "TopicTest",
    "body": b"hello",
    "properties": {"KEYS": "k1", "TAGS": "TagA"},
    "queue_id": 2,
    "queue_offset": 7,
    "commit_log_offset": 1000,
    "born_ms": 1700000000000,
    "born_host": bytes.fromhex("7f0000010000c350"),
    "store_ms": 1700000000123,
    "store_host": bytes.fromhex("7f00000100002a9f"),
}


def test_the_sample_record() -> None:
    assert encode_record(**FIELDS) == SAMPLE
    record = decode_record(SAMPLE, check_crc=True)
    assert (record.topic, record.body, record.keys, record.tags) == (
        "TopicTest",
        b"hello",
        ["k1"],
        "TagA",
    )
    assert (record.born_host, record.store_host) == ("127.0.0.1:50000", "127.0.0.1:10911")
    assert record.offset_message_id == "7F00000100002A9F00000000000003E8"
    assert record.unique_key is None
    assert record.properties is record.properties
    assert "queue_offset=7" in repr(record)


def test_a_record_is_a_value() -> None:
    record = decode_record(SAMPLE)
    again = decode_record(SAMPLE)
    assert record == again
    assert hash(record) == hash(again)
    assert len({record, again}) == 1
    again.queue_offset = 8
    assert record != again
    assert record != "record"
    for twin in (copy.copy(record), pickle.loads(pickle.dumps(record))):
        assert twin == record
        assert type(twin) is Record


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_read(kind: type) -> None:
    data = kind(b"...." + SAMPLE + SAMPLE)
    assert decode_record(data, 4) == decode_record(SAMPLE)
    assert decode_records(memoryview(data)[4:]) == [decode_record(SAMPLE)] * 2


def test_a_mapped_segment_is_read() -> None:
    with mmap.mmap(-1, 4096) as mapped:
        mapped[100 : 100 + len(SAMPLE)] = SAMPLE
        assert decode_record(mapped, 100) == decode_record(SAMPLE)  # type: ignore[arg-type]


@pytest.mark.parametrize("position", [-1, len(SAMPLE), len(SAMPLE) - 7, 1])
def test_no_record_there(position: int) -> None:
    with pytest.raises(CorruptRecord) as refused:
        decode_record(SAMPLE, position)
    assert refused.value.offset == position


def test_the_reason_and_the_place_are_told() -> None:
    broken = bytearray(SAMPLE)
    broken[90] ^= 1
    assert decode_record(broken).body != b"hello"
    with pytest.raises(CorruptRecord, match="checksum, at 0"):
        decode_record(broken, check_crc=True)
    with pytest.raises(RemoteProtocolError, match=f"checksum, at {len(SAMPLE)}"):
        decode_records(SAMPLE + broken, check_crc=True)
    with pytest.raises(CorruptRecord, match="a blank record"):
        decode_record(struct.pack(">II", 64, record.MAGIC_BLANK) + bytes(56))
    with pytest.raises(CorruptRecord, match="nothing was written here"):
        decode_record(bytes(64))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"properties": bytes(32768)}, "properties of 32768 bytes, at most 32767"),
        ({"topic": "t" * 32768}, "topic of 32768 bytes, at most 32767"),
        ({"born_host": bytes(9)}, "host of 9 bytes"),
        ({"store_host": b""}, "host of 0 bytes"),
    ],
)
def test_what_cannot_be_stored(change: dict[str, Any], text: str) -> None:
    with pytest.raises(LocalProtocolError, match=text):
        encode_record(**{**FIELDS, **change})


def test_a_batch_is_cut_at_every_length() -> None:
    messages = [BatchMessage(b"one", b"a\x01b\x02", 1), BatchMessage(b"", b"", -1)]
    data = encode_batch(messages)
    assert decode_batch(data) == messages
    assert decode_batch(b"") == []
    whole = len(encode_batch(messages[:1]))
    for size in range(1, len(data)):
        if size != whole:
            with pytest.raises(RemoteProtocolError):
                decode_batch(data[:size])
    with pytest.raises(LocalProtocolError, match="properties of 32768 bytes"):
        encode_batch([BatchMessage(b"", bytes(32768))])


@pytest.mark.parametrize("place", range(22))
def test_a_damaged_batch_is_refused_or_read(place: int) -> None:
    data = bytearray(encode_batch([BatchMessage(b"one", b"a\x01b\x02")] * 2))
    for value in (0, 1, 0x7F, 0xFF):
        data[place] = value
        try:
            messages = decode_batch(data)
        except RemoteProtocolError:
            continue
        assert sum(22 + len(m.body) + len(m.properties) for m in messages) == len(data)


def test_tags_match_beyond_their_codes() -> None:
    either = parse_tags("Aa || C")
    assert either.tag_codes == frozenset({2112, 67})
    assert either.matches("Aa") and either.matches("C")
    assert not either.matches("BB")  # the code of Aa
    assert not either.matches(None)
    everything = parse_tags(None)
    assert everything.tag_codes is None
    assert everything.matches(None) and everything.matches("x")
    sql = build_subscription("T", "a > 5", expression_type="SQL92", version_ms=7)
    assert (sql.sub_string, sql.expression_type, sql.sub_version) == ("a > 5", "SQL92", 7)
    assert sql.tags_set == sql.code_set == []
