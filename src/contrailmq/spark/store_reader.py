"""``spark.read.format("rocketmq-store")``: the messages of store directories, broker or no broker.

Every executor has to see the directories under the same path: a local disk in local mode, a
shared file system or a copy on a cluster.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from contrailmq.errors import ConfigError, CorruptRecord
from contrailmq.protocol.filter.tags import parse_tags
from contrailmq.protocol.queue import MessageQueue
from contrailmq.spark.columns import DAMAGE, Rows, check_schema
from contrailmq.spark.directories import Damage, Directories, Gone, Piece
from contrailmq.spark.loss import DataLoss, Losses
from contrailmq.spark.narrowing import Narrowing
from contrailmq.spark.options import EARLIEST, LATEST, Position, StoreOptions
from contrailmq.spark.places import check_named, note_beyond, resolve
from contrailmq.spark.planning import QueueRange, pack, partition_count
from contrailmq.spark.reader import push_filters

_EARLIEST: Final = Position(word=EARLIEST)
_LATEST: Final = Position(word=LATEST)


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
            ranges = _ranges(directories, self._options, narrowing)
        tags = self._options.tags or narrowing.tag_expression() or "*"
        count = task_count(ranges, self._options)
        return [StorePartition(part, tags) for part in pack(ranges, count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one partition as Arrow batches."""
        return read_store_partition(partition, self._options, self._schema)


def task_count(ranges: Sequence[QueueRange], options: StoreOptions) -> int:
    """How many tasks to cut ranges into."""
    return partition_count(
        sum(part.size for part in ranges),
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
        cores=options.cores,
    )


def read_store_partition(
    partition: InputPartition, options: StoreOptions, schema: StructType
) -> Iterator[Any]:
    """Read a partition's ranges and make rows of them: what a task does."""
    if not isinstance(partition, StorePartition):
        return  # Spark's stand-in for no partitions at all
    gc.freeze()  # Spark collects after every task: what is loaded by now need not be looked at
    tags = parse_tags(partition.tags)
    rows = Rows(
        schema, tags=tags.tags, own_properties=options.own_properties, on_bad=options.on_bad_body
    )
    losses = Losses(fail=options.fail_on_data_loss)
    with closing(Directories(options.paths)) as directories:
        for part in partition.ranges:
            first = directories.first_offsets([part.queue])[part.queue]
            if part.start < first:  # since the query was planned
                losses.note_deleted(part.queue, part.start, min(first, part.end))
                part = part._replace(start=min(first, part.end))
            found = directories.pieces(part, codes=tags.tag_codes, check_crc=options.check_crc)
            for piece in found:
                if isinstance(piece, Piece):
                    yield rows.batch(piece.data, piece.positions, broker=part.queue.broker_name)
                elif isinstance(piece, Gone):
                    losses.note(DataLoss(part.queue, *piece, "deleted from the directory"))
                else:
                    yield rows.damaged([_damaged_row(part.queue, piece, options)])


def _damaged_row(queue: MessageQueue, damage: Damage, options: StoreOptions) -> dict[str, Any]:
    if options.fail_on_damage:
        raise CorruptRecord(
            f"{queue} offset {damage.queue_offset}: {damage.text};"
            " onDamage=report reads on and puts this into a column",
            offset=damage.log_offset,
        )
    return {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue_id": queue.queue_id,
        "queue_offset": damage.queue_offset,
        "commit_log_offset": damage.log_offset,
        DAMAGE: damage.text,
    }


def check_topics(
    directories: Directories, options: StoreOptions, queues: Sequence[MessageQueue]
) -> None:
    """Raise when a topic is named that no directory has, with messages or without."""
    missing = set(options.topics) - {queue.topic for queue in queues}
    missing -= directories.configured_topics() if missing else set()
    if missing:
        raise ConfigError(
            f"topic {', '.join(sorted(missing))} is not in {', '.join(p for p, _ in options.paths)}"
        )


def _ranges(
    directories: Directories, options: StoreOptions, narrowing: Narrowing
) -> list[QueueRange]:
    everything = directories.queues(options.topics)
    check_topics(directories, options, everything)
    check_named(everything, {"startingOffsets": options.starting, "endingOffsets": options.ending})
    queues = [queue for queue in everything if narrowing.has(queue)]
    first, last = directories.first_offsets(queues), directories.end_offsets(queues)
    starts = resolve(directories, queues, options.starting or _EARLIEST, group=None)
    ends = resolve(directories, queues, options.ending or _LATEST, group=None, is_end=True)
    by_time = [
        None if ms is None else directories.offsets_at(queues, ms)
        for ms in (narrowing.begin_ms, narrowing.end_ms)
    ]
    losses = Losses(fail=options.fail_on_data_loss)
    note_beyond(directories, losses, starts=starts, ends=last)
    ranges = []
    for queue in queues:
        if starts[queue] < first[queue] < ends[queue]:
            losses.note_deleted(queue, starts[queue], first[queue])
        start, end = narrowing.clip(max(starts[queue], first[queue]), min(ends[queue], last[queue]))
        if by_time[0] is not None:
            start = max(start, by_time[0][queue])
        if by_time[1] is not None:
            end = min(end, by_time[1][queue])
        if start < end:
            ranges.append(QueueRange(queue, start, end))
    return ranges
