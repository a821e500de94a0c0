"""The store: everything below it, behind one object.

``open`` takes the lock, loads what is on disk and recovers; ``run`` keeps flushing and preparing
until cancelled; ``aclose`` leaves the directory clean.  Everything else is called on the loop and
does not wait.  The parts: ``CommitLog`` (segments), ``Writing`` (append), ``Derivation`` (log →
queues, index), ``Reading``, ``LogFlush`` or ``GroupCommit``, ``QueueFlush``, ``BufferCommit``,
``Ahead``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from contrailmq.clock import Clock
from contrailmq.errors import DiskFull, StoreClosed
from contrailmq.metrics.model import Histogram
from contrailmq.store.ahead import Ahead
from contrailmq.store.batch_queue import BatchQueues, batch_topics
from contrailmq.store.certainty import BothWaits, Outcome, Replicas
from contrailmq.store.checkpoint import Checkpoint
from contrailmq.store.commit_log import CommitLog
from contrailmq.store.consume_queue import ConsumeQueues
from contrailmq.store.derive import Derivation
from contrailmq.store.files import Files, Lock
from contrailmq.store.flush import SYNC_THREADS, BufferCommit, Fence, LogFlush, QueueFlush
from contrailmq.store.group_commit import GroupCommit
from contrailmq.store.index import Indexes
from contrailmq.store.keep import Keeping
from contrailmq.store.layout import Layout
from contrailmq.store.loading import Loading
from contrailmq.store.mapped_files import MappedFiles
from contrailmq.store.read import Reading
from contrailmq.store.read_calls import ReadCalls
from contrailmq.store.recovery.queue_marks import MarksFile
from contrailmq.store.recovery.recovery import SYNC_FAILED, Recovery
from contrailmq.store.removal_calls import RemovalCalls
from contrailmq.store.replica_calls import ReplicaCalls
from contrailmq.store.retention import Retention
from contrailmq.store.settings import FlushDiskType, StoreSettings
from contrailmq.store.timers.calls import TimerCalls
from contrailmq.store.types import Appended, BatchAppended, NewMessage
from contrailmq.store.write import Writing

log = logging.getLogger(__name__)


class Store(ReadCalls, RemovalCalls, ReplicaCalls, TimerCalls):
    """One store directory, open for writing. Owned by the loop."""

    def __init__(self, settings: StoreSettings, *, files: Files, clock: Clock) -> None:
        self.settings = settings
        self.layout = Layout(settings)
        self.files = files
        self.clock = clock
        self.fence = Fence()
        self.fence.leave_mark = self._leave_mark
        self.fence.on_close = self._steer
        self.log = CommitLog(settings, self.layout, files)
        self.log.fail = self._write_failed
        maps = MappedFiles(min(settings.queue_maps_max, files.mappings_max() // 2))
        self.queues = ConsumeQueues(
            files, self.layout, has_ext=settings.queue_ext_enable, maps=maps
        )
        self.indexes = (
            Indexes(settings, self.layout, files, clock=clock) if settings.index_enable else None
        )
        self.batches = BatchQueues(files, self.layout, maps=maps)
        self.derivation = Derivation(
            settings, self.log, queues=self.queues, batches=self.batches, indexes=self.indexes
        )
        self.writing = Writing(settings, self.log, self.derivation, clock=clock)
        self.writing.on_roll = self._roll
        self.reading = Reading(
            settings, self.log, self.queues, batches=self.batches, memory_size=files.memory_size()
        )
        self._marks = MarksFile(files, self.layout)
        self._loading = Loading(self.log)
        self._lock: Lock | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._checkpoint: Checkpoint | None = None
        self._state = "not open yet"
        self._is_sync = settings.flush_disk_type is FlushDiskType.SYNC
        self.follower = self.derivation.follower
        self.follower.follows = not self._is_sync and not settings.has_write_buffer
        self.refusal: str | None = None  # set by retention while the disk is too full
        self.on_flushed: Callable[[int], None] = lambda offset: None
        self.replicas: Replicas | None = None  # for whom sends wait
        self.standby = None
        self.bound = None

    async def open(self) -> None:
        """Lock the directory, load it, recover, be ready. On failure nothing is left open."""
        self._lock = self.files.lock(self.layout.lock)
        try:
            self._executor = ThreadPoolExecutor(SYNC_THREADS + 1, thread_name_prefix="store")
            self._checkpoint = Checkpoint(self.files, self.layout.checkpoint)
            left = self.files.read(self.layout.abort)
            self.was_killed = left is not None
            self.log.load()
            self.queues.load()
            self.batches.load()
            named = batch_topics(self.files.read(f"{self.layout.config}/topics.json"))
            self.derivation.is_batch_topic = lambda topic: (
                topic in named or self.batches.has_topic(topic)
            )
            if self.indexes is not None:
                self.indexes.load()
            if left is None:
                self.files.replace(self.layout.abort, self.files.boot_id())
            recovery = Recovery(
                self.settings,
                files=self.files,
                commit_log=self.log,
                queues=self.queues,
                batches=self.batches,
                indexes=self.indexes,
                derivation=self.derivation,
                marks=self._marks,
                clock=self.clock,
            )
            found = await recovery.run(self._checkpoint, self.layout.quarantine, left=left)
            self.files.replace(self.layout.abort, self.files.boot_id())
            self._mark_queues()
            self._build_services()
            self._queue_flush.is_overdue = found.was_killed
        except BaseException:
            self._release()
            raise
        self._state = ""
        self._steer()
        log.info(
            "store open: root=%s killed=%s min=%s end=%s",
            self.layout.root,
            found.was_killed,
            self.log.min_offset,
            self.log.end_offset,
        )

    def _build_services(self) -> None:
        assert self._checkpoint is not None
        settings, fence, executor = self.settings, self.fence, self._executor
        kind = GroupCommit if self._is_sync else LogFlush
        self._flush = kind(
            settings, self.log, checkpoint=self._checkpoint, fence=fence, executor=executor
        )
        self._flush.on_flushed = self._on_flushed
        self._queue_flush = QueueFlush(
            settings,
            self.derivation,
            files=self.files,
            indexes=self.indexes,
            checkpoint=self._checkpoint,
            fence=fence,
            executor=executor,
        )
        self._commit = BufferCommit(settings, self.log, fence=fence, executor=executor)
        self._commit.on_committed = self._on_committed
        self._ahead = Ahead(self.log, executor=executor)
        self.derivation.on_grown = self._ahead.check
        if self._is_sync:
            self.derivation.unread = self._flush.wake
        self._keeping = Keeping(
            self.layout,
            self.files,
            commit_log=self.log,
            queues=self.queues,
            batches=self.batches,
            indexes=self.indexes,
            refuse=self.refuse,
        )
        self._retention = Retention(self._keeping, settings=lambda: self.settings, clock=self.clock)
        self._retention.look()

    async def run(self) -> None:
        """Flush and prepare until cancelled. A failed flush ends it with StoreClosed."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._flush.run(), name="log flush")
                group.create_task(self._queue_flush.run(), name="queue flush")
                group.create_task(self._ahead.run(), name="segments ahead")
                group.create_task(self._retention.run(), name="retention")
                group.create_task(self._loading.run(), name="what is in memory")
                if self.log.has_write_buffer:
                    group.create_task(self._commit.run(), name="buffer commit")
        except* StoreClosed as group_error:
            raise group_error.exceptions[0] from group_error

    async def aclose(self) -> None:
        """Flush everything, write the checkpoint, mark the directory clean, let go of it."""
        if self._lock is None:
            return
        try:
            if self.fence.reason is None and not self._state:
                self._state = "the store is closed"
                self._steer()
                await self._leave_clean()
        finally:
            self._state = self._state or "the store is closed"
            self._steer()
            self._release()

    async def _leave_clean(self) -> None:
        if self.log.has_write_buffer:
            await self._commit.commit()
        await self._flush.flush()
        self.derivation.run(self.log.flushed_offset)
        assert self._checkpoint is not None
        if self.indexes is not None and (last := self.indexes.last()) is not None:
            self.indexes.full.append(last)
        await self._queue_flush.flush(thorough=True)
        if self.derivation.derived_offset == self.log.end_offset:
            self._mark_queues()
            self.files.remove(self.layout.abort)

    def _mark_queues(self) -> None:
        self._marks.note(self.log.segments, self.derivation.derived_offset, self.queues)

    def _leave_mark(self) -> None:
        try:
            self.files.replace(self.layout.abort, SYNC_FAILED)
        except OSError as error:
            log.error("the failed flush cannot even be noted: error=%s", error)

    def _release(self) -> None:
        self._loading.close()
        self.derivation.deriver.detach()
        self.log.close()
        self.queues.close()
        self.batches.close()
        if self.indexes is not None:
            self.indexes.close()
        if self._checkpoint is not None:
            self._checkpoint.close()
            self._checkpoint = None
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # Writing

    def put(self, message: NewMessage) -> Appended:
        """Append a message; StoreRefusal, DiskFull or StoreClosed when it cannot be.

        Under asynchronous flush it can be read when this returns; under synchronous flush when it
        is on disk, with the write buffer when it is committed.
        """
        self.check_writable()
        appended = self.writing.put(message)
        self.appended()
        return appended

    def put_whole(self, message: NewMessage, count: int) -> Appended:
        """Append a batch of ``count`` messages as one record, for a batch queue."""
        self.check_writable()
        appended = self.writing.put_whole(message, count)
        self.appended()
        return appended

    def put_batch(
        self, message: NewMessage, inner: bytes | bytearray | memoryview
    ) -> BatchAppended:
        """Append every message of a batch body, all or none."""
        self.check_writable()
        appended = self.writing.put_batch(message, inner)
        self.appended()
        return appended

    def appended(self) -> None:
        """Records were appended to ``log.writer``, by ``put`` or by a caller of its own: derive."""
        self.follower.appended()
        if self._is_sync:
            self.log.settle()  # for who does not wait for the disk: a kill shall not lose it

    @property
    def is_awaited(self) -> bool:
        """Whether sends wait for the disk or for replicas."""
        return self._is_sync or self.replicas is not None

    def wait_flushed(self, end_offset: int) -> asyncio.Future[Outcome] | None:
        """For a send that waits for disk and replicas; None when there is nothing to wait for."""
        if not self.is_awaited:
            return None
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome) -> None:
            if future.done():
                return
            if isinstance(outcome, StoreClosed):
                future.set_exception(outcome)
                future.exception()  # nobody may be left who asks
            else:
                future.set_result(outcome)

        self.when_flushed(end_offset, done)
        return future

    def when_flushed(self, end_offset: int, done: Callable[[Outcome], None]) -> None:
        """Call back when disk and replicas are certain, at once when nobody waits for them."""
        flush, replicas = self._flush, self.replicas
        if replicas is not None:
            both = BothWaits(done)
            replicas.when_replicated(end_offset, both.replicated)
            done = both.flushed
        if isinstance(flush, GroupCommit):
            flush.when_flushed(end_offset, done)
        else:
            done(True)

    def writeable_reason(self) -> str | None:
        """Why nothing can be written now; None when it can."""
        if self._state or self.fence.reason is not None:
            return self.fence.reason or self._state
        return self.standby or self.refusal

    @property
    def is_ready(self) -> bool:
        """Whether a message can be put now, for callers that do not want to know why not."""
        return self.follower.is_ready()

    def _steer(self) -> None:
        """Whether messages are taken may have changed."""
        self.follower.is_open = self.writeable_reason() is None

    def check_writable(self) -> None:
        """Raise StoreClosed or DiskFull unless a message can be put now."""
        if self._state or self.fence.reason is not None:
            raise StoreClosed(self.fence.reason or f"{self.layout.root}: {self._state}")
        if self.standby is not None:
            raise StoreClosed(self.standby)
        if self.refusal is not None:
            raise DiskFull(self.refusal)
        if self.follower.follows and self.derivation.derived_offset != self.log.end_offset:
            self.log.settle()
            self.derivation.run(self.log.end_offset)  # DiskFull again, or caught up

    def _roll(self) -> None:
        if self.log.has_write_buffer and (
            self.log.buffers_in_use() >= self.settings.write_buffer_count
        ):
            self._commit.commit_now()
        self.log.grow()
        self._ahead.check(self.log.end_offset)

    def _write_failed(self, reason: str) -> StoreClosed:
        closed = self.fence.close(reason)
        self._flush.wake()  # the service ends with it
        return closed

    def _on_flushed(self, offset: int) -> None:
        if self._is_sync:
            self.derive_readable()
        self.on_flushed(offset)

    def _on_committed(self, offset: int) -> None:
        self.derive_readable()
        self._flush.wake()

    # Changing

    def refuse(self, reason: str | None) -> None:
        """Take no messages for this reason; None: take them again."""
        self.refusal = reason
        self._steer()

    def update(self, settings: StoreSettings) -> None:
        """Use other settings from now on, as far as they can change while running."""
        self.settings = settings
        self.writing.set(settings)
        self.reading.set(settings)
        self._flush.settings = self._queue_flush.settings = self._commit.settings = settings

    @property
    def sync_times(self) -> Histogram:
        """How long syncs of the log took, in seconds."""
        return self._flush.times

    @property
    def on_readable(self) -> Callable[[str, int, int], None]:
        """Called with topic, queue id and new end, once for each queue and batch."""
        return self.derivation.on_readable

    @on_readable.setter
    def on_readable(self, callback: Callable[[str, int, int], None]) -> None:
        self.derivation.on_readable = callback

    def __repr__(self) -> str:
        return f"<Store {self.layout.root} {self.min_offset}..{self.max_offset}>"
