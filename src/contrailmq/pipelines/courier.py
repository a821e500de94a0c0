"""Messages sent one small group after another, by a task, with the question whether they are there.

The sink is for bulk; this is for sending at a pace, and for messages that were perhaps sent before:
each has a unique key made of where it comes from (``origin_key``), by which brokers can be asked.

A connection that breaks leaves open what the broker has of the messages under way.  They are not
sent again blindly: the brokers are asked for their keys, and only those that are not there go out
once more.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import Column
from pyspark.sql import functions as F

from contrailmq.bulk.cluster import Brokers, Patience, pause
from contrailmq.bulk.new_topics import queues_to_write
from contrailmq.bulk.options import SinkOptions
from contrailmq.bulk.outbox import SETTLE_S, Outbox
from contrailmq.bulk.sink_rows import Numbering, RowBatch
from contrailmq.clock import Clock
from contrailmq.errors import ContrailError, NetworkError, NoRoute, error_of
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.query import QueryMessageRequest
from contrailmq.protocol.message import decode_records
from contrailmq.protocol.queue import MessageQueue

log = logging.getLogger(__name__)

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
        self._clock = clock
        self._access = options.access
        # The outbox gives up at the first break: what to send again is decided here.
        self._options = replace(options, access=replace(options.access, patience_s=0.0))
        self._numbering = Numbering(bytes(8), bytes(4))
        self._asking = Brokers(options.access, clock=clock)  # asks first: unknown topics fail there
        self._open()

    def close(self) -> None:
        """Close the connections."""
        self._outbox.close()
        self._brokers.close()
        self._asking.close()

    def send(self, batch: Any, *, topic: str | None) -> None:
        """Send a batch; when this returns, brokers have each of its messages once.

        After an error they may have some of them: ``written`` says which.
        """
        patience = Patience(self._access.patience_s, clock=self._clock)
        names = [topic] * batch.num_rows if topic else batch.column("topic").to_pylist()
        while batch.num_rows:
            try:
                self._send(batch, topic)
                return
            except ContrailError as error:
                self._forget()
                is_passing = isinstance(error, NetworkError | NoRoute)
                if not is_passing and not getattr(error, "retryable", False):
                    raise
                log.warning("sending interrupted rows=%s error=%s", batch.num_rows, error)
                patience.pause(error)
            pause(SETTLE_S)
            self._asking.route_patience_s = self._access.patience_s
            there = self._there(batch, names)
            self._asking.route_patience_s = 0.0
            if any(there):
                patience.renew()
            fresh = [row for row, known in enumerate(there) if not known]
            batch, names = batch.take(pa.array(fresh, pa.int32())), [names[row] for row in fresh]

    def written(self, topic: str, keys: Sequence[str]) -> set[str]:
        """Those unique keys of which a topic has a message."""
        one_of_each: dict[str, MessageQueue] = {}
        for queue in self._asking.patiently(
            lambda: queues_to_write(self._asking, topic, create=None)
        ):
            one_of_each.setdefault(queue.broker_name, queue)
        found: set[str] = set()
        for queue in one_of_each.values():
            asked = [key for key in keys if key not in found]
            found.update(self._written_at(queue, asked))
        return found

    def _forget(self) -> None:
        """Forget what is under way, with its connections."""
        self._outbox.close()
        self._brokers.close()
        self._open()

    def _open(self) -> None:
        self._rows = 0
        self._brokers = Brokers(self._options.access, clock=self._clock)
        self._outbox = Outbox(
            self._brokers, self._options, numbering=self._numbering, clock=self._clock
        )

    def _send(self, batch: Any, topic: str | None) -> None:
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
                with rows.explained():
                    self._outbox.add(run, encoder=rows.encoder, base=self._rows, flags=flags)
        self._rows += batch.num_rows
        self._outbox.flush()

    def _there(self, batch: Any, topics: Sequence[str]) -> list[bool]:
        """Which rows of a batch their topics have."""
        keys = batch.column("unique_key").to_pylist()
        found: dict[str, set[str]] = {}
        for topic in sorted(set(topics)):
            mine = [key for key, name in zip(keys, topics, strict=True) if name == topic]
            found[topic] = self.written(topic, mine)
        return [key in found[name] for key, name in zip(keys, topics, strict=True)]

    def _written_at(self, queue: MessageQueue, keys: Sequence[str]) -> set[str]:
        end_ms = self._clock.now_ms() + FUTURE_MS

        def question(key: str) -> tuple[MessageQueue, Command]:
            header = QueryMessageRequest(
                topic=queue.topic, key=key, max_num=32, begin_timestamp=0, end_timestamp=end_ms,
                unique_key_query=True, broker_name=queue.broker_name,
            )  # fmt: skip
            return queue, Command.request(RequestCode.QUERY_MESSAGE, header)

        answers = self._asking.patiently(lambda: self._asking.ask_all(map(question, keys)))
        found: set[str] = set()
        for key, answer in zip(keys, answers, strict=True):
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                continue
            if answer.code != 0:
                raise error_of(answer.code, answer.remark)
            if any(record.unique_key == key for record in decode_records(answer.body)):
                found.add(key)
        return found
