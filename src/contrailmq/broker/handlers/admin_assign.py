"""Queues assigned by the broker: request codes 400, 401 and 402.

Only PULL is served: a group that is to POP a topic is refused, with that reason, rather than left
without messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contrailmq.broker.consumers import ConsumerTable
from contrailmq.broker.registration import Registration
from contrailmq.errors import (
    InvalidParameter,
    NetworkError,
    NoPermission,
    RemoteProtocolError,
    SystemBusy,
    SystemFailure,
)
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.queues import (
    MessageQueueAssignment,
    MessageRequestModes,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    SetMessageRequestModeRequest,
)
from contrailmq.protocol.bodies.route import TopicRouteData
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.route import GetRouteInfoRequest
from contrailmq.protocol.names import is_retry_topic
from contrailmq.protocol.queue import MessageQueue

ROUTE_TIMEOUT_S: Final = 3.0
READ: Final = 4
PULL: Final = "PULL"
MODES_MAX: Final = 100_000
BROADCASTING: Final = "BROADCASTING"


class Assignments:
    """Request codes 400, 401 and 402."""

    def __init__(
        self, consumers: ConsumerTable, registration: Registration, client: RemotingClient
    ) -> None:
        self._consumers = consumers
        self._registration = registration
        self._client = client
        self._modes: dict[str, dict[str, SetMessageRequestModeRequest]] = {}

    async def query(self, request: Command, connection: Connection) -> Command:
        """Code 400: the queues of one client; no list for a client that is not in the group."""
        asked = QueryAssignmentRequest.decode(bytes(request.body))
        body = QueryAssignmentResponse()
        found = self._consumers.find(asked.consumer_group)
        queues = await self._queues(asked.topic)
        if asked.message_model == BROADCASTING:
            own: Sequence[MessageQueue] | None = queues
        elif found is None:
            own = None
        else:
            own = allocate(asked.strategy_name, asked.client_id, queues, ids=found.client_ids())
        if own is not None:
            body.message_queue_assignments = [
                MessageQueueAssignment(message_queue=queue, mode=PULL) for queue in own
            ]
        return request.reply(body=body.encode())

    def set_mode(self, request: Command, connection: Connection) -> Command:
        """Code 401."""
        asked = SetMessageRequestModeRequest.decode(bytes(request.body))
        if is_retry_topic(asked.topic):
            raise NoPermission("retry topic is not allowed to set mode")
        if asked.mode != PULL:
            raise SystemFailure(f"mode {asked.mode!r}: this broker serves {PULL} only")
        groups = self._modes.setdefault(asked.topic, {})
        if asked.consumer_group not in groups and self._count() >= MODES_MAX:
            raise SystemBusy(f"{MODES_MAX} modes are set, at most {MODES_MAX}")
        groups[asked.consumer_group] = asked
        return request.reply()

    def modes(self, request: Command, connection: Connection) -> Command:
        """Code 402: what was set."""
        return request.reply(
            body=MessageRequestModes(message_request_mode_map=self._modes).encode()
        )

    def _count(self) -> int:
        return sum(len(groups) for groups in self._modes.values())

    async def _queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic on all brokers, sorted, as a name server knows them."""
        for address in self._registration.addresses:
            header = GetRouteInfoRequest(topic=topic, accept_standard_json_only=True)
            command = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
            try:
                answer = await self._client.call(address, command, timeout_s=ROUTE_TIMEOUT_S)
                if answer.code != 0:
                    return []
                route = TopicRouteData.decode(answer.body)
            except (NetworkError, RemoteProtocolError):
                continue
            return sorted(
                MessageQueue(topic, data.broker_name, queue_id)
                for data in route.queue_datas
                if data.perm & READ
                for queue_id in range(data.read_queue_nums)
            )
        return []


def allocate(
    strategy: str, client_id: str, queues: Sequence[MessageQueue], *, ids: Sequence[str]
) -> list[MessageQueue]:
    """The share of one client, by the rule all members of its group use."""
    members = sorted(ids, key=lambda text: text.encode("utf-16-be"))
    if client_id not in members:
        return []
    index, count = members.index(client_id), len(members)
    if strategy == "AVG_BY_CIRCLE":
        return list(queues[index::count])
    if strategy not in ("", "AVG"):
        raise InvalidParameter(f"strategy {strategy!r}: expected AVG or AVG_BY_CIRCLE")
    size, rest = divmod(len(queues), count)
    start = index * size + min(index, rest)
    return list(queues[start : start + size + (1 if index < rest else 0)])
