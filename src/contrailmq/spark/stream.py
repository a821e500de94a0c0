"""``spark.readStream.format("rocketmq")``: topics as they grow.

One reader lives with the query, in a process beside the driver; it finds offsets, plans batches and
tells the brokers how far the query has come, so that the ordinary view of a group's lag shows it.
Tasks get ranges and pull them (``reader.read_partition``).  The checkpoint is the truth: the
group's offset follows it and is read only where a new query says ``startingOffsets=committed``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.loss import Losses
from contrailmq.bulk.options import LATEST, Position, SourceOptions, check_endless
from contrailmq.bulk.planning import Offsets, limited, limited_size, pack, partition_count
from contrailmq.bulk.pull import record_sizes
from contrailmq.bulk.topic_ranges import check_source, subscription
from contrailmq.errors import ContrailError
from contrailmq.protocol.queue import MessageQueue
from contrailmq.spark import journal, marks
from contrailmq.spark.columns import check_schema
from contrailmq.spark.journal import Advance, Limit, Offset
from contrailmq.spark.older import Memory
from contrailmq.spark.reader import PullPartition, read_partition
from contrailmq.spark.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

log = logging.getLogger(__name__)
_LATEST: Final = Position(word=LATEST)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one streaming query."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema)
        check_endless(options.ending)
        self._options = options
        self._schema = schema
        self._place = options.starting or _LATEST
        self._losses = Losses(fail=options.fail_on_data_loss)
        self._advance = Advance(self._place, group=options.group, losses=self._losses)
        self._target: dict[MessageQueue, int] | None = None
        self._told: dict[MessageQueue, int] = {}
        self._open: Brokers | None = None
        self._is_checked = False
        self._memory = Memory()

    def __getstate__(self) -> dict[str, Any]:
        """What goes to the tasks: no connections."""
        return {**self.__dict__, "_open": None}

    def initialOffset(self) -> Offset:
        """A symbol; see ``journal``."""
        return journal.symbol(self._place)

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        """The end of the next batch. What is before ``start`` has been processed.

        Before Spark 4.2 neither is told; see ``older``.
        """
        is_blind = start is None
        if start is None or limit is None:
            start = self._memory.start(self.initialOffset())
            limit = self._memory.limit(self.getDefaultReadLimit())
        return self._next(start, limit, is_blind=is_blind and "to" not in start)

    def _next(self, start: Offset, limit: ReadLimit, *, is_blind: bool) -> Offset:
        self._tell(journal.reached(start))
        if "to" in start:  # the topics were there before, so they may come back
            self._brokers.route_patience_s = self._options.access.patience_s

        def find() -> Offset:
            queues = self._brokers.readable_queues(self._options)
            if "to" not in start and not self._is_checked:
                check_source(self._brokers, self._options, queues)
                self._is_checked = True
            end = self._advance.next(
                start,
                self._brokers,
                queues,
                limit=self._limit(limit),
                target=self._target,
                is_blind=is_blind,
            )
            if end == start:
                return end
            group, losses = self._options.pull_group, self._losses
            begins = marks.replaced(start, end, self._brokers, group=group, losses=losses)
            if begins:  # read from there on with the next batch
                end["to"] = journal.nested({**journal.reached(end), **begins})
            end = marks.marked(start, end, self._brokers, group)
            if is_blind:
                return journal.floating(end, self._brokers.first_offsets(queues))
            return journal.cut(end, self._tasks(start, end))

        end = self._brokers.patiently(find)
        self._memory.note(end)
        return end

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options; bytes come on top of rows when both are given."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> Offset | None:
        """What the brokers had when last asked: the difference to the end offset is the lag."""
        return journal.offset_of(self._advance.ends) if self._advance.ends else None

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember what is there now; the query ends when it has read that."""

        def find() -> dict[MessageQueue, int]:
            return self._brokers.end_offsets(self._brokers.readable_queues(self._options))

        self._target = self._brokers.patiently(find)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Divide a batch; the same whenever it is asked for."""
        self._memory.note(end)
        count = journal.find_tasks(end) or self._tasks(start, end)
        wanted = subscription(self._options)
        found = pack(journal.ranges(start, end), count)
        return [PullPartition(part, wanted) for part in found]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one partition as Arrow batches."""
        return read_partition(partition, self._options, self._schema)

    def commit(self, end: Offset) -> None:
        """Everything up to ``end`` is done."""
        self._tell(journal.reached(end))

    def stop(self) -> None:
        """Close the connections."""
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def _brokers(self) -> Brokers:
        if self._open is None:
            self._open = Brokers(self._options.access)
        return self._open

    def _tasks(self, start: Offset, end: Offset) -> int:
        options = self._options
        return partition_count(
            sum(part.size for part in journal.ranges(start, end)),
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
            cores=options.cores,
        )

    def _tell(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit the group's offsets; a failure is logged, for the next one makes up for it."""
        group = self._options.group
        new = {q: offset for q, offset in offsets.items() if offset > self._told.get(q, -1)}
        if group is None or not new:
            return
        try:
            self._brokers.commit(group, new)
            self._told.update(new)
        except ContrailError as error:
            log.warning("group offset not committed group=%s error=%s", group, error)

    def _limit(self, limit: ReadLimit) -> Limit:
        """Spark's limit and ours as one function of starts and ends."""
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        least = limit.min_rows if isinstance(limit, ReadMinRows) else 0
        if not isinstance(limit, ReadAllAvailable):
            size = size or self._options.max_bytes_per_trigger

        def apply(starts: Offsets, ends: Offsets) -> Offsets:
            if self._target is None and sum(ends[q] - starts[q] for q in ends) < least:
                return {}
            if rows is not None:
                ends = limited(starts, ends, rows)
            if size is not None:
                sizes = record_sizes(self._brokers, self._options.pull_group, starts)
                ends = limited_size(starts, ends, sizes, size_max=size)
            return {queue: end for queue, end in ends.items() if end > starts[queue]}

        return apply
