"""Records of answers found in one call: what the record scanner finds, up to the range's end."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrailmq._native import record
from contrailmq.protocol.message import encode_record
from testkit.builds import BUILDS, native_module
from testkit.record_walk import walk_records

HOST = bytes.fromhex("7f00000100002a9f")


@pytest.fixture(params=BUILDS, scope="module")
def arrow(request: pytest.FixtureRequest) -> Any:
    return native_module("spark.arrow", pure=request.param == "pure")


def _record(offset: int, size: int) -> bytes:
    return bytes(
        encode_record(
            topic="T",
            body=b"b" * size,
            properties=b"KEYS\x01k\x02",
            born_ms=1,
            born_host=HOST,
            store_host=HOST,
            store_ms=2,
            queue_id=0,
            queue_offset=offset,
            commit_log_offset=0,
        )
    )


ANSWERS = st.lists(
    st.tuples(
        st.integers(0, 50),  # first offset
        st.lists(st.integers(0, 40), max_size=5),  # sizes of bodies
        st.integers(0, 60),  # end of the range
        st.integers(0, 9),  # bytes of the next answer's header
    ),
    max_size=5,
)


def _slow(data: bytes, spans: list[tuple[int, int, int]]) -> list[int]:
    found = []
    for start, end, limit in spans:
        positions, _, reason = walk_records(data, start, end)
        assert reason == record.END
        found += [position for position in positions if record.queue_offset(data, position) < limit]
    return found


@given(answers=ANSWERS)
def test_the_records_of_answers(arrow: Any, answers: list[tuple[int, list[int], int, int]]) -> None:
    data, spans = b"", []
    for first, sizes, limit, gap in answers:
        start = len(data)
        data += b"".join(_record(first + number, size) for number, size in enumerate(sizes))
        spans.append((start, len(data), limit))
        data += bytes(gap)
    flat = array("q", [number for span in spans for number in span])
    positions = array("q", bytes(8 * 64))
    count, bad = arrow.find_records(bytearray(data), flat, positions)
    assert (list(positions[:count]), bad) == (_slow(data, spans), -1)


@given(cut=st.integers(1, 300), data=st.binary(min_size=200, max_size=300))
def test_what_is_no_record_is_named(arrow: Any, cut: int, data: bytes) -> None:
    record = _record(3, 100)
    broken = record + record[: min(cut, len(record) - 1)]
    spans = array("q", [0, len(broken), 99])
    count, bad = arrow.find_records(bytearray(broken), spans, array("q", bytes(80)))
    assert (count, bad) == (1, len(record))
    arrow.find_records(bytearray(data), array("q", [0, len(data), 99]), array("q", bytes(80)))


def test_bounds_are_checked(arrow: Any) -> None:
    record = bytearray(_record(0, 10))
    with pytest.raises(ValueError, match="span"):
        arrow.find_records(record, array("q", [0, len(record) + 1, 9]), array("q", bytes(8)))
    with pytest.raises(ValueError, match="span"):
        arrow.find_records(record, array("q", [-1, len(record), 9]), array("q", bytes(8)))
    with pytest.raises(ValueError, match="room"):
        arrow.find_records(record, array("q", [0, len(record), 9]), array("q"))
