"""How a producer ends a transaction: request code 37."""

from __future__ import annotations

from typing import Final

from contrailmq.broker.identity import Identity
from contrailmq.broker.services.halves import HalfMessages
from contrailmq.clock import Clock
from contrailmq.errors import IllegalOperation, SlaveNotAvailable, SystemFailure
from contrailmq.net.connection import Connection
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.transaction import EndTransactionRequest
from contrailmq.protocol.message import Record
from contrailmq.protocol.names import HALF_TOPIC
from contrailmq.protocol.properties import (
    PROPERTY_CHECK_IMMUNITY_TIME,
    PROPERTY_PRODUCER_GROUP,
    PROPERTY_REAL_TOPIC,
)

UNKNOWN: Final = 0
COMMIT: Final = 8
ROLLBACK: Final = 12


class EndTransaction:
    """Request code 37. An end nobody knows yet (0) is not answered, as in the original."""

    def __init__(self, halves: HalfMessages, *, identity: Identity, clock: Clock) -> None:
        self._halves = halves
        self._identity = identity
        self._clock = clock

    def __call__(self, request: Command, connection: Connection) -> Command | None:
        """Commit or roll back."""
        header = EndTransactionRequest.from_fields(request.fields)
        if not self._identity.is_master:
            raise SlaveNotAvailable("the broker is a slave: end the transaction at its master")
        if header.commit_or_rollback == UNKNOWN:
            return None
        if header.commit_or_rollback not in (COMMIT, ROLLBACK):
            raise SystemFailure(
                f"commitOrRollback {header.commit_or_rollback}: expected {COMMIT} or {ROLLBACK}"
            )
        half = self._half(header)
        if not header.from_transaction_check:
            self._check_in_time(half)
        self._halves.end(half, commit=header.commit_or_rollback == COMMIT)
        return request.reply()

    def _half(self, header: EndTransactionRequest) -> Record:
        half = self._halves.record(header.commit_log_offset)
        if half is None or half.topic != HALF_TOPIC:
            raise SystemFailure("Find prepared transaction message failed")
        if half.properties.get(PROPERTY_PRODUCER_GROUP) != header.producer_group:
            raise SystemFailure("The producer group wrong")
        if half.queue_offset != header.tran_state_table_offset:
            raise SystemFailure("The transaction state table offset wrong")
        if half.commit_log_offset != header.commit_log_offset:
            raise SystemFailure("The commit log offset wrong")
        if not half.properties.get(PROPERTY_REAL_TOPIC):
            raise SystemFailure("The half message names no real topic")
        return half

    def _check_in_time(self, half: Record) -> None:
        """A producer that set its own limit must keep it; later only a check-back can end it."""
        text = half.properties.get(PROPERTY_CHECK_IMMUNITY_TIME, "")
        if not text.isdecimal():
            return
        age_ms = self._clock.now_ms() - half.born_ms
        if age_ms > int(text) * 1000:
            raise IllegalOperation(
                f"Message commit fail: the transaction is {age_ms} ms old, "
                f"at most {int(text) * 1000} ms"
            )
