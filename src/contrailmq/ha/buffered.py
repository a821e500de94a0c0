"""Reading into one buffer per connection; the other side of it is decoded from there."""

from __future__ import annotations

import abc
import asyncio


class BufferedLink(asyncio.BufferedProtocol, abc.ABC):
    """A connection of replication, with a buffer of its own."""

    READ_SIZE = 64 * 1024

    def __init__(self) -> None:
        self._buffer = bytearray(self.READ_SIZE)
        self._view = memoryview(self._buffer)

    def get_buffer(self, size_hint: int) -> memoryview:
        """Where the next bytes go."""
        return self._view

    def buffer_updated(self, size: int) -> None:
        """Bytes have come."""
        self.data_received(self._view[:size])

    @abc.abstractmethod
    def data_received(self, data: memoryview | bytes) -> None:
        """Take what has come; the view ends with this call."""
        ...
