"""Producers behind a proxy: brokers know the proxy, and it passes their questions on.

A producer is registered at every primary under each of its topics as producer group, by heartbeats
of the proxy itself.  A broker's question about a transaction (code 39) goes to one producer of the
topic that is connected.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from typing import Final

from contrailmq.errors import NetworkError
from contrailmq.grpc.clients import Client
from contrailmq.grpc.converting import TransactionPlace, delivered
from contrailmq.grpc.messages_settings import OrphanedTransaction, TelemetryCommand
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.transaction import CheckTransactionStateRequest
from contrailmq.protocol.message import decode_record
from contrailmq.protocol.properties import PROPERTY_PRODUCER_GROUP

log = logging.getLogger(__name__)

BEAT_S: Final = 10.0
TIMEOUT_S: Final = 3.0


class Producers:
    """The connected producers of one proxy, by topic."""

    def __init__(self, client_id: str, rng: random.Random) -> None:
        self._client_id = client_id
        self._rng = rng
        self._by_topic: dict[str, dict[str, Client]] = {}
        self._fresh = asyncio.Event()
        self.name_of: Callable[[str], str] = lambda address: ""  # broker names by address

    def note(self, client: Client) -> None:
        """Take a client with its settings; a consumer is passed over."""
        for topic in client.topics():
            members = self._by_topic.setdefault(topic, {})
            if not members:
                self._fresh.set()
            members[client.client_id] = client

    def forget(self, client: Client) -> None:
        """A client is gone."""
        for topic in list(self._by_topic):
            members = self._by_topic[topic]
            members.pop(client.client_id, None)
            if not members:
                del self._by_topic[topic]

    async def run(self, client: RemotingClient, primaries: Callable[[], dict[str, str]]) -> None:
        """Tell all primaries of the groups, again and again, until cancelled."""
        while True:
            groups = list(self._by_topic)
            if groups:
                beat = HeartbeatData(
                    client_id=self._client_id,
                    producer_data_set=[ProducerData(group_name=group) for group in groups],
                )
                for address in primaries().values():
                    command = Command.request(RequestCode.HEART_BEAT, body=beat.encode())
                    with contextlib.suppress(NetworkError):
                        await client.call(address, command, timeout_s=TIMEOUT_S)
            self._fresh.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await self._fresh.wait()

    def check(self, request: Command, connection: Connection) -> None:
        """Code 39: pass a broker's question on to a producer of the topic."""
        header = CheckTransactionStateRequest.from_fields(request.fields)
        record = decode_record(request.body)
        topic = record.properties.get(PROPERTY_PRODUCER_GROUP, record.topic)
        alive = [c for c in self._by_topic.get(topic, {}).values() if c.stream is not None]
        if not alive:
            return
        message = delivered(record, record.topic, handle=None, attempt=1)
        assert message.system_properties is not None
        place = TransactionPlace(
            message.system_properties.message_id,
            header.tran_state_table_offset,
            header.commit_log_offset,
            header.broker_name or self.name_of(connection.peer),
        )
        orphan = OrphanedTransaction(message, place.text())
        with contextlib.suppress(NetworkError):
            self._rng.choice(alive).tell(
                TelemetryCommand(recover_orphaned_transaction_command=orphan)
            )
