"""Work that is done before it is needed: blocks for the log's tail, and its next segment.

Its pages are not made ready: the log is written through the file (``commit_log``), and the kernel
makes pages on the way, many at a time.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor

from contrailmq.errors import StoreError
from contrailmq.lifecycle import raise_cancellation, uninterrupted
from contrailmq.store.commit_log import CommitLog

log = logging.getLogger(__name__)


class Ahead:
    """Keeps the ground ahead of the writer ready."""

    def __init__(self, commit_log: CommitLog, *, executor: Executor | None) -> None:
        self._log = commit_log
        self._executor = executor
        self._wake = asyncio.Event()
        self._mark = 0  # log offset at which there is something to do

    def check(self, end_offset: int) -> None:
        """The log has grown to here; cheap enough for every append."""
        if end_offset >= self._mark:
            self._mark = end_offset + self._log.blocks.step // 8
            self._wake.set()

    async def run(self) -> None:
        """Prepare until cancelled. A full disk here is not yet an error: the writer will say so."""
        while True:
            await self._reserve()
            await self._prepare_segment()
            await self._wake.wait()
            self._wake.clear()

    async def _reserve(self) -> None:
        tail = self._log.tail
        work = None if tail is None else self._log.blocks.work(tail)
        if tail is None or work is None:
            return
        making = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            self._log.set_ready(tail, await uninterrupted(making))
        except (OSError, StoreError) as error:
            log.warning("no blocks ahead of the log yet: error=%s", error)
            raise_cancellation()

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
