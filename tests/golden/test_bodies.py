"""Every captured body, every vector of Java's classes and every config file, there and back."""

from __future__ import annotations

import base64
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from contrailmq.protocol.bodies import (
    clients,
    group,
    heartbeat,
    queues,
    route,
    stats,
    topic,
    version,
)
from contrailmq.protocol.bodies.body import Body
from contrailmq.protocol.command import decode
from contrailmq.protocol.fastjson import dumps, loads
from contrailmq.protocol.frame import LENGTH_SIZE
from testkit.golden import VERSIONS, exchanges, store_directories, vectors, wire_files

REQUESTS: dict[int, type[Body]] = {
    34: heartbeat.HeartbeatData,
    41: queues.LockBatchRequest,
    42: queues.UnlockBatchRequest,
    46: heartbeat.CheckClientRequest,
    103: topic.RegisterBrokerBody,
    200: group.SubscriptionGroupConfig,
    220: queues.ResetOffsetBody,
    322: version.DataVersion,
    400: queues.QueryAssignmentRequest,
    401: queues.SetMessageRequestModeRequest,
}

RESPONSES: dict[int, type[Body]] = {
    21: topic.TopicConfigAndMappingWrapper,
    28: route.KVTable,
    38: group.ConsumerListBody,
    41: queues.LockBatchResponse,
    43: queues.ConsumerOffsets,
    45: queues.DelayOffsets,
    61: queues.TimerMetrics,
    103: route.KVTable,
    105: route.TopicRouteData,
    106: route.ClusterInfo,
    201: group.SubscriptionGroupWrapper,
    202: stats.TopicStatsTable,
    203: clients.ConsumerConnection,
    204: clients.ProducerConnection,
    206: topic.TopicList,
    208: stats.ConsumeStats,
    219: route.KVTable,
    221: queues.GetConsumerStatusBody,
    222: queues.ResetOffsetBody,
    223: queues.GetConsumerStatusBody,
    224: topic.TopicList,
    300: group.GroupList,
    303: stats.QueryConsumeTimeSpanBody,
    304: topic.TopicList,
    305: topic.TopicList,
    307: clients.ConsumerRunningInfo,
    308: queues.QueryCorrectionOffsetBody,
    309: clients.ConsumeMessageDirectlyResult,
    311: topic.TopicList,
    312: topic.TopicList,
    313: topic.TopicList,
    315: stats.BrokerStatsData,
    317: stats.ConsumeStatsList,
    321: queues.QueryConsumeQueueResponse,
    322: version.DataVersion,
    328: clients.ProducerTableInfo,
    343: topic.TopicList,
    345: group.QuerySubscriptionResponse,
    351: topic.TopicConfig,
    352: group.SubscriptionGroupConfig,
    353: group.GroupForbidden,
    400: queues.QueryAssignmentResponse,
    402: queues.MessageRequestModes,
    901: route.GetBrokerMemberGroupResponse,
    907: stats.HARuntimeInfo,
    2003: queues.ColdDataFlow,
}

VECTORS: dict[str, type[Body]] = {
    "TopicRouteData": route.TopicRouteData,
    "ClusterInfo": route.ClusterInfo,
    "KVTable": route.KVTable,
    "TopicList": topic.TopicList,
    "ConsumeStats": stats.ConsumeStats,
    "TopicStatsTable": stats.TopicStatsTable,
    "ConsumerConnection": clients.ConsumerConnection,
    "ProducerConnection": clients.ProducerConnection,
    "ProducerTableInfo": clients.ProducerTableInfo,
    "LockBatchRequestBody": queues.LockBatchRequest,
    "UnlockBatchRequestBody": queues.UnlockBatchRequest,
    "LockBatchResponseBody": queues.LockBatchResponse,
    "GetConsumerListByGroupResponseBody": group.ConsumerListBody,
    "HeartbeatData": heartbeat.HeartbeatData,
    "ConsumerRunningInfo": clients.ConsumerRunningInfo,
    "TopicConfigSerializeWrapper": topic.TopicConfigWrapper,
    "SubscriptionGroupWrapper": group.SubscriptionGroupWrapper,
    "SubscriptionGroupConfig": group.SubscriptionGroupConfig,
    "TopicConfig": topic.TopicConfig,
    "ResetOffsetBody": queues.ResetOffsetBody,
    "GetConsumerStatusBody": queues.GetConsumerStatusBody,
    "GroupList": group.GroupList,
    "QueryConsumeTimeSpanBody": stats.QueryConsumeTimeSpanBody,
    "QueryCorrectionOffsetBody": queues.QueryCorrectionOffsetBody,
    "BrokerStatsData": stats.BrokerStatsData,
    "ConsumeStatsList": stats.ConsumeStatsList,
    "CheckClientRequestBody": heartbeat.CheckClientRequest,
    "ConsumeMessageDirectlyResult": clients.ConsumeMessageDirectlyResult,
    "QueryConsumeQueueResponseBody": queues.QueryConsumeQueueResponse,
    "DataVersion": version.DataVersion,
}

# What the drivers wrote by hand, or Java orders by chance: equal by value only.
BY_VALUE = {200, 2003}


