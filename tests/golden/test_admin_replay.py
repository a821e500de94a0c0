"""Captured requests of Java's administrators, put to our broker: the answers are the Java broker's.

The state the captures were made over is made again from the captures themselves: topics, groups and
messages of their scenarios, then a consumer and a producer that are connected.  Response codes must
be equal, and so must be the shape of every body: the same keys on every level, with values of the
same kind.  Values that state facts (offsets, names, permissions) are compared in the tests of the
rules; here nobody knows the other broker's past to the last offset.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.bodies.heartbeat import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command, decode
from contrailmq.protocol.fastjson import loads
from contrailmq.protocol.properties import encode_properties
from contrailmq.protocol.queue import MessageQueue
from contrailmq.store.types import NewMessage
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import SimClock, simulate
from testkit.broker_world import BROKER_IP, captured_broker
from testkit.golden import GOLDEN, Exchange, exchanges

ADDRESS = f"{BROKER_IP}:41911"
SCENARIOS = (
    "topic-admin",
    "query",
    "admin-stats",
    "admin-client-calls",
    "v52-admin",
    "admin-config",
    "admin-replication-codes",
    "mqadmin",
    "admin-delete",
)
CODES = frozenset(
    (
        *(17, 21, 25, 26, 28, 43, 45, 50, 51, 53, 200, 201, 202, 203, 204, 207, 208, 215, 222, 223),
        *(300, 303, 305, 306, 307, 308, 314, 315, 316, 317, 321, 328, 329, 343, 345, 351, 352, 353),
        *(402, 906, 907, 2003),
    )
)
CONSUMER, GROUP, TOPIC = "10.20.30.40@online", "WireOnline", "WireTopic"
# Tables with a row for every topic, group, queue, client or key: what rows there are is state.
ROWS = frozenset(
    (
        "topicConfigTable",
        "subscriptionGroupTable",
        "offsetTable",
        "forbiddenTable",
        "groupTopicMap",
        "data",
        "consumerTable",
        "correctionOffsets",
        "subscriptionTable",
        "statusTable",
        "properties",
        "consumeStatsList[]",
        "attributes",
        "configTable",
        "runtimeTable",
        "table",
        "messageRequestModeMap",
    )
)
NEWER = frozenset(("topicPutTps",))  # what releases after 5.2.0 say, and we too


class Replay:
    """A broker that is asked what the Java broker was asked, and what came out differently."""

    def __init__(self, rng: random.Random, directory: Path, version: str) -> None:
        self._version = version
        self._network = SimNetwork(random.Random(rng.getrandbits(64)))
        self.broker = captured_broker(self._network, rng, directory, traceTopicEnable="true")
        self.admin = RemotingClient(clock=SimClock(), network=self._network.host("10.0.1.1"))
        self.wrong: list[str] = []
        self.compared: Counter[int] = Counter()

    async def prepare(self) -> RemotingClient:
        """A topic with messages, groups with offsets, a client that answers as Java's does."""
        tables, store = self.broker.parts.tables, self.broker.parts.store
        tables.topics.put(
            TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=4, perm=6)
        )
        for group in (GROUP, "WirePush", "WireMadeGroup"):
            tables.groups.put(SubscriptionGroupConfig(group_name=group))
            for queue_id in range(4):
                tables.offsets.commit(group, TOPIC, queue_id, offset=1)
        properties = encode_properties({"KEYS": "key1", "TAGS": "TagA", "UNIQ_KEY": "U" * 32})
        for queue_id in (0, 1, 2, 3) * 2:
            store.put(NewMessage(TOPIC, queue_id, b"body", properties, born_ms=1))
        tables.counters.put(TOPIC, 0, count=8, size=8)
        tables.counters.got(GROUP, TOPIC, 0, count=1, size=1)
        client = RemotingClient(
            clock=SimClock(),
            network=self._network.host("10.0.2.1"),
            handlers={221: _status, 307: self._running},
        )
        subscription = SubscriptionData(topic=TOPIC, sub_string="*", sub_version=1)
        beat = HeartbeatData(
            client_id=CONSUMER,
            producer_data_set=[ProducerData(group_name="WireProducer")],
            consumer_data_set=[
                ConsumerData(
                    group_name=GROUP,
                    consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                    consume_type="CONSUME_PASSIVELY",
                    message_model="CLUSTERING",
                    subscription_data_set=[subscription],
                )
            ],
        )
        request = Command.request(RequestCode.HEART_BEAT, body=beat.encode())
        assert (await client.call(ADDRESS, request, timeout_s=3)).code == 0
        return client

    def _running(self, request: Command, connection: Connection) -> Command:
        for exchange in exchanges(GOLDEN / "wire" / self._version / "admin-client-calls.jsonl"):
            if exchange.request.code == 307 and exchange.request.source == "broker":
                assert exchange.response is not None
                return request.reply(body=decode(exchange.response.frame[4:]).body)
        raise AssertionError("no client was ever asked for its running info")

    async def put(self, scenario: str, exchange: Exchange) -> None:
        assert exchange.response is not None
        request = decode(exchange.request.frame[4:])
        theirs = decode(exchange.response.frame[4:])
        ours = await self.admin.call(ADDRESS, request, timeout_s=20)
        told = f"{scenario} {request.code} {request.fields}"
        self.compared[request.code] += 1
        if ours.code != theirs.code:
            self.wrong.append(f"{told}: {ours.code} {ours.remark!r}, not {theirs.code}")
        elif set(theirs.fields) - set(ours.fields):
            self.wrong.append(f"{told}: {set(theirs.fields) - set(ours.fields)} missing")
        elif request.code == RequestCode.GET_BROKER_CONFIG:
            assert ours.body.count(b"\n") > 50
        elif bool(ours.body) != bool(theirs.body):
            self.wrong.append(f"{told}: body of {len(ours.body)}, not {len(theirs.body)} bytes")
        elif theirs.body:
            fault = _difference(loads(theirs.body), loads(ours.body))
            if fault:
                self.wrong.append(f"{told}: {fault}")


