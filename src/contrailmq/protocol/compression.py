"""Bodies compressed by zlib, LZ4 (frame format) or Zstandard, as ``sysFlag`` says.

The kind is bits 8 to 10 of the flag; zero there means zlib, which is what clients wrote before
there was a choice.  Decompression never makes more than a given number of bytes, whatever the
data claims about itself.
"""

from __future__ import annotations

import enum
import zlib
from typing import Final

import lz4.frame
import zstandard

from contrailmq.errors import LocalProtocolError, RemoteProtocolError
from contrailmq.protocol.sysflag import COMPRESSED, COMPRESSION_MASK, COMPRESSION_SHIFT

BODY_SIZE_MAX: Final = 64 * 1024 * 1024
LEVEL_DEFAULT: Final = 5  # DefaultMQProducer.compressLevel
_ZSTD_PIECE_SIZE: Final = 1024
_ZSTD_WINDOW_MAX: Final = 128 * 1024 * 1024


class Compression(enum.IntEnum):
    """CompressionType: the value that stands in bits 8 to 10 of ``sysFlag``."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3

    @property
    def flags(self) -> int:
        """The ``sysFlag`` bits of a body compressed this way."""
        return COMPRESSED | (self.value << COMPRESSION_SHIFT)


def compression_of(sys_flag: int) -> Compression:
    """How a compressed body was compressed; the compressed bit itself is not looked at."""
    kind = (sys_flag & COMPRESSION_MASK) >> COMPRESSION_SHIFT
    try:
        return Compression(kind) if kind else Compression.ZLIB
    except ValueError:
        raise RemoteProtocolError(f"unknown compression type {kind}, at most 3") from None


def compress(
    body: bytes | bytearray | memoryview,
    kind: Compression = Compression.ZLIB,
    level: int = LEVEL_DEFAULT,
) -> bytes:
    """Compress a body; ``kind.flags`` goes into the message's ``sysFlag``."""
    if not 0 <= level <= 9:
        raise LocalProtocolError(f"compression level {level}, at least 0 and at most 9")
    if kind is Compression.ZLIB:
        return zlib.compress(body, level)
    if kind is Compression.LZ4:
        return bytes(lz4.frame.compress(body, compression_level=level))
    return zstandard.ZstdCompressor(level=level or 3).compress(body)


def decompress(
    data: bytes | bytearray | memoryview,
    kind: Compression = Compression.ZLIB,
    size_max: int = BODY_SIZE_MAX,
) -> bytes:
    """Restore a body; damage, a cut end, or more than ``size_max`` bytes is the sender's error."""
    try:
        if kind is Compression.ZLIB:
            body = _inflate(data, size_max)
        elif kind is Compression.LZ4:
            body = _decompress_lz4(data, size_max)
        else:
            body = _decompress_zstd(data, size_max)
    except (zlib.error, RuntimeError, EOFError, zstandard.ZstdError) as error:
        raise RemoteProtocolError(f"{kind.name} body of {len(data)} bytes: {error}") from error
    if len(body) > size_max:
        raise RemoteProtocolError(
            f"{kind.name} body of {len(data)} bytes grows beyond {size_max} bytes"
        )
    return body


def _inflate(data: bytes | bytearray | memoryview, size_max: int) -> bytes:
    inflate = zlib.decompressobj()
    body = inflate.decompress(data, size_max + 1)
    if len(body) <= size_max and not inflate.eof:
        raise EOFError("the stream ends too early")
    return body


def _decompress_lz4(data: bytes | bytearray | memoryview, size_max: int) -> bytes:
    frame = lz4.frame.LZ4FrameDecompressor()
    body = bytes(frame.decompress(data, max_length=size_max + 1))
    if len(body) <= size_max and not frame.eof:
        raise EOFError("the frame ends too early")
    return body


def _decompress_zstd(data: bytes | bytearray | memoryview, size_max: int) -> bytes:
    # The library bounds the window but not the output; a block of 4 bytes may make 128 KiB, so
    # the output can pass the bound by 32 MiB at most before the next look at it.
    frame = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_MAX).decompressobj()
    pieces: list[bytes] = []
    size = 0
    for start in range(0, len(data), _ZSTD_PIECE_SIZE):
        pieces.append(frame.decompress(data[start : start + _ZSTD_PIECE_SIZE]))
        size += len(pieces[-1])
        if frame.eof or size > size_max:
            break
    if size <= size_max and not frame.eof:
        raise EOFError("the frame ends too early")
    return b"".join(pieces)
