"""Old messages come back from the disk in threads, so that the loop never waits for them.

A consumer that is far behind reads parts of the log that have left memory.  To touch one of their
pages is to wait for the disk, and on the loop everybody waits with it.  So pulls look first (the
``Gatherer`` asks the kernel once a second for each chunk of 256 KiB that is read); what is not in
memory is loaded by a thread, ``STEP`` bytes at once, while the kernel is told to go on with the
next.  All who wait for the same part wait for one load.
"""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from contrailmq.store.commit_log import CommitLog

STEP: Final = 2 * 1024 * 1024
TICK_S: Final = 1.0
_THREADS: Final = 2  # their own: a flush must not stand in line behind reads


class Loading:
    """Loads parts of the log. Owned by the loop."""

    def __init__(self, commit_log: CommitLog) -> None:
        self._log = commit_log
        self._executor: Executor | None = None
        self._loads: dict[int, asyncio.Future[None]] = {}

    async def run(self) -> None:
        """Let the knowledge of what is in memory grow old; until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            self._log.gatherer.age()

    def load(self, offset: int) -> asyncio.Future[None] | None:
        """Have the log loaded from an offset on; done when it is. None when there is nothing."""
        running = self._loads.get(offset)
        if running is not None:
            return running
        segment = self._log.segments.find(offset)
        if segment is None:
            return None
        if self._executor is None:
            self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="store-read")
        base = self._log.segments.base_of(offset)
        start = offset - base
        end = min(start + STEP, segment.size)

        def work() -> None:
            with contextlib.suppress(OSError):  # whoever reads it will see the same
                segment.load(start, end)

        def done(finished: asyncio.Future[None]) -> None:
            del self._loads[offset]
            if not finished.cancelled() and finished.exception() is None:
                self._log.gatherer.note_loaded(offset, base + end)

        load = asyncio.get_running_loop().run_in_executor(self._executor, work)
        self._loads[offset] = load
        load.add_done_callback(done)
        return load

    def close(self) -> None:
        """Wait for the threads."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
