"""What retention does to a store: let go of files at the old end, in step with the log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from contrailmq.protocol.names import is_lmq
from contrailmq.store.batch_queue import BatchQueues
from contrailmq.store.commit_log import CommitLog
from contrailmq.store.consume_queue import ConsumeQueue, ConsumeQueues
from contrailmq.store.files import Files
from contrailmq.store.gaps import UNIT, find_written
from contrailmq.store.index import Indexes
from contrailmq.store.layout import QUEUE_UNIT, Layout
from contrailmq.store.queue_ext import is_address
from contrailmq.store.retention import Disk

_ADDRESS_BASE = -(1 << 63)


class Keeping:
    """The old end of a store. Owned by the loop; only ``remove`` is for threads."""

    def __init__(
        self,
        layout: Layout,
        files: Files,
        *,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        batches: BatchQueues,
        indexes: Indexes | None,
        refuse: Callable[[str | None], None],
    ) -> None:
        self._layout = layout
        self._files = files
        self._log = commit_log
        self._queues = queues
        self._batches = batches
        self._indexes = indexes
        self._refuse = refuse
        self._trimmed_to = -1

    def disks(self) -> tuple[Sequence[Disk], Disk]:
        """The disks of the log, and the disk of the queues."""
        paths = self._layout.commit_logs
        return (
            [Disk(path, self._files.usage(path)) for path in paths],
            Disk(self._layout.consume_queues, self._files.usage(self._layout.consume_queues)),
        )

    def written_ms(self) -> list[int]:
        """When each segment that is wholly on disk was last written, oldest first; then 0.

        The segments behind them are in use, and stand for the last one, which is never deleted.
        """
        segments, flushed = self._log.segments, self._log.flushed_offset
        done = [base for base in segments.offsets[:-1] if base + segments.size <= flushed]
        return [*(self._files.modified_ms(segments.path(base)) for base in done), 0]

    def forget_oldest(self) -> str:
        """Let go of the oldest segment of the log."""
        return self._log.forget_first()

    def remove(self, path: str) -> None:
        """Remove a file that nobody uses any more."""
        self._files.remove(path)

    def trim(self) -> list[str]:
        """Let queues, extensions and index begin where the log begins."""
        log_min = self._log.min_offset
        if log_min == self._trimmed_to:
            return []
        self._trimmed_to = log_min
        paths: list[str] = []
        for queue in self._queues:
            paths += trim_queue(queue, log_min)
        paths += self._batches.trim(log_min)
        if self._indexes is not None:
            paths += self._indexes.forget_before(log_min)
        return paths

    def refuse(self, reason: str | None) -> None:
        """Take no messages, for this reason."""
        self._refuse(reason)

    def expired_queues(self) -> list[ConsumeQueue]:
        """Queues whose newest record the log no longer has."""
        log_min = self._log.min_offset
        return [queue for queue in self._queues if queue.writer.log_end <= log_min]

    def unused_topics(self, known: Collection[str]) -> list[str]:
        """Topics that have queues and are in nobody's list."""
        topics = [*self._queues.topics(), *self._batches.topics()]
        return sorted(topic for topic in topics if topic not in known and not is_lmq(topic))


def trim_queue(queue: ConsumeQueue, log_min: int) -> list[str]:
    """Let go of files whose last unit points before the log, never the last; their paths."""
    paths = []
    segments = queue.segments
    while len(segments.offsets) > 1:
        base = segments.offsets[0]
        segment = segments.find(base)
        assert segment is not None
        last = find_written(segment.buffer, 0, segments.size // QUEUE_UNIT - 1)
        if last is not None and UNIT.unpack_from(segment.buffer, last * QUEUE_UNIT)[0] >= log_min:
            break
        paths.append(segments.forget_first())
    queue.correct_min(log_min)
    return paths + _trim_ext(queue)


def _trim_ext(queue: ConsumeQueue) -> list[str]:
    ext = queue.ext
    unit = queue.unit(queue.min_offset)
    if ext is None or unit is None or not is_address(unit[2]):
        return []
    paths = []
    begin = unit[2] - _ADDRESS_BASE
    while len(ext.segments.offsets) > 1 and ext.segments.offsets[1] <= begin:
        paths.append(ext.segments.forget_first())
    return paths
