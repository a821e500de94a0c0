"""Store directories as they are at the moment of planning: ranges of queues, and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from contrailmq.bulk.directories import Damage, Directories, Gone, Piece
from contrailmq.bulk.loss import DataLoss, Losses
from contrailmq.bulk.narrowing import Narrowing
from contrailmq.bulk.options import EARLIEST, LATEST, Position, StoreOptions
from contrailmq.bulk.places import check_named, note_beyond, resolve
from contrailmq.bulk.planning import QueueRange, partition_count
from contrailmq.bulk.rows import DAMAGE, Rows
from contrailmq.errors import ConfigError, CorruptRecord
from contrailmq.protocol.filter.tags import parse_tags
from contrailmq.protocol.queue import MessageQueue

_EARLIEST: Final = Position(word=EARLIEST)
_LATEST: Final = Position(word=LATEST)


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


def find_store_ranges(
    directories: Directories, options: StoreOptions, narrowing: Narrowing
) -> list[QueueRange]:
    """The ranges a batch query reads now."""
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


def task_count(ranges: Sequence[QueueRange], options: StoreOptions) -> int:
    """How many tasks to cut ranges into."""
    return partition_count(
        sum(part.size for part in ranges),
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
        cores=options.cores,
    )


def store_rows(
    ranges: Sequence[QueueRange],
    tags_text: str,
    options: StoreOptions,
    *,
    schema: Any,
    opened: Directories | None = None,
) -> Iterator[Any]:
    """Read ranges of directories and make Arrow batches of them; closes ``opened`` at the end."""
    tags = parse_tags(tags_text)
    rows = Rows(
        schema, tags=tags.tags, own_properties=options.own_properties, on_bad=options.on_bad_body
    )
    losses = Losses(fail=options.fail_on_data_loss)
    with closing(opened or Directories(options.paths)) as directories:
        for part in ranges:
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
