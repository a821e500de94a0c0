"""mqadmin's commands about users and policies: those of 5.3."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Final, TextIO

from contrailmq.admin.client import AdminClient
from contrailmq.admin.mqadmin.command import AdminCommand, may, need, targets
from contrailmq.protocol.bodies.acl import AclInfo, Policy, PolicyEntry, UserInfo

_BROKER: Final = may("b", "brokerAddr", "broker address")
_CLUSTER: Final = may("c", "clusterName", "cluster name")
_USER: Final = need("u", "username", "the name of the user")
_SUBJECT: Final = need("s", "subject", "User:name")
_USER_ROW: Final = "{:<16}  {:<22}  {:<22}  {:<22}\n"
_ACL_ROW: Final = "{:<16}  {:<10}  {:<22}  {:<20}  {:<24}  {:<10}\n"


async def _create_user(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    user = UserInfo(username=o.username, password=o.password, user_type=o.userType)
    for address in await targets(admin, o):
        await admin.users.create(address, user)
        out.write(f"create user to {address} success.\n")


async def _update_user(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    user = UserInfo(
        username=o.username,
        password=o.password,
        user_type=o.userType,
        user_status=o.userStatus,
    )
    for address in await targets(admin, o):
        await admin.users.update(address, user)
        out.write(f"update user to {address} success.\n")


async def _delete_user(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        await admin.users.delete(address, o.username)
        out.write(f"delete user to {address} success.\n")


async def _get_user(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        found = await admin.users.find(address, o.username)
        _write_users([] if found is None else [found], out)


async def _list_users(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        _write_users(await admin.users.all(address, o.filter), out)


async def _create_acl(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        await admin.users.put_acl(address, _acl(o), is_new=True)
        out.write(f"create acl to {address} success.\n")


async def _update_acl(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        await admin.users.put_acl(address, _acl(o), is_new=False)
        out.write(f"update acl to {address} success.\n")


async def _delete_acl(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        await admin.users.delete_acl(
            address, o.subject, resource=o.resources, policy_type=o.policyType
        )
        out.write(f"delete acl to {address} success.\n")


async def _get_acl(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        found = await admin.users.find_acl(address, o.subject)
        _write_acls([] if found is None else [found], out)


async def _list_acls(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        _write_acls(
            await admin.users.all_acls(address, subject=o.subject, resource=o.resource), out
        )


def _acl(o: argparse.Namespace) -> AclInfo:
    sources = o.sourceIp.split(",") if o.sourceIp else None
    entries = [
        PolicyEntry(
            resource=resource, actions=o.actions.split(","), source_ips=sources, decision=o.decision
        )
        for resource in o.resources.split(",")
    ]
    return AclInfo(subject=o.subject, policies=[Policy(policy_type=o.policyType, entries=entries)])


def _write_users(users: Iterable[UserInfo], out: TextIO) -> None:
    out.write(_USER_ROW.format("#UserName", "#Password", "#UserType", "#UserStatus"))
    for user in users:
        shown = (user.username, user.password, user.user_type, user.user_status)
        out.write(_USER_ROW.format(*(text or "" for text in shown)))


def _write_acls(acls: Iterable[AclInfo], out: TextIO) -> None:
    heads = ("#Subject", "#PolicyType", "#Resource", "#Actions", "#SourceIp", "#Decision")
    out.write(_ACL_ROW.format(*heads))
    for acl in acls:
        for policy in acl.policies or []:
            for entry in policy.entries or []:
                shown = (
                    acl.subject, policy.policy_type, entry.resource,
                    ",".join(entry.actions or []), ",".join(entry.source_ips or []), entry.decision,
                )  # fmt: skip
                out.write(_ACL_ROW.format(*(text or "" for text in shown)))


_ENTRY: Final = (
    _BROKER, _CLUSTER, _SUBJECT,
    need("r", "resources", "Topic:a,Group:g*"),
    need("a", "actions", "Pub,Sub"),
    need("d", "decision", "Allow or Deny"),
    may("i", "sourceIp", "10.0.0.0/8,192.0.2.7"),
    may("p", "policyType", "Custom or Default"),
)  # fmt: skip
COMMANDS: Final = {
    "createUser": AdminCommand(
        "Create user to cluster.",
        (
            _BROKER, _CLUSTER, _USER, need("p", "password", "its password"),
            may("t", "userType", "Super or Normal"),
        ),
        _create_user,
    ),
    "updateUser": AdminCommand(
        "Update user to cluster.",
        (
            _BROKER, _CLUSTER, _USER, may("p", "password", "its password"),
            may("t", "userType", "Super or Normal"), may("s", "userStatus", "enable or disable"),
        ),
        _update_user,
    ),
    "deleteUser": AdminCommand(
        "Delete user from cluster.", (_BROKER, _CLUSTER, _USER), _delete_user
    ),
    "getUser": AdminCommand("Get user from cluster.", (_BROKER, _CLUSTER, _USER), _get_user),
    "listUser": AdminCommand(
        "List user from cluster.",
        (_BROKER, _CLUSTER, may("f", "filter", "a part of the name")),
        _list_users,
    ),
    "createAcl": AdminCommand("Create acl to cluster.", _ENTRY, _create_acl),
    "updateAcl": AdminCommand("Update acl to cluster.", _ENTRY, _update_acl),
    "deleteAcl": AdminCommand(
        "Delete acl from cluster.",
        (
            _BROKER, _CLUSTER, _SUBJECT, may("r", "resources", "Topic:a; without it, all"),
            may("p", "policyType", "Custom or Default"),
        ),
        _delete_acl,
    ),
    "getAcl": AdminCommand("Get acl from cluster.", (_BROKER, _CLUSTER, _SUBJECT), _get_acl),
    "listAcl": AdminCommand(
        "List acl from cluster.",
        (
            _BROKER, _CLUSTER, may("s", "subject", "a part of the subject"),
            may("r", "resource", "a part of the resource"),
        ),
        _list_acls,
    ),
}  # fmt: skip
