"""Half messages: reading them, and writing what settles them.

A half message lies in RMQ_SYS_TRANS_HALF_TOPIC until its transaction ends.  Ending it appends an
*op* message whose body names the half message's queue offset; a commit first appends the message
to its real topic.  Records and properties are the original's.
"""

from __future__ import annotations

import dataclasses
from typing import Final, Protocol

from contrailmq.broker.identity import Identity
from contrailmq.broker.services.putting import Putting
from contrailmq.broker.tables.half_tally import HalfTally
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.clock import Clock
from contrailmq.errors import CorruptRecord, RemoteProtocolError
from contrailmq.protocol.message import Record, decode_record
from contrailmq.protocol.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from contrailmq.protocol.properties import (
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TAGS,
    encode_properties,
)
from contrailmq.store.types import Appended, NewMessage

QUEUE: Final = 0
OP_TAG: Final = "d"
ENDED_MAX: Final = 1_000_000
COPIES_KNOWN: Final = 15  # of one half message: a producer's late answer may name any of them


class TransactionLog(Protocol):
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

    @property
    def max_offset(self) -> int:
        """Where the log ends."""
        ...

    @property
    def flushed_offset(self) -> int:
        """Up to where the log is certain to be on disk."""
        ...


class HalfMessages:
    """Reads half and op messages, and writes what settles them."""

    def __init__(
        self,
        store: TransactionLog,
        putting: Putting,
        topics: TopicTable,
        *,
        identity: Identity,
        tally: HalfTally,
        clock: Clock,
    ) -> None:
        self._store = store
        self._tally = tally
        self._putting = putting
        self._topics = topics
        self._identity = identity
        self._clock = clock
        self._ended: dict[int, None] = {}
        self._newest: dict[int, int] = {}  # offset of a half -> offset of its newest copy
        self._copied: dict[int, tuple[int, ...]] = {}  # the reverse

    def bounds(self, topic: str) -> tuple[int, int]:
        """First offset of the half or op queue, and the one behind the last."""
        return self._store.bounds(topic, QUEUE)

    def read(self, topic: str, offset: int) -> Record | None:
        """The message at an offset of the half or op queue."""
        unit = self._store.unit(topic, QUEUE, offset)
        return None if unit is None else self.record(unit[0])

    def record(self, log_offset: int) -> Record | None:
        """The record at a place of the log."""
        data = self._store.record_at(log_offset)
        try:
            return None if data is None else decode_record(data)
        except (CorruptRecord, RemoteProtocolError):
            return None

    def log_end(self) -> int:
        """Everything done so far lies before this place of the log."""
        return self._store.max_offset

    def is_flushed(self, log_end: int) -> bool:
        """Whether the disk has everything before a place of the log."""
        return self._store.flushed_offset >= log_end

    def is_ended(self, offset: int) -> bool:
        """Whether this half message was ended since the broker started."""
        return offset in self._ended

    def end(self, half: Record, *, commit: bool) -> None:
        """Settle a half message and its newest copy; ending it a second time does nothing."""
        offset = half.queue_offset
        newest = self._newest.get(offset, offset)
        if offset in self._ended or newest in self._ended:
            return
        if commit:
            self._putting.put(self._putting.arrange(self._committed(half), half.properties))
        for ended in dict.fromkeys((newest, offset)):
            self._put_op(ended)
            self._ended[ended] = None
        age_s = (self._clock.now_ms() - half.store_ms) / 1000
        self._tally.ended(half.properties.get(PROPERTY_REAL_TOPIC, ""), commit=commit, age_s=age_s)
        while len(self._ended) > ENDED_MAX:
            self._ended.pop(next(iter(self._ended)))

    def settled_before(self, offset: int) -> None:
        """The cursor has moved: forget the halves before it, except those with a later copy."""
        for ended in [o for o in self._ended if o < offset]:
            del self._ended[ended]
        for copy in [o for o in self._copied if o < offset]:
            for origin in self._copied.pop(copy):
                self._newest.pop(origin, None)

    def put_back(self, half: Record) -> Appended:
        """Append a half message that is asked about again, and settle the one it replaces.

        The op follows the copy in the log, so after a crash either both are known, or the copy
        alone, or neither: one kill adds at most one copy. A Java broker reads the op as we do.
        """
        appended = self._put_copy(half)
        self._put_op(half.queue_offset)
        return appended

    def put_back_immune(self, half: Record) -> None:
        """Append a half message that may not be asked about yet.

        It gets no op: an op for the first of its copies ends all of them, here and in the
        original (TransactionalMessageServiceImpl.checkPrepareQueueOffset).
        """
        self._put_copy(half)

    def discard(self, half: Record) -> None:
        """Give a half message up: an operator finds it in its own topic."""
        self._topics.create_internal(TRANS_CHECK_MAX_TIME_TOPIC, queue_nums=1)
        self._putting.put(self._copy(half, TRANS_CHECK_MAX_TIME_TOPIC))
        self._tally.discarded(half.properties.get(PROPERTY_REAL_TOPIC, ""))
        self._put_op(half.queue_offset)

    def _put_copy(self, half: Record) -> Appended:
        appended = self._putting.put(self._copy(half, HALF_TOPIC))
        old, new = half.queue_offset, appended.queue_offset
        origins = (*self._copied.pop(old, ())[-COPIES_KNOWN:], old)
        if len(self._copied) < ENDED_MAX:  # beyond, an end that comes late ends only its own copy
            self._copied[new] = origins
            self._newest.update(dict.fromkeys(origins, new))
        return appended

    def _copy(self, half: Record, topic: str) -> NewMessage:
        return NewMessage(
            topic,
            QUEUE,
            half.body,
            encode_properties(half.properties),
            flag=half.flag,
            sys_flag=half.sys_flag,
            born_ms=half.born_ms,
            born_host=half.born_host_bytes,
            store_host=self._identity.store_host,
            reconsume_times=half.reconsume_times,
            wait=False,
        )

    def _committed(self, half: Record) -> NewMessage:
        queue_id = half.properties.get(PROPERTY_REAL_QUEUE_ID, "0")
        return dataclasses.replace(
            self._copy(half, half.properties.get(PROPERTY_REAL_TOPIC, "")),
            queue_id=int(queue_id) if queue_id.isdecimal() else 0,
            properties=half.properties_bytes,  # REAL_TOPIC and TRAN_MSG stay, as in the original
            sys_flag=(half.sys_flag & ~0xC) | 0x8,
            prepared_offset=half.commit_log_offset,
        )

    def _put_op(self, half_offset: int) -> None:
        host = self._identity.store_host
        self._topics.create_internal(OP_HALF_TOPIC, queue_nums=1)
        self._putting.put(
            NewMessage(
                OP_HALF_TOPIC,
                QUEUE,
                str(half_offset).encode(),
                encode_properties({PROPERTY_TAGS: OP_TAG}),
                born_ms=self._clock.now_ms(),
                born_host=host,
                store_host=host,
                wait=False,
            )
        )
