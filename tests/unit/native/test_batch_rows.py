"""Rows of columns into batch messages, on both builds: the same bytes as the plain encoder's."""

from __future__ import annotations

import struct
from array import array
from typing import Any

import pytest

from contrailmq.protocol.batch import decode_batch
from contrailmq.protocol.ids import java_hash
from contrailmq.protocol.properties import decode_properties
from testkit.builds import BUILDS, native_module


@pytest.fixture(params=BUILDS)
def native(request: pytest.FixtureRequest) -> Any:
    return native_module("spark.batch_rows", pure=request.param == "pure")


def _spans(native: Any, values: list[bytes | None], name: bytes = b"") -> Any:
    """A column as Arrow lays it out, with two rows of something else before it."""
    values = [b"??", b"??", *values]
    data, offsets, validity = b"", [0], bytearray((len(values) + 7) // 8)
    for index, value in enumerate(values):
        data += value or b""
        offsets.append(len(data))
        if value is not None:
            validity[index >> 3] |= 1 << (index & 7)
    view = memoryview(struct.pack(f"={len(offsets)}i", *offsets)).cast("i")
    return native.Spans(name, view, data, bytes(validity), 2)


def _encode(native: Any, encoder: Any, rows: list[int], size: int = 4096) -> list[Any]:
    out = bytearray(size)
    count, end = encoder.encode(array("q", rows), 0, out, 0, len(out))
    assert count == len(rows)
    return decode_batch(out[:end])


def test_bodies_and_properties(native: Any) -> None:
    body = _spans(native, [b"one", b"", b"three"])
    keys = _spans(native, [b"k1", None, b""], b"KEYS")
    tags = _spans(native, [None, b"t2", b"t3"], b"TAGS")
    found = _encode(native, native.Encoder(body, [keys, tags], None), [2, 0, 1])
    assert [message.body for message in found] == [b"three", b"one", b""]
    assert [decode_properties(message.properties) for message in found] == [
        {"TAGS": "t3"},
        {"KEYS": "k1"},
        {"TAGS": "t2"},
    ]


def test_maps_and_unique_keys(native: Any) -> None:
    names = _spans(native, [b"a", b"CLUSTER", b"b", b"c"])
    values = _spans(native, [b"1", b"x", b"2", None])
    offsets = memoryview(struct.pack("=4i", 0, 3, 3, 4)).cast("i")
    pairs = native.Pairs(offsets, b"", 0, names, values, bytes([0, 1, 0, 0]))
    encoder = native.Encoder(_spans(native, [b"x", b"y", b"z"]), [], pairs)
    encoder.number(bytes(range(8)), b"\xaa\xbb\xcc\xdd", 0x12340)
    found = [decode_properties(m.properties) for m in _encode(native, encoder, [0, 1, 2])]
    keys = [f"00010203040506070001AABBCCDD234{row}" for row in range(3)]
    assert found == [
        {"a": "1", "b": "2", "UNIQ_KEY": keys[0]},
        {"UNIQ_KEY": keys[1]},
        {"UNIQ_KEY": keys[2]},
    ]


def test_what_does_not_fit_is_left(native: Any) -> None:
    encoder = native.Encoder(_spans(native, [b"x" * 30] * 5), [], None)
    out = bytearray(120)
    assert encoder.encode(array("q", range(5)), 1, out, 10, 120) == (2, 10 + 2 * 52)
    assert out[:10] == bytes(10)
    assert len(decode_batch(out[10:114])) == 2
    with pytest.raises(ValueError, match="no room"):
        encoder.encode(array("q", [0]), 0, out, 0, 121)


@pytest.mark.parametrize("value", [b"a\x01b", b"a\x02", b"x" * 32763])
def test_a_property_that_cannot_be_stored(native: Any, value: bytes) -> None:
    encoder = native.Encoder(
        _spans(native, [b"", b"y"]), [_spans(native, [b"fine", value], b"TAGS")], None
    )
    with pytest.raises(ValueError, match="a separator in it"):
        encoder.encode(array("q", [0, 1]), 0, bytearray(1000), 0, 1000)
    assert encoder.bad_row == 1


@pytest.mark.parametrize("row", [-3, 2, 10**12])
def test_rows_that_are_not_there(native: Any, row: int) -> None:
    encoder = native.Encoder(_spans(native, [b"x", b"y"]), [], None)
    with pytest.raises(ValueError, match="no body"):
        encoder.encode(array("q", [row]), 0, bytearray(1000), 0, 1000)


def test_offsets_beyond_the_data_are_not_followed(native: Any) -> None:
    offsets = memoryview(struct.pack("=3i", 0, 4, 9000)).cast("i")
    encoder = native.Encoder(native.Spans(b"", offsets, b"abcd", b"", 0), [], None)
    with pytest.raises(ValueError, match="no body"):
        encoder.encode(array("q", [1]), 0, bytearray(100_000), 0, 100_000)
    with pytest.raises(ValueError, match="validity"):
        native.Spans(b"", memoryview(bytes(4 * 20)).cast("i"), b"", b"\xff", 0)


def test_queues_by_the_hash_of_the_first_key(native: Any) -> None:
    keys = [b"k1", b"k2 other", None, b"", "schlüssel".encode(), b"a-long-key-" * 9]
    out = memoryview(bytearray(4 * len(keys))).cast("i")
    native.hash_rows(_spans(native, keys), len(keys), 7, out)
    wanted = [abs(java_hash(key)) % 7 for key in ("k1", "k2", "schlüssel", "a-long-key-" * 9)]
    assert [out[0], out[1], out[4], out[5]] == wanted
    assert list(out[2:4]) == [-1, -1]
