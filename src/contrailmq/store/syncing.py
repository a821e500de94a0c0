"""The thread that calls fsync for the sends that wait for it.

A send under synchronous flush waits for two hand-overs besides the disk: to a thread, and back.
An executor's cost some fifteen futex calls and seven turns of the loop, more than the disk takes.
Here one thread lives in a compiled loop without the interpreter lock: it sleeps on one event
descriptor, syncs, and wakes the loop through another.  Files without a descriptor (simulated ones)
and systems without event descriptors go through the executor.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final

from contrailmq._native.store import syncer
from contrailmq.errors import StoreError
from contrailmq.store.files import Segment

FILES_MAX: Final = 16  # of one order; there are two when the log has just gone to a new file
_HEAD: Final = 3
_STOP: Final = -1
Done = Callable[[Exception | None], None]


class Syncer:
    """Syncs files in the background, one order at a time."""

    def __init__(self, executor: Executor | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._executor = executor
        self._order = bytearray(4 * (_HEAD + FILES_MAX))
        self._words = memoryview(self._order).cast("i")
        self._paths: list[str] = []
        self._done: Done | None = None
        self._thread: threading.Thread | None = None
        self._wake_fd = self._done_fd = -1

    @property
    def is_busy(self) -> bool:
        """Whether an order is being carried out."""
        return self._done is not None

    def begin(self, segments: Sequence[Segment], done: Done) -> None:
        """Sync these, then call back with None or what went wrong."""
        assert self._done is None
        self._done = done
        descriptors = [segment.descriptor for segment in segments]
        if not 0 < len(descriptors) <= FILES_MAX or min(descriptors) < 0 or not self._start():
            work = self._loop.run_in_executor(self._executor, partial(sync_all, segments))
            work.add_done_callback(lambda ended: self._end(_failure(ended)))
            return
        self._paths = [segment.path for segment in segments]
        words = self._words
        words[0] = len(descriptors)
        for index, descriptor in enumerate(descriptors):
            words[_HEAD + index] = descriptor
        os.eventfd_write(self._wake_fd, 1)

    def close(self) -> None:
        """End the thread; no order may be under way."""
        if self._thread is not None:
            self._words[0] = _STOP
            os.eventfd_write(self._wake_fd, 1)
            self._thread.join()
            self._thread = None
            self._loop.remove_reader(self._done_fd)
            os.close(self._wake_fd)
            os.close(self._done_fd)

    def _start(self) -> bool:
        if self._thread is not None:
            return True
        if not hasattr(os, "eventfd"):
            return False
        done_fd = os.eventfd(0, os.EFD_CLOEXEC)
        try:
            self._loop.add_reader(done_fd, self._on_done)
        except RuntimeError:  # a loop that knows no descriptors, such as a simulated one
            os.close(done_fd)
            return False
        self._done_fd = done_fd
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC)
        arguments = (self._wake_fd, self._done_fd, self._order)
        self._thread = threading.Thread(
            target=syncer.serve, args=arguments, name="store sync", daemon=True
        )
        self._thread.start()
        return True

    def _on_done(self) -> None:
        os.eventfd_read(self._done_fd)
        code = self._words[1]
        if code:
            self._end(OSError(code, os.strerror(code), self._paths[self._words[2]]))
        else:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        done, self._done = self._done, None
        assert done is not None
        done(error)


def sync_all(segments: Sequence[Segment]) -> None:
    """Sync one after another. Blocks."""
    for segment in segments:
        segment.sync()


def _failure(ended: asyncio.Future[None]) -> Exception | None:
    if ended.cancelled():
        return StoreError("the flush was given up")
    error = ended.exception()
    return error if error is None or isinstance(error, Exception) else StoreError(repr(error))
