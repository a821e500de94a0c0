"""Who asks, and may it: the check before every request of a server with access control.

The order is the original's (PlainPermissionManager.validate): a white address may everything; then
the account must be known; from its home address it may everything; then the signature must be
right; then the request needs what ``needs`` says.  A connection that showed a certificate of an
account may leave the signature out.

A refusal says no more than the original's does, and takes as long for an unknown account as for a
wrong key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from contrailmq.errors import BrokerError
from contrailmq.protocol.acl import ACCESS_KEY, SECURITY_TOKEN, is_signed_by
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.names import AUDIT_TOPIC, TRACE_TOPIC
from contrailmq.security.account import GROUP, TOPIC, Account, Need
from contrailmq.security.accounts import Accounts
from contrailmq.security.asks import AS_WELL, asks_of
from contrailmq.security.needs import BadRequest, group_of_dlq, needs_of, topic_need
from contrailmq.security.permission import PUB, SUB
from contrailmq.security.policies import decide

PREFIX: Final = "org.apache.rocketmq.acl.common.AclException: "
_NOBODY_SECRET: Final = "no account has this secret"
EVERYTHING: Final = Account(name="", is_admin=True)


class AccessDenied(BrokerError):
    """A request that access control refuses: code 1, as AclException becomes."""

    code = 1

    def __init__(self, text: str) -> None:
        super().__init__(PREFIX + text)
        self.text = text


class Peer(Protocol):
    """What this module needs of a connection."""

    @property
    def peer(self) -> str:
        """Its address and port."""
        ...

    @property
    def principals(self) -> tuple[str, ...]:
        """The names in the certificate it has shown."""
        ...


class Token(Protocol):
    """What reads the SecurityToken of a request as an account, if it can."""

    def account_of(self, token: str, table: Accounts, /) -> Account | None:
        """The account a token speaks for; None when it is no token of ours."""
        ...


class Guard:
    """Checks requests against the accounts; ``on_refusal`` and ``on_pass`` are told of each."""

    def __init__(
        self,
        accounts: Accounts,
        *,
        needs: Callable[[Command], list[Need] | None] = needs_of,
        trace_topics: tuple[str, ...] = (TRACE_TOPIC,),
        tokens: Token | None = None,
        cluster: str = "DefaultCluster",
    ) -> None:
        self._cluster = cluster
        self._accounts = accounts
        self._needs = needs
        self._trace_topics = trace_topics
        self._tokens = tokens
        self.on_refusal: Callable[[Command, Peer, str, str], None] = lambda *told: None
        self.on_pass: Callable[[Command, Peer, Account], None] = lambda *told: None

    def check(self, request: Command, peer: Peer) -> Account:
        """The account a request is let in for; raises AccessDenied."""
        try:
            account = self.account_of(request, peer)
            self._authorize(request, account, peer)
        except AccessDenied as refusal:
            name = request.fields.get(ACCESS_KEY, "")
            self.on_refusal(request, peer, name, refusal.text)
            raise
        self.on_pass(request, peer, account)
        return account

    def account_of(self, request: Command, peer: Peer) -> Account:
        """Whose request it is; an account that may everything for a white address."""
        table = self._accounts.table
        host = _host(peer)
        if table.white.matches(host):
            return EVERYTHING
        name = request.fields.get(ACCESS_KEY)
        token = request.fields.get(SECURITY_TOKEN)
        if token and self._tokens is not None:
            found = self._tokens.account_of(token, self._accounts)
            if found is not None:
                return found
        if not name:
            return self._shown(peer)
        account = table.accounts.get(name)
        if account is None:
            is_signed_by(request.fields, request.body, _NOBODY_SECRET, version=request.version)
            raise AccessDenied(f"No acl config for {name}")
        if account.home.matches(host) and account.is_enabled:
            return EVERYTHING
        fields, body, version = request.fields, request.body, request.version
        if not any(is_signed_by(fields, body, key, version=version) for key in account.secrets):
            raise AccessDenied(f"Check signature failed for accessKey={name}")
        return _enabled(account)

    def is_white(self, peer: Peer) -> bool:
        """Whether nothing of a connection is checked, by its address."""
        return self._accounts.table.white.matches(_host(peer))

    def allows(self, account: Account, needs: Iterable[Need], host: str) -> bool:
        """Whether an account has all that is needed, where it comes from."""
        try:
            for need in needs:
                self._check_need(account, need, host)
        except AccessDenied:
            return False
        return True

    @property
    def takes_tokens(self) -> bool:
        """Whether a SecurityToken may stand for an account."""
        return self._tokens is not None

    def check_found(self, request: Command, peer: Peer, topic: str, *, is_write: bool) -> None:
        """Whether a request may write to, or read, a topic that was found; raises."""
        account = self.account_of(request, peer)
        more = AS_WELL.get(request.code, ()) if account.policies else ()
        need = topic_need(topic, PUB if is_write else SUB)
        self._check_need(account, need, _host(peer), more)

    def check_topic(self, account: Account, topic: str, *, is_write: bool, host: str) -> None:
        """Whether an account may write to, or read, a topic; raises."""
        self._check_need(account, topic_need(topic, PUB if is_write else SUB), host)

    def check_group(self, account: Account, group: str, *, host: str) -> None:
        """Whether an account may consume with a group; raises."""
        self._check_need(account, Need(GROUP, group, SUB), host)

    def _shown(self, peer: Peer) -> Account:
        for principal in peer.principals:
            found = self._accounts.of_certificate(principal)
            if found is not None:
                return _enabled(found)
        raise AccessDenied("No accessKey is configured")

    def _authorize(self, request: Command, account: Account, peer: Peer) -> None:
        if account.is_admin:
            return
        try:
            needs = self._needs(request)
        except BadRequest as error:
            raise AccessDenied(str(error)) from None
        if needs is None:
            if request.code not in _KNOWN:
                return  # the dispatcher says that it does not know it
            if self._is_granted(request, account, peer):
                return
            raise AccessDenied(
                f"Need admin permission for request code={request.code}, "
                f"but accessKey={account.name} is not"
            )
        more = AS_WELL.get(request.code, ()) if account.policies else ()
        for need in needs:
            self._check_need(account, need, _host(peer), more)

    def _is_granted(self, request: Command, account: Account, peer: Peer) -> bool:
        """Whether policies give an account what else only an administrator does."""
        asks = asks_of(request, self._cluster) if account.policies else None
        if asks is None:
            return False
        entries, host = account.entries(), _host(peer)
        return all(decide(entries, (ask.kind, ask.name), ask.actions, host) for ask in asks)

    def _check_need(
        self, account: Account, need: Need, host: str, more: tuple[str, ...] = ()
    ) -> None:
        if account.is_admin:
            return
        if need.kind == TOPIC and need.bits == PUB and need.name in self._trace_topics:
            return
        if need.kind == TOPIC and need.name == AUDIT_TOPIC:
            raise AccessDenied(f"No permission for topic:{need.name}")
        refusal = account.refusal(need, host, more)
        if refusal is None:
            return
        instead = group_of_dlq(need)
        if instead is None or account.refusal(instead, host) is not None:
            raise AccessDenied(refusal)


def _host(peer: Peer) -> str:
    return peer.peer.rpartition(":")[0]


def _enabled(account: Account) -> Account:
    if not account.is_enabled:
        raise AccessDenied(f"User:{account.name} is disabled.")
    return account


_KNOWN: Final = frozenset(int(code) for code in RequestCode)
