"""Limits per account: connections, messages and bytes it sends per second, new topics per minute.

Messages and bytes are buckets of one second's worth each.  The lanes take from them by themselves
(``Allowance``); an empty one brings the next send here, where it is filled for the time that has
passed.  A limit answers SYSTEM_BUSY, which clients back off from and try again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from contrailmq._native.lanes.gate import Allowance
from contrailmq.clock import Clock
from contrailmq.errors import SystemBusy
from contrailmq.net.connection import Connection
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.security.account import Account, AccountLimits

UNLIMITED: Final = 1 << 60
MINUTE_MS: Final = 60_000
_TOPIC_FIELDS: Final = {
    int(RequestCode.SEND_MESSAGE): "topic",
    int(RequestCode.SEND_MESSAGE_V2): "b",
    int(RequestCode.SEND_BATCH_MESSAGE): "b",
    int(RequestCode.UPDATE_AND_CREATE_TOPIC): "topic",
}
_BATCH_FIELDS: Final = {int(RequestCode.SEND_MESSAGE): "batch"}
_SIZE_BYTES: Final = 4


class Quota:
    """What one account uses of its limits."""

    def __init__(self, limits: AccountLimits, now_ms: int) -> None:
        self.limits = limits
        self.allowance = Allowance(
            limits.messages_per_second or UNLIMITED, limits.bytes_per_second or UNLIMITED
        )
        self.filled_ms = now_ms
        self.connections: set[Connection] = set()
        self.minute = 0
        self.new_topics = 0

    def fill(self, now_ms: int) -> None:
        """Add what has become free since the last time, up to one second's worth."""
        passed_ms = now_ms - self.filled_ms
        if passed_ms <= 0:
            self.filled_ms = min(self.filled_ms, now_ms)  # a clock that was set back
            return
        messages, size = self.limits.messages_per_second, self.limits.bytes_per_second
        allowance = self.allowance
        added = passed_ms * messages // 1000, passed_ms * size // 1000
        if (messages and not added[0]) or (size and not added[1]):
            return  # too little has passed to count
        if messages:
            allowance.messages = min(messages, allowance.messages + added[0])
        if size:
            allowance.size = min(size, allowance.size + added[1])
        self.filled_ms = now_ms


class Quotas:
    """The limits of all accounts of one broker; only accounts that have some are here."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._quotas: dict[str, Quota] = {}
        self.has_topic: Callable[[str], bool] = lambda topic: True

    def of(self, account: Account) -> Quota:
        """What an account uses; begins again, but for its connections, when its limits change."""
        found = self._quotas.get(account.name)
        if found is None or found.limits != account.limits:
            fresh = Quota(account.limits, self._clock.now_ms())
            if found is not None:
                fresh.connections = found.connections
            self._quotas[account.name] = found = fresh
        return found

    def charge(self, account: Account, request: Command, connection: Connection) -> None:
        """Count a request that was let in; raises SystemBusy beyond a limit."""
        quota = self.of(account)
        self._enter(account, quota, connection)
        field = _TOPIC_FIELDS.get(request.code)
        if field is None:
            return
        limits = account.limits
        topic = request.fields.get(field, "")
        if limits.new_topics_per_minute and not self.has_topic(topic):
            self._count_topic(account, quota)
        if request.code == RequestCode.UPDATE_AND_CREATE_TOPIC:
            return
        quota.fill(self._clock.now_ms())
        count, size, allowance = messages_of(request), len(request.body), quota.allowance
        # One that is larger than a second's worth goes when the bucket is full, and leaves a debt.
        needed = min(count, limits.messages_per_second or count)
        needed_size = min(size, limits.bytes_per_second or size)
        if allowance.messages < needed:
            raise _busy(account, f"{limits.messages_per_second} messages a second")
        if allowance.size < needed_size:
            raise _busy(account, f"{limits.bytes_per_second} bytes a second")
        if limits.messages_per_second:
            allowance.messages -= count
        if limits.bytes_per_second:
            allowance.size -= size

    def _enter(self, account: Account, quota: Quota, connection: Connection) -> None:
        if connection in quota.connections:
            return
        most = account.limits.connections
        if most and len(quota.connections) >= most:
            raise _busy(account, f"{most} connections")
        members = quota.connections
        members.add(connection)
        connection.on_close(members.discard)

    def _count_topic(self, account: Account, quota: Quota) -> None:
        minute = self._clock.now_ms() // MINUTE_MS
        if minute != quota.minute:
            quota.minute, quota.new_topics = minute, 0
        most = account.limits.new_topics_per_minute
        if quota.new_topics >= most:
            raise _busy(account, f"{most} new topics a minute")
        quota.new_topics += 1


def messages_of(request: Command) -> int:
    """How many messages a send carries; a batch that is damaged counts as one."""
    field = _BATCH_FIELDS.get(request.code, "m")
    if request.code != RequestCode.SEND_BATCH_MESSAGE and request.fields.get(field) != "true":
        return 1
    body, at, count = memoryview(request.body), 0, 0
    while at + _SIZE_BYTES <= len(body):
        size = int.from_bytes(body[at : at + _SIZE_BYTES], "big")
        if size < _SIZE_BYTES:
            return 1
        at += size
        count += 1
    return max(count, 1)


def _busy(account: Account, limit: str) -> SystemBusy:
    return SystemBusy(f"[REJECTREQUEST]account {account.name} is at its limit of {limit}")
