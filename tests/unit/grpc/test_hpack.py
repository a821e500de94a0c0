"""Header compression of both builds, with ``hpack`` as the oracle."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest
from hpack import Encoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.table import HeaderTable

from contrailmq._native.grpc import tables
from contrailmq.grpc.http2 import blocks
from testkit.builds import BUILDS, native_module


@pytest.fixture(params=BUILDS)
def hpack(request: pytest.FixtureRequest) -> ModuleType:
    return native_module("grpc.hpack", pure=request.param == "pure")


def test_the_tables_are_those_of_the_rfc() -> None:
    assert tables.codes() == list(zip(REQUEST_CODES, REQUEST_CODES_LENGTH, strict=True))
    own = [(name.encode(), value.encode()) for name, value in tables.STATIC]
    assert own == list(HeaderTable.STATIC_TABLE)


@pytest.mark.parametrize("seed", range(4))
def test_blocks_of_the_oracle_decode(hpack: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    encoder, decoder = Encoder(), hpack.HeaderDecoder(4096, 1 << 20)
    names = [f"x-name-{number}" for number in range(30)] + ["content-type", "user-agent"]
    for round_number in range(150):
        if round_number % 40 == 39:
            encoder.header_table_size = rng.choice((0, 100, 1000, 4096))
        letters = "".join(map(chr, range(32, 127))) if rng.random() < 0.7 else "\xe9\xff ~"
        fields = {
            name: "".join(rng.choices(letters, k=rng.choice((0, 1, 7, 40, 300))))
            for name in rng.sample(names, rng.randrange(1, 12))
        }
        given = [(":method", "POST"), (":path", f"/a/{round_number}"), *fields.items()]
        raw = [(name.encode(), value.encode("latin-1")) for name, value in given]
        data = encoder.encode(raw, huffman=rng.random() < 0.7)
        padded = b"??" + data + b"?"
        assert decoder.decode(padded, 2, len(data) + 2) == fields
        assert (decoder.method, decoder.path) == ("POST", f"/a/{round_number}")
        assert decoder.problem is None


@pytest.mark.parametrize(
    "data",
    [
        b"\x80",  # index 0
        b"\xbe",  # an empty dynamic table
        b"\xff\xff\xff\xff\xff\xff\x7f",  # a number without end
        b"\xff\x80\x80\x80\x80\x80\x00",  # one that is too long
        b"\x7f",  # a cut number
        b"\x40",  # no name
        b"\x40\x03ab",  # a cut name
        b"\x40\x01a",  # no value
        b"\x40\x01a\x85\xff\xff\xff\xff\xff",  # the end mark
        b"\x40\x01a\x81\x00",  # ends within a symbol
        b"\x3f\xe2\x1f",  # a table of 4097
        b"\x82\x20",  # a table size after a field
    ],
)
def test_what_breaks_the_table_is_an_error(hpack: ModuleType, data: bytes) -> None:
    with pytest.raises(hpack.HpackError):
        hpack.HeaderDecoder(4096, 8192).decode(data, 0, len(data))


@pytest.mark.parametrize(
    "fields",
    [
        [("X-Upper", "1")],
        [("", "1")],
        [("a b", "1")],
        [("connection", "close")],
        [("te", "gzip")],
        [("a", "line\r\nbreak")],
        [(":unknown", "1")],
        [(":path", "/"), (":path", "/")],
        [("a", "1"), (":path", "/")],
    ],
)
def test_a_wrong_header_is_noted_and_the_table_kept(hpack: ModuleType, fields: Any) -> None:
    encoder, decoder = Encoder(), hpack.HeaderDecoder(4096, 8192)
    first = encoder.encode([*fields, ("kept", "value")])
    decoder.decode(first, 0, len(first))
    assert decoder.problem
    second = encoder.encode([("kept", "value")])
    assert decoder.decode(second, 0, len(second)) == {"kept": "value"}
    assert decoder.problem is None


def test_a_list_beyond_the_limit_is_not_kept(hpack: ModuleType) -> None:
    encoder, decoder = Encoder(), hpack.HeaderDecoder(4096, 1000)
    bomb = encoder.encode([("bomb", "x" * 900)] + [("bomb", "x" * 900)] * 5000)
    fields = decoder.decode(bomb, 0, len(bomb))
    assert decoder.is_too_large
    assert sum(map(len, fields.values())) < 1000
    assert decoder.table_size <= 4096
    after = encoder.encode([("small", "1")])
    assert decoder.decode(after, 0, len(after)) == {"small": "1"}
    assert not decoder.is_too_large


def test_a_repeated_name_is_joined(hpack: ModuleType) -> None:
    data = Encoder().encode([("a", "1"), ("b", "2"), ("a", "3")])
    assert hpack.HeaderDecoder(4096, 8192).decode(data, 0, len(data)) == {"a": "1,3", "b": "2"}


def test_blocks_that_we_write_decode(hpack: ModuleType) -> None:
    data = blocks.literal(b"name", b"v" * 300) + blocks.literal(b"n" * 200, b"")
    found = hpack.HeaderDecoder(4096, 8192).decode(data, 0, len(data))
    assert found == {"name": "v" * 300, "n" * 200: ""}


@pytest.mark.parametrize("text", ["plain", "50% é\n中", "", "a%zzb", "%"])
def test_messages_of_a_status_come_back(text: str) -> None:
    assert blocks.percent_decoded(blocks.percent_encoded(text).decode()) == text
