"""Which queues have lost something, by what is known of them.

Three things are known: the marks, which say how much a queue had; the records that recovery has
just walked over, which must join on to what the queue had before (``has_gap``) and must not belong
in front of its first file (``is_floorless``); and the extension, which must have the unit that the
queue's last unit points at.
"""

from __future__ import annotations

from collections.abc import Callable

from contrailmq.store.consume_queue import ConsumeQueue, ConsumeQueues
from contrailmq.store.queue_ext import is_address
from contrailmq.store.recovery.queue_marks import MarksFile, QueueMarks


def find_lost(
    queues: ConsumeQueues,
    marks: QueueMarks | None,
    marks_file: MarksFile,
    *,
    log_min: int,
    walked_from: int,
) -> list[tuple[ConsumeQueue, bool]]:
    """Queues that have lost something the log has, and whether more than their last units.

    ``walked_from`` is where the derivation of this recovery began: what begins a queue there,
    at the log's own beginning, is all there is.
    """
    found: dict[ConsumeQueue, bool] = {}
    for queue in queues:
        has_gap = queue.has_gap and walked_from > log_min
        if has_gap or queue.writer.is_floorless or _is_ext_lost(queue):
            found[queue] = True
    for topic, queue_id, mark in marks or ():
        if mark.log_end <= log_min:
            continue  # the log has nothing of it
        known = queues.find(topic, queue_id)
        if known is None:
            if not marks_file.is_missed(queues, topic):
                continue
            known = queues.get(topic, queue_id)
        assert marks is not None
        is_front_lost = marks.log_min == log_min and known.segments.first_offset > mark.first
        if is_front_lost or known.max_offset < mark.max_offset:
            found[known] = is_front_lost or found.get(known, False)
    return list(found.items())


def delete_again(
    queues: ConsumeQueues, marks: QueueMarks, forget: Callable[[str, int], None]
) -> None:
    """Delete the queues of deleted topics, which a walk over the log has made again."""
    for queue in [queue for queue in queues if marks.is_deleted(queue)]:
        forget(queue.topic, queue.queue_id)
        queues.remove(queue)


def keep_ends(queues: ConsumeQueues, marks: QueueMarks) -> None:
    """Let no queue that is there give an offset twice: what the log no longer has, it had."""
    for topic, queue_id, mark in marks:
        queue = queues.find(topic, queue_id)
        if queue is not None and queue.max_offset < mark.max_offset:
            queue.skip_to(queue.writer, mark.max_offset)


def _is_ext_lost(queue: ConsumeQueue) -> bool:
    if queue.ext is None or queue.max_offset == 0:
        return False
    unit = queue.unit(queue.max_offset - 1)
    return unit is not None and is_address(unit[2]) and queue.ext.find(unit[2]) is None
