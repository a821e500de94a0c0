"""Calls to the controllers: which of them leads, and what is asked of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from contrailmq.clock import Clock
from contrailmq.errors import BrokerError, NetworkError, ProtocolError, error_of
from contrailmq.net.client import RemotingClient
from contrailmq.net.noise import Noise
from contrailmq.protocol.bodies.stats import SyncStateSet
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.header import Header
from contrailmq.protocol.headers.controller import (
    AlterSyncStateSetRequest,
    AlterSyncStateSetResponse,
    ApplyBrokerIdRequest,
    ControllerMetadata,
    ElectMasterRequest,
    GetReplicaInfoRequest,
    MasterInfo,
    NextBrokerIdRequest,
    NextBrokerIdResponse,
    RegisterToControllerRequest,
)
from contrailmq.protocol.headers.route import BrokerHeartbeatRequest

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 3.0
HEARTBEAT_TIMEOUT_S: Final = 1.0
Master = tuple[MasterInfo, SyncStateSet | None]


class Controllers:
    """The controllers of this broker; calls go to the one that leads."""

    def __init__(self, client: RemotingClient, addresses: Sequence[str], *, clock: Clock) -> None:
        self._client = client
        self._addresses = list(addresses)
        self._clock = clock
        self._noise = Noise(clock)
        self.leader = ""
        self.answered_at = asyncio.get_running_loop().time()

    async def find_leader(self) -> bool:
        """Ask who leads; whether anybody does."""
        for address in dict.fromkeys([*filter(None, [self.leader]), *self._addresses]):
            request = Command.request(RequestCode.CONTROLLER_GET_METADATA_INFO)
            try:
                answer = await self._client.call(address, request, timeout_s=TIMEOUT_S)
                found = ControllerMetadata.from_fields(answer.fields)
            except (NetworkError, ProtocolError) as error:
                self._complain(address, str(error))
                continue
            if answer.code == 0 and found.controller_leader_address:
                if found.controller_leader_address != self.leader:
                    log.info("controller leads: address=%s", found.controller_leader_address)
                self.leader = found.controller_leader_address
                return True
        return False

    async def next_id(self, cluster: str, name: str) -> int:
        """The id the controller would give next."""
        header = NextBrokerIdRequest(cluster_name=cluster, broker_name=name)
        answer = await self._call(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, header)
        return NextBrokerIdResponse.from_fields(answer.fields).next_broker_id or 1

    async def apply_id(self, header: ApplyBrokerIdRequest) -> None:
        """Take an id."""
        await self._call(RequestCode.CONTROLLER_APPLY_BROKER_ID, header)

    async def register(self, header: RegisterToControllerRequest) -> Master:
        """Say that this broker is here; who is primary."""
        return _master(await self._call(RequestCode.CONTROLLER_REGISTER_BROKER, header))

    async def elect(self, header: ElectMasterRequest) -> Master:
        """Ask to become primary; who is."""
        answer = await self._call(
            RequestCode.CONTROLLER_ELECT_MASTER,
            header,
            accepted=(ResponseCode.CONTROLLER_MASTER_STILL_EXIST,),
        )
        return _master(answer)

    async def replica_info(self, name: str) -> Master:
        """Who is primary of a group."""
        header = GetReplicaInfoRequest(broker_name=name)
        return _master(await self._call(RequestCode.CONTROLLER_GET_REPLICA_INFO, header))

    async def alter(self, header: AlterSyncStateSetRequest, wanted: SyncStateSet) -> int:
        """Ask for another in-sync set; its epoch."""
        answer = await self._call(
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, body=wanted.encode()
        )
        found = AlterSyncStateSetResponse.from_fields(answer.fields).new_sync_state_set_epoch
        return wanted.sync_state_set_epoch + 1 if found is None else found

    async def heartbeat(self, header: BrokerHeartbeatRequest) -> None:
        """Tell every controller that this broker lives; nobody answers."""

        async def beat(address: str) -> None:
            command = Command.request(RequestCode.BROKER_HEARTBEAT, header)
            try:
                await self._client.oneway(address, command, timeout_s=HEARTBEAT_TIMEOUT_S)
            except NetworkError as error:
                self._complain(address, str(error))

        await asyncio.gather(*(beat(address) for address in self._addresses))

    async def _call(
        self,
        code: RequestCode,
        header: Header,
        *,
        body: bytes = b"",
        accepted: tuple[ResponseCode, ...] = (),
    ) -> Command:
        if not self.leader and not await self.find_leader():
            raise BrokerError("no controller leads", code=ResponseCode.CONTROLLER_NOT_LEADER)
        leader = self.leader
        request = Command.request(code, header, body=body)
        try:
            answer = await self._client.call(leader, request, timeout_s=TIMEOUT_S)
        except NetworkError:
            self.leader = ""
            raise
        if answer.code == ResponseCode.CONTROLLER_NOT_LEADER:
            self.leader = ""
        else:
            self.answered_at = asyncio.get_running_loop().time()
        if answer.code != 0 and answer.code not in accepted:
            raise error_of(answer.code, answer.remark)
        return answer

    def _complain(self, address: str, fault: str) -> None:
        held_back = self._noise.held_back(address)
        if held_back is not None:
            log.warning("controller: address=%s error=%s held_back=%s", address, fault, held_back)


def _master(answer: Command) -> Master:
    header = MasterInfo.from_fields(answer.fields)
    return header, SyncStateSet.decode(bytes(answer.body)) if answer.body else None
