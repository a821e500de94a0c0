"""Calls about what only name servers keep: key-value pairs, write permission, their settings."""

from __future__ import annotations

from typing import Final

from contrailmq.admin.caller import AdminCaller
from contrailmq.errors import QueryNotFound
from contrailmq.protocol.bodies.route import (
    BrokerMemberGroup,
    GetBrokerMemberGroupResponse,
    KVTable,
)
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.headers.kv import (
    DeleteKVConfigRequest,
    GetKVConfigRequest,
    GetKVConfigResponse,
    GetKVListByNamespaceRequest,
    PutKVConfigRequest,
)
from contrailmq.protocol.headers.route import (
    AddWritePermOfBrokerRequest,
    AddWritePermOfBrokerResponse,
    GetBrokerMemberGroupRequest,
    WipeWritePermOfBrokerRequest,
    WipeWritePermOfBrokerResponse,
)
from contrailmq.settings import parse_properties, property_line

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"


class NameServerCalls:
    """Calls to the name servers."""

    def __init__(self, caller: AdminCaller) -> None:
        self._caller = caller

    async def kv_get(self, namespace: str, key: str) -> str | None:
        """One value, or None."""
        header = GetKVConfigRequest(namespace=namespace, key=key)
        try:
            answer = await self._caller.ask_name_server(RequestCode.GET_KV_CONFIG, header)
        except QueryNotFound:
            return None
        return GetKVConfigResponse.from_fields(answer.fields).value

    async def kv_list(self, namespace: str) -> dict[str, str]:
        """All values of a namespace."""
        header = GetKVListByNamespaceRequest(namespace=namespace)
        try:
            answer = await self._caller.ask_name_server(RequestCode.GET_KVLIST_BY_NAMESPACE, header)
        except QueryNotFound:
            return {}
        return KVTable.decode(answer.body).table

    async def kv_put(self, namespace: str, key: str, value: str) -> None:
        """Set one value at every name server."""
        header = PutKVConfigRequest(namespace=namespace, key=key, value=value)
        await self._caller.ask_name_servers(RequestCode.PUT_KV_CONFIG, header)

    async def kv_delete(self, namespace: str, key: str) -> None:
        """Remove one value at every name server."""
        header = DeleteKVConfigRequest(namespace=namespace, key=key)
        await self._caller.ask_name_servers(RequestCode.DELETE_KV_CONFIG, header)

    async def config(self) -> dict[str, dict[str, str]]:
        """The settings of every name server, by address."""
        answers = await self._caller.ask_name_servers(RequestCode.GET_NAMESRV_CONFIG)
        return {
            address: parse_properties(bytes(answer.body).decode())
            for address, answer in answers.items()
        }

    async def update_config(self, properties: dict[str, str]) -> None:
        """Change settings of every name server."""
        body = properties_text(properties)
        await self._caller.ask_name_servers(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)

    async def wipe_write_permission(self, broker_name: str) -> dict[str, int]:
        """Stop writes to all topics of a broker; how many topics, by name server."""
        header = WipeWritePermOfBrokerRequest(broker_name=broker_name)
        answers = await self._caller.ask_name_servers(RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
        return {
            address: WipeWritePermOfBrokerResponse.from_fields(answer.fields).wipe_topic_count
            for address, answer in answers.items()
        }

    async def add_write_permission(self, broker_name: str) -> dict[str, int]:
        """Allow writes to all topics of a broker again; how many topics, by name server."""
        header = AddWritePermOfBrokerRequest(broker_name=broker_name)
        answers = await self._caller.ask_name_servers(RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
        return {
            address: AddWritePermOfBrokerResponse.from_fields(answer.fields).add_topic_count
            for address, answer in answers.items()
        }

    async def broker_members(self, cluster: str, broker_name: str) -> BrokerMemberGroup | None:
        """All addresses of one broker name."""
        header = GetBrokerMemberGroupRequest(cluster_name=cluster, broker_name=broker_name)
        answer = await self._caller.ask_name_server(RequestCode.GET_BROKER_MEMBER_GROUP, header)
        return GetBrokerMemberGroupResponse.decode(answer.body).broker_member_group


def properties_text(properties: dict[str, str]) -> bytes:
    """Properties as Java reads them, one a line, with escapes where a value needs them."""
    return "".join(property_line(*pair) for pair in properties.items()).encode()
