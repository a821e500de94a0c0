"""Compressed bodies: round trips, what Java wrote, damage, and the bound on what comes out."""

from __future__ import annotations

import zlib

import lz4.frame
import pytest
import zstandard

from contrailmq.errors import LocalProtocolError, RemoteProtocolError
from contrailmq.protocol import sysflag
from contrailmq.protocol.compression import Compression, compress, compression_of, decompress
from contrailmq.protocol.message import decode_record, encode_record

BODY = b"the same again and again, " * 400
HOST = bytes.fromhex("7f00000100002a9f")


@pytest.mark.parametrize("kind", Compression)
@pytest.mark.parametrize("level", range(10))
def test_a_body_comes_back(kind: Compression, level: int) -> None:
    for body in (BODY, b"", b"x"):
        assert decompress(compress(body, kind, level), kind) == body
        assert decompress(memoryview(compress(memoryview(body), kind, level)), kind) == body


def test_the_formats_are_the_standard_ones() -> None:
    assert zlib.decompress(compress(BODY, Compression.ZLIB)) == BODY
    assert lz4.frame.decompress(compress(BODY, Compression.LZ4)) == BODY
    assert zstandard.decompress(compress(BODY, Compression.ZSTD)) == BODY


@pytest.mark.parametrize("kind", Compression)
def test_a_cut_body_is_refused_at_every_length(kind: Compression) -> None:
    data = compress(BODY, kind)
    for size in range(len(data)):
        with pytest.raises(RemoteProtocolError, match=f"{kind.name} body of {size} bytes"):
            decompress(data[:size], kind)


@pytest.mark.parametrize("kind", Compression)
def test_garbage_is_refused(kind: Compression) -> None:
    with pytest.raises(RemoteProtocolError):
        decompress(b"no such format here", kind)


@pytest.mark.parametrize("kind", Compression)
def test_what_comes_out_is_bounded(kind: Compression) -> None:
    bomb = compress(bytes(50_000_000), kind, 9)
    assert len(bomb) < 400_000
    with pytest.raises(RemoteProtocolError, match="grows beyond 1000 bytes"):
        decompress(bomb, kind, 1000)
    assert len(decompress(compress(bytes(1000), kind), kind, 1000)) == 1000
    with pytest.raises(RemoteProtocolError, match="grows beyond 999 bytes"):
        decompress(compress(bytes(1000), kind), kind, 999)


def test_a_stream_without_its_size_is_read_as_java_writes_it() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    data = stream.compress(BODY) + stream.flush()
    assert zstandard.get_frame_parameters(data).content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert decompress(data, Compression.ZSTD) == BODY
    with pytest.raises(RemoteProtocolError, match="too early"):
        decompress(data[:-1], Compression.ZSTD)


def test_flags() -> None:
    assert {kind.name: kind.flags for kind in Compression} == {
        "LZ4": sysflag.COMPRESSED | sysflag.COMPRESSION_LZ4,
        "ZSTD": sysflag.COMPRESSED | sysflag.COMPRESSION_ZSTD,
        "ZLIB": sysflag.COMPRESSED | sysflag.COMPRESSION_ZLIB,
    }
    assert compression_of(sysflag.COMPRESSED) is Compression.ZLIB
    for kind in Compression:
        assert compression_of(kind.flags | 0x30) is kind
    with pytest.raises(RemoteProtocolError, match="unknown compression type 7"):
        compression_of(0x701)
    with pytest.raises(LocalProtocolError, match="level 10"):
        compress(b"", Compression.ZLIB, 10)


@pytest.mark.parametrize("kind", Compression)
def test_a_record_gives_the_body_its_producer_gave(kind: Compression) -> None:
    stored = compress(BODY, kind)
    raw = encode_record(
        topic="T",
        body=stored,
        properties=b"",
        born_ms=1,
        born_host=HOST,
        store_host=HOST,
        sys_flag=kind.flags,
    )
    record = decode_record(raw, check_crc=True)
    assert record.body == stored
    assert record.payload() == BODY
    with pytest.raises(RemoteProtocolError, match="grows beyond 10 bytes"):
        record.payload(10)
