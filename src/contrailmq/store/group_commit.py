"""Synchronous flush: sends wait for the disk, and all that wait share one fsync.

Theory of operation.  An append wakes the service; at the end of that turn of the loop it writes
everything appended so far with one call, through the file, and orders one sync of it.  What is
appended while the disk works is the next order, given the moment the first one ends and before
anybody is told of that.  Readers follow the disk: ``on_flushed`` tells how far it is.

Whoever waits is called back in the very turn in which the disk is certain, with True; with False
when that took longer than ``syncFlushTimeout`` (the message is stored all the same); or with the
StoreClosed that says why it will never be.  Waits time out in the order they began, by one timer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

from contrailmq.errors import StoreClosed, StoreError
from contrailmq.lifecycle import uninterrupted
from contrailmq.store.certainty import Outcome
from contrailmq.store.checkpoint import Checkpoint
from contrailmq.store.commit_log import CommitLog
from contrailmq.store.flush import Fence, LogFlush
from contrailmq.store.settings import StoreSettings
from contrailmq.store.syncing import Syncer


class _Waiter(NamedTuple):
    end_offset: int
    done: Callable[[Outcome], None]
    deadline: float


class GroupCommit(LogFlush):
    """The flush service of a log whose senders wait for the disk."""

    def __init__(
        self,
        settings: StoreSettings,
        commit_log: CommitLog,
        *,
        checkpoint: Checkpoint,
        fence: Fence,
        executor: Executor | None,
    ) -> None:
        super().__init__(
            settings, commit_log, checkpoint=checkpoint, fence=fence, executor=executor
        )
        self._waiters: deque[_Waiter] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._syncer: Syncer | None = None  # while the service runs
        self._is_held = False  # no order may be given
        self._idle: asyncio.Future[None] | None = None  # set when the last order has ended
        self._began = 0.0  # when the order under way was given
        self._is_begun = False  # an order is given, or about to be at the end of this turn
        self._error: Exception | None = None
        self._failed: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None  # set when the service is to end

    def wake(self) -> None:
        """Flush at the end of this turn of the loop, or when the flush under way has ended."""
        if self._syncer is not None and not self._is_begun:
            self._is_begun = True
            asyncio.get_running_loop().call_soon(self._begin)

    def when_flushed(self, end_offset: int, done: Callable[[Outcome], None]) -> None:
        """Call back once everything before ``end_offset`` is on disk, or will not be in time."""
        if self._fence.reason is not None:
            done(StoreClosed(self._fence.reason))
        elif end_offset <= self._log.flushed_offset:
            done(True)
        else:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + self.settings.sync_flush_timeout_ms / 1000
            self._waiters.append(_Waiter(end_offset, done, deadline))
            if self._timer is None:
                self._timer = loop.call_at(deadline, self._expire)
            self.wake()

    async def run(self) -> None:
        """Flush whenever there is something to flush until cancelled, then once more."""
        self._failed = asyncio.get_running_loop().create_future()
        self._syncer = Syncer(self._executor)
        self.wake()
        try:
            try:
                await self._failed
            except asyncio.CancelledError:
                await self._drain()
                if self._error is None:
                    if self._fence.reason is None:
                        await self.flush()
                    raise
            await self._drain()
            raise await self._mark() from self._error
        finally:
            self._syncer.close()
            self._syncer = None
            self._fail_waiters(StoreClosed(self._fence.reason or "flush has stopped"))

    async def flush(self) -> None:
        """Make everything written so far durable, and tell those who wait."""
        self._log.settle()
        await super().flush()
        self._settle()

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """No sync is under way in this block, and none begins."""
        async with super().held():
            self._is_held = True
            try:
                if self._syncer is not None and self._syncer.is_busy:
                    self._idle = asyncio.get_running_loop().create_future()
                    await asyncio.wait([self._idle])
                yield
            finally:
                self._is_held = False
                self.wake()

    def _begin(self) -> None:
        """Write what was appended by now, and order a sync of it."""
        self._write()
        syncer = self._syncer
        target, segments = self._log.flush_scope()
        is_wanted = target > self._log.flushed_offset and self._fence.reason is None
        if syncer is None or self._drained is not None or self._is_held or not is_wanted:
            self._is_begun = False
            self._settle()
            if self._fence.reason is not None:  # a write failed: the service ends with it
                self._give_up()
            return
        self._began = asyncio.get_running_loop().time()
        syncer.begin(segments, partial(self._end, target, self._log.writer.store_ms))

    def _write(self) -> None:
        if self._fence.reason is None:
            try:
                self._log.write_staged()
            except StoreError as error:
                self._fence.close(f"write to the log failed: {error}")

    def _end(self, target: int, store_ms: int, error: Exception | None) -> None:
        """An order was carried out, or failed: then nothing is ever certain again."""
        self._is_begun = False
        self.times.add(asyncio.get_running_loop().time() - self._began)
        try:
            if error is not None:
                raise error
            self._log.flushed_offset = max(self._log.flushed_offset, target)
            if self._drained is None and not self._is_held and self._log.end_offset > target:
                self._is_begun = True
                self._begin()  # first of all: the disk works while the last answers leave
            self._advance(target, store_ms)
            self._settle()
        except Exception as caught:
            self._error = caught
            self._fence.close(f"flush of the log failed: {caught}")
            self._give_up()
        for ended in (self._drained, self._idle):
            if ended is not None and not ended.done():
                ended.set_result(None)

    def _give_up(self) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(None)

    async def _drain(self) -> None:
        """Wait for the order under way: an fsync in flight is never abandoned."""
        assert self._syncer is not None
        self._drained = asyncio.get_running_loop().create_future()
        while self._syncer.is_busy:
            with contextlib.suppress(asyncio.CancelledError):  # this task is on its way out already
                await asyncio.wait([self._drained])

    async def _mark(self) -> StoreClosed:
        """Note beside the log that its last bytes are in doubt, for the recovery to come."""
        loop = asyncio.get_running_loop()
        await uninterrupted(loop.run_in_executor(self._executor, self._fence.leave_mark))
        return self._fence.close("flush of the log failed")

    def _settle(self) -> None:
        flushed = self._log.flushed_offset
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if waiter.end_offset <= flushed:
                waiter.done(True)
            else:
                self._waiters.append(waiter)
        if not self._waiters and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._waiters and self._waiters[0].deadline <= loop.time():
            self._waiters.popleft().done(False)
        if self._waiters and self._timer is None:
            self._timer = loop.call_at(self._waiters[0].deadline, self._expire)

    def _fail_waiters(self, error: StoreClosed) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            waiter.done(error)
