"""Find the ends of log and queues, and derive what is missing: the plain way to open a store.

Every queue ends at its last sensible unit, the log behind its last whole record; queues are cut
to the log and what they lack is derived again.
"""

from __future__ import annotations

import asyncio
import logging

from contrailmq._native import scan
from contrailmq.store.commit_log import CommitLog
from contrailmq.store.consume_queue import FILL_SIZE, UNIT, ConsumeQueue, ConsumeQueues
from contrailmq.store.derive import Derivation
from contrailmq.store.layout import QUEUE_UNIT

log = logging.getLogger(__name__)


async def catch_up(
    commit_log: CommitLog, queues: ConsumeQueues, derivation: Derivation, *, check_crc: bool
) -> None:
    """Bring a loaded store into step."""
    for queue in queues:
        _find_queue_end(queue)
    end = await _find_log_end(commit_log, check_crc=check_crc)
    commit_log.start(end)
    derived = commit_log.min_offset
    for queue in queues:
        queue.truncate(end)
        queue.correct_min(commit_log.min_offset)
        derived = max(derived, queue.writer.log_end)
    derivation.start(derived)
    derivation.run(end)


def _find_queue_end(queue: ConsumeQueue) -> None:
    offset, log_end = queue.segments.first_offset // QUEUE_UNIT, 0
    for base in queue.segments.offsets:
        segment = queue.segments.find(base)
        assert segment is not None
        for position in range(0, segment.size, QUEUE_UNIT):
            log_offset, size, _ = UNIT.unpack_from(segment.buffer, position)
            if log_offset < 0 or size <= 0:
                queue.set_end(offset, log_end)
                return
            offset += 1
            if size != FILL_SIZE:
                log_end = log_offset + size
    queue.set_end(offset, log_end)


async def _find_log_end(commit_log: CommitLog, *, check_crc: bool) -> int:
    end = commit_log.min_offset
    for base in commit_log.segments.offsets:
        segment = commit_log.segments.find(base)
        assert segment is not None
        position, _, reason, store_ms = scan.walk(
            segment.buffer, 0, segment.size, base, check_crc, True
        )
        commit_log.writer.store_ms = max(commit_log.writer.store_ms, store_ms)
        end = base + position
        if reason != scan.BLANK and position + 8 <= segment.size:
            return end
        end = base + segment.size
        await asyncio.sleep(0)
    return end
