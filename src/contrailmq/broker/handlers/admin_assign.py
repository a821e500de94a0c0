"""Queues assigned by the broker: request codes 400, 401 and 402.

A client that leaves the choice to the broker asks which queues are its own, and whether it pulls
or pops them.  The mode of a group in a topic is an operator's (code 401), kept in
``messageRequestMode.json``; where none is set it is ``defaultMessageRequestMode``.  Under POP all
members share all queues, one entry with queue -1 for each broker, or a window of queues
(``popShareQueueNum``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.config.saving import Saving
from contrailmq.broker.services.registration import Registration
from contrailmq.broker.tables.consumers import ConsumerTable
from contrailmq.broker.tables.modes import RequestModes
from contrailmq.errors import (
    InvalidParameter,
    NetworkError,
    NoPermission,
    RemoteProtocolError,
)
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.queues import (
    MessageQueueAssignment,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    SetMessageRequestModeRequest,
)
from contrailmq.protocol.bodies.route import TopicRouteData
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.route import GetRouteInfoRequest
from contrailmq.protocol.names import group_fault, is_retry_topic, stored_topic_fault
from contrailmq.protocol.queue import MessageQueue

ROUTE_TIMEOUT_S: Final = 3.0
READ: Final = 4
PULL: Final = "PULL"
POP: Final = "POP"
ALL_QUEUES: Final = -1
BROADCASTING: Final = "BROADCASTING"


class Assignments:
    """Request codes 400, 401 and 402."""

    def __init__(
        self,
        consumers: ConsumerTable,
        registration: Registration,
        client: RemotingClient,
        *,
        modes: RequestModes,
        live: LiveSettings,
        saving: Saving,
    ) -> None:
        self._consumers = consumers
        self._registration = registration
        self._client = client
        self._modes = modes
        self._live = live
        self._saving = saving

    async def query(self, request: Command, connection: Connection) -> Command:
        """Code 400: the queues of one client; no list where nothing can be said."""
        asked = QueryAssignmentRequest.decode_request(request.body)
        body = QueryAssignmentResponse()
        mode = self._mode(asked.topic, asked.consumer_group)
        queues = await self._queues(asked.topic)
        own = self._own(asked, mode, queues) if queues else None
        if own is not None:
            body.message_queue_assignments = [
                MessageQueueAssignment(message_queue=queue, mode=mode.mode) for queue in own
            ]
        return request.reply(body=body.encode())

    async def set_mode(self, request: Command, connection: Connection) -> Command:
        """Code 401; answered when it is on disk."""
        asked = SetMessageRequestModeRequest.decode_request(request.body)
        if is_retry_topic(asked.topic):
            raise NoPermission("retry topic is not allowed to set mode")
        if asked.mode not in (PULL, POP):
            raise InvalidParameter(f"mode {asked.mode!r}: expected {PULL} or {POP}")
        fault = stored_topic_fault(asked.topic) or group_fault(asked.consumer_group)
        if fault:
            raise InvalidParameter(fault)
        self._modes.put(asked)
        self._saving.changed()
        await self._saving.saved()
        return request.reply()

    def modes(self, request: Command, connection: Connection) -> Command:
        """Code 402: what was set."""
        return request.reply(body=self._modes.saved().encode())

    def _mode(self, topic: str, group: str) -> SetMessageRequestModeRequest:
        found = self._modes.find(topic, group)
        if found is not None:
            return found
        settings = self._live.now
        return SetMessageRequestModeRequest(
            topic=topic,
            consumer_group=group,
            mode=PULL if is_retry_topic(topic) else settings.request_mode,
            pop_share_queue_num=settings.pop_share_queue_nums,
        )

    def _own(
        self,
        asked: QueryAssignmentRequest,
        mode: SetMessageRequestModeRequest,
        queues: Sequence[MessageQueue],
    ) -> Sequence[MessageQueue] | None:
        if asked.message_model == BROADCASTING or not self._live.now.balances_load:
            return queues
        found = self._consumers.find(asked.consumer_group)
        if found is None:
            return None
        ids = found.client_ids()
        if mode.mode == POP:
            return allocate_pop(asked, queues, ids=ids, share=mode.pop_share_queue_num)
        return allocate(asked.strategy_name, asked.client_id, queues, ids=ids)

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


def allocate_pop(
    asked: QueryAssignmentRequest, queues: Sequence[MessageQueue], *, ids: Sequence[str], share: int
) -> list[MessageQueue]:
    """What a client pops: every broker's queues, or those of itself and the next ``share`` ones."""
    if share <= 0 or share >= len(ids) - 1:
        brokers = dict.fromkeys(queue.broker_name for queue in queues)
        return [MessageQueue(asked.topic, name, ALL_QUEUES) for name in brokers]
    members = sorted(ids, key=lambda text: text.encode("utf-16-be"))
    if asked.client_id not in members:
        return []
    index = members.index(asked.client_id)
    if len(members) > len(queues):
        return [queues[index % len(queues)]]
    own: dict[MessageQueue, None] = {}
    for step in range(share + 1):
        member = members[(index + step) % len(members)]
        own.update(dict.fromkeys(allocate(asked.strategy_name, member, queues, ids=ids)))
    return list(own)


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
