"""The record scan: what it accepts, where it stops and why, on both builds."""

from __future__ import annotations

import random
import zlib
from types import ModuleType

import pytest

from contrailmq.protocol.message import encode_record
from testkit.builds import BUILDS, native_module

NO_DOUBT = (1 << 63) - 1


@pytest.fixture(params=BUILDS)
def scan(request: pytest.FixtureRequest) -> ModuleType:
    return native_module("store.scan", pure=request.param == "pure")


def _record(offset: int, *, body: bytes = b"hello", properties: bytes = b"TAGS\x01A\x02") -> bytes:
    return bytes(
        encode_record(
            topic="TopicTest",
            queue_id=2,
            queue_offset=7,
            commit_log_offset=offset,
            body=body,
            properties=properties,
            born_ms=1_700_000_000_000,
            born_host=bytes([127, 0, 0, 1, 0, 0, 195, 80]),
            store_host=bytes([127, 0, 0, 1, 0, 0, 42, 159]),
            store_ms=1_700_000_000_123,
        )
    )


def _log(*bodies: bytes, base: int = 0, size: int = 8192) -> bytearray:
    data = bytearray()
    for body in bodies:
        data += _record(base + len(data), body=body)
    return data + bytes(size - len(data))


def _walk(scan: ModuleType, data: bytes | bytearray, **choice: int) -> tuple[int, int, int, int]:
    values = {"position": 0, "until": len(data), "base": 0, "crc": 1, "doubt_ms": NO_DOUBT}
    values |= choice
    found: tuple[int, int, int, int] = scan.walk(data, *values.values())
    return found


@pytest.mark.parametrize("size", [0, 1, 7, 15, 16, 17, 31, 32, 100, 1000])
def test_crc_is_zlibs(scan: ModuleType, size: int) -> None:
    data = random.Random(size).randbytes(size + 20)
    assert scan.crc32(data, 3, 3 + size) == zlib.crc32(data[3 : 3 + size])


def test_walk_passes_whole_records_and_stops_at_untouched_bytes(scan: ModuleType) -> None:
    data = _log(b"one", b"", b"three" * 50)
    end = len(bytes(data).rstrip(b"\0"))
    assert _walk(scan, data) == (end, 3, scan.EMPTY, 1_700_000_000_123)
    assert _walk(scan, data, until=1) == (
        len(_record(0, body=b"one")),
        1,
        scan.END,
        1_700_000_000_123,
    )


def test_a_blank_record_ends_the_segment(scan: ModuleType) -> None:
    data = _log(b"one")
    end = len(bytes(data).rstrip(b"\0"))
    data[end : end + 8] = (len(data) - end).to_bytes(4, "big") + (0xCBD43194).to_bytes(4, "big")
    assert _walk(scan, data)[:3] == (end, 1, scan.BLANK)


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, b"\x00\x00\x00\x10", "BAD_SIZE"),
        (0, b"\x7f\xff\xff\xff", "BAD_SIZE"),
        (4, b"\x12", "BAD_MAGIC"),
        (28, b"\x01", "BAD_PLACE"),
        (36, b"\x00\x00\x00\x10", "BAD_FIELDS"),
        (84, b"\xff\xff\xff\xff", "BAD_FIELDS"),
        (88, b"J", "BAD_CRC"),
    ],
)
def test_damage_has_a_name(scan: ModuleType, at: int, value: bytes, reason: str) -> None:
    data = _log(b"first", b"second")
    second = len(_record(0, body=b"first"))
    data[second + at : second + at + len(value)] = value
    assert _walk(scan, data)[:3] == (second, 1, getattr(scan, reason))
    assert getattr(scan, reason) in scan.DAMAGE


def test_the_checksum_is_a_choice(scan: ModuleType) -> None:
    data = _log(b"first")
    data[88] ^= 1
    assert _walk(scan, data, crc=0)[1] == 1


def test_every_flipped_byte_is_found_or_lies_where_no_checksum_reaches(scan: ModuleType) -> None:
    record = _record(0, body=b"a body of some length")
    harmless = set()
    for at in range(len(record)):
        data = bytearray(record) + bytes(200)
        data[at] ^= 0xFF
        if _walk(scan, data)[1]:
            harmless.add(at)
    # queue id, flag, queue offset, times, hosts, counts; text of topic and properties
    assert not harmless & {*range(12), *range(28, 36), 39, *range(84, 88 + 21)}


