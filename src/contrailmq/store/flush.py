"""Making things durable: the log, the queues, the write buffer.

**Log.**  Under asynchronous flush every ``flushIntervalCommitLog`` if enough pages are dirty, and
thoroughly every ``flushCommitLogThoroughInterval``.  Under synchronous flush whoever waits wakes
the service; all that wait share one fsync (group commit), and readers follow the disk.

**A failed fsync is final.**  The kernel may have dropped the pages and reports so once; a second
try would succeed and lie.  So the waiting sends fail, the store is fenced, and the error leaves
``run``: only recovery from what the disk has can follow.

An fsync in flight is never abandoned: a cancelled service waits for it, and its error outranks
the cancellation.  Waits time out in the order they began, by one timer for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import NamedTuple

from contrailmq.errors import StoreClosed, StoreError
from contrailmq.lifecycle import uninterrupted
from contrailmq.store.checkpoint import Checkpoint
from contrailmq.store.commit_log import PAGE, CommitLog
from contrailmq.store.derive import Derivation
from contrailmq.store.files import Files, Segment
from contrailmq.store.index import Indexes
from contrailmq.store.settings import FlushDiskType, StoreSettings

log = logging.getLogger(__name__)


class _Waiter(NamedTuple):
    end_offset: int
    future: asyncio.Future[bool]
    deadline: float


class Fence:
    """Whether the store may still be written, and why not. Set once, never cleared."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.leave_mark: Callable[[], None] = lambda: None  # so that recovery knows; in a thread

    def close(self, reason: str) -> StoreClosed:
        """Let nothing more be written."""
        if self.reason is None:
            self.reason = reason
            log.error("store is fenced: reason=%s", reason)
        return StoreClosed(self.reason)


