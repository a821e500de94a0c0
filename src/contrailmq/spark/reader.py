"""``spark.read.format("rocketmq")``: topics as they are at the moment of planning.

The planner asks the brokers for the bounds of the queues once; tasks read exactly these ranges.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from contrailmq.client.routes import subscribe_queues
from contrailmq.errors import ConfigError
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.filter.tags import TYPE_SQL92, parse_tags
from contrailmq.protocol.queue import MessageQueue
from contrailmq.spark.cluster import Brokers
from contrailmq.spark.columns import Rows, check_schema
from contrailmq.spark.loss import Losses
from contrailmq.spark.narrowing import Narrowing
from contrailmq.spark.options import EARLIEST, LATEST, Position, SourceOptions
from contrailmq.spark.places import check_named, note_beyond, resolve
from contrailmq.spark.planning import QueueRange, pack, partition_count
from contrailmq.spark.pull import Puller, Subscription
from contrailmq.spark.versions import need

_EARLIEST: Final = Position(word=EARLIEST)
_LATEST: Final = Position(word=LATEST)


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


def find_ranges(brokers: Brokers, options: SourceOptions, narrowing: Narrowing) -> list[QueueRange]:
    """The ranges a batch query reads now."""
    everything = brokers.readable_queues(options)
    check_source(brokers, options, everything)
    queues = [queue for queue in everything if narrowing.has(queue)]
    first, last = brokers.first_offsets(queues), brokers.end_offsets(queues)
    starts = resolve(brokers, queues, options.starting or _EARLIEST, group=options.group)
    ends = resolve(brokers, queues, options.ending or _LATEST, group=options.group, is_end=True)
    by_time = [
        None if ms is None else brokers.offsets_at(queues, ms)
        for ms in (narrowing.begin_ms, narrowing.end_ms)
    ]
    losses = Losses(fail=options.fail_on_data_loss)
    note_beyond(brokers, losses, starts=starts, ends=last)
    ranges = []
    for queue in queues:
        if starts[queue] < first[queue] < ends[queue] and options.starting is not None:
            losses.note_deleted(queue, starts[queue], first[queue])
        start = max(starts[queue], first[queue])
        end = min(ends[queue], last[queue])
        start, end = narrowing.clip(start, end)
        if by_time[0] is not None:
            start = max(start, by_time[0][queue])
        if by_time[1] is not None:
            end = min(end, by_time[1][queue])
        if start < end:
            ranges.append(QueueRange(queue, start, end))
    return ranges


def check_source(brokers: Brokers, options: SourceOptions, queues: Sequence[MessageQueue]) -> None:
    """Raise when a user names queues that are not there, or a filter that brokers do not take.

    Asked once, when a query begins: later a queue may be away with its broker.
    """
    for topic, broker, ids in options.assign:
        found = {
            queue.queue_id
            for queue in subscribe_queues(topic, brokers.route(topic))
            if broker in (None, queue.broker_name)
        }
        if not found.issuperset(ids):
            where = "any broker" if broker is None else f"broker {broker}"
            raise ConfigError(
                f"assign names queues {sorted(set(ids) - found)} of topic {topic}, which are not"
                f" on {where}; there are {sorted(found)}"
            )
    check_named(queues, {"startingOffsets": options.starting, "endingOffsets": options.ending})
    if options.sql is not None:
        _check_sql(brokers, options.pull_group, options.sql, queues)


def _check_sql(
    brokers: Brokers, group: str, expression: str, queues: Sequence[MessageQueue]
) -> None:
    """Let the brokers judge a condition: asked for messages, they pass all if it is none."""
    from contrailmq.protocol.bodies.heartbeat import CheckClientRequest, SubscriptionData

    asked = list({queue.broker_name: queue for queue in queues}.values())
    questions = []
    for queue in asked:
        wanted = SubscriptionData(
            topic=queue.topic, sub_string=expression, expression_type=TYPE_SQL92
        )
        body = CheckClientRequest(client_id="spark", group=group, subscription_data=wanted)
        questions.append(
            (queue, Command.request(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode()))
        )
    for queue, answer in zip(asked, brokers.ask_all(questions), strict=True):
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
            raise ConfigError(
                f"sql={expression[:200]!r} is refused by broker {queue.broker_name}:"
                f" {answer.remark or answer.code}"
            )


def subscription(options: SourceOptions, narrowing: Narrowing | None = None) -> Subscription:
    """The filter brokers are told: the user's, or else the tags of a pushed-down condition."""
    group = options.pull_group
    if options.sql is not None:
        return Subscription(group, options.sql, TYPE_SQL92)
    if options.tags is not None:
        return Subscription(group, parse_tags(options.tags).expression)
    pushed = narrowing.tag_expression() if narrowing is not None else None
    return Subscription(group, pushed or "*")


def read_partition(
    partition: InputPartition, options: SourceOptions, schema: StructType
) -> Iterator[Any]:
    """Pull a partition's ranges and make rows of them: what a task does."""
    if not isinstance(partition, PullPartition):
        return  # Spark's stand-in for no partitions at all
    gc.freeze()  # Spark collects after every task: what is loaded by now need not be looked at
    wanted = partition.subscription
    tags = () if wanted.kind == TYPE_SQL92 else parse_tags(wanted.expression).tags
    rows = Rows(
        schema, tags=tags, own_properties=options.own_properties, on_bad=options.on_bad_message
    )
    losses = Losses(fail=options.fail_on_data_loss)
    with closing(Brokers(options.access)) as brokers:
        for group in Puller(brokers, wanted, losses=losses).read(partition.ranges):
            yield rows.batch(group.data, group.positions, broker=group.broker)
