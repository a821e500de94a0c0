"""Access control of a name server: reads are open, writes need an administrator or a broker.

The original checks nothing here, and brokers of the original do not sign their registrations: they
are known by their address (``namesrvTrustedBrokers``).
"""

from __future__ import annotations

from typing import Final

from contrailmq.net.connection import Connection
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.security.accounts import Accounts
from contrailmq.security.addresses import AddressPatterns
from contrailmq.security.guard import Guard

OF_BROKERS: Final = frozenset(
    map(
        int,
        (
            RequestCode.REGISTER_BROKER,
            RequestCode.UNREGISTER_BROKER,
            RequestCode.BROKER_HEARTBEAT,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV,
        ),
    )
)
WRITES: Final = OF_BROKERS | frozenset(
    map(
        int,
        (
            RequestCode.PUT_KV_CONFIG,
            RequestCode.DELETE_KV_CONFIG,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER,
            RequestCode.ADD_WRITE_PERM_OF_BROKER,
            RequestCode.DELETE_TOPIC_IN_NAMESRV,
            RequestCode.UPDATE_NAMESRV_CONFIG,
            RequestCode.GET_NAMESRV_CONFIG,
        ),
    )
)


class NameServerAccess:
    """The check before every request of a name server."""

    def __init__(self, accounts: Accounts, trusted: AddressPatterns) -> None:
        self.accounts = accounts
        self.guard = Guard(accounts, needs=lambda request: None)
        self._trusted = trusted

    def check(self, request: Command, connection: Connection) -> None:
        """Let it pass, or raise AccessDenied."""
        if request.code not in WRITES:
            return
        host = connection.peer.rpartition(":")[0]
        if request.code in OF_BROKERS and self._trusted.matches(host):
            return
        self.guard.check(request, connection)
