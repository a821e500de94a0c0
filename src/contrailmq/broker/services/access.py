"""Access control of one broker: its accounts, the check of requests, and who it is itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from contrailmq._native.lanes.gate import Gate
from contrailmq.broker.config.settings import BrokerSettings
from contrailmq.broker.handlers.acl import AccountHandlers, FoundTopics
from contrailmq.broker.handlers.users import UserHandlers
from contrailmq.broker.lanes.gate import BrokerGate
from contrailmq.broker.parts import Parts
from contrailmq.broker.services.audit_topic import AuditTopic
from contrailmq.broker.services.quotas import Quotas
from contrailmq.broker.services.replica_door import ReplicaDoor, ReplicaNetwork
from contrailmq.clock import Clock
from contrailmq.errors import ConfigError, NetworkError
from contrailmq.ha.primary import Primary
from contrailmq.ha.settings import HaSettings
from contrailmq.net.dispatch import Check, Handler
from contrailmq.net.network import AsyncioNetwork, Network
from contrailmq.net.resolving import is_address, resolve
from contrailmq.net.server import Server
from contrailmq.net.tls import ServerTls, client_context
from contrailmq.net.tls_settings import TlsSettings
from contrailmq.protocol.acl import signed
from contrailmq.protocol.bodies.route import ClusterInfo
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.names import TRACE_TOPIC
from contrailmq.security.accounts import Accounts
from contrailmq.security.addresses import patterns_of
from contrailmq.security.audit import Audit
from contrailmq.security.files import AccountFiles
from contrailmq.security.guard import Guard
from contrailmq.security.tokens import Tokens

ASK_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Access:
    """What a broker with ``aclEnable=true`` has more."""

    accounts: Accounts
    guard: Guard
    gate: BrokerGate
    audit: Audit


class Defences:
    """Access control and TLS of one broker: read at its start, followed while it runs."""

    def __init__(
        self, settings: BrokerSettings, tls: TlsSettings, *, path: Path, store_root: str
    ) -> None:
        self._audit_path = Path(store_root) / "audit.log"
        self._settings = settings
        self._tls_settings = tls
        self._path = path
        self.access: Access | None = None
        self.audit: Audit | None = None
        self.tls: ServerTls | None = None

    @property
    def check(self) -> Check | None:
        """What is called before every request."""
        return None if self.access is None else self.access.gate.check

    @property
    def gate(self) -> Gate | None:
        """What checks the frames the lanes would take."""
        return None if self.access is None else self.access.gate.core

    def watch(self, server: Server) -> None:
        """Note the handshakes of a server that fail."""
        if self.access is not None and server.front is not None:
            server.front.on_failed = self.access.audit.handshake_failed

    def sockets(self) -> AsyncioNetwork:
        """Where the broker's own connections come from."""
        tls = self._tls_settings
        return AsyncioNetwork(client_tls=client_context(tls) if tls.enable else None)

    def replicas(self, settings: HaSettings, plain: Network, clock: Clock) -> Network:
        """Where connections between replicas come from."""
        tls = self._tls_settings
        if not settings.has_tls:
            return plain
        if self.tls is None:
            raise ConfigError(
                f"haTls = true: needs tls.server.certPath and tls.server.keyPath, and "
                f"tls.server.mode permissive or enforcing, not {tls.server_mode}"
            )
        return ReplicaNetwork(AsyncioNetwork(client_tls=client_context(tls)), self.tls, clock=clock)

    def guard_replicas(self, primary: Primary, parts: Parts) -> ReplicaDoor:
        """Let only those have the log who may."""
        patterns = patterns_of(primary.settings.allowed)
        members = None if self.access is None else partial(replica_hosts, parts)
        door = ReplicaDoor(patterns, clock=parts.clock, members=members)
        if self.access is not None:
            door.on_refusal = self.access.audit.handshake_failed
        primary.admits = lambda link: door.admits(link.peer, link.session)
        return door

    def start(self, clock: Clock, on_change: Callable[[], None]) -> None:
        """Read accounts and certificates; raises ConfigError. ``on_change``: accounts changed."""
        if self._settings.acl_enable:
            self.access = build_access(
                self._path, self._settings, audit=self._audit_path, clock=clock
            )
            self.access.accounts.on_change.append(on_change)
            self.audit = self.access.audit
        elif self._settings.audit_log:  # without accounts: from where, what and the result
            self.audit = Audit(Path(self._settings.audit_log), clock=clock)
        self.tls = ServerTls.of(self._tls_settings)

    async def run(self) -> None:
        """Follow the files until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self.access is not None:
                group.create_task(self.access.accounts.run())
            if self.audit is not None:
                group.create_task(self.audit.run())
            if self.tls is not None:
                group.create_task(self.tls.run())

    def reload(self) -> None:
        """Look at certificates and accounts now."""
        if self.tls is not None:
            self.tls.look(always=True)
        if self.access is not None:
            self.access.accounts.look()


async def replica_hosts(parts: Parts) -> set[str]:
    """The hosts of this broker's replicas, as its name servers know them; names resolved anew."""
    found: set[str] = set()
    for address in parts.registration.addresses:
        request = Command(RequestCode.GET_BROKER_CLUSTER_INFO)
        with contextlib.suppress(NetworkError):
            answer = await parts.client.call(address, request, timeout_s=ASK_S)
            table = ClusterInfo.decode(answer.body).broker_addr_table
            data = table.get(parts.identity.broker_name)
            members = {} if data is None else data.broker_addrs
            own = parts.identity.address
            for host in {one.rpartition(":")[0] for one in members.values() if one != own}:
                found.add(host)
                if not is_address(host):
                    with contextlib.suppress(OSError):
                        found.update(await resolve(host))
    return found


