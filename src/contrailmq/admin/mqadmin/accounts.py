"""mqadmin's commands about accounts: ACL 1.0."""

from __future__ import annotations

import argparse
import datetime
from typing import Final, TextIO

from contrailmq.admin.client import AdminClient
from contrailmq.admin.mqadmin.command import AdminCommand, may, need, targets, truth
from contrailmq.protocol.headers.acl import CreateAccessConfigRequest

_BROKER: Final = may("b", "brokerAddr", "broker address")
_CLUSTER: Final = may("c", "clusterName", "cluster name")
_ROW: Final = "{:<16}  {:<22}  {:<22}  {:<20}  {:<22}  {:<22}\n"


async def _put(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    account = CreateAccessConfigRequest(
        access_key=o.accessKey,
        secret_key=o.secretKey,
        white_remote_address=o.whiteRemoteAddress,
        admin=truth(o.admin, default=False),
        default_topic_perm=o.defaultTopicPerm,
        default_group_perm=o.defaultGroupPerm,
        topic_perms=o.topicPerms,
        group_perms=o.groupPerms,
    )
    for address in await targets(admin, o):
        await admin.accounts.put(address, account)
        out.write(f"create or update plain access config to {address} success.\n")
    out.write(f"account {o.accessKey}\n")


async def _remove(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        await admin.accounts.remove(address, o.accessKey)
        out.write(f"delete plain access config account from {address} success.\n")
    out.write(f"account's accessKey is:{o.accessKey}\n")


async def _white(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        await admin.accounts.set_white(
            address, o.globalWhiteRemoteAddresses, path=o.aclFileFullPath
        )
        out.write(f"update global white remote addresses to {address} success.\n")


async def _versions(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    of_cluster = o.brokerAddr is None
    addresses = await targets(admin, o)
    if of_cluster:
        heads = ("#Cluster Name", "#Broker Name", "#Broker Addr", "#AclFilePath")
        out.write(_ROW.format(*heads, "#AclConfigVersionNum", "#AclLastUpdateTime"))
    for address in addresses:
        found = await admin.accounts.versions(address)
        for path, version in sorted(found.files.items()):
            moment = datetime.datetime.fromtimestamp(version.timestamp / 1000, datetime.UTC)
            shown = moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")
            place = (found.cluster, found.broker, found.address, path)
            out.write(_ROW.format(*place, version.counter, shown))
    whose = "cluster" if of_cluster else "broker"
    out.write(f"get {whose}'s plain access config version success.\n")


async def _show(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        found = await admin.accounts.all(address)
        white = ", ".join(found.global_white_addrs)
        out.write(f"\nglobalWhiteRemoteAddresses: [{white}]\n\naccounts:\n")
        for account in found.plain_access_configs:
            for name, value in (
                ("accessKey", account.access_key),
                ("secretKey", account.secret_key),
                ("whiteRemoteAddress", account.white_remote_address),
                ("admin", "true" if account.admin else "false"),
                ("defaultTopicPerm", account.default_topic_perm),
                ("defaultGroupPerm", account.default_group_perm),
                ("topicPerms", f"[{', '.join(account.topic_perms)}]"),
                ("groupPerms", f"[{', '.join(account.group_perms)}]"),
            ):
                out.write(f"  {name:<18}: {value or ''}\n")
            out.write("\n")


_NAME: Final = need("a", "accessKey", "the account's name")
COMMANDS: Final = {
    "updateAclConfig": AdminCommand(
        "Update acl config yaml file in broker",
        (
            _BROKER, _CLUSTER, _NAME,
            need("s", "secretKey", "its secret"),
            may("w", "whiteRemoteAddress", "from there nothing is checked"),
            may("i", "defaultTopicPerm", "for topics without an entry"),
            may("u", "defaultGroupPerm", "for groups without an entry"),
            may("t", "topicPerms", "topicA=DENY,topicD=SUB"),
            may("g", "groupPerms", "groupA=DENY,groupD=SUB"),
            may("m", "admin", "true or false"),
        ),
        _put,
    ),
    "deleteAclConfig": AdminCommand(
        "Delete Acl Config Account in broker", (_BROKER, _CLUSTER, _NAME), _remove
    ),
    "updateGlobalWhiteAddr": AdminCommand(
        "Update global white address for acl Config File in broker",
        (
            _BROKER, _CLUSTER,
            need("g", "globalWhiteRemoteAddresses", "10.10.103.*,192.168.0.*"),
            may("p", "aclFileFullPath", "the account file"),
        ),
        _white,
    ),
    "clusterAclConfigVersion": AdminCommand(
        "List all of acl config version information in cluster", (_BROKER, _CLUSTER), _versions
    ),
    "getAclConfig": AdminCommand(
        "List all of acl config information in cluster", (_BROKER, _CLUSTER), _show
    ),
}  # fmt: skip
