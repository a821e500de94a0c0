"""Does the address this broker advertises lead back to it?

The commonest trouble with a new broker is an address clients cannot reach: the wrong network card,
a container's own address, a host name nobody resolves.  So the broker does what a client does: it
asks a name server for the route of the topic named after itself and calls the address it finds.
"""

from __future__ import annotations

import logging

from contrailmq.broker.identity import Identity
from contrailmq.broker.services.registration import Registration
from contrailmq.errors import NetworkError, RemoteProtocolError
from contrailmq.net.client import RemotingClient
from contrailmq.net.server import Server
from contrailmq.protocol.bodies.route import TopicRouteData
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.offset import GetMaxOffsetRequest
from contrailmq.protocol.headers.route import GetRouteInfoRequest

log = logging.getLogger(__name__)

CALL_TIMEOUT_S = 3.0


class SelfCheck:
    """Asks once; ``fault`` is None, or a text for a human."""

    def __init__(
        self,
        client: RemotingClient,
        registration: Registration,
        server: Server,
        *,
        identity: Identity,
    ) -> None:
        self._client = client
        self._registration = registration
        self._server = server
        self._identity = identity
        self.is_done = False
        self.fault: str | None = None

    async def run(self) -> None:
        """Find out, log what is wrong, return."""
        self.fault = await self._find_fault()
        self.is_done = True
        if self.fault is not None:
            log.error("clients will not reach this broker: %s", self.fault)

    async def _find_fault(self) -> str | None:
        address = self._identity.address
        outcome = self._registration.last
        if outcome is not None and outcome.told:
            routed = await self._routed_address(outcome.told[0])
            if routed is not None and routed != address:
                return (
                    f"the name server {outcome.told[0]} says that broker "
                    f"{self._identity.broker_name}, id {self._identity.broker_id}, is at {routed}, "
                    f"not here at {address}: another broker has the same brokerName and brokerId"
                )
        probe = Command.request(
            RequestCode.GET_MAX_OFFSET,
            GetMaxOffsetRequest(topic=self._identity.broker_name, queue_id=0),
        )
        try:
            connection = await self._client.connect(address, timeout_s=CALL_TIMEOUT_S)
            await self._client.call(address, probe, timeout_s=CALL_TIMEOUT_S)
        except NetworkError as error:
            return (
                f"the advertised address {address} cannot be reached from here ({error}); "
                "set brokerIP1 to an address of this machine that clients can reach"
            )
        port = connection.local.rpartition(":")[2]
        is_here = any(peer.peer.rpartition(":")[2] == port for peer in self._server.connections)
        self._client.drop(address, "self check done")
        if not is_here:
            return (
                f"the advertised address {address} leads to another process; "
                "set brokerIP1 to an address of this machine that clients can reach"
            )
        return None

    async def _routed_address(self, namesrv: str) -> str | None:
        header = GetRouteInfoRequest(
            topic=self._identity.broker_name, accept_standard_json_only=True
        )
        command = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        try:
            answer = await self._client.call(namesrv, command, timeout_s=CALL_TIMEOUT_S)
            if answer.code != 0:
                return None
            route = TopicRouteData.decode(answer.body)
        except (NetworkError, RemoteProtocolError):
            return None
        for broker in route.broker_datas:
            if broker.broker_name == self._identity.broker_name:
                return broker.broker_addrs.get(self._identity.broker_id)
        return None
