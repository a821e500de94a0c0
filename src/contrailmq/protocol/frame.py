"""Cut a byte stream into remoting frames: no sockets, no event loop.

A frame is a 4-byte length (of what follows), a 4-byte word whose top byte is the header's
serialization type and whose low 24 bits are the header's size, the header, and the body.
"""

from __future__ import annotations

from typing import Final

from contrailmq.errors import RemoteProtocolError

LENGTH_SIZE: Final = 4
FRAME_SIZE_MAX: Final = 16 * 1024 * 1024  # NettyDecoder.FRAME_MAX_LENGTH


class FrameDecoder:
    """Bytes in, whole frames out.

    ``feed`` may be given any split of the stream; the frames do not depend on it.
    After it has raised, the stream has no meaning any more and the decoder is dead.
    """

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX) -> None:
        self._frame_size_max = frame_size_max
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Return every frame completed by ``data``, without its length prefix."""
        buffer = self._buffer
        buffer += data
        frames: list[bytes] = []
        position = 0
        while len(buffer) - position >= LENGTH_SIZE:
            start = position + LENGTH_SIZE
            size = int.from_bytes(buffer[position:start], "big", signed=True)
            if not LENGTH_SIZE <= size <= self._frame_size_max - LENGTH_SIZE:
                raise RemoteProtocolError(
                    f"frame of {size} bytes, at least {LENGTH_SIZE} and at most "
                    f"{self._frame_size_max - LENGTH_SIZE}"
                )
            if len(buffer) - start < size:
                break
            frames.append(bytes(memoryview(buffer)[start : start + size]))
            position = start + size
        if position:
            del buffer[:position]
        return frames

    @property
    def pending_size(self) -> int:
        """Bytes of a frame that has begun and not ended."""
        return len(self._buffer)
