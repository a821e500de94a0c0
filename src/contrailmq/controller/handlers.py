"""Request codes 904 and 1001 to 1013, as a controller answers them."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

import msgspec

from contrailmq.controller.decisions import Decisions
from contrailmq.controller.groups import FIRST_ID, Group, refuse
from contrailmq.errors import ConfigError, InvalidParameter
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Handler
from contrailmq.protocol.bodies.stats import SyncStateSet
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.controller import (
    AlterSyncStateSetRequest,
    AlterSyncStateSetResponse,
    ApplyBrokerIdRequest,
    ApplyBrokerIdResponse,
    CleanBrokerDataRequest,
    ControllerMetadata,
    ElectMasterRequest,
    GetReplicaInfoRequest,
    MasterInfo,
    NextBrokerIdRequest,
    NextBrokerIdResponse,
    RegisterToControllerRequest,
)
from contrailmq.protocol.headers.route import BrokerHeartbeatRequest
from contrailmq.settings import as_properties, parse_properties, update

GROUP: Final = "contrail"


class ControllerHandlers:
    """Answers what brokers and administrators ask."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    def table(self) -> dict[int, Handler]:
        """Request code to handler; what only the leader answers is refused by the others."""
        everybody: dict[int, Handler] = {
            RequestCode.CONTROLLER_GET_METADATA_INFO: self.metadata,
            RequestCode.BROKER_HEARTBEAT: self.heartbeat,
            RequestCode.GET_CONTROLLER_CONFIG: self.config,
            RequestCode.UPDATE_CONTROLLER_CONFIG: self.update_config,
        }
        leader: dict[int, Handler] = {
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: self.next_id,
            RequestCode.CONTROLLER_APPLY_BROKER_ID: self.apply_id,
            RequestCode.CONTROLLER_REGISTER_BROKER: self.register,
            RequestCode.CONTROLLER_ELECT_MASTER: self.elect,
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: self.alter,
            RequestCode.CONTROLLER_GET_REPLICA_INFO: self.replica_info,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: self.sync_states,
            RequestCode.CLEAN_BROKER_DATA: self.clean,
        }
        return everybody | {code: self._led(handler) for code, handler in leader.items()}

    def metadata(self, request: Command, connection: Connection) -> Command:
        """Code 1005: who leads."""
        known = sorted(self._decisions.controllers())
        leader = self._decisions.leader()
        return request.reply(
            ControllerMetadata(
                group=GROUP,
                controller_leader_id=f"n{known.index(leader)}" if leader in known else "",
                controller_leader_address=leader,
                is_leader=self._decisions.leads(),
                peers="".join(f"n{number}:{address};" for number, address in enumerate(known)),
            )
        )

    def next_id(self, request: Command, connection: Connection) -> Command:
        """Code 1012: the id the next broker gets."""
        header = NextBrokerIdRequest.from_fields(request.fields)
        group = self._decisions.find(header.broker_name)
        return request.reply(
            NextBrokerIdResponse(
                cluster_name=header.cluster_name,
                broker_name=header.broker_name,
                next_broker_id=FIRST_ID if group is None else group.next_id,
            )
        )

    async def apply_id(self, request: Command, connection: Connection) -> Command:
        """Code 1013: the id is taken."""
        header = ApplyBrokerIdRequest.from_fields(request.fields)
        await self._decisions.apply_id(
            header.cluster_name,
            header.broker_name,
            header.applied_broker_id,
            header.register_check_code,
        )
        return request.reply(
            ApplyBrokerIdResponse(cluster_name=header.cluster_name, broker_name=header.broker_name)
        )

    async def register(self, request: Command, connection: Connection) -> Command:
        """Code 1003: who is primary, if it lives."""
        header = RegisterToControllerRequest.from_fields(request.fields)
        group = await self._decisions.register(
            header.broker_name, header.broker_id, header.broker_address
        )
        primary = group.primary
        if primary is None or not self._decisions.is_alive(group.name, primary):
            answer = MasterInfo(cluster_name=group.cluster, broker_name=group.name)
            return request.reply(answer, body=SyncStateSet().encode())
        return request.reply(_info(group), body=_set(group).encode())

    async def elect(self, request: Command, connection: Connection) -> Command:
        """Code 1002: elect a primary; 2011 when the old one lives."""
        header = ElectMasterRequest.from_fields(request.fields)
        group, is_new = await self._decisions.elect(
            header.broker_name, asking=header.broker_id, designated=header.designate_elect
        )
        body = {
            "brokerMemberGroup": {
                "brokerAddrs": {str(i): member.address for i, member in group.brokers.items()},
                "brokerName": group.name,
                "cluster": group.cluster,
            },
            "syncStateSet": list(group.in_sync),
        }
        answer = request.reply(_info(group), body=msgspec.json.encode(body))
        if not is_new:
            answer.code = int(ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
        return answer

    async def alter(self, request: Command, connection: Connection) -> Command:
        """Code 1001: another in-sync set."""
        header = AlterSyncStateSetRequest.from_fields(request.fields)
        wanted = SyncStateSet.decode(bytes(request.body))
        group = await self._decisions.alter(
            header.broker_name,
            header.master_broker_id,
            header.master_epoch,
            members=list(wanted.sync_state_set),
            set_epoch=wanted.sync_state_set_epoch,
        )
        return request.reply(
            AlterSyncStateSetResponse(new_sync_state_set_epoch=group.set_epoch),
            body=_set(group).encode(),
        )

    def replica_info(self, request: Command, connection: Connection) -> Command:
        """Code 1004: who is primary."""
        name = GetReplicaInfoRequest.from_fields(request.fields).broker_name
        group = self._decisions.find(name)
        if group is None:
            raise refuse(
                ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, f"group {name} is not known"
            )
        answer = _info(group) if group.primary is not None else MasterInfo(master_epoch=group.epoch)
        return request.reply(answer, body=_set(group).encode())

    def sync_states(self, request: Command, connection: Connection) -> Command:
        """Code 1006: who is in sync, of the groups in the body."""
        try:
            names = msgspec.json.decode(bytes(request.body) or b"[]", type=list[str])
        except msgspec.DecodeError as error:
            raise InvalidParameter(f"expected a list of names: {error}") from error
        found = {}
        for name in names[:1000]:
            group = self._decisions.find(name)
            if group is not None:
                found[name] = self._state_of(group)
        return request.reply(body=msgspec.json.encode({"replicasInfoTable": found}))

    def heartbeat(self, request: Command, connection: Connection) -> Command:
        """Code 904: a broker lives."""
        header = BrokerHeartbeatRequest.from_fields(request.fields)
        if header.broker_id is None:
            raise refuse(ResponseCode.CONTROLLER_INVALID_REQUEST, "a heartbeat without brokerId")
        self._decisions.beat(header, connection)
        return request.reply(remark="Heart beat success")

    def config(self, request: Command, connection: Connection) -> Command:
        """Code 1010: the settings."""
        lines = (
            f"{name}={value}\n" for name, value in as_properties(self._decisions.settings).items()
        )
        return request.reply(body="".join(lines).encode())

    def update_config(self, request: Command, connection: Connection) -> Command:
        """Code 1009: change settings that may change while the controller runs."""
        decisions = self._decisions
        properties = parse_properties(bytes(request.body).decode("utf-8", "replace"))
        unknown = sorted(properties.keys() - as_properties(decisions.settings).keys())
        if unknown:
            raise InvalidParameter(f"{', '.join(unknown)}: no key of a controller")
        try:
            decisions.settings = update(decisions.settings, properties, live_only=True)
        except ConfigError as error:
            raise InvalidParameter(str(error)) from error
        return request.reply()

    async def clean(self, request: Command, connection: Connection) -> Command:
        """Code 1011: forget brokers of a group, or all of it."""
        header = CleanBrokerDataRequest.from_fields(request.fields)
        text = header.broker_controller_ids_to_clean or ""
        try:
            ids = [int(part) for part in text.split(";") if part.strip()]
        except ValueError:
            raise InvalidParameter(f"brokerControllerIdsToClean {text!r}: expected 1;2") from None
        await self._decisions.forget(
            header.broker_name, ids, living_too=header.is_clean_living_broker
        )
        return request.reply()

    def _led(self, handler: Handler) -> Handler:
        def handle(
            request: Command, connection: Connection
        ) -> Command | Awaitable[Command | None] | None:
            self._decisions.must_lead()
            return handler(request, connection)

        return handle

    def _state_of(self, group: Group) -> dict[str, object]:
        rows: dict[bool, list[dict[str, object]]] = {True: [], False: []}
        for broker_id, member in sorted(group.brokers.items()):
            rows[broker_id in group.in_sync].append(
                {
                    "alive": self._decisions.is_alive(group.name, broker_id),
                    "brokerAddress": member.address,
                    "brokerId": broker_id,
                    "brokerName": group.name,
                }
            )
        primary = group.brokers.get(-1 if group.primary is None else group.primary)
        return {
            "inSyncReplicas": rows[True],
            "masterAddress": "" if primary is None else primary.address,
            "masterBrokerId": group.primary,
            "masterEpoch": group.epoch,
            "notInSyncReplicas": rows[False],
            "syncStateSetEpoch": group.set_epoch,
        }


def _info(group: Group) -> MasterInfo:
    assert group.primary is not None
    return MasterInfo(
        cluster_name=group.cluster,
        broker_name=group.name,
        master_broker_id=group.primary,
        master_address=group.brokers[group.primary].address,
        master_epoch=group.epoch,
        sync_state_set_epoch=group.set_epoch,
    )


def _set(group: Group) -> SyncStateSet:
    return SyncStateSet(sync_state_set=list(group.in_sync), sync_state_set_epoch=group.set_epoch)
