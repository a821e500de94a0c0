"""Frames do not depend on how the stream was cut, and garbage has one outcome."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol.frame import FRAME_SIZE_MAX, LENGTH_SIZE, FrameDecoder

payloads = st.lists(st.binary(min_size=4, max_size=40), max_size=8)


def stream_of(frames: list[bytes]) -> bytes:
    """Frames as they follow each other on a connection."""
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@given(payloads, st.lists(st.integers(0, 400), max_size=10), st.sampled_from([bytes, memoryview]))
def test_cut_invariance(frames: list[bytes], cuts: list[int], kind: type) -> None:
    stream = stream_of(frames)
    places = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    decoder = FrameDecoder()
    found: list[bytes] = []
    for start, end in itertools.pairwise(places):
        found += decoder.feed(kind(stream[start:end]))
    assert found == frames
    assert decoder.pending_size == 0


@given(payloads)
def test_truncation_at_every_length(frames: list[bytes]) -> None:
    stream = stream_of(frames)
    for end in range(len(stream)):
        decoder = FrameDecoder()
        found = decoder.feed(stream[:end])
        assert found == frames[: len(found)]
        assert found + decoder.feed(stream[end:]) == frames


@given(st.binary(max_size=64))
def test_garbage_gives_frames_or_the_protocols_error(data: bytes) -> None:
    decoder = FrameDecoder(64)
    try:
        frames = decoder.feed(data)
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            decoder.feed(b"")
        return
    assert stream_of(frames) == data[: len(data) - decoder.pending_size]


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_sizes_outside_the_bounds_are_refused_at_once(size: int) -> None:
    decoder = FrameDecoder()
    prefix = size.to_bytes(4, "big", signed=True)
    if LENGTH_SIZE <= size <= FRAME_SIZE_MAX - LENGTH_SIZE:
        assert decoder.feed(prefix) == []
    else:
        with pytest.raises(RemoteProtocolError, match="at most"):
            decoder.feed(prefix)
