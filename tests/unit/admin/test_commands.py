"""The everyday commands against a real broker: what they print, and their exit codes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from contrailmq.admin.broker_calls import shown_version
from contrailmq.admin.commands import cluster, consume, group, message, send, tail, topic
from contrailmq.client.consumer.pull import PullConsumer
from contrailmq.errors import ClientError, ContrailError, NoRoute
from contrailmq.testing.cluster import ClusterThread
from contrailmq.version import VERSION


class Shell:
    """Runs commands against one cluster."""

    def __init__(self, name_servers: str) -> None:
        self._name_servers = name_servers

    def __call__(self, command: Any, *argv: str, code: int = 0, **more: Any) -> str:
        out = io.StringIO()
        found = command.main([*argv, "-n", self._name_servers], out=out, **more)
        assert found == code, out.getvalue()
        return out.getvalue()

    def json(self, command: Any, *argv: str, code: int = 0, **more: Any) -> list[dict[str, Any]]:
        text = self(command, *argv, "--json", code=code, **more)
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def shell() -> Iterator[Shell]:
    running = ClusterThread(brokers=2)
    try:
        yield Shell(running.name_servers)
    finally:
        running.close()


def test_topics_come_are_shown_and_go(shell: Shell) -> None:
    assert "topic list" not in shell(topic, "list")
    assert shell.json(topic, "list") == []
    made = shell.json(topic, "create", "orders", "-q", "3")
    assert made == [{"topic": "orders", "brokers": ["broker-a", "broker-b"], "writeQueues": 3}]
    shell(topic, "create", "readonly", "-q", "1", "--perm", "r", "-b", "broker-b")
    listed = {row["topic"]: row for row in shell.json(topic, "list", "--counts")}
    assert set(listed) == {"orders", "readonly"}
    assert (listed["orders"]["readQueues"], listed["orders"]["messages"]) == (6, 0)
    assert (listed["readonly"]["permission"], listed["readonly"]["brokers"]) == ("r", ["broker-b"])
    everything = {row["kind"] for row in shell.json(topic, "list", "--all")}
    assert {"system", "normal"} <= everything
    rows = shell.json(topic, "show", "orders")
    assert [(row["broker"], row["queue"]) for row in rows] == [
        (broker, queue) for broker in ("broker-a", "broker-b") for queue in range(3)
    ]
    assert "consumed by nobody" in shell(topic, "show", "orders")
    assert "deleted" in shell(topic, "delete", "orders", "--yes")
    assert [row["topic"] for row in shell.json(topic, "list")] == ["readonly"]


def test_what_cannot_be_is_said(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(NoRoute, match="no broker has the topic"):
        shell(topic, "show", "nothing")
    with pytest.raises(ClientError, match="illegal characters"):
        shell(topic, "create", "not a name")
    shell(topic, "create", "orders")
    with pytest.raises(ClientError, match="pass --yes"):
        shell(topic, "delete", "orders")
    with pytest.raises(ClientError, match="no broker knows the group"):
        shell(group, "show", "nobody")
    with pytest.raises(ClientError, match="say where to"):
        shell(group, "reset", "g", "orders", "--yes")
    with pytest.raises(SystemExit):
        topic.main(["create"])


def test_what_is_not_found_is_said(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    shell(topic, "create", "orders", "-q", "1")
    told = shell(message, "get", "no-id", code=1)
    assert "contrail tail TOPIC --json shows ids" in told
    assert shell.json(message, "get", "no-id", code=1) == [{"found": 0}]
    told = shell(message, "query", "orders", "k9", code=1)
    assert told == "no message of orders has the key k9\n"
    assert shell.json(message, "query", "orders", "k9", code=1) == []
    with pytest.raises(ClientError, match=r"no broker knows the group \[g\]; contrail group list"):
        shell(group, "reset", "g", "orders", "--to", "first", "--yes")
    with pytest.raises(SystemExit):
        topic.main(["create", "many", "--queues", "65537"])
    assert "from 1 to 65536" in capsys.readouterr().err


def test_who_consumes_a_topic_that_is_not_there_is_told(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-g", "g", "-c", "1", "--wait", "0.1"]
    with pytest.raises(ClientError, match="0 of 1 messages came"):
        shell(consume, "nowhere", *words)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("contrail: there is no topic nowhere yet, waiting for it;")
    assert "contrail topic create nowhere" in line
    shell(topic, "create", "somewhere", "-q", "1")
    with pytest.raises(ClientError, match="0 of 1 messages came"):
        shell(consume, "somewhere", *words)
    assert capsys.readouterr().err == ""


def test_where_no_broker_is_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """And not that a topic is missing, which could not be made there."""
    running = ClusterThread(brokers=1)
    try:
        running.stop_broker(0)
        lone = Shell(running.name_servers)
        start = f"start one with contrail broker -n '{running.name_servers}'"
        for words in ((send, "orders", "x"), (tail, "orders"), (topic, "show", "orders")):
            with pytest.raises(ClientError, match="no broker has registered") as told:
                lone(*words)
            assert start in str(told.value)
        with pytest.raises(ClientError, match="0 of 1 messages came"):
            lone(consume, "orders", "-g", "g", "-c", "1", "--wait", "0.1")
        assert start in capsys.readouterr().err
    finally:
        running.close()


def test_the_last_of_those_that_are_asked_for(shell: Shell) -> None:
    """Text and time choose before the last ten are taken, not among them."""
    shell(topic, "create", "orders", "-q", "1", "-b", "broker-a")
    shell(send, "orders", "needle 1", "needle 2", "needle 3")
    shell(send, "orders", *(f"straw {number}" for number in range(12)))
    assert shell(tail, "orders", "--grep", "needle", "--body", "-l", "2") == "needle 2\nneedle 3\n"
    assert shell(tail, "orders", "--grep", "cow") == ""
    times = [row["storeTime"] for row in shell.json(tail, "orders", "--from", "first")]
    for limit in (times[0], times[3], times[-1] + 1):
        seen = shell.json(tail, "orders", "--until", str(limit), "-l", "4")
        before = [time for time in times if time < limit]
        assert [row["storeTime"] for row in seen] == before[-4:]
    assert shell(tail, "orders", "-l", "0") == ""


def test_nobody_at_home_gets_a_hint() -> None:
    with pytest.raises(ContrailError, match="contrail up starts a cluster here"):
        topic.main(["list", "-n", "127.0.0.1:1"])


def test_messages_go_in_and_come_out(shell: Shell) -> None:
    shell(topic, "create", "orders", "-q", "2")
    sent = shell.json(
        send, "orders", "one", "--tags", "paid", "two", "--keys", "k1 k2", "-p", "amount=5"
    )
    assert [row["status"] for row in sent] == ["SEND_OK", "SEND_OK"]
    lines = (
        b'{"body":{"x":1},"tags":"open","properties":{"amount":"200"}}\n\n{"bodyBase64":"/w=="}\n'
    )
    shell(send, "orders", "--json-lines", "-", source=io.BytesIO(lines))
    shell(send, "orders", source=io.BytesIO(b"three\n"))
    shell(send, "orders", "-", source=io.BytesIO(b"four\n"))
    shell(send, "orders", "--whole", source=io.BytesIO(b"five\nsix\n"))
    seen = shell.json(tail, "orders", "--from", "first")
    # Messages of different queues that were stored in the same millisecond may change places.
    assert sorted(row["body"] for row in seen if "body" in row) == sorted(
        ["one", "two", '{"x": 1}', "three", "four", "five\nsix\n"]
    )
    assert [row["storeTime"] for row in seen] == sorted(row["storeTime"] for row in seen)
    assert [row["bodyBase64"] for row in seen if "body" not in row] == ["/w=="]
    [first] = [row for row in seen if row["messageId"] == sent[0]["messageId"]]
    assert (first["keys"], first["tags"], first["body"]) == (["k1", "k2"], "paid", "one")
    assert [row["body"] for row in shell.json(tail, "orders", "-l", "1")] == ["five\nsix\n"]
    assert len(shell.json(tail, "orders", "--from", "1h", "-c", "3")) == 3
    assert shell(tail, "orders", "--from", "first", "--tags", "open", "--body") == '{"x": 1}\n'
    big = shell.json(tail, "orders", "--from", "first", "--sql", "amount > 100")
    assert [row["body"] for row in big] == ['{"x": 1}']
    assert [row["body"] for row in shell.json(tail, "orders", "--grep", "thr")] == ["three"]
    assert "keys=k1,k2" in shell(tail, "orders", "--from", "first")


def test_what_is_shown_can_be_sent_again(shell: Shell) -> None:
    shell(send, "orders", "a", "b", "--tags", "t", "-p", "n=1")
    shown = shell(tail, "orders", "--from", "first", "--json")
    shell(send, "copies", "--json-lines", "-", source=io.BytesIO(shown.encode()))
    copies = shell.json(tail, "copies", "--from", "first")
    assert sorted((row["body"], row["tags"], row["properties"]["n"]) for row in copies) == [
        ("a", "t", "1"), ("b", "t", "1"),
    ]  # fmt: skip


def test_a_topic_that_is_known_a_moment_later_is_shown(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell(send, "orders", "a")
    asked, queues = [], PullConsumer.queues

    async def later(self: PullConsumer, topic: str) -> Any:
        asked.append(topic)
        if len(asked) < 3:
            raise NoRoute("not yet")
        return await queues(self, topic)

    monkeypatch.setattr(PullConsumer, "queues", later)
    assert [row["body"] for row in shell.json(tail, "orders", "--from", "first")] == ["a"]
    assert len(asked) == 3


def test_files_are_messages(shell: Shell, tmp_path: Any) -> None:
    (tmp_path / "a").write_bytes(b"\x00\xff")
    (tmp_path / "b").write_bytes(b"text")
    shell(send, "files", "-f", str(tmp_path / "a"), str(tmp_path / "b"), "-q")
    assert sorted(row["size"] > 0 for row in shell.json(tail, "files")) == [True, True]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"nonsense\n", "line 1 is not JSON"),
        (b"[1]\n", "line 1 is list"),
        (b'{"tags":"x"}\n', "neither body nor bodyBase64"),
        (b'{"bodyBase64":"*"}\n', "bodyBase64"),
    ],
)
def test_a_bad_line_is_named(shell: Shell, line: bytes, complaint: str) -> None:
    with pytest.raises(ClientError, match=complaint):
        shell(send, "orders", "--json-lines", "-", source=io.BytesIO(line))


def test_a_group_consumes_lags_and_is_reset(shell: Shell) -> None:
    shell(topic, "create", "orders", "-q", "1")
    shell(send, "orders", "1", "2", "3", "-q")
    taken = shell.json(
        consume, "orders", "-g", "billing", "--from", "first", "-c", "3", "--wait", "10"
    )
    assert sorted(row["body"] for row in taken) == ["1", "2", "3"]
    with pytest.raises(ClientError, match="0 of 1 messages came; what orders has: contrail tail"):
        shell(consume, "orders", "-g", "billing", "-c", "1", "--wait", "0.2")
    with pytest.raises(ClientError, match="no offset of group nobody is known; contrail group"):
        shell(group, "lag", "nobody")
    with pytest.raises(NoRoute, match="contrail topic list shows what there is"):
        shell(topic, "show", "nowhere")
    [row] = shell.json(group, "list")
    assert (row["group"], row["members"], row["lag"], row["topics"]) == (
        "billing", 0, 0, ["orders"],
    )  # fmt: skip
    moved = shell.json(group, "reset", "billing", "orders", "--to", "first", "--yes")
    assert {row["offset"] for row in moved} == {0}
    lag = shell.json(group, "lag", "billing", "-t", "orders")
    assert sum(row["lag"] for row in lag) == 3
    assert "lag 3" in shell(group, "lag", "billing")
    queue = next(row for row in lag if row["lag"])
    shell(
        group, "reset", "billing", "orders", "--yes",
        "--broker", queue["broker"], "--queue", str(queue["queue"]), "--offset", "1",
    )  # fmt: skip
    assert sum(row["lag"] for row in shell.json(group, "lag", "billing", "-t", "orders")) == 2
    [shown] = shell.json(group, "show", "billing")
    assert set(shown["config"]) == {"broker-a", "broker-b"}


def test_a_group_is_created_and_deleted(shell: Shell) -> None:
    assert "created at broker-a" in shell(group, "create", "billing", "--retries", "5")
    [shown] = shell.json(group, "show", "billing")
    assert {config["retryMaxTimes"] for config in shown["config"].values()} == {5}
    assert "deleted at broker-a, broker-b" in shell(group, "delete", "billing", "--yes")
    with pytest.raises(ClientError, match=r"no broker knows the group \[billing\]"):
        shell(group, "delete", "billing", "--yes")


def test_one_message_is_found_by_its_ids_and_keys_and_traced(shell: Shell) -> None:
    [sent] = shell.json(send, "orders", "hello", "--keys", "k7", "--trace")
    for way in (
        ["get", sent["messageId"]],
        ["get", sent["messageId"], "-t", "orders"],
        ["get", sent["offsetMessageId"]],
        ["query", "orders", "k7"],
    ):
        [row] = shell.json(message, *way)
        assert (row["body"], row["messageId"]) == ("hello", sent["messageId"]), way
    assert "hello" in shell(message, "get", sent["messageId"])
    shell(message, "query", "orders", "no-such-key", code=1)
    [step] = shell.json(message, "trace", sent["messageId"])
    assert (step["event"], step["topic"], step["success"]) == ("sent", "orders", True)


def test_a_broker_of_java_is_shown_by_what_it_speaks() -> None:
    assert shown_version({"brokerVersionDesc": "V4_9_7"}) == "V4_9_7"
    assert shown_version({}) == "?"


def test_the_cluster_is_shown(shell: Shell) -> None:
    rows = shell.json(cluster)
    assert [(row["broker"], row["id"]) for row in rows] == [("broker-a", 0), ("broker-b", 0)]
    for row in rows:
        assert row["disk"] == f"{row['diskRatio']:.0%}"
        assert row["startTime"] > 1_000_000_000_000
        assert (row["version"], row["speaks"]) == (f"contrail-{VERSION}", "V5_2_0")
        assert row["role"]
    shown = shell(cluster)
    assert "broker-b" in shown
    assert "startTime" not in shown
