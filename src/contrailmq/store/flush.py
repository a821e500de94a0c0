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
import errno
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final

from contrailmq.errors import StoreClosed, StoreError
from contrailmq.lifecycle import uninterrupted
from contrailmq.metrics.model import Histogram
from contrailmq.store.checkpoint import Checkpoint
from contrailmq.store.commit_log import PAGE, CommitLog
from contrailmq.store.derive import Derivation
from contrailmq.store.files import Files, Segment
from contrailmq.store.index import Indexes
from contrailmq.store.settings import StoreSettings
from contrailmq.store.syncing import sync_all

log = logging.getLogger(__name__)
SYNC_BOUNDS_S: Final = (
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10,
)  # fmt: skip
SYNC_THREADS: Final = 4  # for queues; what is synced together shares the disk's own flushes
SYNC_MANY: Final = 32  # files; fewer are not worth it
SHORTAGE: Final = (errno.EMFILE, errno.ENFILE)  # of descriptors: no failure of the disk
SHORTAGE_WAIT_S: Final = 0.2
SYNC_DISKS: Final = 2000  # files; so many are synced by their disk as a whole


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
        self._turn = asyncio.Lock()  # one flush at a time, and none while the log is cut
        self.times = Histogram(SYNC_BOUNDS_S)  # of syncs of the log
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
        async with self._turn:
            target, segments = self._log.flush_scope()
            if target > self._log.flushed_offset:
                store_ms = self._log.writer.store_ms
                work = partial(sync_all, segments)
                began = asyncio.get_running_loop().time()
                await blocking(self._executor, work, fence=self._fence, what="flush of the log")
                self.times.add(asyncio.get_running_loop().time() - began)
                self._advance(target, store_ms)
        self._thorough_at = asyncio.get_running_loop().time()

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """No sync is under way in this block, and none begins."""
        async with self._turn:
            yield

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
        self.is_overdue = False  # after a crash: vouch soon, or the next walk is longer still

    async def run(self) -> None:
        """Flush what is dirty enough every second, everything every minute; until cancelled."""
        loop = asyncio.get_running_loop()
        thorough_at = loop.time()
        while True:
            await asyncio.sleep(self.settings.queue_flush_interval_ms / 1000)
            is_thorough = self.is_overdue or (loop.time() - thorough_at) * 1000 >= (
                self.settings.queue_flush_thorough_ms
            )
            if is_thorough:
                thorough_at = loop.time()
                self.is_overdue = False
            await self.flush(thorough=is_thorough)

    async def flush(self, *, thorough: bool) -> None:
        """Sync queues with enough dirty pages; if thorough all of them, and the checkpoint."""
        least = 0 if thorough else self.settings.queue_flush_least_pages * PAGE
        reached_ms = self._derivation.store_ms
        paths: list[str] = []
        folders: set[str] = set()
        for writer in list(self._derivation.dirty):
            if writer.owner.dirty_size() >= least:
                paths += writer.owner.dirty()
                folders |= writer.owner.take_renamed()
                del self._derivation.dirty[writer]
        full = [] if self._indexes is None else self._indexes.take_full()
        segments = [index.segment for index in full]
        if self._indexes is not None:
            folders |= self._indexes.take_renamed()
        if segments:
            work = partial(_sync_segments, segments)
            await blocking(self._executor, work, fence=self._fence, what="flush of the index")
        if paths or folders:
            await self._sync(paths, sorted(folders))
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

    async def _sync(self, paths: list[str], folders: list[str]) -> None:
        """Sync files, several at a time where they are many, then folders."""
        if len(paths) >= SYNC_DISKS:
            whole = partial(sync_many, self._files, paths, folders)
            await blocking(self._executor, whole, fence=self._fence, what="flush of queues")
            return
        count = SYNC_THREADS if len(paths) >= SYNC_MANY else 1
        parts = [partial(self._files.sync_files, paths[index::count]) for index in range(count)]
        await blocking(self._executor, *parts, fence=self._fence, what="flush of queues")
        if folders:
            work = partial(_sync_folders, self._files, folders)
            await blocking(self._executor, work, fence=self._fence, what="flush of queues")


def sync_many(files: Files, paths: Sequence[str], folders: Sequence[str]) -> None:
    """Make files and folders durable, by their disks as a whole where they are very many.

    Each fdatasync of a new file is a commit of the file system's journal: 100,000 queues took
    minutes, the whole disk takes a second.  Blocks.
    """
    if len(paths) + len(folders) < SYNC_DISKS or not files.sync_disks([*paths, *folders]):
        files.sync_files(paths)
        _sync_folders(files, folders)


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
    """Run in threads what must succeed; a failure fences the store, when all have ended.

    Work that found no descriptor has done nothing, and a stranger may be at fault, who holds all
    there are.  It is done again until it finds one.
    """
    left = list(works)
    cancelled: asyncio.CancelledError | None = None
    while left:
        ended = _run_all(executor, left, fence=fence)
        short: list[Callable[[], None]] = []
        try:
            await uninterrupted(ended)
        except asyncio.CancelledError as gone:
            cancelled = gone  # raised when all is done
        for work, error in zip(left, ended.result(), strict=True):
            if isinstance(error, OSError) and error.errno in SHORTAGE:
                short.append(work)
                log.error("%s waits for a descriptor: error=%s", what, error)
            elif isinstance(error, OSError | StoreError):
                raise fence.close(f"{what} failed: {error}") from error
            elif error is not None:
                raise error
        left = short
        if left:
            try:
                await asyncio.sleep(SHORTAGE_WAIT_S)
            except asyncio.CancelledError as gone:
                cancelled = gone
    if cancelled is not None:
        raise cancelled


def _run_all(
    executor: Executor | None, works: Sequence[Callable[[], None]], *, fence: Fence
) -> asyncio.Future[list[BaseException | None]]:
    """Run all in threads; what each has failed with, when all have ended."""
    loop = asyncio.get_running_loop()

    def marked(work: Callable[[], None]) -> None:
        try:
            work()
        except (OSError, StoreError) as error:
            if not isinstance(error, OSError) or error.errno not in SHORTAGE:
                fence.leave_mark()
            raise

    return asyncio.gather(
        *(loop.run_in_executor(executor, marked, work) for work in works), return_exceptions=True
    )


def _sync_segments(segments: Iterable[Segment]) -> None:
    for segment in segments:
        with contextlib.suppress(FileNotFoundError):  # its topic was deleted meanwhile
            segment.sync()


def _sync_folders(files: Files, folders: Iterable[str]) -> None:
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            files.sync_folder(folder)
