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
from contrailmq.security.needs import BadRequest, group_of_dlq, needs_of, topic_need
from contrailmq.security.permission import PUB, SUB

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

    peer: str
    principals: tuple[str, ...]


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
    ) -> None:
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
            self._authorize(request, account)
        except AccessDenied as refusal:
            name = request.fields.get(ACCESS_KEY, "")
            self.on_refusal(request, peer, name, refusal.text)
            raise
        self.on_pass(request, peer, account)
        return account

    def account_of(self, request: Command, peer: Peer) -> Account:
        """Whose request it is; an account that may everything for a white address."""
        table = self._accounts.table
        host = peer.peer.rpartition(":")[0]
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
        if account.home.matches(host):
            return EVERYTHING
        fields, body, version = request.fields, request.body, request.version
        if not any(is_signed_by(fields, body, key, version=version) for key in account.secrets):
            raise AccessDenied(f"Check signature failed for accessKey={name}")
        return account

    def is_white(self, peer: Peer) -> bool:
        """Whether nothing of a connection is checked, by its address."""
        return self._accounts.table.white.matches(peer.peer.rpartition(":")[0])

    def find(self, name: str) -> Account | None:
        """The account of a name."""
        return self._accounts.table.accounts.get(name)

    def allows(self, account: Account, needs: Iterable[Need]) -> bool:
        """Whether an account has all that is needed."""
        try:
            for need in needs:
                self._check_need(account, need)
        except AccessDenied:
            return False
        return True

    @property
    def takes_tokens(self) -> bool:
        """Whether a SecurityToken may stand for an account."""
        return self._tokens is not None

    def check_topic(self, account: Account, topic: str, *, is_write: bool) -> None:
        """Whether an account may write to, or read, a topic that was found; raises."""
        self._check_need(account, topic_need(topic, PUB if is_write else SUB))

    def check_group(self, account: Account, group: str) -> None:
        """Whether an account may consume with a group; raises."""
        self._check_need(account, Need(GROUP, group, SUB))

    def _shown(self, peer: Peer) -> Account:
        for principal in peer.principals:
            found = self._accounts.of_certificate(principal)
            if found is not None:
                return found
        raise AccessDenied("No accessKey is configured")

    def _authorize(self, request: Command, account: Account) -> None:
        if account.is_admin:
            return
        try:
            needs = self._needs(request)
        except BadRequest as error:
            raise AccessDenied(str(error)) from None
        if needs is None:
            if request.code not in _KNOWN:
                return  # the dispatcher says that it does not know it
            raise AccessDenied(
                f"Need admin permission for request code={request.code}, "
                f"but accessKey={account.name} is not"
            )
        for need in needs:
            self._check_need(account, need)

    def _check_need(self, account: Account, need: Need) -> None:
        if account.is_admin:
            return
        if need.kind == TOPIC and need.bits == PUB and need.name in self._trace_topics:
            return
        if need.kind == TOPIC and need.name == AUDIT_TOPIC:
            raise AccessDenied(f"No permission for topic:{need.name}")
        refusal = account.refusal(need)
        if refusal is None:
            return
        instead = group_of_dlq(need)
        if instead is None or account.refusal(instead) is not None:
            raise AccessDenied(refusal)


_KNOWN: Final = frozenset(int(code) for code in RequestCode)
