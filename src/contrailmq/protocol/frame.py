"""Cut a byte stream into remoting frames: no sockets, no event loop.

A frame is a 4-byte length (of what follows), a 4-byte word whose top byte is the header's
serialization type and whose low 24 bits are the header's size, the header, and the body.
"""

from __future__ import annotations

import struct
from typing import Final

from contrailmq.errors import RemoteProtocolError

LENGTH_SIZE: Final = 4
FRAME_SIZE_MAX: Final = 16 * 1024 * 1024  # NettyDecoder.FRAME_MAX_LENGTH

_LENGTH = struct.Struct(">i")


class FrameDecoder:
    """Bytes in, whole frames out.

    ``feed`` may be given any split of the stream; the frames do not depend on it.
    After it has raised, the stream has no meaning any more and the decoder is dead.
    """

    __slots__ = ("_buffer", "_frame_size_max", "_is_dead")

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX) -> None:
        self._frame_size_max = frame_size_max
        self._buffer = bytearray()
        self._is_dead = False

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Return every frame completed by ``data``, without its length prefix."""
        if self._is_dead:
            raise RemoteProtocolError("this stream failed earlier; open a new connection")
        if not self._buffer:
            frames, position = self._cut(data)
            self._buffer += data[position:]
            return frames
        self._buffer += data
        frames, position = self._cut(self._buffer)
        if position:
            del self._buffer[:position]
        return frames

    def _cut(self, data: bytes | bytearray | memoryview) -> tuple[list[bytes], int]:
        frames: list[bytes] = []
        position, end = 0, len(data)
        while end - position >= LENGTH_SIZE:
            (size,) = _LENGTH.unpack_from(data, position)
            if not LENGTH_SIZE <= size <= self._frame_size_max - LENGTH_SIZE:
                self._is_dead = True
                raise RemoteProtocolError(
                    f"frame of {size} bytes, at least {LENGTH_SIZE} and at most "
                    f"{self._frame_size_max - LENGTH_SIZE}"
                )
            start = position + LENGTH_SIZE
            if end - start < size:
                break
            frames.append(bytes(data[start : start + size]))
            position = start + size
        return frames, position

    @property
    def pending_size(self) -> int:
        """Bytes of a frame that has begun and not ended."""
        return len(self._buffer)
