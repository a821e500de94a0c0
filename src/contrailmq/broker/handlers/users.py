"""Users and policies over the wire: request codes 3001 to 3010, over the table of accounts.

Who may send these is decided before they come here: an administrator, or an account whose policies
allow it to change the cluster.  Super users are made and changed by super users only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from contrailmq.clock import Clock
from contrailmq.errors import BrokerError, ConfigError
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Handler
from contrailmq.protocol.bodies.acl import AclInfo, Policy, PolicyEntry, UserInfo
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.fastjson import dumps
from contrailmq.protocol.headers.acl import (
    AclRequest,
    DeleteAclRequest,
    ListAclsRequest,
    ListUsersRequest,
    UserRequest,
)
from contrailmq.security.account import Account, masked
from contrailmq.security.accounts import Accounts
from contrailmq.security.changes import put_account, remove_account
from contrailmq.security.guard import Guard
from contrailmq.security.policies import (
    CUSTOM,
    DEFAULT,
    Entry,
    make_entry,
    parse_resource,
    texts_of,
)

SUPER: Final = "Super"
NORMAL: Final = "Normal"
_SUBJECT: Final = "User:"


class UserHandlers:
    """Request codes 3001 to 3010. A change is in force when it is answered."""

    def __init__(self, accounts: Accounts, guard: Guard, clock: Clock) -> None:
        self._accounts = accounts
        self._guard = guard
        self._clock = clock

    def create_user(self, request: Command, connection: Connection) -> Command:
        """Code 3001."""
        name = UserRequest.from_fields(request.fields).username
        given = UserInfo.decode(request.body) if request.body else UserInfo()
        if not name.strip():
            raise _refused("username can not be blank")
        if not (given.password or "").strip():
            raise _refused("password can not be blank")
        if self._accounts.table.accounts.get(name) is not None:
            raise _refused("The user is existed")
        is_super = (given.user_type or NORMAL).lower() == SUPER.lower()
        if is_super:
            self._must_be_super(request, connection)
        self._put(
            name,
            {
                "secretKey": given.password,
                "admin": is_super,
                "userStatus": _status(given.user_status or "enable"),
            },
        )
        return request.reply()

    def update_user(self, request: Command, connection: Connection) -> Command:
        """Code 3002: fields that are not given stay."""
        name = UserRequest.from_fields(request.fields).username
        given = UserInfo.decode(request.body) if request.body else UserInfo()
        account = self._user(name, "The user is not exist")
        is_super = (given.user_type or "").lower() == SUPER.lower()
        if account.is_admin or is_super:
            self._must_be_super(request, connection)
        change: dict[str, Any] = {}
        if given.password:
            change["secretKey"] = given.password
        if given.user_type:
            change["admin"] = is_super
        change["userStatus"] = _status(
            given.user_status or ("enable" if account.is_enabled else "disable")
        )
        self._put(name, change)
        return request.reply()

    def delete_user(self, request: Command, connection: Connection) -> Command:
        """Code 3003: its policies go with it."""
        name = UserRequest.from_fields(request.fields).username
        found = self._accounts.table.accounts.get(name)
        if found is not None and found.is_admin:
            self._must_be_super(request, connection)
        self._change(
            lambda: remove_account(self._accounts.files, name, now_ms=self._clock.now_ms())
        )
        return request.reply()

    def get_user(self, request: Command, connection: Connection) -> Command:
        """Code 3004: the password is masked; nothing for an unknown user."""
        found = self._accounts.table.accounts.get(UserRequest.from_fields(request.fields).username)
        return request.reply(body=b"" if found is None else _shown(found).encode())

    def list_users(self, request: Command, connection: Connection) -> Command:
        """Code 3005: users whose names contain the filter."""
        part = ListUsersRequest.from_fields(request.fields).name_filter or ""
        found = [_shown(a) for a in self._accounts.table.accounts.values() if part in a.name]
        return request.reply(body=dumps(found))

    def put_acl(self, request: Command, connection: Connection) -> Command:
        """Codes 3006 and 3007: entries of an equal resource are replaced."""
        subject = AclRequest.from_fields(request.fields).subject
        given = AclInfo.decode(request.body) if request.body else AclInfo()
        account = self._user(_name_of(subject), f"The subject of {subject} is not exist.")
        fresh = [
            _entry(entry, policy.policy_type)
            for policy in given.policies or []
            for entry in policy.entries or []
        ]
        if not fresh:
            raise _refused("The policies is empty.")
        replaced = {(entry.resource, entry.is_custom) for entry in fresh}
        kept = [e for e in account.policies if (e.resource, e.is_custom) not in replaced]
        self._put(account.name, {"policies": [texts_of(entry) for entry in [*kept, *fresh]]})
        return request.reply()

    def delete_acl(self, request: Command, connection: Connection) -> Command:
        """Code 3008: the entries of one resource, or all."""
        header = DeleteAclRequest.from_fields(request.fields)
        account = self._user(_name_of(header.subject), "The subject is not exist.")
        kept: list[Entry] = []
        if header.resource:
            kind, name = _resource(header.resource)
            is_default = (header.policy_type or CUSTOM).lower() == DEFAULT.lower()
            kept = [
                entry
                for entry in account.policies
                if (entry.kind, entry.name) != (kind, name) or entry.is_custom is is_default
            ]
        self._put(account.name, {"policies": [texts_of(entry) for entry in kept] or None})
        return request.reply()

    def get_acl(self, request: Command, connection: Connection) -> Command:
        """Code 3009: nothing for a user without policies."""
        subject = AclRequest.from_fields(request.fields).subject
        account = self._user(_name_of(subject), "The subject is not exist.")
        found = _acl(account, "")
        return request.reply(body=b"" if found is None else found.encode())

    def list_acls(self, request: Command, connection: Connection) -> Command:
        """Code 3010: by parts of subject and resource."""
        header = ListAclsRequest.from_fields(request.fields)
        part = header.subject_filter or ""
        found = [
            acl
            for account in self._accounts.table.accounts.values()
            if part in f"{_SUBJECT}{account.name}"
            and (acl := _acl(account, header.resource_filter or "")) is not None
        ]
        return request.reply(body=dumps(found))

    def handlers(self) -> dict[int, Handler]:
        """Request code to handler."""
        return {
            RequestCode.AUTH_CREATE_USER: self.create_user,
            RequestCode.AUTH_UPDATE_USER: self.update_user,
            RequestCode.AUTH_DELETE_USER: self.delete_user,
            RequestCode.AUTH_GET_USER: self.get_user,
            RequestCode.AUTH_LIST_USER: self.list_users,
            RequestCode.AUTH_CREATE_ACL: self.put_acl,
            RequestCode.AUTH_UPDATE_ACL: self.put_acl,
            RequestCode.AUTH_DELETE_ACL: self.delete_acl,
            RequestCode.AUTH_GET_ACL: self.get_acl,
            RequestCode.AUTH_LIST_ACL: self.list_acls,
        }

    def _user(self, name: str, missing: str) -> Account:
        found = self._accounts.table.accounts.get(name)
        if found is None:
            raise _refused(missing)
        return found

    def _must_be_super(self, request: Command, connection: Connection) -> None:
        if not self._guard.account_of(request, connection).is_admin:
            raise BrokerError("The super user can only be changed by super user", code=1)

    def _put(self, name: str, change: Mapping[str, Any]) -> None:
        self._change(
            lambda: put_account(self._accounts.files, name, change, now_ms=self._clock.now_ms())
        )

    def _change(self, change: Callable[[], object]) -> None:
        try:
            change()
            self._accounts.reload()
        except ConfigError as error:
            raise _refused(str(error)) from None


def _refused(text: str) -> BrokerError:
    return BrokerError(text, code=ResponseCode.NO_PERMISSION)


def _status(text: str) -> str:
    if text.lower() not in ("enable", "disable"):
        raise _refused(f"The user status is illegal: {text}, expected enable or disable")
    return text.lower()


def _name_of(subject: str) -> str:
    if not subject.startswith(_SUBJECT) or len(subject) == len(_SUBJECT):
        raise _refused(f"The subject is illegal: {subject}, expected User:name")
    return subject[len(_SUBJECT) :]


def _resource(text: str) -> tuple[str, str]:
    try:
        return parse_resource(text)
    except ConfigError as error:
        raise _refused(str(error)) from None


def _entry(entry: PolicyEntry, policy_type: str | None) -> Entry:
    try:
        return make_entry(
            entry.resource or "",
            entry.actions or [],
            decision=entry.decision,
            sources=entry.source_ips or [],
            policy_type=policy_type,
        )
    except ConfigError as error:
        raise _refused(str(error)) from None


def _shown(account: Account) -> UserInfo:
    return UserInfo(
        username=account.name,
        password=masked(account.secrets[0]) if account.secrets else None,
        user_type=SUPER if account.is_admin else NORMAL,
        user_status="enable" if account.is_enabled else "disable",
    )


def _acl(account: Account, part: str) -> AclInfo | None:
    """The policies of an account, those of ACL 1.0 among them, whose resource has a part."""
    policies = []
    for policy_type, is_custom in ((CUSTOM, True), (DEFAULT, False)):
        entries = _policy_entries(e for e in account.entries() if e.is_custom is is_custom)
        entries = [entry for entry in entries if part in (entry.resource or "")]
        if entries:
            policies.append(Policy(policy_type=policy_type, entries=entries))
    if not policies:
        return None
    return AclInfo(subject=f"{_SUBJECT}{account.name}", policies=policies)


def _policy_entries(entries: Iterable[Entry]) -> list[PolicyEntry]:
    found = []
    for entry in entries:
        texts = texts_of(entry)
        found.append(
            PolicyEntry(
                resource=texts["resource"],
                actions=texts["actions"],
                decision=texts["decision"],
                source_ips=texts.get("sourceIps"),
            )
        )
    return found