@pytest.mark.parametrize("line", VERSIONS)
def test_captured_bodies_come_back_byte_for_byte(line: str) -> None:
    seen: Counter[str] = Counter()
    for path in wire_files(line):
        for request, response in exchanges(path):
            pairs = [(request, REQUESTS)] + ([(response, RESPONSES)] if response else [])
            for frame, kinds in pairs:
                body = bytes(decode(frame.frame[LENGTH_SIZE:]).body)
                if not body:
                    continue
                kind = kinds.get(request.code)
                if kind is None:
                    assert not body.startswith((b"{", b"[")), (path.stem, request.code, body[:80])
                    continue
                check_body(kind, body, is_exact=request.code not in BY_VALUE)
                seen[kind.__name__] += 1
    assert sum(seen.values()) > 400
    assert len(seen) >= 30


def check_body(kind: type[Body], body: bytes, *, is_exact: bool) -> None:
    """Decoded and encoded again, it is what it was, in the form of the line it came from."""
    found = kind.decode(body)
    ours = {
        found.encode(legacy=legacy, standard=standard)
        for legacy in (False, True)
        for standard in (False, True)
    }
    if is_exact:
        assert body in ours
    else:
        assert loads(body) in [loads(text) for text in ours]
    # Strict and tolerant reading agree.
    assert kind.of(loads(body)) == found
    for standard in (False, True):
        assert kind.decode(found.encode(standard=standard)) == found


@pytest.mark.parametrize("line", VERSIONS)
def test_vectors_of_javas_body_classes(line: str) -> None:
    seen: set[str] = set()
    for row in vectors(line, "fastjson-bodies"):
        name, is_pretty = row["class"].removesuffix("(pretty)"), row["class"].endswith("(pretty)")
        kind = VECTORS.get(name)
        if kind is None:
            assert " " in name, f"no class for {name}"
            continue
        seen.add(name)
        text = row["json"]
        found = kind.decode(text)
        encoded = found.encode(legacy=line == "4.9.7", standard=False, pretty=is_pretty).decode()
        if "$ref" in text:
            assert loads(encoded) == loads(text)
        else:
            assert encoded == text
    assert seen == set(VECTORS)


@pytest.mark.parametrize("line", VERSIONS)
def test_vectors_of_the_dialect_itself(line: str) -> None:
    rows = {row["class"]: row["json"] for row in vectors(line, "fastjson-bodies")}
    first, second = loads(rows["same object twice"])
    assert first is second and first == {"x": 1}
    for name, is_pretty in (("map with mixed keys", False), ("map with mixed keys (pretty)", True)):
        text = rows[name]
        found = loads(text)
        assert found[1] == "int" and found[2] == "long" and found["true"] == 1.0
        assert found["nan"] is None and found["dbl"] == 1.0e10
        assert "\u2028\x01\x7f" in found["uni"]
        # Python takes True and 1 for one key: write it in two parts.
        found["nan"] = float("nan")
        del found["true"]
        separator = ",true:1.0"
        assert dumps(found, pretty=is_pretty).decode() == text.replace(separator, "", 1)
        assert dumps({True: 1.0}).decode() == "{true:1.0}"


def config_files() -> list[Path]:
    """The JSON files of every golden store."""
    found = [
        path
        for store in store_directories()
        for path in sorted((store.path / "config").iterdir())
        if path.name != "timercheck"
    ]
    assert len(found) > 30
    return found


@pytest.mark.parametrize("path", config_files(), ids=lambda p: f"{p.parent.parent.name}-{p.name}")
def test_config_files_come_back_byte_for_byte(path: Path) -> None:
    text = path.read_bytes()
    is_pretty = text.startswith(b"{\n")
    assert dumps(loads(text), pretty=is_pretty) == text
    kind = {
        "topics.json": topic.TopicConfigWrapper,
        "subscriptionGroup.json": group.SubscriptionGroupWrapper,
        "consumerOffset.json": queues.ConsumerOffsets,
        "delayOffset.json": queues.DelayOffsets,
        "messageRequestMode.json": queues.MessageRequestModes,
        "timermetrics": queues.TimerMetrics,
    }.get(path.name.removesuffix(".bak"))
    if kind is not None:
        found = kind.decode(text)
        legacy = path.parent.parent.name.startswith("v49")
        assert found.encode(pretty=is_pretty, legacy=legacy) == text


@pytest.mark.parametrize("line", VERSIONS)
def test_registrations_plain_and_compressed(line: str) -> None:
    legacy = line == "4.9.7"
    plain: dict[int, Any] = {}
    rows = vectors(line, "register-body")
    assert {row["compressed"] for row in rows} == {True, False}
    for row in sorted(rows, key=lambda row: row["compressed"]):
        encoded = base64.b64decode(row["encoded"])
        assert topic.body_crc32(encoded) == row["crc32"]
        if not row["compressed"]:
            found = topic.RegisterBrokerBody.decode(encoded)
            assert found.encode(legacy=legacy) == encoded
            assert len(found.topics) == row["topics"]
            plain[row["topics"]] = found
            continue
        found = topic.RegisterBrokerBody.decode_compressed(encoded)
        expected = plain[row["topics"]]
        assert found.filter_server_list == expected.filter_server_list
        assert found.data_version == expected.data_version
        for name, config in expected.topics.items():
            # The line of text has no room for the order flag.
            assert found.topics[name].encode_line() == config.encode_line()
        again = zlib.decompress(found.encode_compressed(legacy=legacy))
        assert again == base64.b64decode(row["inflated"])
        assert zlib.decompress(encoded) == again
