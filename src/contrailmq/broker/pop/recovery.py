"""What pops left behind when the broker was killed.

Committed offsets are saved every few seconds; pops of the last seconds are only in the log, as
checkpoints.  The original begins again at the saved offset, so that messages come twice, settled
ones too.  Here every checkpoint stored since the file was written moves the offset of its queue
behind what it gave out: after a kill nothing that was settled comes again.

Messages brought back in the last seconds may be decided a second time, because the progress of the
revive topic and of the timers is saved later than the retries are stored.  ``recent_retries`` names
those that are in a retry topic already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.errors import CorruptRecord, RemoteProtocolError
from contrailmq.protocol.message import Record, decode_record
from contrailmq.protocol.names import TIMER_TOPIC
from contrailmq.protocol.pop import CHECKPOINT_TAG, find_check_point

LOOK_BACK_MS: Final = 60_000  # older checkpoints are in the file: it is written every 5 seconds
RETRIES_MS: Final = 30_000
RECORDS_MAX: Final = 2_000_000  # a minute of checkpoints and acknowledgements at full speed


class LogQueues(Protocol):
    """What this module needs of the store."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the one behind the last."""
        ...

    def unit(self, topic: str, queue_id: int, offset: int) -> tuple[int, int, int] | None:
        """Log offset, size and tag code of one message."""
        ...

    def record_at(self, commit_log_offset: int, size: int | None = None) -> bytes | None:
        """A copy of a record."""
        ...


def restore_offsets(
    store: LogQueues, offsets: OffsetTable, revive_topic: str, *, queue_nums: int, since_ms: int
) -> int:
    """Move offsets behind what checkpoints stored since ``since_ms`` gave out; how many moved."""
    moved = 0
    places = [(TIMER_TOPIC, 0), *((revive_topic, queue) for queue in range(queue_nums))]
    for topic, queue_id in places:
        for record in _newest(store, topic, queue_id, since_ms=since_ms, look_back_ms=LOOK_BACK_MS):
            if record.tags != CHECKPOINT_TAG:
                continue
            point = find_check_point(record.body)
            if point is None or point.pop_ms < since_ms or not point.offsets():
                continue
            behind = point.offsets()[-1] + 1
            known = offsets.find(point.group, point.topic, point.queue_id)
            _, end = store.bounds(point.topic, point.queue_id)
            if behind <= end and (known is None or known < behind):
                offsets.commit(point.group, point.topic, point.queue_id, offset=behind)
                moved += 1
    return moved


def recent_retries(store: LogQueues, topics: Iterable[str]) -> set[tuple[str, str, int]]:
    """Topic, unique key and attempt of what was brought back shortly before the end."""
    found = set()
    for topic in topics:
        for record in _newest(store, topic, 0, since_ms=0, look_back_ms=RETRIES_MS):
            found.add((topic, record.unique_key or "", record.reconsume_times))
    return found


def _newest(
    store: LogQueues, topic: str, queue_id: int, *, since_ms: int, look_back_ms: int
) -> Iterator[Record]:
    """Records of a queue from its end backwards, as far as they are young."""
    low, high = store.bounds(topic, queue_id)
    for offset in range(high - 1, max(low, high - RECORDS_MAX) - 1, -1):
        unit = store.unit(topic, queue_id, offset)
        data = None if unit is None else store.record_at(unit[0], unit[1])
        if data is None:
            return
        try:
            record = decode_record(data)
        except (CorruptRecord, RemoteProtocolError):
            return
        if offset == high - 1:
            since_ms = max(since_ms, record.store_ms - look_back_ms)
        if record.store_ms < since_ms:
            return
        yield record
