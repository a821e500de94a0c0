"""The Java client against the Java system: what works here may be expected of us."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from typing import Any

import pytest

from testkit.peer import SERIALIZATIONS, VERSIONS, JavaCall, JavaCluster, Row

pytestmark = pytest.mark.timeout(180)

Cluster = Callable[..., JavaCluster]
Run = Callable[..., list[Row]]
Start = Callable[..., JavaCall]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _of(rows: list[Row], event: str) -> list[Row]:
    assert not [row for row in rows if row["event"] in ("failed", "timeout")], rows
    return [row for row in rows if row["event"] == event]


def _sent(java_run: Run, version: str, **parameters: Any) -> list[Row]:
    rows = _of(java_run(version, "produce", **parameters), "sent")
    assert rows
    assert {row["status"] for row in rows} == {"SEND_OK"}
    return rows


def _until(holds: Callable[[], bool], *, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _bodies(rows: list[Row]) -> list[str]:
    return sorted(row["body"] for row in _of(rows, "message"))


@pytest.mark.parametrize("serialization", SERIALIZATIONS)
def test_produce_and_pull_in_both_encodings(
    java_cluster: Cluster, java_run: Run, version: str, topic: str, serialization: str
) -> None:
    namesrv = java_cluster(version).namesrv
    more: dict[str, Any] = {"serialization": serialization, "namesrv": namesrv, "topic": topic}
    sent = _of(java_run(version, "produce", count=10, **more), "sent")
    assert [row["status"] for row in sent] == ["SEND_OK"] * 10
    pulled = java_run(version, "pull", **more)
    assert _bodies(pulled) == sorted(f"message {n}" for n in range(10))
    assert {row["offsetMsgId"] for row in sent} == {
        row["offsetMsgId"] for row in _of(pulled, "message")
    }


@pytest.mark.parametrize("mode", ["async", "oneway", "batch", "ordered"])
def test_the_ways_to_send(
    java_cluster: Cluster, java_start: Start, version: str, topic: str, group: str, mode: str
) -> None:
    cluster = java_cluster(version)
    where = {"namesrv": cluster.namesrv, "topic": topic, "broker": cluster.broker_address}
    _of(java_start(version, "admin", do="createTopic", **where).finish(), "result")
    consumer = java_start(version, "consume", group=group, count=6, **where)
    consumer.expect("ready")
    messages = [{"body": f"{mode} {n}", "tags": "A", "keys": f"k{n}"} for n in range(6)]
    produced = java_start(version, "produce", mode=mode, messages=messages, **where).finish()
    assert len(_of(produced, "sent")) == (1 if mode == "batch" else 6)
    rows = consumer.finish()
    assert _bodies(rows) == sorted(message["body"] for message in messages)
    if mode == "ordered":
        in_order = [row["body"] for row in _of(rows, "message")]
        assert {row["queueId"] for row in _of(rows, "message")} == {0}
        assert sorted(in_order) == sorted(f"ordered {n}" for n in range(6))


def test_a_refused_message_comes_again(
    java_cluster: Cluster, java_run: Run, version: str, topic: str, group: str
) -> None:
    namesrv = java_cluster(version).namesrv
    _sent(java_run, version, namesrv=namesrv, topic=topic, count=1)
    rows = java_run(
        version,
        "consume",
        namesrv=namesrv,
        topic=topic,
        group=group,
        count=1,
        fail=1,
        delayLevelWhenNext=1,
    )
    assert [row["reconsumeTimes"] for row in _of(rows, "message")] == [0, 1]


def test_orderly_broadcast_and_lite_pull_see_everything(
    java_cluster: Cluster, java_run: Run, version: str, topic: str, group: str
) -> None:
    where = {"namesrv": java_cluster(version).namesrv, "topic": topic, "count": 8}
    _sent(java_run, version, **where)
    expected = sorted(f"message {n}" for n in range(8))
    orderly = java_run(version, "consume", mode="orderly", group=f"{group}_o", **where)
    assert _bodies(orderly) == expected
    broadcast = java_run(version, "consume", broadcast=True, group=f"{group}_b", **where)
    assert _bodies(broadcast) == expected
    lite = java_run(version, "litepull", group=f"{group}_l", **where)
    assert _bodies(lite) == expected


def test_tags_and_sql(
    java_cluster: Cluster, java_run: Run, version: str, topic: str, group: str
) -> None:
    namesrv = java_cluster(version).namesrv
    messages = [
        {"body": f"m{n}", "tags": "AB"[n % 2], "properties": {"n": n}} for n in range(6)
    ]  # fmt: skip
    where = {"namesrv": namesrv, "topic": topic}
    _sent(java_run, version, messages=messages, **where)
    tagged = java_run(version, "consume", group=f"{group}_t", expression="A", count=3, **where)
    assert _bodies(tagged) == ["m0", "m2", "m4"]
    filtered = java_run(version, "consume", group=f"{group}_s", sql="n > 3", count=2, **where)
    assert _bodies(filtered) == ["m4", "m5"]


def test_delay(java_cluster: Cluster, java_run: Run, version: str, topic: str, group: str) -> None:
    where = {"namesrv": java_cluster(version).namesrv, "topic": topic}
    _sent(java_run, version, messages=[{"body": "late", "delayLevel": 1}], **where)
    (late,) = _of(java_run(version, "consume", group=group, count=1, **where), "message")
    assert late["storeTimestamp"] - late["bornTimestamp"] >= 900


def test_a_transaction_is_visible_only_when_committed(
    java_cluster: Cluster, java_run: Run, version: str, topic: str, group: str
) -> None:
    where = {"namesrv": java_cluster(version).namesrv, "topic": topic}
    sent = java_run(
        version,
        "produce",
        mode="transaction",
        group=f"{group}_p",
        messages=[{"body": "kept"}, {"body": "dropped"}],
        states=["COMMIT_MESSAGE", "ROLLBACK_MESSAGE"],
        **where,
    )
    states = [row["localState"] for row in _of(sent, "sent")]
    assert states == ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE"]
    assert _bodies(java_run(version, "consume", group=group, count=1, **where)) == ["kept"]


def test_query_by_key_and_by_id(
    java_cluster: Cluster, java_run: Run, version: str, topic: str
) -> None:
    where = {"namesrv": java_cluster(version).namesrv, "topic": topic}
    (sent,) = _sent(java_run, version, messages=[{"body": "x", "keys": "needle"}], **where)
    deadline = time.monotonic() + 60
    while (
        not (rows := java_run(version, "query", by="key", key="needle", **where))
        or rows[0]["event"] == "failed"
    ):
        assert time.monotonic() < deadline
    assert _bodies(rows) == ["x"]
    found = java_run(version, "query", by="id", messageId=sent["offsetMsgId"], **where)
    assert _bodies(found) == ["x"]


def test_request_and_reply(
    java_cluster: Cluster, java_run: Run, java_start: Start, version: str, topic: str, group: str
) -> None:
    cluster = java_cluster(version)
    where = {"namesrv": cluster.namesrv, "topic": topic, "broker": cluster.broker_address}
    java_run(version, "admin", do="createTopic", **where)
    replier = java_start(version, "reply", group=group, **where)
    replier.expect("ready")
    rows = java_run(version, "request", messages=[{"body": "ping"}], timeoutMs=20000, **where)
    assert [row["body"] for row in _of(rows, "answer")] == ["re: ping"]
    replier.stop()


def test_pop(java_cluster: Cluster, java_run: Run, topic: str, group: str) -> None:
    cluster = java_cluster("5.2.0")
    where = {"namesrv": cluster.namesrv, "topic": topic, "broker": cluster.broker_address}
    _sent(java_run, "5.2.0", count=5, **where)
    rows = java_run("5.2.0", "consume", pop=True, group=group, count=5, **where)
    assert _bodies(rows) == [f"message {n}" for n in range(5)]
    assert all("POP_CK" in row["properties"] for row in _of(rows, "message"))


def test_mqadmin(
    java_cluster: Cluster, java_run: Run, mqadmin: Callable[..., str], version: str, topic: str
) -> None:
    namesrv = java_cluster(version).namesrv
    _sent(java_run, version, namesrv=namesrv, topic=topic)
    assert topic in mqadmin(version, "topicList", "-n", namesrv).split()


@pytest.mark.parametrize("serialization", SERIALIZATIONS)
def test_remoting_alone(java_start: Start, java_run: Run, version: str, serialization: str) -> None:
    server = java_start(version, "remoting-serve")
    (ready,) = server.expect("ready")
    body = base64.b64encode(b"\x00\xff").decode()
    (answer,) = java_run(
        version,
        "remoting-call",
        serialization=serialization,
        address=f"127.0.0.1:{ready['port']}",
        requests=[{"code": 5, "fields": {"a": "1"}, "base64": body}],
    )
    assert (answer["code"], answer["fields"], answer["base64"]) == (0, {"a": "1"}, body)
    # A 4.9 server answers as it was asked, one of 5.2 in the encoding of its own settings.
    assert answer["serialization"] == (serialization if version == "4.9.7" else "JSON")
    server.stop()


def test_a_broker_comes_back_over_its_store(
    java_namesrv: Callable[..., Any],
    java_broker: Callable[..., Any],
    java_run: Run,
    version: str,
    topic: str,
) -> None:
    namesrv = java_namesrv(version).address
    broker = java_broker(version, namesrv=namesrv)
    where = {"namesrv": namesrv, "topic": topic}
    assert len(_of(java_run(version, "produce", count=3, **where), "sent")) == 3
    broker.kill()
    broker.start()
    assert len(_of(java_run(version, "pull", **where), "message")) == 3
