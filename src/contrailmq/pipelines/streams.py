"""Watching a streaming query from the outside: progress, and stopping when asked."""

from __future__ import annotations

import json
from typing import Any, Final

from contrailmq.pipelines.progress import Progress, Stop
from contrailmq.protocol.queue import MessageQueue
from contrailmq.spark import journal

POLL_S: Final = 0.2


def watch(query: Any, progress: Progress, stop: Stop) -> None:
    """Wait until a query ends or is to stop; raises what ended it.

    What a batch that was under way had written is written again, over it, by the next run.
    """
    seen = None
    while not query.awaitTermination(POLL_S):
        last = query.lastProgress
        if last is not None and last["batchId"] != seen:
            seen = last["batchId"]
            lag = lag_of(last)
            if lag is not None:
                progress.lag = lag
        progress.draw()
        if stop.is_requested:
            query.stop()
            return


def lag_of(progress: Any) -> int | None:
    """How many messages a query had still to read when it reported."""
    sources = progress["sources"]
    if not sources:
        return None
    latest, read = (_offset(sources[0][name]) for name in ("latestOffset", "endOffset"))
    if latest is None or read is None:
        return None
    there, done = journal.reached(latest), journal.reached(read)
    return sum(max(end - done.get(queue, 0), 0) for queue, end in there.items())


def reached(query: Any) -> dict[MessageQueue, int]:
    """How far a query has read, by its last report; empty if it has made none."""
    last = query.lastProgress
    sources = last["sources"] if last is not None else []
    end = _offset(sources[0]["endOffset"]) if sources else None
    return {} if end is None else journal.reached(end)


def _offset(text: Any) -> journal.Offset | None:
    """An offset as Spark reports it; None for none, which may be a null in JSON."""
    try:
        found = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
