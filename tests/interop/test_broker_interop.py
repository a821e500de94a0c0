"""The unmodified Java clients against our broker and name server, in both header encodings."""

from __future__ import annotations

import base64
import contextlib
import os
import random
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.peer import SERIALIZATIONS, VERSIONS, JavaCall, Row

pytestmark = pytest.mark.timeout(240)

Run = Callable[..., list[Row]]
Start = Callable[..., JavaCall]
Where = dict[str, Any]
ROOT = Path(__file__).parents[2]
READY = re.compile(r"name server (\S+), broker (\S+), store")


class Up:
    """``contrail up`` as a process of its own."""

    def __init__(self, home: Path, **conf: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.conf = home / "broker.conf"
        self.conf.write_text("".join(f"{key}={value}\n" for key, value in conf.items()))
        self.home = home
        self.namesrv_port = self.port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "contrailmq.main", "up", "-c", str(self.conf)]
        command += ["--namesrv-port", str(self.namesrv_port), "--port", str(self.port)]
        command += ["--store", str(self.home / "store")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, env=environment, text=True, cwd=self.home
        )
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], 20)[0], "not ready in 20 s"
        line = self.process.stdout.readline()
        found = READY.search(line)
        assert found is not None, line
        self.namesrv, self.broker = found[1], found[2]
        self.namesrv_port = int(self.namesrv.rpartition(":")[2])
        self.port = int(self.broker.rpartition(":")[2])

    def stop(self, number: int = signal.SIGTERM) -> float:
        """Seconds it took to end."""
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return time.monotonic() - began


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    started = Up(tmp_path_factory.mktemp("up"), enablePropertyFilter="true")
    yield started
    started.stop()


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=SERIALIZATIONS)
def where(request: pytest.FixtureRequest, up: Up, topic: str) -> Where:
    return {"serialization": str(request.param), "namesrv": up.namesrv, "topic": topic}


def _of(rows: list[Row], event: str) -> list[Row]:
    assert not [row for row in rows if row["event"] in ("failed", "timeout")], rows
    return [row for row in rows if row["event"] == event]


def _bodies(rows: list[Row]) -> list[str]:
    return sorted(row["body"] for row in _of(rows, "message"))


@pytest.mark.parametrize("mode", ["sync", "async", "oneway", "batch", "ordered"])
def test_what_is_sent_is_pulled(java_run: Run, version: str, where: Where, mode: str) -> None:
    messages = [
        {"body": f"{mode} {n}", "tags": "A", "keys": f"k{n}", "properties": {"名": "值"}}
        for n in range(6)
    ]
    sent = _of(java_run(version, "produce", mode=mode, messages=messages, **where), "sent")
    assert len(sent) == (1 if mode == "batch" else 6)
    deadline = time.monotonic() + 60
    pulled = _of(java_run(version, "pull", **where), "message")
    while len(pulled) < 6 and time.monotonic() < deadline:  # oneways may still be on their way
        pulled = _of(java_run(version, "pull", **where), "message")
    assert sorted(row["body"] for row in pulled) == [message["body"] for message in messages]
    assert {row["tags"] for row in pulled} == {"A"}
    assert {row["properties"]["名"] for row in pulled} == {"值"}
    assert {row["properties"]["CLUSTER"] for row in pulled} == {"DefaultCluster"}
    if mode == "sync":
        assert {row["offsetMsgId"] for row in sent} == {row["offsetMsgId"] for row in pulled}
        assert {row["msgId"] for row in sent} == {row["msgId"] for row in pulled}
        assert {row["status"] for row in sent} == {"SEND_OK"}
    if mode == "batch":
        assert set(sent[0]["offsetMsgId"].split(",")) == {row["offsetMsgId"] for row in pulled}
    if mode == "ordered":
        assert {row["queueId"] for row in pulled} == {0}


def test_large_and_compressed_bodies(java_run: Run, version: str, where: Where) -> None:
    size = 4 * 1024 * 1024
    noise = random.Random(size).randbytes(size)
    text = "compress me " * 2000
    more = {**where, "timeoutMs": 20000}
    large = [{"base64": base64.b64encode(noise).decode()}]
    sent = java_run(version, "produce", messages=large, compressOver=2 * size, **more)
    sent += java_run(version, "produce", messages=[{"body": text}], **more)
    assert [row["status"] for row in _of(sent, "sent")] == ["SEND_OK"] * 2
    found = _of(java_run(version, "pull", max=1, **where), "message")
    assert {base64.b64decode(row["base64"]) for row in found} == {noise, text.encode()}


def _consume_and_commit(
    java_start: Start, java_run: Run, version: str, *, count: int, group: str, where: Where
) -> list[str]:
    """Consume until ``count`` messages have come and their offsets have reached the broker."""
    consumer = java_start(version, "consume", group=group, persistMs=500, **where)
    bodies = [row["body"] for row in consumer.expect("message", count=count)]
    committed, deadline = 0, time.monotonic() + 60
    while committed < count and time.monotonic() < deadline:
        rows = _of(java_run(version, "query", by="committed", group=group, **where), "offset")
        committed = sum(max(row["offset"], 0) for row in rows)
    consumer.stop()
    assert committed == count
    return sorted(bodies)


def test_push_consumers_resume_where_they_stopped(
    java_run: Run, java_start: Start, version: str, where: Where, group: str
) -> None:
    java_run(version, "produce", count=10, **where)
    first = _consume_and_commit(java_start, java_run, version, count=10, group=group, where=where)
    assert first == sorted(f"message {n}" for n in range(10))
    java_run(version, "produce", messages=[{"body": "later"}], **where)
    assert _bodies(java_run(version, "consume", group=group, count=1, **where)) == ["later"]


