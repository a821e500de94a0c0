"""A bound on what is accepted and not yet answered, in bytes and in messages."""

from __future__ import annotations

import asyncio
from collections import deque


class Budget:
    """Room for bytes and messages; those who find none wait in line, first come first served.

    Something larger than the whole budget is let in when nothing else is under way.
    """

    def __init__(self, *, size_max: int, count_max: int) -> None:
        self._size_max = size_max
        self._count_max = count_max
        self._waiters: deque[tuple[asyncio.Future[None], int]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self.size = 0
        self.count = 0

    def try_take(self, size: int) -> bool:
        """Take room if there is some and nobody is in line for it."""
        if self._waiters or not self._fits(size):
            return False
        self.size += size
        self.count += 1
        return True

    async def take(self, size: int) -> None:
        """Take room, waiting for it if need be."""
        if self.try_take(size):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((future, size))
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.give(size)
            else:
                self._waiters.remove((future, size))
            raise

    def give(self, size: int, count: int = 1) -> None:
        """Give room back."""
        self.size -= size
        self.count -= count
        while self._waiters:
            future, wanted = self._waiters[0]
            if not self._fits(wanted):
                break
            self._waiters.popleft()
            if not future.done():
                self.size += wanted
                self.count += 1
                future.set_result(None)
        if self.count == 0:
            idle, self._idle = self._idle, []
            for future in idle:
                if not future.done():
                    future.set_result(None)

    async def wait_idle(self) -> None:
        """Wait until nothing is under way."""
        while self.count or self._waiters:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            await future

    def _fits(self, size: int) -> bool:
        if self.count == 0:
            return True
        return self.count < self._count_max and self.size + size <= self._size_max
