"""Arrow batches into topics: rows become messages, and brokers have them when it returns."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable
from contextlib import closing
from typing import Any, NamedTuple

from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.options import SinkOptions
from contrailmq.bulk.outbox import Outbox
from contrailmq.bulk.sink_rows import Numbering, RowBatch
from contrailmq.clock import Clock, SystemClock
from contrailmq.protocol.bodies.route import TopicRouteData


class Sent(NamedTuple):
    """Rows that were sent, and rows that were there already."""

    sent: int
    skipped: int


def send_batches(
    batches: Iterable[Any],
    options: SinkOptions,
    *,
    query: str | None,
    batch: str,
    partition: int = 0,
    route_patience_s: float = 0.0,
    expected: TopicRouteData | None = None,
    clock: Clock | None = None,
) -> Sent:
    """Send Arrow batches to their topics. Returns when brokers have them.

    ``query``, ``batch`` and ``partition`` name the work, for unique keys that are the same when it
    is repeated. ``expected`` is the route of a topic that is yet to be made.
    """
    clock = clock if clock is not None else SystemClock()
    numbering = _numbering(query, batch, partition, once=options.once)
    base = 0
    flags = options.compression.flags
    with (
        closing(Brokers(options.access, clock=clock, route_patience_s=route_patience_s)) as brokers,
        closing(Outbox(brokers, options, numbering=numbering, clock=clock)) as outbox,
    ):
        if expected is not None and options.topic is not None:
            brokers.expect(options.topic, expected)
        for arrow in batches:
            rows = RowBatch(
                arrow,
                numbering=numbering,
                base=base,
                own_keys=not options.once,
                compress_over=options.compress_over,
                compression=options.compression,
            )
            for topic, chosen in rows.topics(options.topic):
                count = outbox.queue_count(topic)
                for run in rows.runs(topic, chosen, queue_count=count, salt=partition):
                    used = flags if run.is_compressed else 0
                    with rows.explained():
                        outbox.add(
                            run, encoder=rows.encoder, base=base, flags=used, timed=run.is_timed
                        )
            base += arrow.num_rows
        outbox.flush()
        return Sent(outbox.sent, outbox.skipped)


def _numbering(query: str | None, batch: str, partition: int, *, once: bool) -> Numbering:
    """Unique keys: the same for the same work when that matters, else unlike any other."""
    if not once:
        return Numbering(random.Random().randbytes(8), bytes(4))
    name = f"{query}\0{batch}\0{partition}".encode()
    return Numbering(hashlib.sha256(name).digest()[:8], bytes(4))
