"""Locks of ordered consumption: request codes 41 and 42."""

from __future__ import annotations

from contrailmq.broker.tables.locks import QueueLocks
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.queues import (
    LockBatchRequest,
    LockBatchResponse,
    UnlockBatchRequest,
)
from contrailmq.protocol.command import Command


class LockQueues:
    """Request code 41."""

    def __init__(self, locks: QueueLocks) -> None:
        self._locks = locks

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Lock what is free; the answer names what the client owns now."""
        body = LockBatchRequest.decode_request(request.body)
        owned = self._locks.lock(body.consumer_group, body.client_id, body.mq_set)
        return request.reply(body=LockBatchResponse(lock_ok_mq_set=owned).encode())


class UnlockQueues:
    """Request code 42."""

    def __init__(self, locks: QueueLocks) -> None:
        self._locks = locks

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Give locks back."""
        body = UnlockBatchRequest.decode_request(request.body)
        self._locks.unlock(body.consumer_group, body.client_id, body.mq_set)
        return request.reply()