def test_a_page_that_was_never_written_is_noticed_in_the_properties(scan: ModuleType) -> None:
    properties = b"k\x01" + b"v" * 9000 + b"\x02"
    record = bytearray(_record(0, body=b"small", properties=properties))
    data = record + bytes(4096)
    assert _walk(scan, data, doubt_ms=0)[1] == 1
    for page in (4096, 8192):
        torn = bytearray(data)
        end = min(page + 4096, len(record))
        torn[page:end] = bytes(end - page)
        assert _walk(scan, torn, doubt_ms=0)[:3] == (0, 0, scan.LOST_PAGE)
        assert _walk(scan, torn, doubt_ms=NO_DOUBT)[1] == 1  # vouched for: as it was written


def test_truncation_at_every_length(scan: ModuleType) -> None:
    record = _record(0, body=b"abc")
    for size in range(len(record)):
        assert _walk(scan, record[:size])[1] == 0


def test_garbage_never_raises(scan: ModuleType) -> None:
    rng = random.Random(1)
    for _ in range(300):
        data = bytearray(rng.randbytes(rng.randrange(300)))
        if len(data) > 8 and rng.random() < 0.8:
            data[4:8] = rng.choice([0xDAA320A7, 0xDAA320AB]).to_bytes(4, "big")
            data[0:4] = rng.randrange(len(data) + 2).to_bytes(4, "big")
        if len(data) > 40:
            data[28:36] = bytes(8)
        _walk(scan, data, doubt_ms=0)
        for position in (-1, len(data) + 1):
            with pytest.raises(ValueError, match="outside"):
                scan.check(data, position, len(data) + 2, 0, True)


def test_collect_and_fields(scan: ModuleType) -> None:
    data = _log(b"one", b"two")
    out = memoryview(bytearray(8 * 4)).cast("q")
    position, count, reason = scan.collect(data, 0, len(data), 0, True, out)
    assert (count, reason) == (2, scan.EMPTY)
    assert list(out[:2]) == [0, position // 2]
    small = memoryview(bytearray(8)).cast("q")
    assert scan.collect(data, 0, len(data), 0, True, small) == (position // 2, 1, scan.FULL)
    size, queue_id, queue_offset, flag, store_ms, body, body_size, topic, topic_size, *rest = (
        scan.fields(data, 0)
    )
    assert (queue_id, queue_offset, flag, store_ms) == (2, 7, 0, 1_700_000_000_123)
    assert data[body : body + body_size] == b"one"
    assert data[topic : topic + topic_size] == b"TopicTest"
    assert data[rest[0] : rest[0] + rest[1]] == b"TAGS\x01A\x02"
    assert size == rest[0] + rest[1]


def test_units_are_matched_with_their_records(scan: ModuleType) -> None:
    data = _log(b"one")
    size = len(_record(0, body=b"one"))
    good = (0).to_bytes(8, "big") + size.to_bytes(4, "big") + bytes(8)
    assert scan.match_units(good, 0, 7, data, 0, 2, b"TopicTest") == (1, scan.END)
    assert scan.match_units(good, 0, 8, data, 0, 2, b"TopicTest") == (0, scan.BAD_PLACE)
    assert scan.match_units(good, 0, 7, data, 0, 3, b"TopicTest") == (0, scan.BAD_PLACE)
    assert scan.match_units(good, 0, 7, data, 0, 2, b"TopicTesT") == (0, scan.BAD_FIELDS)
    bad = (0).to_bytes(8, "big") + (size + 1).to_bytes(4, "big") + bytes(8)
    assert scan.match_units(bad, 0, 7, data, 0, 2, b"TopicTest") == (0, scan.BAD_SIZE)
    elsewhere = (1 << 40).to_bytes(8, "big") + size.to_bytes(4, "big") + bytes(8)
    assert scan.match_units(elsewhere, 0, 7, data, 0, 2, b"TopicTest") == (0, scan.END)


def test_find_nonzero(scan: ModuleType) -> None:
    for size in (0, 1, 63, 64, 65, 300):
        assert scan.find_nonzero(bytearray(size), 0, size) == size
        for at in range(0, size, 7):
            data = bytearray(size)
            data[at] = 1
            assert scan.find_nonzero(data, 0, size) == at
            assert scan.find_nonzero(data, at + 1, size) == size
