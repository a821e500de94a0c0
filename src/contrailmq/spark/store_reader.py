"""``spark.read.format("rocketmq-store")``: the messages of store directories, broker or no broker.

Every executor has to see the directories under the same path: a local disk in local mode, a
shared file system or a copy on a cluster.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from contrailmq.bulk.directories import Directories
from contrailmq.bulk.narrowing import Narrowing
from contrailmq.bulk.options import StoreOptions
from contrailmq.bulk.planning import QueueRange, pack
from contrailmq.bulk.store_ranges import find_store_ranges, store_rows, task_count
from contrailmq.spark.columns import check_schema
from contrailmq.spark.reader import push_filters
from contrailmq.spark.versions import arrow_schema


class StorePartition(InputPartition):
    """The ranges one task reads, and the tags it wants of them."""

    def __init__(self, ranges: Sequence[QueueRange], tags: str) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)
        self.tags = tags


class StoreTopicReader(DataSourceReader):
    """Reads directories once, as they are when the query is planned."""

    def __init__(self, options: StoreOptions, schema: StructType) -> None:
        check_schema(schema, with_damage=not options.fail_on_damage)
        self._options = options
        self._schema = schema
        if options.push_down:
            self.pushFilters = push_filters()

    def partitions(self) -> Sequence[InputPartition]:
        """Look at the consume queues and divide the work."""
        narrowing = self.pushFilters.narrowing if self._options.push_down else Narrowing()
        with closing(Directories(self._options.paths)) as directories:
            ranges = find_store_ranges(directories, self._options, narrowing)
        tags = self._options.tags or narrowing.tag_expression() or "*"
        count = task_count(ranges, self._options)
        return [StorePartition(part, tags) for part in pack(ranges, count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one partition as Arrow batches."""
        return read_store_partition(partition, self._options, self._schema)


def read_store_partition(
    partition: InputPartition, options: StoreOptions, schema: StructType
) -> Iterator[Any]:
    """Read a partition's ranges and make rows of them: what a task does."""
    if not isinstance(partition, StorePartition):
        return  # Spark's stand-in for no partitions at all
    gc.freeze()  # Spark collects after every task: what is loaded by now need not be looked at
    yield from store_rows(partition.ranges, partition.tags, options, schema=arrow_schema(schema))
