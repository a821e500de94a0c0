"""Accounts over the wire: request codes 50 to 54, and the topics that are known only when found.

Who may send these is decided before they come here: an administrator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from contrailmq.broker.identity import Identity
from contrailmq.clock import Clock
from contrailmq.errors import BrokerError, ConfigError
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Handler
from contrailmq.protocol.bodies.acl import ClusterAclConfig, PlainAccessConfig
from contrailmq.protocol.bodies.version import DataVersion
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.fastjson import dumps
from contrailmq.protocol.headers.acl import (
    CreateAccessConfigRequest,
    DeleteAccessConfigRequest,
    GetBrokerAclConfigResponse,
    UpdateGlobalWhiteAddrsConfigRequest,
)
from contrailmq.protocol.headers.transaction import EndTransactionRequest
from contrailmq.protocol.message import Record, decode_record
from contrailmq.protocol.properties import PROPERTY_REAL_TOPIC
from contrailmq.security.account import Account, masked
from contrailmq.security.accounts import Accounts
from contrailmq.security.changes import put_account, put_white, remove_account
from contrailmq.security.guard import Guard
from contrailmq.security.permission import text_of

Halves = Callable[[int], Record | None]


class AccountHandlers:
    """Request codes 50 to 54. A change is in force when it is answered."""

    def __init__(self, accounts: Accounts, identity: Identity, clock: Clock) -> None:
        self._accounts = accounts
        self._identity = identity
        self._clock = clock

    def put(self, request: Command, connection: Connection) -> Command:
        """Code 50: make an account or change one."""
        header = CreateAccessConfigRequest.from_fields(request.fields)
        name, secret = header.access_key, header.secret_key or ""
        given: dict[str, Any] = {"secretKey": secret, "admin": header.admin}
        texts = {
            "whiteRemoteAddress": header.white_remote_address,
            "defaultTopicPerm": header.default_topic_perm,
            "defaultGroupPerm": header.default_group_perm,
        }
        given |= {key: text for key, text in texts.items() if text is not None}
        for key, listed in (("topicPerms", header.topic_perms), ("groupPerms", header.group_perms)):
            if listed is not None:
                given[key] = [entry for entry in listed.split(",") if entry]
        failed = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        self._change(
            lambda: put_account(self._accounts.files, name, given, now_ms=self._clock.now_ms()),
            failed,
        )
        return request.reply()

    def remove(self, request: Command, connection: Connection) -> Command:
        """Code 51: remove an account."""
        name = DeleteAccessConfigRequest.from_fields(request.fields).access_key
        failed = ResponseCode.DELETE_ACL_CONFIG_FAILED
        found: list[bool] = []
        self._change(
            lambda: found.append(
                remove_account(self._accounts.files, name, now_ms=self._clock.now_ms())
            ),
            failed,
        )
        if not found[0]:
            raise BrokerError(f"The accesskey[{name}] is not found", code=failed)
        return request.reply()

    def white(self, request: Command, connection: Connection) -> Command:
        """Code 53: replace the addresses that need no account."""
        header = UpdateGlobalWhiteAddrsConfigRequest.from_fields(request.fields)
        addresses = [text for text in header.global_white_addrs.split(",") if text.strip()]
        self._change(
            lambda: put_white(
                self._accounts.files,
                addresses,
                path=header.acl_file_full_path or "",
                now_ms=self._clock.now_ms(),
            ),
            ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED,
        )
        return request.reply()

    def version(self, request: Command, connection: Connection) -> Command:
        """Code 52: how often the files were changed."""
        versions = self._accounts.table.versions
        main = versions.get(str(self._accounts.files.main), DataVersion())
        return request.reply(
            GetBrokerAclConfigResponse(
                version=main.encode().decode(),
                all_acl_file_version=dumps(dict(versions)).decode(),
                broker_name=self._identity.broker_name,
                broker_addr=self._identity.address,
                cluster_name=self._identity.cluster_name,
            )
        )

    def all(self, request: Command, connection: Connection) -> Command:
        """Code 54: all accounts, their secrets masked."""
        table = self._accounts.table
        body = ClusterAclConfig(
            global_white_addrs=list(table.white.texts),
            plain_access_configs=[_shown(account) for account in table.accounts.values()],
        )
        return request.reply(body=body.encode())

    def _change(self, change: Callable[[], None], failed: ResponseCode) -> None:
        try:
            change()
            self._accounts.reload()
        except ConfigError as error:
            raise BrokerError(str(error), code=failed) from None

    def handlers(self) -> dict[int, Handler]:
        """Request code to handler."""
        return {
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: self.put,
            RequestCode.DELETE_ACL_CONFIG: self.remove,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO: self.version,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: self.white,
            RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: self.all,
        }


class FoundTopics:
    """Handlers whose request names no topic: the topic of what is found is checked."""

    def __init__(self, guard: Guard, halves: Halves) -> None:
        self._guard = guard
        self._halves = halves

    def view(self, handler: Handler) -> Handler:
        """Code 33: a message is shown to an account that may read its topic."""

        def checked(
            request: Command, connection: Connection
        ) -> Command | Awaitable[Command | None] | None:
            answer = handler(request, connection)
            if isinstance(answer, Command) and answer.code == ResponseCode.SUCCESS and answer.body:
                topic = decode_record(bytes(answer.body)).topic
                self._guard.check_found(request, connection, topic, is_write=False)
            return answer

        return checked

    def end(self, handler: Handler) -> Handler:
        """Code 37: a transaction is ended by an account that may write to its topic."""

        def checked(
            request: Command, connection: Connection
        ) -> Command | Awaitable[Command | None] | None:
            header = EndTransactionRequest.from_fields(request.fields)
            half = self._halves(header.commit_log_offset)
            if half is not None:
                topic = half.properties.get(PROPERTY_REAL_TOPIC, half.topic)
                self._guard.check_found(request, connection, topic, is_write=True)
            return handler(request, connection)

        return checked


def _shown(account: Account) -> PlainAccessConfig:
    def listed(literal: Any, prefixes: Any) -> list[str]:
        found = [f"{name}={text_of(bits)}" for name, bits in literal.items()]
        return found + [f"{prefix}*={text_of(bits)}" for prefix, bits in prefixes]

    return PlainAccessConfig(
        access_key=account.name,
        secret_key=masked(account.secrets[0]) if account.secrets else None,
        white_remote_address=",".join(account.home.texts) or None,
        admin=account.is_admin,
        default_topic_perm=text_of(account.topics.default),
        default_group_perm=text_of(account.groups.default),
        topic_perms=listed(account.topics.literal, account.topics.prefixes),
        group_perms=listed(account.groups.literal, account.groups.prefixes),
    )
