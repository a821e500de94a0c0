"""Calls about the users and policies of a broker: those of 5.3."""

from __future__ import annotations

import msgspec

from contrailmq.admin.caller import AdminCaller
from contrailmq.protocol.bodies.acl import AclInfo, UserInfo
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.headers.acl import (
    AclRequest,
    DeleteAclRequest,
    ListAclsRequest,
    ListUsersRequest,
    UserRequest,
)


class UserCalls:
    """Calls to one broker each; they need an administrator, or a policy for the cluster."""

    def __init__(self, caller: AdminCaller) -> None:
        self._caller = caller

    async def create(self, address: str, user: UserInfo) -> None:
        """Make a user."""
        header = UserRequest(username=user.username or "")
        await self._caller.ask(address, RequestCode.AUTH_CREATE_USER, header, body=user.encode())

    async def update(self, address: str, user: UserInfo) -> None:
        """Change the fields of a user that are given."""
        header = UserRequest(username=user.username or "")
        await self._caller.ask(address, RequestCode.AUTH_UPDATE_USER, header, body=user.encode())

    async def delete(self, address: str, name: str) -> None:
        """Remove a user and its policies."""
        await self._caller.ask(address, RequestCode.AUTH_DELETE_USER, UserRequest(username=name))

    async def find(self, address: str, name: str) -> UserInfo | None:
        """A user; None if it does not exist."""
        answer = await self._caller.ask(
            address, RequestCode.AUTH_GET_USER, UserRequest(username=name)
        )
        return UserInfo.decode(answer.body) if answer.body else None

    async def all(self, address: str, part: str | None = None) -> list[UserInfo]:
        """The users whose names contain a part."""
        answer = await self._caller.ask(
            address, RequestCode.AUTH_LIST_USER, ListUsersRequest(name_filter=part)
        )
        found = msgspec.json.decode(bytes(answer.body) or b"[]", type=list[msgspec.Raw])
        return [UserInfo.decode(bytes(one)) for one in found]

    async def put_acl(self, address: str, acl: AclInfo, *, is_new: bool) -> None:
        """Make policies of a subject, or replace those of equal resources."""
        code = RequestCode.AUTH_CREATE_ACL if is_new else RequestCode.AUTH_UPDATE_ACL
        header = AclRequest(subject=acl.subject or "")
        await self._caller.ask(address, code, header, body=acl.encode())

    async def delete_acl(
        self, address: str, subject: str, *, resource: str | None, policy_type: str | None
    ) -> None:
        """Remove the policies of a subject, of one resource or all."""
        header = DeleteAclRequest(subject=subject, resource=resource, policy_type=policy_type)
        await self._caller.ask(address, RequestCode.AUTH_DELETE_ACL, header)

    async def find_acl(self, address: str, subject: str) -> AclInfo | None:
        """The policies of a subject; None if it has none."""
        answer = await self._caller.ask(
            address, RequestCode.AUTH_GET_ACL, AclRequest(subject=subject)
        )
        return AclInfo.decode(answer.body) if answer.body else None

    async def all_acls(
        self, address: str, *, subject: str | None = None, resource: str | None = None
    ) -> list[AclInfo]:
        """Policies by parts of subject and resource."""
        header = ListAclsRequest(subject_filter=subject, resource_filter=resource)
        answer = await self._caller.ask(address, RequestCode.AUTH_LIST_ACL, header)
        found = msgspec.json.decode(bytes(answer.body) or b"[]", type=list[msgspec.Raw])
        return [AclInfo.decode(bytes(one)) for one in found]
