"""Calls about the accounts of a broker: ACL 1.0."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from contrailmq.admin.caller import AdminCaller
from contrailmq.protocol.bodies.acl import ClusterAclConfig
from contrailmq.protocol.bodies.version import DataVersion
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.headers.acl import (
    CreateAccessConfigRequest,
    DeleteAccessConfigRequest,
    GetBrokerAclConfigResponse,
    UpdateGlobalWhiteAddrsConfigRequest,
)


class AclVersions(NamedTuple):
    """How often the account files of a broker were changed, by file."""

    cluster: str
    broker: str
    address: str
    files: dict[str, DataVersion]


class AccountCalls:
    """Calls to one broker each; they need an administrator."""

    def __init__(self, caller: AdminCaller) -> None:
        self._caller = caller

    async def put(self, address: str, account: CreateAccessConfigRequest) -> None:
        """Make an account, or change the fields that are given."""
        await self._caller.ask(address, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, account)

    async def remove(self, address: str, name: str) -> None:
        """Remove an account."""
        header = DeleteAccessConfigRequest(access_key=name)
        await self._caller.ask(address, RequestCode.DELETE_ACL_CONFIG, header)

    async def set_white(self, address: str, addresses: str, *, path: str | None = None) -> None:
        """Replace the addresses that need no account, a list with commas."""
        header = UpdateGlobalWhiteAddrsConfigRequest(
            global_white_addrs=addresses, acl_file_full_path=path
        )
        await self._caller.ask(address, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, header)

    async def all(self, address: str) -> ClusterAclConfig:
        """All accounts of a broker; ours shows no secrets."""
        answer = await self._caller.ask(address, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)
        return ClusterAclConfig.decode(answer.body)

    async def versions(self, address: str) -> AclVersions:
        """The versions of a broker's account files."""
        answer = await self._caller.ask(address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
        header = GetBrokerAclConfigResponse.from_fields(answer.fields)
        texts = msgspec.json.decode(
            header.all_acl_file_version or "{}", type=dict[str, msgspec.Raw]
        )
        files = {path: DataVersion.decode(bytes(text)) for path, text in texts.items()}
        return AclVersions(header.cluster_name, header.broker_name, header.broker_addr, files)
