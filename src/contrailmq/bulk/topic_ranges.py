"""Topics as they are at the moment of planning: which ranges a query reads, and their rows.

The planner asks the brokers for the bounds of the queues once; tasks read exactly these ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.loss import Losses
from contrailmq.bulk.narrowing import Narrowing
from contrailmq.bulk.options import EARLIEST, LATEST, Position, SourceOptions
from contrailmq.bulk.places import check_named, note_beyond, resolve
from contrailmq.bulk.planning import QueueRange
from contrailmq.bulk.pull import Puller, Subscription
from contrailmq.bulk.rows import Rows
from contrailmq.client.routes import subscribe_queues
from contrailmq.errors import ConfigError
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.filter.tags import TYPE_SQL92, parse_tags
from contrailmq.protocol.queue import MessageQueue

_EARLIEST: Final = Position(word=EARLIEST)
_LATEST: Final = Position(word=LATEST)


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


def pull_rows(
    ranges: Sequence[QueueRange], wanted: Subscription, options: SourceOptions, *, schema: Any
) -> Iterator[Any]:
    """Pull ranges and make Arrow batches of them."""
    tags = () if wanted.kind == TYPE_SQL92 else parse_tags(wanted.expression).tags
    rows = Rows(
        schema, tags=tags, own_properties=options.own_properties, on_bad=options.on_bad_message
    )
    losses = Losses(fail=options.fail_on_data_loss)
    with closing(Brokers(options.access)) as brokers:
        for group in Puller(brokers, wanted, losses=losses).read(ranges):
            yield rows.batch(group.data, group.positions, broker=group.broker)
