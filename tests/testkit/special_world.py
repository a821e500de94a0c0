"""Delays, retries and transactions in virtual time: what tests of them have in common."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator

from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.send import ConsumerSendMsgBackRequest
from contrailmq.protocol.headers.transaction import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from contrailmq.protocol.message import Record, decode_record, decode_records
from contrailmq.testing.sim import SimClock
from testkit.broker_world import ADDRESS, World, pull, send

LEVELS_S = {1: 1, 2: 5, 3: 10, 4: 30, 5: 60, 14: 600, 16: 1800, 18: 7200}
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


async def everything(client: RemotingClient, topic: str, group: str = "g") -> list[Record]:
    """All messages of queue 0 of a topic."""
    found: list[Record] = []
    offset = 0
    while True:
        answer = await pull(client, topic, offset, consumer_group=group)
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY):
            return found
        found += decode_records(answer.body)
        offset = int(answer.fields["nextBeginOffset"])


async def delayed_send(client: RemotingClient, body: bytes, level: int) -> None:
    answer = await send(client, "T", body, properties=f"DELAY\x01{level}\x02")
    assert answer.code == 0, answer


async def give_back(client: RemotingClient, record: Record, *, limit: int, level: int = 0) -> None:
    header = ConsumerSendMsgBackRequest(
        offset=record.commit_log_offset,
        group="g",
        delay_level=level,
        origin_msg_id=record.unique_key,
        origin_topic=record.topic,
        max_reconsume_times=limit,
    )
    request = Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
    answer = await client.call(ADDRESS, request, timeout_s=5)
    assert answer.code == 0, answer


async def next_of(client: RemotingClient, topic: str, offset: int) -> Record:
    while True:
        answer = await pull(client, topic, offset, suspend_ms=15_000)
        if answer.code == 0:
            return decode_records(answer.body)[0]


class Producers:
    """A producer's process: it knows how its transactions ended, if it does."""

    def __init__(self, client: RemotingClient) -> None:
        self.client = client
        self.verdicts: dict[bytes, int] = {}
        self.asked: Counter[bytes] = Counter()

    async def beat(self) -> None:
        body = HeartbeatData(client_id="p1", producer_data_set=[ProducerData(group_name="p")])
        request = Command.request(RequestCode.HEART_BEAT, body=body.encode())
        await self.client.call(ADDRESS, request, timeout_s=3)

    async def send_half(self, body: bytes, *, more: str = "") -> dict[str, str]:
        properties = f"TRAN_MSG\x01true\x02PGROUP\x01p\x02{more}"
        born_ms = SimClock().now_ms()
        answer = await send(self.client, "T", body, properties=properties, born_timestamp=born_ms)
        assert answer.code == 0, answer
        return answer.fields

    async def end(self, fields: dict[str, str], verdict: int) -> Command:
        header = EndTransactionRequest(
            producer_group="p",
            tran_state_table_offset=int(fields["queueOffset"]),
            commit_log_offset=int(fields["msgId"][16:], 16),
            commit_or_rollback=verdict,
            msg_id=fields["transactionId"],
            transaction_id=fields["transactionId"],
        )
        request = Command.request(RequestCode.END_TRANSACTION, header)
        return await self.client.call(ADDRESS, request, timeout_s=3)

    def check(self, request: Command, connection: Connection) -> None:
        header = CheckTransactionStateRequest.from_fields(request.fields)
        record = decode_record(request.body)
        assert (record.topic, record.queue_id) == ("T", 0)
        body = bytes(record.body)
        self.asked[body] += 1
        verdict = self.verdicts.get(body, UNKNOWN)
        if verdict != UNKNOWN:
            answer = EndTransactionRequest(
                producer_group="p",
                tran_state_table_offset=header.tran_state_table_offset,
                commit_log_offset=header.commit_log_offset,
                commit_or_rollback=verdict,
                from_transaction_check=True,
                msg_id=header.msg_id,
                transaction_id=header.transaction_id,
            )
            connection.oneway(Command.request(RequestCode.END_TRANSACTION, answer, oneway=True))


@contextlib.asynccontextmanager
async def producers(world: World) -> AsyncIterator[Producers]:
    holder: list[Producers] = []

    def check(request: Command, connection: Connection) -> None:
        holder[0].check(request, connection)

    client = RemotingClient(
        clock=SimClock(),
        network=world.network.host("10.0.3.1"),
        rng=random.Random(7),
        handlers={int(RequestCode.CHECK_TRANSACTION_STATE): check},
    )
    holder.append(Producers(client))
    try:
        yield holder[0]
    finally:
        await client.aclose()
