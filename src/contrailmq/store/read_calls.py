"""What can be asked of a store: the reading half of ``Store``, handed on to who can answer."""

from __future__ import annotations

import asyncio

from contrailmq.store.commit_log import CommitLog
from contrailmq.store.index import Indexes
from contrailmq.store.loading import Loading
from contrailmq.store.read import Reading
from contrailmq.store.types import GetResult, KeyMatches, Matcher


class ReadCalls:
    """The calls that change nothing. All on the loop; none waits."""

    log: CommitLog
    indexes: Indexes | None
    reading: Reading
    _loading: Loading
    was_killed = False  # the run before did not end in good order

    def get(
        self, topic: str, queue_id: int, offset: int, *, count: int, matcher: Matcher | None = None
    ) -> GetResult:
        """Up to ``count`` records of a queue from an offset on, gathered."""
        return self.reading.get(topic, queue_id, offset, count=count, matcher=matcher)

    def loading(
        self, topic: str, queue_id: int, offset: int, *, count: int, matcher: Matcher | None = None
    ) -> asyncio.Future[None] | None:
        """For a pull that must not wait for the disk: what it waits for; None when for nothing."""
        cold = self.reading.find_cold(topic, queue_id, offset, count=count, matcher=matcher)
        self.read_on()
        if cold is None:
            return None
        queue, place = cold
        return (
            self._loading.load(place) if queue is None else self._loading.load_units(queue, place)
        )

    def read_on(self) -> None:
        """Have what readers of old messages will want next loaded, where they have come so far."""
        self._loading.read_on()

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the one behind the last."""
        return self.reading.bounds(topic, queue_id)

    def unit(self, topic: str, queue_id: int, offset: int) -> tuple[int, int, int] | None:
        """Log offset, size and tag code of one message of a queue; None when it is not there."""
        return self.reading.unit(topic, queue_id, offset)

    def offset_by_time(self, topic: str, queue_id: int, ms: int, *, upper: bool = False) -> int:
        """The first offset stored at ``ms`` or later; ``upper``: the last at ``ms`` or before."""
        return self.reading.offset_by_time(topic, queue_id, ms, upper=upper)

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message was stored; -1 when it is not there."""
        return self.reading.store_time(topic, queue_id, offset)

    def record_at(self, commit_log_offset: int, size: int | None = None) -> bytes | None:
        """A copy of the record at a log offset; None when there is none."""
        record = self.log.record(commit_log_offset, size)
        return None if record is None else bytes(record)

    def query_key(
        self, topic: str, key: str, *, count: int, begin_ms: int, end_ms: int
    ) -> KeyMatches:
        """Log offsets of the newest messages that may have a key, and the index's freshness."""
        if self.indexes is None:
            return KeyMatches([], 0, 0)
        count = min(count, self.reading.settings.query_count_max)
        return self.indexes.query(topic, key, count=count, begin_ms=begin_ms, end_ms=end_ms)

    def earliest_time(self, topic: str | None = None, queue_id: int | None = None) -> int:
        """When the oldest message of a queue, or of the store, was stored; -1 for none."""
        return self.reading.earliest_time(topic, queue_id)

    @property
    def min_offset(self) -> int:
        """Where the log begins."""
        return self.log.min_offset

    @property
    def max_offset(self) -> int:
        """Where the log ends."""
        return self.log.end_offset

    @property
    def flushed_offset(self) -> int:
        """Up to where the log is on disk."""
        return self.log.flushed_offset
