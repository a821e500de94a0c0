"""The golden data is there, and its helpers find all of it."""

from __future__ import annotations

import pytest

from testkit.golden import VERSIONS, exchanges, store_directories, vectors, wire_files, wire_frames


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_have_their_length_in_front(version: str) -> None:
    files = wire_files(version)
    assert len(files) > 50
    for path in files:
        for frame in wire_frames(path):
            assert int.from_bytes(frame.frame[:4], "big") == len(frame.frame) - 4


@pytest.mark.parametrize("version", VERSIONS)
def test_most_requests_have_an_answer(version: str) -> None:
    pairs = [pair for path in wire_files(version) for pair in exchanges(path)]
    answered = [pair for pair in pairs if pair.response is not None]
    assert all(pair.request.opaque == pair.response.opaque for pair in answered if pair.response)
    assert len(answered) > 0.8 * len(pairs)


def test_stores_and_vectors() -> None:
    stores = store_directories()
    assert {"v49-clean", "v49-killed", "v52-features"} <= {store.name for store in stores}
    for store in stores:
        assert store.conf.exists()
        assert next(store.rows("message"))["kind"] == "message"
    for version in VERSIONS:
        assert vectors(version, "crc32")
