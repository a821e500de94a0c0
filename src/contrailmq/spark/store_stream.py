"""``spark.readStream.format("rocketmq-store")``: follows store directories that a broker writes.

The same journal as for topics; the bounds come from the consume queues on disk.  Nothing tells this
reader that a message was not yet acknowledged to its sender: it reads what a broker would serve.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from contrailmq.bulk.directories import Directories
from contrailmq.bulk.loss import Losses
from contrailmq.bulk.options import EARLIEST, Position, StoreOptions, check_endless
from contrailmq.bulk.places import check_named
from contrailmq.bulk.planning import Offsets, limited, pack
from contrailmq.bulk.store_ranges import check_topics, task_count
from contrailmq.protocol.queue import MessageQueue
from contrailmq.spark import journal
from contrailmq.spark.columns import check_schema
from contrailmq.spark.journal import Advance, Offset
from contrailmq.spark.older import Memory
from contrailmq.spark.store_reader import StorePartition, read_store_partition
from contrailmq.spark.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

_EARLIEST: Final = Position(word=EARLIEST)


class StoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one streaming query over directories."""

    def __init__(self, options: StoreOptions, schema: StructType) -> None:
        check_schema(schema, with_damage=not options.fail_on_damage)
        check_endless(options.ending)
        self._options = options
        self._schema = schema
        self._place = options.starting or _EARLIEST
        losses = Losses(fail=options.fail_on_data_loss, wait_s=0.0)
        self._advance = Advance(self._place, group=None, losses=losses)
        self._target: dict[MessageQueue, int] | None = None
        self._open: Directories | None = None
        self._memory = Memory()

    def __getstate__(self) -> dict[str, Any]:
        """What goes to the tasks: no mapped files."""
        return {**self.__dict__, "_open": None}

    def initialOffset(self) -> Offset:
        """A symbol; see ``journal``."""
        return journal.symbol(self._place)

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        """The end of the next batch; before Spark 4.2 nothing is told, see ``older``."""
        is_blind = start is None
        if start is None or limit is None:
            start = self._memory.start(self.initialOffset())
            limit = self._memory.limit(self.getDefaultReadLimit())
        end = self._next(start, limit, is_blind=is_blind and "to" not in start)
        self._memory.note(end)
        return end

    def _next(self, start: Offset, limit: ReadLimit, *, is_blind: bool) -> Offset:
        directories = self._look()
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None

        def apply(starts: Offsets, ends: Offsets) -> Offsets:
            return dict(ends) if rows is None else limited(starts, ends, rows)

        queues = directories.queues(self._options.topics)
        if "to" not in start:
            check_topics(directories, self._options, queues)
            check_named(queues, {"startingOffsets": self._options.starting})
        end = self._advance.next(
            start, directories, queues, limit=apply, target=self._target, is_blind=is_blind
        )
        if is_blind:
            return journal.floating(end, directories.first_offsets(queues))
        if end == start:
            return end
        return journal.cut(end, task_count(journal.ranges(start, end), self._options))

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options."""
        rows = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def reportLatestOffset(self) -> Offset | None:
        """What was there when last looked: the difference to the end offset is the lag."""
        return journal.offset_of(self._advance.ends) if self._advance.ends else None

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember what is there now; the query ends when it has read that."""
        directories = self._look()
        self._target = directories.end_offsets(directories.queues(self._options.topics))

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Divide a batch; the same whenever it is asked for."""
        self._memory.note(end)
        found = journal.ranges(start, end)
        count = journal.find_tasks(end) or task_count(found, self._options)
        tags = self._options.tags or "*"
        return [StorePartition(part, tags) for part in pack(found, count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one partition as Arrow batches."""
        return read_store_partition(partition, self._options, self._schema)

    def commit(self, end: Offset) -> None:
        """Nobody is to be told."""

    def stop(self) -> None:
        """Forget the mapped files."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _look(self) -> Directories:
        if self._open is None:
            self._open = Directories(self._options.paths)
        else:
            self._open.refresh()
        return self._open
