"""Making things durable: the log, the queues, the write buffer.

**Log.**  Under asynchronous flush every ``flushIntervalCommitLog`` if enough pages are dirty, and
thoroughly every ``flushCommitLogThoroughInterval``.  Synchronous flush is ``group_commit``'s.

**A failed fsync is final.**  The kernel may have dropped the pages and reports so once; a second
try would succeed and lie.  So the waiting sends fail, the store is fenced, and the error leaves
``run``: only recovery from what the disk has can follow.

An fsync in flight is never abandoned: a cancelled service waits for it, and its error outranks
the cancellation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from functools import partial
from typing import Final

from contrailmq.errors import StoreClosed, StoreError
from contrailmq.lifecycle import uninterrupted
from contrailmq.store.checkpoint import Checkpoint
from contrailmq.store.commit_log import PAGE, CommitLog
from contrailmq.store.derive import Derivation
from contrailmq.store.files import Files, Segment
from contrailmq.store.index import Indexes
from contrailmq.store.settings import StoreSettings
from contrailmq.store.syncing import sync_all

log = logging.getLogger(__name__)
SYNC_THREADS: Final = 4  # for queues; what is synced together shares the disk's own flushes
SYNC_MANY: Final = 32  # files; fewer are not worth it


class Fence:
    """Whether the store may still be written, and why not. Set once, never cleared."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.leave_mark: Callable[[], None] = lambda: None  # so that recovery knows; in a thread
        self.on_close: Callable[[], None] = lambda: None

    def close(self, reason: str) -> StoreClosed:
        """Let nothing more be written."""
        if self.reason is None:
            self.reason = reason
            self.on_close()
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
        self._thorough_at = 0.0
        self.wait_s_max = 0.0  # the longest anybody waited for the disk
        self.on_flushed: Callable[[int], None] = lambda offset: None

    def wake(self) -> None:
        """Flush soon."""
        self._wake.set()

    async def run(self) -> None:
        """Flush until cancelled, then once more."""
        self._thorough_at = asyncio.get_running_loop().time()
        try:
            while True:
                await self._wait_for_work()
                if self._fence.reason is not None:  # closed by somebody else
                    raise StoreClosed(self._fence.reason)
                if self._is_due():
                    await self.flush()
        except asyncio.CancelledError:
            if self._fence.reason is None:
                await self.flush()
            raise

    async def flush(self) -> None:
        """Make everything written so far durable."""
        target, segments = self._log.flush_scope()
        if target > self._log.flushed_offset:
            store_ms = self._log.writer.store_ms
            work = partial(sync_all, segments)
            await blocking(self._executor, work, fence=self._fence, what="flush of the log")
            self._advance(target, store_ms)
        self._thorough_at = asyncio.get_running_loop().time()

    def _advance(self, target: int, store_ms: int) -> None:
        """The disk has everything before ``target``."""
        self._log.flushed_offset = max(self._log.flushed_offset, target)
        self._checkpoint.log_ms = max(self._checkpoint.log_ms, store_ms)
        self.on_flushed(self._log.flushed_offset)

    def _is_due(self) -> bool:
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
            await self._sync(segments, sorted(folders))
        if full:
            self._checkpoint.index_ms = max(self._checkpoint.index_ms, full[-1].writer.end_ms)
        if thorough:
            self._checkpoint.queues_ms = max(self._checkpoint.queues_ms, reached_ms)
            self._checkpoint.write()
            await blocking(
                self._executor,
                self._checkpoint.sync,
                fence=self._fence,
                what="flush of the checkpoint",
            )

    async def _sync(self, segments: list[Segment], folders: list[str]) -> None:
        """Sync files, several at a time where they are many, then folders."""
        count = SYNC_THREADS if len(segments) >= SYNC_MANY else 1
        parts = [partial(_sync_files, segments[index::count]) for index in range(count)]
        await blocking(self._executor, *parts, fence=self._fence, what="flush of queues")
        if folders:
            work = partial(_sync_folders, self._files, folders)
            await blocking(self._executor, work, fence=self._fence, what="flush of queues")


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
            await blocking(
                self._executor, work, fence=self._fence, what="commit of the write buffer"
            )
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
    executor: Executor | None, *works: Callable[[], None], fence: Fence, what: str
) -> None:
    """Run in threads what must succeed; a failure fences the store, when all have ended."""
    loop = asyncio.get_running_loop()

    def marked(work: Callable[[], None]) -> None:
        try:
            work()
        except (OSError, StoreError):
            fence.leave_mark()
            raise

    ended = asyncio.gather(
        *(loop.run_in_executor(executor, marked, work) for work in works), return_exceptions=True
    )
    try:
        await uninterrupted(ended)
    finally:
        for error in ended.result() if ended.done() else ():
            if isinstance(error, OSError | StoreError):
                raise fence.close(f"{what} failed: {error}") from error
            if error is not None:
                raise error


def _sync_files(segments: Iterable[Segment]) -> None:
    for segment in segments:
        with contextlib.suppress(FileNotFoundError):  # its topic was deleted meanwhile
            segment.sync()


def _sync_folders(files: Files, folders: Iterable[str]) -> None:
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            files.sync_folder(folder)