def _status(request: Command, connection: Connection) -> Command:
    queue = b'{"brokerName":"broker-a","queueId":0,"topic":"WireTopic"}'
    return request.reply(body=b'{"consumerTable":{},"messageQueueTable":{%b:1}}' % queue)


def _difference(theirs: Any, ours: Any, at: str = "") -> str:
    """Where two bodies have another shape; empty when they have not."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        name = at.rpartition(".")[2]
        if name in ROWS or any(isinstance(key, MessageQueue) for key in theirs):
            if not theirs or not ours:
                return ""
            same = next((key for key in theirs if key in ours), None)
            key, own = (same, same) if same is not None else (next(iter(theirs)), next(iter(ours)))
            if isinstance(key, MessageQueue) != isinstance(own, MessageQueue):
                return f"{at}: keys {own!r}, not {key!r}"
            return _difference(theirs[key], ours[own], f"{at}[]")
        if set(theirs) != set(ours) - NEWER:
            return f"{at}: {sorted(set(theirs) ^ set(ours), key=str)} on one side only"
        return next(
            (
                fault
                for key in theirs
                if (fault := _difference(theirs[key], ours[key], f"{at}.{key}"))
            ),
            "",
        )
    if isinstance(theirs, list) and isinstance(ours, list):
        return _difference(theirs[0], ours[0], f"{at}[]") if theirs and ours else ""
    if isinstance(theirs, str) and isinstance(ours, str):
        return ""
    is_number = isinstance(theirs, int | float) and isinstance(ours, int | float)
    if is_number and isinstance(theirs, bool) == isinstance(ours, bool):
        return ""
    return f"{at}: {ours!r}, not {theirs!r}"


def _is_comparable(exchange: Exchange, scenario: str) -> bool:
    request = decode(exchange.request.frame[4:])
    if exchange.response is None or exchange.request.target != "broker":
        return False
    if request.code not in CODES or exchange.request.source == "broker":
        return False
    fields = request.fields
    group = fields.get("group", fields.get("consumerGroup", ""))
    if request.code in (203, 204, 222, 223, 307, 352, 345) and group not in (GROUP, "NoSuchGroup"):
        return False  # who was connected, and had offsets, is the other broker's past
    if request.code == 203 and scenario == "mqadmin":
        return False  # the consumer had gone
    if request.code == 315 and fields["statsName"] != "NOPE":
        return fields["statsKey"] == TOPIC
    topic = fields.get("topic", "")
    return request.code not in (202, 303, 321, 351) or topic in (TOPIC, "NoSuchTopic")


@pytest.mark.parametrize("prefix", ["", "binary-"])
@pytest.mark.parametrize("version", ["4.9.7", "5.2.0"])
def test_administrators_get_the_answers_of_the_original(
    version: str, prefix: str, tmp_path: Path
) -> None:
    async def scenario(rng: random.Random) -> Replay:
        replay = Replay(rng, tmp_path, version)
        async with replay.broker:
            client = await replay.prepare()
            await asyncio.sleep(11)  # the first sample of the statistics
            try:
                for name in SCENARIOS:
                    path = GOLDEN / "wire" / version / f"{prefix}{name}.jsonl"
                    for exchange in exchanges(path) if path.exists() else ():
                        if _is_comparable(exchange, name):
                            await replay.put(name, exchange)
            finally:
                await client.aclose()
                await replay.admin.aclose()
        return replay

    replay = simulate(1, scenario)
    assert not replay.wrong, "\n".join(replay.wrong)
    assert len(replay.compared) > 30, replay.compared
