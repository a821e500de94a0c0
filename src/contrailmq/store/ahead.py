"""Work that is done before it is needed: the next segment, and pages for the writer.

A fresh page of a mapped file costs a fault and its zeroing, about as long as sixteen records take
to be written.  While the log grows fast, a thread makes the pages of the next stretch ready.
While it grows slowly nothing is made ready: the pages would be written out, empty, by the flush
in between, and the writer would not gain.  For the same reason every flush makes the pages ahead
read-only again, and they are made ready once more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, TypeVar

from contrailmq.errors import StoreError
from contrailmq.lifecycle import raise_cancellation, uninterrupted
from contrailmq.store.commit_log import CommitLog

log = logging.getLogger(__name__)
T = TypeVar("T")
STEP: Final = 16 * 1024 * 1024
FAST_RATE: Final = 32 * 1024 * 1024  # bytes a second


class Ahead:
    """Keeps the ground ahead of the writer ready."""

    def __init__(self, commit_log: CommitLog, *, executor: Executor | None) -> None:
        self._log = commit_log
        self._executor = executor
        self._wake = asyncio.Event()
        self._mark = 0  # log offset at which there is something to do
        self._ready = 0  # log offset up to which pages are ready

    def check(self, end_offset: int) -> None:
        """The log has grown to here; cheap enough for every append."""
        if end_offset >= self._mark:
            self._mark = end_offset + STEP // 2
            self._wake.set()

    def flushed(self) -> None:
        """The kernel has written pages back, those ahead of the writer too."""
        if self._ready > self._log.end_offset:
            self._ready = 0
            self._wake.set()

    async def run(self) -> None:
        """Prepare until cancelled. A full disk here is not yet an error: the writer will say so."""
        loop = asyncio.get_running_loop()
        seen_at, seen = loop.time(), self._log.end_offset
        await self._prepare_segment()
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._prepare_segment()
            now, end = loop.time(), self._log.end_offset
            if end - seen >= FAST_RATE * (now - seen_at):
                await self._prepare_pages(end)
            seen_at, seen = now, end

    async def _prepare_segment(self) -> None:
        work = self._log.spare_work()
        if work is None or self._log.tail is None:
            return
        base, create = work
        making = asyncio.get_running_loop().run_in_executor(self._executor, create)
        try:
            self._log.keep_spare(base, await uninterrupted(making))
        except asyncio.CancelledError:
            if making.done() and not making.cancelled() and making.exception() is None:
                self._log.keep_spare(base, making.result())  # so that it is closed with the log
            raise
        except (OSError, StoreError) as error:
            log.warning("next segment cannot be made yet: offset=%s error=%s", base, error)
            raise_cancellation()

    async def _prepare_pages(self, end: int) -> None:
        tail, size = self._log.tail, self._log.segments.size
        if tail is None or self._log.has_write_buffer:
            return
        base = end - end % size
        start = max(self._ready - base, end - base, 0)
        stop = min(end - base + STEP, size)
        if stop <= start:
            return
        self._ready = base + stop
        await self._thread(lambda: tail.populate(start, stop))

    async def _thread(self, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        return await uninterrupted(loop.run_in_executor(self._executor, work))
