"""What timers ask of a store beside what everybody may ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from contrailmq.store.certainty import Outcome
from contrailmq.store.commit_log import CommitLog
from contrailmq.store.files import Files, Segment
from contrailmq.store.flush import BufferCommit, Fence, LogFlush, blocking
from contrailmq.store.syncing import sync_all


class TimerCalls:
    """The calls of timers. Both wait for the disk."""

    files: Files
    fence: Fence
    log: CommitLog
    _flush: LogFlush
    when_flushed: Callable[[int, Callable[[Outcome], None]], None]
    _commit: BufferCommit
    _executor: ThreadPoolExecutor | None
    _is_sync: bool

    async def flush_log(self) -> bool:
        """Make every record appended so far durable; False if the disk did not do it in time."""
        end = self.log.end_offset
        if self.log.has_write_buffer:
            await self._commit.commit()
        if not self._is_sync:
            await self._flush.flush()
        else:
            future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            self.when_flushed(end, partial(_settle, future))
            await future
        return self.log.flushed_offset >= end

    async def sync_files(self, segments: Sequence[Segment], folders: Sequence[str]) -> None:
        """Make these files durable, then the names in these folders; a failure is final."""
        await self.certain(partial(sync_all, segments))
        for folder in folders:
            await self.certain(partial(self._sync_folder, folder))

    async def certain(self, work: Callable[[], None]) -> None:
        """Do in a thread what must succeed."""
        await blocking(self._executor, work, fence=self.fence, what="flush of the timers")

    def _sync_folder(self, folder: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.files.sync_folder(folder)


def _settle(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)
