"""``spark.read.format("rocketmq")``: topics as they are at the moment of planning.

The planner asks the brokers for the bounds of the queues once; tasks read exactly these ranges.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.narrowing import Narrowing
from contrailmq.bulk.options import SourceOptions
from contrailmq.bulk.planning import QueueRange, pack, partition_count
from contrailmq.bulk.pull import Subscription
from contrailmq.bulk.topic_ranges import find_ranges, pull_rows, subscription
from contrailmq.spark.columns import check_schema
from contrailmq.spark.versions import arrow_schema, need


class PullPartition(InputPartition):
    """The ranges one task pulls, and with which filter."""

    def __init__(self, ranges: Sequence[QueueRange], subscription: Subscription) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)
        self.subscription = subscription


class TopicReader(DataSourceReader):
    """Reads topics once, from bounds to bounds."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema)
        self._options = options
        self._schema = schema
        if options.push_down:
            self.pushFilters = push_filters()

    def partitions(self) -> Sequence[InputPartition]:
        """Ask for the bounds and divide the work."""
        options, narrowing = self._options, self._narrowing()
        with closing(Brokers(options.access)) as brokers:
            ranges = brokers.patiently(lambda: find_ranges(brokers, options, narrowing))
        total = sum(part.size for part in ranges)
        count = partition_count(
            total,
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
            cores=options.cores,
        )
        wanted = subscription(options, narrowing)
        return [PullPartition(part, wanted) for part in pack(ranges, count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one partition as Arrow batches."""
        return read_partition(partition, self._options, self._schema)

    def _narrowing(self) -> Narrowing:
        return self.pushFilters.narrowing if self._options.push_down else Narrowing()


def push_filters() -> Any:
    """A reader's ``pushFilters``, for ``pushDown=true``; see ``filters``."""
    need((4, 1), "pushDown=true")
    from contrailmq.spark.filters import PushFilters

    return PushFilters()


def read_partition(
    partition: InputPartition, options: SourceOptions, schema: StructType
) -> Iterator[Any]:
    """Pull a partition's ranges and make rows of them: what a task does."""
    if not isinstance(partition, PullPartition):
        return  # Spark's stand-in for no partitions at all
    gc.freeze()  # Spark collects after every task: what is loaded by now need not be looked at
    yield from pull_rows(
        partition.ranges, partition.subscription, options, schema=arrow_schema(schema)
    )
