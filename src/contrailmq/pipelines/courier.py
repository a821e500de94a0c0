"""Messages sent one small group after another, by a task, with the question whether they are there.

The sink is for bulk; this is for sending at a pace, and for messages that were perhaps sent before:
each has a unique key made of where it comes from (``origin_key``), by which brokers can be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from contrailmq.clock import Clock
from contrailmq.errors import error_of
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.query import QueryMessageRequest
from contrailmq.protocol.message import decode_records
from contrailmq.protocol.queue import MessageQueue
from contrailmq.spark.cluster import Brokers
from contrailmq.spark.options import SinkOptions
from contrailmq.spark.outbox import Outbox
from contrailmq.spark.sink_rows import Numbering, RowBatch

FUTURE_MS: Final = 86_400_000


def origin_key(name: str) -> Column:
    """The unique key of a message sent again for a purpose: the same whenever that is repeated.

    It is made of what is the same whether brokers, a directory or an archive was read.
    """
    parts = ("topic", "message_id", "queue_id", "queue_offset")
    text = F.concat_ws("/", F.lit(name), *(F.col(part).cast("string") for part in parts))
    return F.upper(F.substring(F.sha2(text, 256), 1, 32))


class Courier:
    """Sends Arrow batches with the sink's columns; ``unique_key`` has to be among them."""

    def __init__(self, options: SinkOptions, *, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._brokers = Brokers(options.access, clock=clock)
        self._numbering = Numbering(bytes(8), bytes(4))
        self._outbox = Outbox(self._brokers, options, numbering=self._numbering, clock=clock)
        self._rows = 0

    def close(self) -> None:
        """Close the connections."""
        self._outbox.close()
        self._brokers.close()

    def send(self, batch: Any, *, topic: str | None) -> None:
        """Send a batch; when this returns, brokers have it."""
        options = self._options
        rows = RowBatch(
            batch,
            numbering=self._numbering,
            base=self._rows,
            own_keys=True,
            compress_over=options.compress_over,
            compression=options.compression,
        )
        for name, chosen in rows.topics(topic):
            count = self._outbox.queue_count(name)
            for run in rows.runs(name, chosen, queue_count=count, salt=0):
                flags = options.compression.flags if run.is_compressed else 0
                self._outbox.add(run, encoder=rows.encoder, base=self._rows, flags=flags)
        self._rows += batch.num_rows
        self._outbox.flush()

    def written(self, topic: str, keys: Sequence[str]) -> set[str]:
        """Those unique keys of which a topic has a message."""
        one_of_each: dict[str, MessageQueue] = {}
        for queue in self._brokers.patiently(lambda: self._brokers.writable_queues(topic)):
            one_of_each.setdefault(queue.broker_name, queue)
        found: set[str] = set()
        for queue in one_of_each.values():
            asked = [key for key in keys if key not in found]
            found.update(self._written_at(queue, asked))
        return found

    def _written_at(self, queue: MessageQueue, keys: Sequence[str]) -> set[str]:
        end_ms = self._clock.now_ms() + FUTURE_MS

        def question(key: str) -> tuple[MessageQueue, Command]:
            header = QueryMessageRequest(
                topic=queue.topic, key=key, max_num=32, begin_timestamp=0, end_timestamp=end_ms,
                unique_key_query=True, broker_name=queue.broker_name,
            )  # fmt: skip
            return queue, Command.request(RequestCode.QUERY_MESSAGE, header)

        answers = self._brokers.patiently(lambda: self._brokers.ask_all(map(question, keys)))
        found: set[str] = set()
        for key, answer in zip(keys, answers, strict=True):
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                continue
            if answer.code != 0:
                raise error_of(answer.code, answer.remark)
            if any(record.unique_key == key for record in decode_records(answer.body)):
                found.add(key)
        return found
