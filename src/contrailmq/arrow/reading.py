"""``read_topic`` and ``read_store``: messages as a ``pyarrow.RecordBatchReader``.

What is read is decided by the call: the bounds of the queues at that moment.  Batches are made
while the caller takes them, so memory holds a few of them, whatever the size of the topic.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Unpack

from contrailmq.arrow.given import (
    DirectoryOptions,
    Moment,
    TopicOptions,
    need_pyarrow,
    option_texts,
    range_texts,
)
from contrailmq.bulk.options import SOURCE_NAMES, STORE_NAMES, source_options, store_options


def read_topic(
    topic: str | Sequence[str] | None = None,
    *,
    name_servers: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    **options: Unpack[TopicOptions],
) -> Any:
    """Read topics from their brokers. Returns a ``pyarrow.RecordBatchReader``.

    ``since`` and ``until`` are times (``datetime``, milliseconds, ISO 8601) or one of ``earliest``,
    ``latest`` and ``committed``; ``until`` is not part of the range. The messages of a queue come
    in order. Name servers default to those of ``NAMESRV_ADDR``.
    """
    need_pyarrow()
    import pyarrow as pa

    from contrailmq.arrow import parallel
    from contrailmq.arrow.schema import message_schema
    from contrailmq.bulk.cluster import Brokers
    from contrailmq.bulk.narrowing import Narrowing
    from contrailmq.bulk.topic_ranges import find_ranges, pull_rows, subscription

    named = {"topics": topic, "nameServers": name_servers, **range_texts(since, until)}
    chosen = source_options(option_texts({**named, **options}, SOURCE_NAMES))
    schema = message_schema(columns)
    with closing(Brokers(chosen.access)) as brokers:
        ranges = brokers.patiently(lambda: find_ranges(brokers, chosen, Narrowing()))
    wanted = subscription(chosen)
    found = parallel.batches(
        parallel.divide(ranges, chosen.cores),
        lambda part: pull_rows(part, wanted, chosen, schema=schema),
    )
    return pa.RecordBatchReader.from_batches(schema, found)


def read_store(
    path: str | Path | Sequence[str | Path],
    topic: str | Sequence[str] | None = None,
    *,
    columns: Sequence[str] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    **options: Unpack[DirectoryOptions],
) -> Any:
    """Read store directories, of a live or a dead broker. Returns a ``pyarrow.RecordBatchReader``.

    Nothing is written there and no broker is asked. Without ``topic`` all of them are read. The
    messages of a queue come in order. ``cores`` says how many threads read (1). With
    ``on_damage="report"`` there is a column ``damage``.
    """
    need_pyarrow()
    import pyarrow as pa

    from contrailmq.arrow import parallel
    from contrailmq.arrow.schema import message_schema
    from contrailmq.bulk.directories import Directories
    from contrailmq.bulk.narrowing import Narrowing
    from contrailmq.bulk.store_ranges import find_store_ranges, store_rows

    named = {"path": path_text(path), "topics": topic, **range_texts(since, until)}
    chosen = store_options(option_texts({**named, **options}, STORE_NAMES))
    schema = message_schema(columns, with_damage=not chosen.fail_on_damage)
    directories = Directories(chosen.paths)
    ranges = find_store_ranges(directories, chosen, Narrowing())
    parts = parallel.divide(ranges, chosen.cores or 1)
    opened = directories if len(parts) == 1 else None  # each thread opens its own
    tags = chosen.tags or "*"
    found = parallel.batches(
        parts, lambda part: store_rows(part, tags, chosen, schema=schema, opened=opened)
    )
    return pa.RecordBatchReader.from_batches(schema, found)


def path_text(path: str | Path | Sequence[str | Path]) -> str:
    """Directories as the option ``path`` takes them: a comma may be part of a name."""
    given = [path] if isinstance(path, str | Path) else list(path)
    return json.dumps([str(part) for part in given])
