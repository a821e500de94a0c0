"""The client's pure rules against tables printed by the Java client's own classes."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from contrailmq.client import names
from contrailmq.client.allocate import (
    Average,
    Circle,
    Config,
    ConsistentHash,
    MachineRoom,
    Strategy,
    ring_hash,
)
from contrailmq.client.producer.faults import TABLE_4_9, TABLE_5
from contrailmq.errors import ClientError
from contrailmq.protocol.queue import MessageQueue

VECTORS = pathlib.Path(__file__).parent / "data" / "vectors"
VERSIONS = ("4.9.7", "5.2.0")


def rows(version: str, name: str) -> Iterator[dict[str, Any]]:
    """The lines of one vector file."""
    for line in (VECTORS / version / f"{name}.jsonl").read_text().splitlines():
        yield json.loads(line)


def strategy(row: dict[str, Any], queues: list[MessageQueue]) -> Strategy:
    """The strategy object a line was made with."""
    name = row["strategy"]
    if name == "CONSISTENT_HASH":
        return ConsistentHash(row["virtualNodes"])
    if name == "MACHINE_ROOM":
        return MachineRoom({queue.broker_name.split("@")[0] for queue in queues})
    if name == "CONFIG":
        return Config(queues[:2])
    return {"AVG": Average, "AVG_BY_CIRCLE": Circle}[name]()


@pytest.mark.parametrize("version", VERSIONS)
def test_allocation_equals_java(version: str) -> None:
    seen = 0
    for row in rows(version, "allocate"):
        if "queues" not in row:
            continue
        # The lines leave out the topic, which the ring hashes: all of them were made with "T".
        queues = [MessageQueue("T", broker, number) for broker, number in row["queues"]]
        rule = strategy(row, queues)
        for member, indexes in row["allocation"].items():
            mine = rule.allocate(member, queues, row["consumers"])
            assert [queues.index(queue) for queue in mine] == indexes, row
        assert rule.name == row["strategy"]
        seen += 1
    assert seen > 200


@pytest.mark.parametrize("rule", [Average(), Circle(), ConsistentHash(), MachineRoom(["r"])])
def test_a_member_not_in_the_list_gets_nothing(rule: Strategy) -> None:
    queues = [MessageQueue("T", "r@b", number) for number in range(4)]
    assert rule.allocate("stranger", queues, ["a", "b"]) == []
    assert rule.allocate("a", [], ["a", "b"]) == []


def test_ring_hash_is_the_first_word_of_the_md5() -> None:
    assert ring_hash("c1-0") == 3886541579
    assert ring_hash("MessageQueue [topic=T, brokerName=b, queueId=0]") == 562732085


@pytest.mark.parametrize(("version", "table"), [("4.9.7", TABLE_4_9), ("5.2.0", TABLE_5)])
def test_latency_tables_equal_java(version: str, table: Any) -> None:
    for row in rows(version, "fault-latency"):
        if row["kind"] == "table":
            assert list(table.latency_ms) == row["latencyMax"]
            assert list(table.avoid_ms) == row["notAvailableDuration"]
        elif row["kind"] == "duration":
            assert table.avoid_for(row["latency"]) == row["notAvailable"], row


@pytest.mark.parametrize("version", VERSIONS)
def test_names_are_judged_as_java_judges_them(version: str) -> None:
    for row in rows(version, "topic-validator"):
        name = row["topic"]
        assert _accepts(names.check_topic, name) == (row["checkTopic"] == "ok"), row
        assert _accepts(names.check_group, name) == (row["checkGroup"] == "ok"), row
        if row["sendForbidden"]:
            with pytest.raises(ClientError, match="belongs to the broker"):
                names.check_topic(name, for_sending=True)
        if row["system"]:
            assert names.wrap("ns", name) == name


def _accepts(check: Any, name: str) -> bool:
    try:
        check(name)
    except ClientError:
        return False
    return True