class _Credentials(msgspec.Struct, rename="camel"):
    access_key: str
    secret_key: str


def build_access(path: Path, settings: BrokerSettings, *, audit: Path, clock: Clock) -> Access:
    """Read the accounts; raises ConfigError."""
    accounts = Accounts(AccountFiles(path), clock=clock)
    accounts.start()
    tokens = None
    if settings.token_keys:
        tokens = Tokens(Path(settings.token_keys), audience=settings.token_audience, clock=clock)
        tokens.start()
        accounts.on_look.append(tokens.look)
    guard = Guard(
        accounts,
        tokens=tokens,
        trace_topics=(TRACE_TOPIC, settings.trace_topic_name),
        cluster=settings.cluster_name,
    )
    noted = Audit(Path(settings.audit_log) if settings.audit_log else audit, clock=clock)
    noted.watch(guard)
    return Access(accounts, guard, BrokerGate(guard, Quotas(clock)), noted)


def guarded(handlers: Mapping[int, Handler], access: Access, parts: Parts) -> dict[int, Handler]:
    """The handlers with those that manage accounts, and with topics checked where found."""
    found = dict(handlers)
    tables = parts.tables
    access.gate.quotas.has_topic = lambda topic: tables.topics.find(topic) is not None
    access.audit.on_entry = AuditTopic(
        parts.putting, tables.topics, parts.identity, clock=parts.clock
    )
    topics = FoundTopics(access.guard, parts.halves.record)
    for code, wrap in (
        (RequestCode.VIEW_MESSAGE_BY_ID, topics.view),
        (RequestCode.END_TRANSACTION, topics.end),
    ):
        found[code] = wrap(found[code])
    found |= AccountHandlers(access.accounts, parts.identity, parts.clock).handlers()
    return found | UserHandlers(access.accounts, access.guard, parts.clock).handlers()


def signer(text: str) -> Callable[[Command], None] | None:
    """What signs this broker's own requests (``innerClientAuthenticationCredentials``)."""
    if not text:
        return None
    try:
        own = msgspec.json.decode(text, type=_Credentials)
    except msgspec.MsgspecError:
        raise ConfigError(
            'innerClientAuthenticationCredentials: expected {"accessKey":"…","secretKey":"…"}'
        ) from None

    def sign(command: Command) -> None:
        command.fields = signed(
            command.fields, command.body, access_key=own.access_key, secret_key=own.secret_key
        )

    return sign
