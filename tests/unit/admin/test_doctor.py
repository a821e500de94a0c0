"""The doctor finds what is wrong with real clusters, and nothing where all is well."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from contrailmq import Message, Producer, PushConsumer
from contrailmq.admin.commands import doctor
from contrailmq.testing.cluster import ClusterThread


@pytest.fixture
def cluster() -> Iterator[ClusterThread]:
    running = ClusterThread(brokers=2, properties={"messageDelayLevel": " ".join(["1s"] * 18)})
    try:
        yield running
    finally:
        running.close()


def _examine(name_servers: str, *argv: str) -> tuple[int, list[dict[str, Any]]]:
    out = io.StringIO()
    code = doctor.main(["-n", name_servers, "--json", "--watch", "0.1", *argv], out=out)
    return code, [json.loads(line) for line in out.getvalue().splitlines()]


def _bad(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [finding for finding in findings if finding["severity"] != "ok"]


def test_a_healthy_cluster(cluster: ClusterThread) -> None:
    code, findings = _examine(cluster.name_servers)
    assert code == 0
    assert [f for f in _bad(findings) if f["check"] != "disk"] == []
    assert {"name server", "broker", "clock", "disk", "version", "route", "permission"} <= {
        finding["check"] for finding in findings
    }


def test_nobody_answers() -> None:
    code, findings = _examine("127.0.0.1:1")
    assert code == 1
    [finding] = _bad(findings)
    assert (finding["check"], finding["severity"]) == ("name server", "problem")
    assert "contrail up" in finding["fix"]


def test_a_broker_that_does_not_answer(cluster: ClusterThread) -> None:
    cluster.refuse()
    code, findings = _examine(cluster.name_servers, "--timeout", "1")
    cluster.heal()
    assert code == 1
    problems = [finding for finding in _bad(findings) if finding["severity"] == "problem"]
    assert {finding["check"] for finding in problems} == {"broker"}
    assert all(address in str(problems) for address in cluster.addresses)


def test_a_topic_nobody_made(cluster: ClusterThread) -> None:
    code, findings = _examine(cluster.name_servers, "--topic", "nowhere")
    assert code == 1
    [finding] = [f for f in _bad(findings) if f["check"] == "route"]
    assert finding["fix"] == "contrail topic create nowhere"


def test_members_that_disagree(cluster: ClusterThread) -> None:
    cluster.create_topic("orders", queues=2)

    async def scenario() -> tuple[int, list[dict[str, Any]]]:
        async with (
            PushConsumer("g", topics={"orders": "a"}, name_servers=cluster.name_servers),
            PushConsumer("g", topics={"orders": "b"}, name_servers=cluster.name_servers),
        ):
            return await asyncio.to_thread(_examine, cluster.name_servers)

    code, findings = asyncio.run(scenario())
    assert code == 1
    [finding] = [f for f in _bad(findings) if f["check"] == "subscription"]
    assert "orders" in finding["text"]
    assert "'TAG a'" in finding["text"]
    assert "'TAG b'" in finding["text"]


def test_a_group_left_alone_and_its_dead_letters(cluster: ClusterThread) -> None:
    cluster.create_topic("orders", queues=1)

    async def scenario() -> None:
        async with PushConsumer(
            "lonely", topics="orders", name_servers=cluster.name_servers, start_from="first"
        ):
            pass
        async with Producer("p", name_servers=cluster.name_servers) as producer:
            await producer.send(Message("orders", b"1"))
            await producer.send(Message("%DLQ%lonely", b"2"))

    asyncio.run(scenario())
    code, findings = _examine(cluster.name_servers)
    assert code == 0
    found = {finding["check"]: finding for finding in _bad(findings)}
    assert "without a member" in found["group"]["text"]
    assert found["group"]["fix"].endswith("contrail group reset lonely orders --to last")
    assert "has 1 dead letter" in found["dead letter"]["text"]
    assert "contrail pipeline redrive lonely" in found["dead letter"]["fix"]