class LogFlush:
    """The flush service of the log."""

    def __init__(
        self,
        settings: StoreSettings,
        commit_log: CommitLog,
        *,
        checkpoint: Checkpoint,
        fence: Fence,
        executor: Executor | None,
    ) -> None:
        self.settings = settings
        self._log = commit_log
        self._checkpoint = checkpoint
        self._fence = fence
        self._executor = executor
        self._wake = asyncio.Event()
        self._waiters: deque[_Waiter] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._thorough_at = 0.0
        self.on_flushed: Callable[[int], None] = lambda offset: None

    @property
    def is_sync(self) -> bool:
        """Whether sends wait for the disk."""
        return self.settings.flush_disk_type is FlushDiskType.SYNC

    def wake(self) -> None:
        """Flush soon."""
        self._wake.set()

    def wait_flushed(self, end_offset: int) -> asyncio.Future[bool]:
        """True once everything before ``end_offset`` is on disk, False when that took too long."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        if self._fence.reason is not None:
            future.set_exception(StoreClosed(self._fence.reason))
        elif end_offset <= self._log.flushed_offset:
            future.set_result(True)
        else:
            deadline = loop.time() + self.settings.sync_flush_timeout_ms / 1000
            self._waiters.append(_Waiter(end_offset, future, deadline))
            if self._timer is None:
                self._timer = loop.call_at(deadline, self._expire)
            self._wake.set()
        return future

    async def run(self) -> None:
        """Flush until cancelled, then once more."""
        self._thorough_at = asyncio.get_running_loop().time()
        try:
            while True:
                await self._wait_for_work()
                if self._is_due():
                    await self.flush()
        except asyncio.CancelledError:
            if self._fence.reason is None:
                await self.flush()
            raise
        finally:
            self._fail_waiters(StoreClosed(self._fence.reason or "flush has stopped"))

    async def flush(self) -> None:
        """Make everything written so far durable, and tell those who wait."""
        target, work = self._log.flush_work()
        if target > self._log.flushed_offset:
            store_ms = self._log.writer.store_ms
            await blocking(self._executor, work, self._fence, what="flush of the log")
            self._log.flushed_offset = max(self._log.flushed_offset, target)
            self._checkpoint.log_ms = max(self._checkpoint.log_ms, store_ms)
            self.on_flushed(self._log.flushed_offset)
        self._thorough_at = asyncio.get_running_loop().time()
        self._settle()

    def _is_due(self) -> bool:
        if self._waiters or self.is_sync:
            return True
        waited = asyncio.get_running_loop().time() - self._thorough_at
        if waited * 1000 >= self.settings.flush_thorough_ms:
            return True
        reached = self._log.committed_offset if self._log.has_write_buffer else self._log.end_offset
        pages = reached // PAGE - self._log.flushed_offset // PAGE
        return pages >= self.settings.flush_least_pages

    async def _wait_for_work(self) -> None:
        try:
            async with asyncio.timeout(self.settings.flush_interval_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass  # the timed flush of ASYNC_FLUSH
        self._wake.clear()

    def _settle(self) -> None:
        waiters, flushed = self._waiters, self._log.flushed_offset
        left: deque[_Waiter] = deque()
        for waiter in waiters:
            if waiter.future.done():
                continue
            if waiter.end_offset <= flushed:
                waiter.future.set_result(True)
            else:
                left.append(waiter)
        self._waiters = left
        if left:
            self._wake.set()
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._waiters and self._waiters[0].deadline <= loop.time():
            waiter = self._waiters.popleft()
            if not waiter.future.done():
                waiter.future.set_result(False)
        if self._waiters:
            self._timer = loop.call_at(self._waiters[0].deadline, self._expire)

    def _fail_waiters(self, error: StoreClosed) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.future.done():
                waiter.future.set_exception(error)
                waiter.future.exception()  # nobody may be left who asks


class QueueFlush:
    """The flush service of queues, full index files and the checkpoint."""

    def __init__(
        self,
        settings: StoreSettings,
        derivation: Derivation,
        *,
        files: Files,
        indexes: Indexes | None,
        checkpoint: Checkpoint,
        fence: Fence,
        executor: Executor | None,
    ) -> None:
        self.settings = settings
        self._derivation = derivation
        self._files = files
        self._indexes = indexes
        self._checkpoint = checkpoint
        self._fence = fence
        self._executor = executor

    async def run(self) -> None:
        """Flush what is dirty enough every second, everything every minute; until cancelled."""
        loop = asyncio.get_running_loop()
        thorough_at = loop.time()
        while True:
            await asyncio.sleep(self.settings.queue_flush_interval_ms / 1000)
            is_thorough = (loop.time() - thorough_at) * 1000 >= (
                self.settings.queue_flush_thorough_ms
            )
            if is_thorough:
                thorough_at = loop.time()
            await self.flush(thorough=is_thorough)

    async def flush(self, *, thorough: bool) -> None:
        """Sync queues with enough dirty pages; if thorough all of them, and the checkpoint."""
        least = 0 if thorough else self.settings.queue_flush_least_pages * PAGE
        reached_ms = self._derivation.store_ms
        segments: list[Segment] = []
        folders: set[str] = set()
        for writer in list(self._derivation.dirty):
            if writer.owner.dirty_size() >= least:
                segments += writer.owner.dirty()
                folders |= writer.owner.take_renamed()
                del self._derivation.dirty[writer]
        full = [] if self._indexes is None else self._indexes.take_full()
        segments += [index.segment for index in full]
        if self._indexes is not None:
            folders |= self._indexes.take_renamed()
        if segments or folders:
            await blocking(
                self._executor,
                lambda: _sync_all(self._files, segments, sorted(folders)),
                self._fence,
                what="flush of queues",
            )
        if full:
            self._checkpoint.index_ms = max(self._checkpoint.index_ms, full[-1].writer.end_ms)
        if thorough:
            self._checkpoint.queues_ms = max(self._checkpoint.queues_ms, reached_ms)
            self._checkpoint.write()
            await blocking(
                self._executor, self._checkpoint.sync, self._fence, what="flush of the checkpoint"
            )


class BufferCommit:
    """The commit service of the write buffer."""

    def __init__(
        self,
        settings: StoreSettings,
        commit_log: CommitLog,
        *,
        fence: Fence,
        executor: Executor | None,
    ) -> None:
        self.settings = settings
        self._log = commit_log
        self._fence = fence
        self._executor = executor
        self.on_committed: Callable[[int], None] = lambda offset: None

    async def run(self) -> None:
        """Commit until cancelled, then once more."""
        loop = asyncio.get_running_loop()
        thorough_at = loop.time()
        try:
            while True:
                await asyncio.sleep(self.settings.commit_interval_ms / 1000)
                waited_ms = (loop.time() - thorough_at) * 1000
                size = self._log.end_offset - self._log.committed_offset
                enough = self.settings.commit_least_pages * PAGE
                if size >= enough or waited_ms >= self.settings.commit_thorough_ms:
                    thorough_at = loop.time()
                    await self.commit()
        except asyncio.CancelledError:
            if self._fence.reason is None:
                await self.commit()
            raise

    async def commit(self) -> None:
        """Bring the buffer into the files; then it can be read."""
        target, work = self._log.commit_work()
        if target > self._log.committed_offset:
            await blocking(self._executor, work, self._fence, what="commit of the write buffer")
            self._done(target)

    def commit_now(self) -> None:
        """The same without a thread, for when every buffer is in use."""
        target, work = self._log.commit_work()
        try:
            work()
        except (OSError, StoreError) as error:
            raise self._fence.close(f"commit of the write buffer failed: {error}") from error
        self._done(target)

    def _done(self, target: int) -> None:
        if target > self._log.committed_offset:
            self._log.set_committed(target)
            self.on_committed(target)


async def blocking(
    executor: Executor | None, work: Callable[[], None], fence: Fence, *, what: str
) -> None:
    """Run in a thread what must succeed; its failure fences the store."""
    loop = asyncio.get_running_loop()

    def marked() -> None:
        try:
            work()
        except (OSError, StoreError):
            fence.leave_mark()
            raise

    try:
        await uninterrupted(loop.run_in_executor(executor, marked))
    except (OSError, StoreError) as error:
        raise fence.close(f"{what} failed: {error}") from error


def _sync_all(files: Files, segments: Iterable[Segment], folders: Iterable[str]) -> None:
    for segment in segments:
        with contextlib.suppress(FileNotFoundError):  # its topic was deleted meanwhile
            segment.sync()
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            files.sync_folder(folder)
