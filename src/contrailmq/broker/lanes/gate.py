"""The broker's side of the gate: which accounts were let in where, and what they may do.

Every request of the ordinary path is checked here by the ``Guard``. One that is let in has its
account noted with the connection (``Visitor``), and the compiled ``Gate`` knows it from then on.
"""

from __future__ import annotations

from typing import Final

from contrailmq._native.lanes.decided import LanePlan, LaneTopic
from contrailmq._native.lanes.gate import Gate, LaneAccount, Visitor
from contrailmq.broker.services.quotas import Quotas
from contrailmq.net.connection import Connection
from contrailmq.protocol.acl import ACCESS_KEY, SECURITY_TOKEN
from contrailmq.protocol.command import Command
from contrailmq.security.account import Account
from contrailmq.security.guard import EVERYTHING, Guard
from contrailmq.security.needs import read_needs, topic_need
from contrailmq.security.permission import PUB

ACCOUNTS_MAX: Final = 64  # of one connection; the requests of others go the ordinary way


class BrokerGate:
    """Checks every request that the lanes do not take; ``core`` checks those they do."""

    def __init__(self, guard: Guard, quotas: Quotas) -> None:
        self._guard = guard
        self.quotas = quotas
        self.core = Gate(self, guard.takes_tokens)
        self._epoch = -1
        self._known: dict[bytes, LaneAccount] = {}
        self._free = LaneAccount(b"", (), EVERYTHING, is_free=True)

    def check(self, request: Command, connection: Connection) -> None:
        """Let a request pass, or raise AccessDenied."""
        account = self._guard.check(request, connection)
        if account.limits.are_set:
            self.quotas.charge(account, request, connection)
        visitor = connection.visitor
        if visitor is None or visitor.epoch != self.core.epoch:
            free = self._free if self._guard.is_white(connection) else None
            connection.visitor = visitor = Visitor(self.core.epoch, free)
        name = request.fields.get(ACCESS_KEY, "").encode("utf-8", "replace")
        if name in visitor.accounts or len(visitor.accounts) >= ACCOUNTS_MAX:
            return
        if SECURITY_TOKEN in request.fields and self._guard.takes_tokens:
            return  # a token has an end of its own
        visitor.accounts[name] = self._lane_account(name, account, connection.peer)

    def may_send(self, account: LaneAccount, topic: LaneTopic) -> bool:
        """Whether an account may put messages into a topic."""
        owner, host = account.owner
        return self._guard.allows(owner, [topic_need(topic.topic.decode(), PUB)], host)

    def may_pull(self, account: LaneAccount, plan: LanePlan) -> bool:
        """Whether an account may read what a plan reads."""
        owner, host = account.owner
        return self._guard.allows(owner, read_needs(plan.topic, plan.group), host)

    def _lane_account(self, name: bytes, account: Account, peer: str) -> LaneAccount:
        owner = (account, peer.rpartition(":")[0])
        if account is EVERYTHING:  # by its address: not checked on this connection
            return LaneAccount(name, (), owner, is_free=True)
        allowance = self.quotas.of(account).allowance if account.limits.are_set else None
        if not name:  # by its certificate: another connection's may be another account
            return LaneAccount(name, (), owner, allowance=allowance)
        if self._epoch != self.core.epoch:
            self._epoch = self.core.epoch
            self._known.clear()
        found = self._known.get(name)
        if found is None:
            secrets = tuple(secret.encode("utf-8", "replace") for secret in account.secrets)
            found = LaneAccount(name, secrets, owner, allowance=allowance)
            if not account.has_sources:  # else what it may is this connection's alone
                self._known[name] = found
        return found
