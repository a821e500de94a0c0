"""The thread that brings files back into memory.

A load by an executor waits for the interpreter lock three times, each time until the loop lets go
of it: with a busy loop that is longer than the disk takes.  Here one thread lives in a compiled
loop without the lock, and has many orders at once, so that the disk always knows what comes next.
Files that are not mapped, and systems or loops without event descriptors, go through an executor.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import threading
from collections import deque
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from contrailmq._native.store import loader
from contrailmq.store.files import Segment

ROOM: Final = 64  # orders at once; the others wait
_STOP: Final = -1
_WORD: Final = 8
Order = tuple[int, int, memoryview, asyncio.Future[None]]  # address, size; the view keeps both


class LoadThread:
    """Brings parts of files into memory, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._orders = bytearray(_WORD * (1 + 2 * ROOM))
        self._words = memoryview(self._orders).cast("q")
        self._given = 0
        self._running: deque[Order] = deque()
        self._waiting: deque[Order] = deque()
        self._thread: threading.Thread | None = None
        self._executor: Executor | None = None
        self._wake_fd = self._done_fd = -1

    def load(self, segment: Segment, start: int, end: int) -> asyncio.Future[None]:
        """Load a range; done when it is there, or cannot be: then whoever reads it will see."""
        start -= start % mmap.PAGESIZE
        end = min(end, segment.size)
        if not segment.address or end <= start or not self._start():
            return self._execute(segment, start, end)
        future = self._loop.create_future()
        order = (segment.address + start, end - start, segment.buffer, future)
        self._waiting.append(order)
        self._give()
        return future

    def close(self) -> None:
        """End the thread; nobody waits for anything any more."""
        if self._thread is not None:
            self._words[0] = _STOP
            os.eventfd_write(self._wake_fd, 1)
            self._thread.join()
            self._thread = None
            self._loop.remove_reader(self._done_fd)
            os.close(self._wake_fd)
            os.close(self._done_fd)
        for future in [entry[-1] for entry in (*self._running, *self._waiting)]:
            _finish(future)
        self._running.clear()
        self._waiting.clear()
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def _give(self) -> None:
        """Hand over what there is room for."""
        given = 0
        while self._waiting and len(self._running) < ROOM:
            order = self._waiting.popleft()
            at = 1 + 2 * (self._given % ROOM)
            self._words[at], self._words[at + 1] = order[:2]
            self._given += 1
            self._running.append(order)
            given += 1
        if given:
            os.eventfd_write(self._wake_fd, given)

    def _on_done(self) -> None:
        for _ in range(os.eventfd_read(self._done_fd)):
            _finish(self._running.popleft()[-1])
        self._give()

    def _start(self) -> bool:
        if self._thread is not None:
            return True
        if not hasattr(os, "eventfd"):
            return False
        done_fd = os.eventfd(0, os.EFD_CLOEXEC)
        try:
            self._loop.add_reader(done_fd, self._on_done)
        except RuntimeError:  # a loop that knows no descriptors
            os.close(done_fd)
            return False
        self._done_fd = done_fd
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC)
        arguments = (self._wake_fd, self._done_fd, self._orders)
        self._thread = threading.Thread(
            target=loader.serve, args=arguments, name="store-read", daemon=True
        )
        self._thread.start()
        return True

    def _execute(self, segment: Segment, start: int, end: int) -> asyncio.Future[None]:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="store-read")

        def work() -> None:
            with contextlib.suppress(OSError):
                segment.load(start, end)

        return self._loop.run_in_executor(self._executor, work)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
