"""What brokers, clients and tools said to Java's name servers, said to ours.

Every captured request to a name server goes, frame by frame, to a name server of ours, and the
answer is compared with the captured one by the rules of its code.  Periodic registrations were
thinned out of the captures; where an answer rests on one that is missing, the state it shows is
put in place first (``_prepare``) and the answer must show it in the same bytes.
"""

from __future__ import annotations

import asyncio
import functools
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from contrailmq.namesrv.app import NameServer
from contrailmq.namesrv.settings import NameServerSettings
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.bodies.route import KVTable, TopicRouteData
from contrailmq.protocol.bodies.topic import TopicList
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command, decode
from contrailmq.settings import parse_properties
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import SimClock, simulate
from testkit.golden import exchanges, wire_files

ADDRESS = "10.0.0.1:9876"
UNKNOWN_CODE = 9999
BROKER_CONN, ADMIN_CONN = -1, -2
ORDER_ON = Command(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true")
VERSION_5 = 413
APART = ("acl", "startup", "binary-startup")  # these begin with an empty name server


@functools.cache
def _captured(path: Path) -> list[tuple[int, bytes, bytes | None]]:
    """Frames of requests to the name server with those of their answers, in order."""
    return [
        (
            exchange.request.connection,
            exchange.request.frame,
            exchange.response.frame if exchange.response else None,
        )
        for exchange in exchanges(path)
        if exchange.request.target == "namesrv"
    ]


FILES = [path for path in wire_files() if _captured(path)]


@functools.cache
def _base_registration(version: str, *, is_binary: bool) -> bytes:
    """The largest captured registration: what the broker had said before a capture began."""
    found = [
        frame
        for path in FILES
        if path.parent.name == version
        for _, frame, _ in _captured(path)
        if decode(frame[4:]).code == RequestCode.REGISTER_BROKER
        and decode(frame[4:]).fields["brokerId"] == "0"
        and (frame[4] == 1) == is_binary
    ]
    return max(found, key=len)


class _Replay:
    """A name server and one client per captured connection."""

    def __init__(self, rng: random.Random) -> None:
        self.network = SimNetwork(rng)
        self.server = NameServer(
            NameServerSettings(listen_port=9876),
            clock=SimClock(),
            network=self.network.host("10.0.0.1"),
            rng=rng,
        )
        self._rng = rng
        self._clients: dict[int, RemotingClient] = {}
        self.prepared: Counter[int] = Counter()
        self.compared: Counter[int] = Counter()

    async def say(self, conn: int, request: Command) -> Command:
        client = self._clients.get(conn)
        if client is None:
            host = self.network.host(f"10.0.1.{len(self._clients) + 1}")
            client = RemotingClient(clock=SimClock(), network=host, rng=self._rng)
            self._clients[conn] = client
        if request.is_oneway:  # a registration nobody waits for
            await client.oneway(ADDRESS, request)
            await asyncio.sleep(0.1)
            return request.reply()
        return await client.call(ADDRESS, request, timeout_s=5)

    async def replay(self, path: Path) -> None:
        await self.server.start()
        first = decode(_captured(path)[0][1][4:])
        if first.code != RequestCode.REGISTER_BROKER or not path.stem.startswith(APART):
            is_binary = first.serialization == 1 and "mixed" not in path.name
            frame = _base_registration(path.parent.name, is_binary=is_binary)
            assert (await self.say(BROKER_CONN, decode(frame[4:]))).code == 0
        for conn, frame, answer_frame in _captured(path):
            request = decode(frame[4:])
            where = f"{path.parent.name}/{path.name} code {request.code} {request.fields}"
            if answer_frame is None:
                # Cut off, or (an unknown code) never answered by 4.9.7; we always answer.
                answer = await self.say(conn, request)
                assert answer.code == (3 if request.code == UNKNOWN_CODE else 0), where
                continue
            expected = decode(answer_frame[4:])
            await self._prepare(request, expected)
            _compare(request, expected, await self.say(conn, request), where)
            self.compared[request.code] += 1
        for client in self._clients.values():
            await client.aclose()
        await self.server.aclose()

    async def _prepare(self, request: Command, expected: Command) -> None:
        routes, kv, fields = self.server.routes, self.server.kv, request.fields
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            topic = fields["topic"]
            if expected.code != 0:
                if topic in routes.topics:
                    routes.delete_topic(topic)
                    self.prepared[request.code] += 1
                return
            shown = TopicRouteData.decode(expected.body)
            known = routes.find_route(topic)
            if known is None or known.queue_datas != shown.queue_datas:
                routes.delete_topic(topic)
                assert routes.add_topic(topic, shown.queue_datas)
                self.prepared[request.code] += 1
            if shown.order_topic_conf is not None:
                kv.put("ORDER_TOPIC_CONFIG", topic, shown.order_topic_conf)
                await self.say(ADMIN_CONN, ORDER_ON)
        elif request.code == RequestCode.REGISTER_BROKER and expected.body:
            for key, value in KVTable.decode(expected.body).table.items():
                kv.put("ORDER_TOPIC_CONFIG", key, value)
        elif (
            request.code == RequestCode.GET_KV_CONFIG
            and expected.code == 0
            and kv.find(fields["namespace"], fields["key"]) is None
        ):
            kv.put(fields["namespace"], fields["key"], expected.fields["value"])
            self.prepared[request.code] += 1


def _compare(request: Command, expected: Command, answer: Command, where: str) -> None:
    code = request.code
    assert answer.code == expected.code, f"{where}: {answer.remark}"
    assert answer.serialization == request.serialization, where
    if expected.code != 0:
        # The second line of a remark is the address of a manual; it differs between versions.
        first = (expected.remark or "").splitlines()[:1]
        assert (answer.remark or "").splitlines()[:1] == first, where
        return
    if code in (RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER):
        assert answer.fields.keys() == expected.fields.keys(), where  # counts rest on the past
    else:
        assert answer.fields == expected.fields, where
    if code == RequestCode.GET_NAMESRV_CONFIG:
        ours, theirs = (parse_properties(bytes(c.body).decode()) for c in (answer, expected))
        assert theirs.keys() <= ours.keys(), where
        for name in ("orderMessageEnable", "serverChannelMaxIdleTimeSeconds", "clusterTest"):
            assert ours[name] == theirs[name], where
    elif code in (
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_TOPICS_BY_CLUSTER,
    ):
        names = TopicList.decode(answer.body).topic_list
        assert len(set(names)) == len(names), where
        common = {"TBW102", "SELF_TEST_TOPIC", "SCHEDULE_TOPIC_XXXX", "DefaultCluster", "broker-a"}
        assert common <= set(names) & set(TopicList.decode(expected.body).topic_list), where
    elif code == RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS:
        ours_body, theirs_body = (TopicList.decode(c.body) for c in (answer, expected))
        assert sorted(ours_body.topic_list) == sorted(theirs_body.topic_list), where
        assert ours_body.broker_addr == theirs_body.broker_addr, where
    elif code == RequestCode.GET_ROUTEINFO_BY_TOPIC and (request.version < VERSION_5) != (
        expected.version < VERSION_5
    ):
        # 5.2.0 names fields of 5.x to older clients too, which ignore them; we leave them out.
        assert TopicRouteData.decode(answer.body) == TopicRouteData.decode(expected.body), where
        assert (b'{"0":' in answer.body) == (b'{"0":' in expected.body), where
    elif code == RequestCode.QUERY_DATA_VERSION:
        assert json.loads(bytes(answer.body)).keys() == json.loads(bytes(expected.body)).keys()
    else:
        assert bytes(answer.body) == bytes(expected.body), where


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_captured_requests_get_the_captured_answers(path: Path) -> None:
    async def scenario(rng: random.Random) -> _Replay:
        replay = _Replay(rng)
        await replay.replay(path)
        return replay

    replay = simulate(1, scenario)
    assert sum(replay.compared.values()) > 0
    if path.stem.endswith("kv"):  # all it rests on is in the capture itself
        assert replay.compared[RequestCode.GET_KV_CONFIG] > 0
        assert replay.prepared[RequestCode.GET_KV_CONFIG] == 0


def test_the_captures_cover_the_codes_of_a_name_server() -> None:
    codes = {decode(frame[4:]).code for path in FILES for _, frame, _ in _captured(path)}
    assert len(codes & set(RequestCode)) >= 21