def test_orderly_broadcast_and_lite_pull(
    java_run: Run, version: str, where: Where, group: str
) -> None:
    java_run(version, "produce", count=8, **where)
    expected = sorted(f"message {n}" for n in range(8))
    orderly = java_run(version, "consume", mode="orderly", group=f"{group}_o", count=8, **where)
    assert _bodies(orderly) == expected
    broadcast = java_run(version, "consume", broadcast=True, group=f"{group}_b", count=8, **where)
    assert _bodies(broadcast) == expected
    lite = java_run(version, "litepull", group=f"{group}_l", count=8, **where)
    assert _bodies(lite) == expected
    assigned = java_run(
        version, "litepull", group=f"{group}_a", assign=True, seekToBegin=True, count=8, **where
    )
    assert _bodies(assigned) == expected


def test_tags_and_sql(java_run: Run, version: str, where: Where, group: str) -> None:
    messages = [{"body": f"m{n}", "tags": "AB"[n % 2], "properties": {"n": n}} for n in range(6)]
    java_run(version, "produce", messages=messages, **where)
    tagged = java_run(version, "consume", group=f"{group}_t", expression="A", count=3, **where)
    assert _bodies(tagged) == ["m0", "m2", "m4"]
    filtered = java_run(version, "consume", group=f"{group}_s", sql="n > 3", count=2, **where)
    assert _bodies(filtered) == ["m4", "m5"]


def test_a_bad_sql_expression_is_refused_by_name(
    java_run: Run, version: str, where: Where, group: str
) -> None:
    java_run(version, "produce", count=1, **where)
    rows = java_run(version, "consume", group=group, sql="n > ", timeoutMs=5000, **where)
    assert [row for row in rows if row["event"] == "failed"], rows


def test_a_held_pull_is_answered_when_a_message_comes(
    java_start: Start, java_run: Run, version: str, where: Where, group: str
) -> None:
    java_run(version, "produce", count=1, **where)
    consumer = java_start(version, "consume", group=group, count=4, **where)
    consumer.expect("message")
    for number in range(3):
        java_run(version, "produce", messages=[{"body": f"push {number}"}], **where)
        began = time.monotonic()
        rows = consumer.expect("message", count=number + 2)
        assert rows[-1]["body"] == f"push {number}"
        assert time.monotonic() - began < 10  # a pull that nobody wakes is held for 15
    consumer.finish()


def test_queries_by_key_id_and_time(java_run: Run, version: str, where: Where) -> None:
    before_ms = int(time.time() * 1000) - 1000
    messages = [{"body": f"q{n}", "keys": f"order-{n} all"} for n in range(4)]
    sent = _of(java_run(version, "produce", messages=messages, **where), "sent")
    assert _bodies(java_run(version, "query", by="key", key="order-2", **where)) == ["q2"]
    assert _bodies(java_run(version, "query", by="key", key="all", **where)) == [
        f"q{n}" for n in range(4)
    ]
    for message_id in (sent[1]["offsetMsgId"], sent[1]["msgId"]):
        (found,) = _of(
            java_run(version, "query", by="id", messageId=message_id, **where), "message"
        )
        assert found["body"] == "q1"
    rows = _of(java_run(version, "query", by="time", timeMs=before_ms, **where), "offset")
    assert [row["offset"] for row in rows] == [row["minOffset"] for row in rows]
    assert sum(row["maxOffset"] for row in rows) == 4


def test_three_consumers_share_and_hand_over(
    java_start: Start, java_run: Run, version: str, where: Where, group: str
) -> None:
    java_run(version, "produce", count=1, **where)
    more = {**where, "group": group, "timeoutMs": 120000, "persistMs": 500}
    consumers = [java_start(version, "consume", **more) for _ in range(3)]
    for consumer in consumers:
        consumer.expect("ready")
    producer = java_start(version, "produce", count=600, pauseMs=25, **where)
    for consumer in consumers:
        consumer.expect("message", count=5)
    consumers[0].stop()
    counts = [len(consumer.of("message")) for consumer in consumers[1:]]
    for consumer, count in zip(consumers[1:], counts, strict=True):
        consumer.expect("message", count=count + 20)
    sent = {row["msgId"] for row in _of(producer.finish(), "sent")}
    deadline = time.monotonic() + 90
    received: set[str] = set()
    while not sent <= received and time.monotonic() < deadline:
        for consumer in consumers[1:]:
            count = len(consumer.of("message"))
            with contextlib.suppress(AssertionError):
                consumer.expect("message", count=count + 1, timeout_s=0.2)
        received = {row["msgId"] for one in consumers for row in one.of("message")}
    assert sent <= received, f"{len(sent - received)} of {len(sent)} were missed"
    for consumer in consumers[1:]:
        consumer.stop()


def test_the_vip_port(java_run: Run, version: str, where: Where, group: str) -> None:
    java_run(version, "produce", count=3, vip=True, **where)
    rows = java_run(version, "consume", group=group, count=3, vip=True, **where)
    assert _bodies(rows) == [f"message {n}" for n in range(3)]


def test_offsets_and_messages_survive_a_restart(
    java_run: Run, java_start: Start, version: str, tmp_path: Path, topic: str, group: str
) -> None:
    up = Up(tmp_path)
    where: Where = {"namesrv": up.namesrv, "topic": topic}
    try:
        java_run(version, "produce", count=10, **where)
        _consume_and_commit(java_start, java_run, version, count=10, group=group, where=where)
        java_run(version, "produce", messages=[{"body": "kept"}], **where)
        assert up.stop() < 5
        up.start()
        assert _bodies(java_run(version, "consume", group=group, count=1, **where)) == ["kept"]
    finally:
        up.stop()
