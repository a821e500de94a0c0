"""Whether a topic is still the one that a stream has read: marks of the last messages.

A topic that is deleted and made again begins with offset 0.  When it has as many messages as were
read of the old one, the offsets alone look as if nothing had happened, and the new messages before
them would be skipped.  So an end offset has a mark per queue: where in the log the last message
before it is, and when it was stored.  Before the next batch that message is looked at again.
Where retention has deleted it meanwhile, nothing can be said and nothing is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.loss import DataLoss, Losses
from contrailmq.bulk.pull import Subscription, pull_command
from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.message import decode_records
from contrailmq.protocol.queue import MessageQueue
from contrailmq.spark import journal
from contrailmq.spark.journal import Offset

_MARKS: Final = "marks"


def marked(start: Offset, end: Offset, brokers: Brokers, group: str) -> Offset:
    """An end offset with the marks of the messages before it; queues that rest keep theirs."""
    moved = {part.queue: part.end for part in journal.ranges(start, end)}
    there = journal.reached(end)
    kept = {q: mark for q, mark in journal.flat(start.get(_MARKS, {})).items() if q in there}
    return {**end, _MARKS: journal.nested({**kept, **find_marks(brokers, group, moved)})}


def replaced(
    start: Offset, end: Offset, brokers: Brokers, *, group: str, losses: Losses
) -> dict[MessageQueue, int]:
    """The queues of a batch that have other messages than were read, and where those begin.

    MessagesLost, which names the first of them, unless losses are only to be logged.
    """
    known = journal.flat(start.get(_MARKS, {}))
    reached = {p.queue: p.start for p in journal.ranges(start, end) if p.queue in known}
    now = find_marks(brokers, group, reached)
    others = [queue for queue, mark in now.items() if mark != known[queue]]
    if not others:
        return {}
    first = brokers.first_offsets(others)
    for queue in others:
        reason = "are other messages than were read: the topic was deleted and made again"
        losses.note(DataLoss(queue, first[queue], reached[queue], reason))
    return first


def find_marks(
    brokers: Brokers, group: str, reached: Mapping[MessageQueue, int]
) -> dict[MessageQueue, int]:
    """A number for the message before each offset, unlike that of any other message there."""
    asked = [
        (queue, pull_command(Subscription(group), queue, offset=offset - 1, count=1))
        for queue, offset in reached.items()
        if offset > 0
    ]
    found: dict[MessageQueue, int] = {}
    for (queue, _), answer in zip(asked, brokers.ask_all(asked), strict=True):
        if answer.code != ResponseCode.SUCCESS:
            continue
        for record in decode_records(answer.body):
            if record.queue_offset == reached[queue] - 1:
                found[queue] = record.commit_log_offset * 1_000_003 + record.store_ms
                break
    return found
