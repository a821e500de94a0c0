"""``write.format("rocketmq")`` and ``writeStream.format("rocketmq")``: DataFrames into topics.

A task's rows are with their brokers when it ends; ``commit`` has nothing left to do.  A task that
is run again writes again: at least once.  With ``delivery=effectively-once`` its rows carry the
same unique keys again and are skipped where they are there (see ``outbox``).
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from contrailmq.bulk.new_topics import find_expected
from contrailmq.bulk.options import SinkOptions
from contrailmq.bulk.sending import send_batches
from contrailmq.clock import Clock
from contrailmq.errors import ConfigError
from contrailmq.protocol.bodies.route import TopicRouteData
from contrailmq.spark.sink_columns import check_columns
from contrailmq.spark.versions import StreamArrowWriter, arrow_batches

log = logging.getLogger(__name__)

ROUTE_PATIENCE_S: Final = 20.0  # a stream's topic may be unknown while its only broker restarts


class Written(WriterCommitMessage):
    """What one task did: rows sent, and rows that were there already."""

    def __init__(self, sent: int, skipped: int) -> None:
        super().__init__()
        self.sent = sent
        self.skipped = skipped


class TopicWriter(DataSourceArrowWriter):
    """Writes a batch DataFrame."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        _check(options, schema, overwrite=overwrite)
        if options.once and options.query_id is None:
            raise ConfigError(
                "delivery=effectively-once needs the option queryId for a batch write: a name that"
                " is the same when this write is repeated, and another for any other write"
            )
        self._options = options
        self._expected = find_expected(options, patient=False)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send the rows of one partition."""
        return write_rows(
            iterator,
            self._options,
            query=self._options.query_id,
            batch="0",
            expected=self._expected,
        )


class TopicStreamWriter(StreamArrowWriter):
    """Writes the micro-batches of a stream."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        _check(options, schema, overwrite=False)
        self._options = options
        self._schema = schema
        self._expected = find_expected(options, patient=True)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send the rows of one partition of one micro-batch."""
        context = TaskContext.get()
        query = self._options.query_id
        batch = None
        if context is not None:
            query = query or context.getLocalProperty("sql.streaming.queryId")
            batch = context.getLocalProperty("streaming.sql.batchId")
        if self._options.once and (query is None or batch is None):
            raise ConfigError("Spark does not say which query and batch this is; set queryId")
        patience_s = min(ROUTE_PATIENCE_S, self._options.access.patience_s)
        return write_rows(
            arrow_batches(iterator, self._schema),
            self._options,
            query=query,
            batch=batch or "",
            route_patience_s=patience_s,
            expected=self._expected,
        )

    def commit(self, messages: Any, batchId: int) -> None:
        """Everything is with the brokers already."""
        found = [message for message in messages if isinstance(message, Written)]
        log.info(
            "batch written batch=%s sent=%s skipped=%s",
            batchId,
            sum(message.sent for message in found),
            sum(message.skipped for message in found),
        )

    def abort(self, messages: Any, batchId: int) -> None:
        """What was sent stays; the batch will be written again."""
        log.warning("batch aborted batch=%s", batchId)


def write_rows(
    batches: Iterator[Any],
    options: SinkOptions,
    *,
    query: str | None,
    batch: str,
    route_patience_s: float = 0.0,
    expected: TopicRouteData | None = None,
    clock: Clock | None = None,
) -> Written:
    """Send Arrow batches to their topics: what a task does. Returns when brokers have them.

    ``expected`` is the route of a topic that is yet to be made, as the driver found it.
    """
    gc.freeze()  # Spark collects after every task: what is loaded by now need not be looked at
    context = TaskContext.get()
    done = send_batches(
        batches,
        options,
        query=query,
        batch=batch,
        partition=context.partitionId() if context is not None else 0,
        route_patience_s=route_patience_s,
        expected=expected,
        clock=clock,
    )
    return Written(done.sent, done.skipped)


def _check(options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
    if overwrite:
        raise ConfigError("a topic cannot be overwritten; use mode('append')")
    check_columns(schema, topic=options.topic)
