"""Clients of other languages, none of them ours, against our broker: Go, C++ and Node.

What our own client reads of what they sent, what they receive of what we sent, and what they do
among themselves.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contrailmq import Message
from contrailmq.blocking import Producer
from contrailmq.testing.cluster import ClusterThread
from testkit.peer import Row
from testkit.wild import LANGUAGES, Lacking, WildCall, command_of

pytestmark = pytest.mark.timeout(300)

Begin = Callable[..., WildCall]

MODES = [
    *(("go", mode) for mode in ("sync", "async", "oneway", "batch", "ordered")),
    *(("cpp", mode) for mode in ("sync", "oneway", "batch", "ordered")),
    ("node", "sync"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    started = ClusterThread(
        properties={
            "messageDelayLevel": " ".join(["1s"] * 18),
            "transactionCheckInterval": "1000",
            "transactionTimeOut": "1000",
        }
    )
    yield started
    started.close()


@functools.cache
def _lacks(language: str) -> str | None:
    try:
        command_of(language)
    except Lacking as reason:
        return str(reason)
    return None


@pytest.fixture
def begin(cluster: ClusterThread, topic: str, group: str, tmp_path: Path) -> Iterator[Begin]:
    """``begin(language, command, **job)``: a client at work on a topic of this test alone."""
    cluster.create_topic(topic)  # ali-ons does not ask for topics that are not there yet
    calls: list[WildCall] = []

    def start(language: str, command: str, **job: object) -> WildCall:
        lack = _lacks(language)
        if lack is not None:
            pytest.skip(lack)
        where = {"namesrv": cluster.name_servers, "topic": topic, "group": group}
        home = tmp_path / f"{language}-{len(calls)}"
        calls.append(WildCall(language, home, command=command, **{**where, **job}))
        return calls[-1]

    yield start
    for call in calls:
        call.kill()


def _messages(count: int) -> list[Row]:
    return [{"body": f"Nr {n} 消息", "tags": "AB"[n % 2], "keys": f"key-{n}"} for n in range(count)]


def _seen(rows: list[Row]) -> list[Row]:
    fields = ("body", "tags", "keys")
    found = [{name: row[name] for name in fields} for row in rows if row["event"] == "message"]
    return sorted(found, key=lambda row: row["keys"])


@pytest.mark.parametrize(("language", "mode"), MODES)
def test_what_it_sends_it_receives(begin: Begin, language: str, mode: str) -> None:
    messages = _messages(6)
    producer = begin(language, "produce", mode=mode, messages=messages, group="wild-producers")
    consumer = begin(language, "consume")
    consumer.expect("message", count=6)
    sent = [row for row in producer.finish() if row["event"] == "sent"]
    assert len(sent) == {"oneway": 0, "batch": 1}.get(mode, 6)
    assert all(row["ok"] for row in sent)
    rows = consumer.finish()
    assert _seen(rows) == messages
    if mode == "ordered" and language == "cpp":
        assert {row["queue"] for row in rows if row["event"] == "message"} == {1}


@pytest.mark.parametrize("language", LANGUAGES)
def test_tags_choose(begin: Begin, language: str) -> None:
    consumer = begin(language, "consume", expression="B || C")
    consumer.expect("ready")
    producer = begin(language, "produce", messages=_messages(9), group="wild-producers")
    producer.finish()
    consumer.expect("message", count=4)
    assert _seen(consumer.finish()) == [one for one in _messages(9) if one["tags"] == "B"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_offsets_are_kept_between_two_lives(begin: Begin, language: str) -> None:
    begin(language, "produce", messages=_messages(3), group="wild-producers").finish()
    first = begin(language, "consume")
    first.expect("message", count=3)
    first.finish()
    later = [{"body": "later", "tags": "C", "keys": "key-9"}]
    begin(language, "produce", messages=later, group="wild-producers").finish()
    second = begin(language, "consume")
    second.expect("message", count=1)
    assert _seen(second.finish()) == later


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_it_refuses_comes_again(begin: Begin, topic: str, language: str) -> None:
    begin(language, "produce", messages=_messages(2), group="wild-producers").finish()
    consumer = begin(language, "consume", failOnce=True)
    rows = consumer.expect("message", count=4, timeout_s=90)
    consumer.finish()
    again = [row for row in rows if row["times"] == 1]
    assert sorted(row["keys"] for row in again) == ["key-0", "key-1"]
    assert {row["tags"] for row in again} == {"A", "B"}
    if language != "node":  # ali-ons shows the retry topic's name
        assert {row["topic"] for row in again} == {topic}


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_our_client_sends(
    begin: Begin, cluster: ClusterThread, topic: str, language: str
) -> None:
    text = "compress me " * 2000
    with Producer("ours", name_servers=cluster.name_servers) as producer:
        producer.send(Message(topic, text.encode(), tags="A", keys="key-0"))
        producer.send_batch(
            [Message(topic, f"{n}".encode(), tags="A", keys=f"key-{n}") for n in (1, 2)]
        )
    consumer = begin(language, "consume")
    consumer.expect("message", count=3)
    assert [row["body"] for row in _seen(consumer.finish())] == [text, "1", "2"]


def test_go_broadcasts(begin: Begin) -> None:
    everyone = [begin("go", "consume", broadcast=True) for _ in range(2)]
    for consumer in everyone:
        consumer.expect("ready")
    begin("go", "produce", messages=_messages(8), group="wild-producers").finish()
    for consumer in everyone:
        consumer.expect("message", count=8)
        assert _seen(consumer.finish()) == _messages(8)


def test_go_members_share(begin: Begin) -> None:
    """Each gets a part; a queue that changes hands may bring some messages twice."""
    members = [begin("go", "consume") for _ in range(2)]
    for member in members:
        member.expect("ready")
    deadline = time.monotonic() + 90
    sent: set[str] = set()
    parts: list[set[str]] = [set()]
    while not all(parts) or set().union(*parts) != sent:
        assert time.monotonic() < deadline, [member.rows for member in members]
        if not all(parts):
            messages = [{"body": f"{len(sent) + n}", "keys": "k", "tags": "A"} for n in range(8)]
            begin("go", "produce", messages=messages, group="wild-producers").finish()
            sent |= {row["body"] for row in messages}
        time.sleep(0.05)
        parts = [{row["body"] for row in _seen(list(member.rows))} for member in members]
    for member in members:
        member.finish()


def test_go_transactions(begin: Begin) -> None:
    verdicts = [
        ("committed", "commit", ""),
        ("rolled back", "rollback", ""),
        ("committed when asked", "unknown", "commit"),
        ("rolled back when asked", "unknown", "rollback"),
    ]
    messages = [
        {"body": body, "keys": body, "tags": "T", "local": local, "check": check}
        for body, local, check in verdicts
    ]
    producer = begin("go", "transact", messages=messages, group="wild-judges")
    consumer = begin("go", "consume")
    producer.expect("checked", count=2)
    consumer.expect("message", count=2)
    rows = producer.finish()
    assert {row["body"] for row in rows if row["event"] == "checked"} == {
        "committed when asked", "rolled back when asked",
    }  # fmt: skip
    bodies = {row["body"] for row in _seen(consumer.finish())}
    assert bodies == {"committed", "committed when asked"}
