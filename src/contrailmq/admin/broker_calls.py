"""Calls about brokers: what they do now, their settings, their maintenance."""

from __future__ import annotations

from collections.abc import Mapping

from contrailmq.admin.caller import AdminCaller
from contrailmq.admin.names_calls import properties_text
from contrailmq.protocol.bodies.queues import MessageRequestModes
from contrailmq.protocol.bodies.route import BrokerData, KVTable
from contrailmq.protocol.bodies.stats import BrokerStatsData, HARuntimeInfo
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.headers.admin import ViewBrokerStatsRequest
from contrailmq.protocol.headers.transaction import ResumeCheckHalfMessageRequest
from contrailmq.settings import parse_properties

MAINTENANCE_S = 30.0


def shown_version(table: Mapping[str, str]) -> str:
    """The version of a broker by its runtime table: of ours our own, of another what it speaks."""
    ours = table.get("contrailVersion")
    return f"contrail-{ours}" if ours else table.get("brokerVersionDesc", "?")


class BrokerCalls:
    """Calls to one broker each."""

    def __init__(self, caller: AdminCaller) -> None:
        self._caller = caller

    async def members(self, cluster: str | None = None) -> list[BrokerData]:
        """Return the brokers of a cluster, or of all, sorted by name."""
        return await self._caller.broker_list(cluster)

    async def runtime(self, address: str) -> dict[str, str]:
        """What a broker is doing, by the original's keys."""
        answer = await self._caller.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return KVTable.decode(answer.body).table

    async def config(self, address: str) -> dict[str, str]:
        """The settings of a broker."""
        answer = await self._caller.ask(address, RequestCode.GET_BROKER_CONFIG)
        return parse_properties(bytes(answer.body).decode())

    async def update_config(self, address: str, properties: dict[str, str]) -> None:
        """Change settings of a broker while it runs."""
        body = properties_text(properties)
        await self._caller.ask(address, RequestCode.UPDATE_BROKER_CONFIG, body=body)

    async def stats_item(self, address: str, name: str, key: str) -> BrokerStatsData:
        """A figure over a minute, an hour and a day; raises SystemFailure for one unknown."""
        header = ViewBrokerStatsRequest(stats_name=name, stats_key=key)
        answer = await self._caller.ask(address, RequestCode.VIEW_BROKER_STATS_DATA, header)
        return BrokerStatsData.decode(answer.body)

    async def clean_expired_queues(self, address: str) -> None:
        """Delete consume queues whose messages are gone."""
        code = RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE
        await self._caller.ask(address, code, timeout_s=MAINTENANCE_S)

    async def delete_expired_log(self, address: str) -> None:
        """Delete what is old enough in the log soon, not at the hour of deletion."""
        await self._caller.ask(
            address, RequestCode.DELETE_EXPIRED_COMMITLOG, timeout_s=MAINTENANCE_S
        )

    async def clean_unused_topics(self, address: str) -> None:
        """Delete the queues of topics that no longer exist."""
        await self._caller.ask(address, RequestCode.CLEAN_UNUSED_TOPIC, timeout_s=MAINTENANCE_S)

    async def resume_half_message(self, address: str, topic: str, message_id: str) -> None:
        """Ask about a given-up transaction again, by the offset id of its half message."""
        header = ResumeCheckHalfMessageRequest(topic=topic, msg_id=message_id)
        await self._caller.ask(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, header)

    async def ha_status(self, address: str) -> HARuntimeInfo:
        """The state of replication (5.x)."""
        answer = await self._caller.ask(address, RequestCode.GET_BROKER_HA_STATUS)
        return HARuntimeInfo.decode(answer.body)

    async def request_modes(self, address: str) -> MessageRequestModes:
        """Which group pulls or pops which topic (5.x)."""
        answer = await self._caller.ask(address, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        return MessageRequestModes.decode(answer.body)
