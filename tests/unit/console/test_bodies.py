"""Readings of bodies: layers of compression, text, MessagePack, Protocol Buffers, bytes."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import lz4.frame
import msgspec
import pytest
import zstandard

from contrailmq.console import bodies
from contrailmq.console.msgpack import read_msgpack
from contrailmq.console.protobuf import read_protobuf
from contrailmq.protocol.compression import Compression, compress
from contrailmq.protocol.message import Record, decode_record, encode_record

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
TEXT = b'{"name": "Ada", "n": 1}' * 20


def record(body: bytes, sys_flag: int = 0) -> Record:
    return decode_record(
        encode_record(
            topic="t",
            body=body,
            properties={},
            born_ms=1,
            born_host=HOST,
            store_host=HOST,
            sys_flag=sys_flag,
        )
    )


@pytest.mark.parametrize(
    ("body", "layers"),
    [
        (gzip.compress(TEXT, mtime=0), ["gzip"]),
        (zlib.compress(TEXT), ["zlib"]),
        (lz4.frame.compress(TEXT), ["lz4"]),
        (zstandard.compress(TEXT), ["zstd"]),
        (gzip.compress(zstandard.compress(TEXT), mtime=0), ["gzip", "zstd"]),
        (TEXT, []),
        (b"\x1f\x8bnot gzip at all", []),
    ],
)
def test_compression_of_programs_is_taken_off(body: bytes, layers: list[str]) -> None:
    opened, told = bodies.opened(record(body))
    assert told == layers
    assert opened == (TEXT if layers or body == TEXT else body)


def test_the_compression_of_the_message_comes_first() -> None:
    body = compress(gzip.compress(TEXT), Compression.ZSTD)
    assert bodies.opened(record(body, Compression.ZSTD.flags)) == (TEXT, ["zstd", "gzip"])


def test_a_bomb_stays_closed() -> None:
    bomb = gzip.compress(b"\0" * (bodies.OPENED_SIZE_MAX + 1))
    assert bodies.opened(record(bomb)) == (bomb, [])


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        (b'{"a": 1}', ["json", "text", "hex"]),
        (b"plain \xc3\xa9", ["text", "hex"]),
        (b"{not json", ["text", "hex"]),
        (msgspec.msgpack.encode({"a": [1, b"\xff"]}), ["msgpack", "hex"]),
        (b"\xff\xfe\x00\x01\xff", ["hex"]),
        (b"", ["text", "hex"]),
    ],
)
def test_which_readings_fit(body: bytes, kinds: list[str]) -> None:
    assert [view["kind"] for view in bodies.shown(record(body))["views"]] == kinds


def test_message_pack_and_protocol_buffers() -> None:
    packed: Any = read_msgpack(msgspec.msgpack.encode({"id": 7, "raw": b"\x01"}))
    assert '"id": 7' in packed and '"raw": "01"' in packed
    # 1: 150, 2: "testing", 3 { 1: 150 }
    wire = b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01"
    assert read_protobuf(wire) == '1: 150\n2: "testing"\n3 {\n  1: 150\n}'
    assert read_protobuf(wire[:-1]) is None


def test_one_line_for_lists() -> None:
    assert bodies.line(record(b"a\n  b")) == "a b"
    assert bodies.line(record(b"\xff\x00\x01")) == "ff 00 01"
    assert bodies.line(record("é".encode() * 4000)).endswith("…")
    assert bodies.line(record(gzip.compress(b"zipped"))) == "[gzip] zipped"
