"""Special messages with the real Java system: clients, tools, and stores handed over half-way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contrailmq import Message, Producer, PushConsumer
from contrailmq.client.settings import ConsumerSettings, ProducerSettings
from contrailmq.testing.cluster import ClusterThread
from testkit.client_scenarios import take
from testkit.peer import VERSIONS, JavaBroker, JavaCall, JavaClient, Row

pytestmark = pytest.mark.timeout(240)

Run = Callable[..., list[Row]]
Start = Callable[..., JavaCall]
CONF = {
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "transactionCheckMax": "2",
    "traceTopicEnable": "true",
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "rebalanceLockMaxLiveTime": "25000",
}
DELAYS = "1s 12s 24s"
DELAY_MS = {"late 1": 1000, "late 2": 12000, "late 3": 24000}
COMMIT, ROLLBACK, UNKNOWN = "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"


@pytest.fixture(scope="module")
def ours() -> Iterator[ClusterThread]:
    cluster = ClusterThread(properties=CONF)
    yield cluster
    cluster.close()


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def where(ours: ClusterThread, topic: str) -> dict[str, Any]:
    return {"namesrv": ours.name_servers, "topic": topic}


def of(rows: list[Row], event: str) -> list[Row]:
    assert not [row for row in rows if row["event"] == "failed"], rows
    return [row for row in rows if row["event"] == event]


def bodies(rows: list[Row]) -> list[str]:
    return sorted(row["body"] for row in of(rows, "message"))


def pull(java_run: Run, version: str, wanted: set[str], **where: Any) -> list[Row]:
    """All messages of a topic, once the wanted bodies are among them."""
    deadline = time.monotonic() + 40
    while True:
        rows = java_run(version, "pull", **where)
        found = [row for row in rows if row["event"] == "message"]
        if wanted <= {row["body"] for row in found}:
            return found
        assert time.monotonic() < deadline, (wanted, rows[-5:])
        time.sleep(0.2)


def test_transactions_are_ended_asked_about_and_given_up(
    java_start: Start, java_run: Run, version: str, where: dict[str, Any], group: str
) -> None:
    names = ["committed", "rolled back", "asked, committed", "asked, rolled back", "never known"]
    producer = java_start(
        version, "produce", mode="transaction", group=group, lingerMs=60000, heartbeatMs=1000,
        messages=[{"body": body} for body in names],
        states=[COMMIT, ROLLBACK, UNKNOWN, UNKNOWN, UNKNOWN],
        checkStates=[ROLLBACK, COMMIT, COMMIT, ROLLBACK, UNKNOWN],
        **where,
    )  # fmt: skip
    sent = producer.expect("sent", count=5)
    assert {row["status"] for row in sent} == {"SEND_OK"}
    producer.expect("checked", count=4, timeout_s=30)
    found = pull(java_run, version, {"committed", "asked, committed"}, **where)
    assert sorted(row["body"] for row in found) == ["asked, committed", "committed"]
    assert {row["sysFlag"] & 0xC for row in found} == {8}
    assert {row["msgId"] for row in found} == {sent[0]["msgId"], sent[2]["msgId"]}
    pull(java_run, version, {"never known"}, **{**where, "topic": "TRANS_CHECK_MAX_TIME_TOPIC"})
    asked = producer.stop()
    times: dict[int, int] = defaultdict(int)
    for row in of(asked, "checked"):
        times[row["index"]] += 1
        assert row["transactionId"] == sent[row["index"]]["msgId"]
    assert times == {2: 1, 3: 1, 4: 2}, "asked about what was known, or more than twice"
    assert len(pull(java_run, version, set(), **where)) == 2


def test_a_message_refused_twice_is_a_dead_letter(
    java_start: Start, java_run: Run, version: str, where: dict[str, Any], group: str
) -> None:
    message = {"body": "poison", "tags": "T", "keys": "k1", "properties": {"own": "kept"}}
    (sent,) = of(java_run(version, "produce", messages=[message], **where), "sent")
    consumer = java_start(
        version, "consume", group=group, fail=9, maxReconsumeTimes=1, delayLevelWhenNext=1, **where
    )
    seen = consumer.expect("message", count=2, timeout_s=30)
    (dead,) = pull(java_run, version, {"poison"}, **{**where, "topic": f"%DLQ%{group}"})
    assert [row["reconsumeTimes"] for row in seen] == [0, 1]
    assert [row["topic"] for row in seen] == [where["topic"]] * 2
    assert seen[1]["storeTimestamp"] - seen[0]["storeTimestamp"] >= 1000
    assert (dead["body"], dead["tags"], dead["keys"]) == ("poison", "T", "k1")
    assert dead["properties"]["own"] == "kept"
    assert dead["properties"]["RETRY_TOPIC"] == where["topic"]
    assert dead["properties"]["ORIGIN_MESSAGE_ID"] == sent["offsetMsgId"]
    assert dead["reconsumeTimes"] == 2
    consumer.stop()
    assert len(consumer.of("message")) == 2


def test_the_first_three_levels(java_start: Start, ours: ClusterThread, topic: str) -> None:
    """Both clients at once, as the third level takes ten seconds."""
    wait_ms = {1: 1000, 2: 5000, 3: 10000}
    messages = [{"body": str(level), "delayLevel": level} for level in (3, 1, 2)]
    calls = {}
    for version in VERSIONS:
        where = {"namesrv": ours.name_servers, "topic": f"{topic}_{version[0]}"}
        java_start(version, "produce", messages=messages, **where).finish()
        calls[version] = java_start(version, "consume", group=f"L{version[0]}", count=3, **where)
    for call in calls.values():
        rows = of(call.finish(), "message")
        assert [row["body"] for row in rows] == ["1", "2", "3"]
        for row in rows:
            late_ms = row["storeTimestamp"] - row["bornTimestamp"] - wait_ms[int(row["body"])]
            assert 0 <= late_ms < 8000, row
            assert row["properties"]["REAL_TOPIC"] == row["topic"]


@pytest.mark.parametrize("serialization", ["JSON", "ROCKETMQ"])
def test_requests_are_answered_from_one_line_to_the_other(
    java_start: Start, java_run: Run, version: str, serialization: str,
    where: dict[str, Any], group: str,
) -> None:  # fmt: skip
    (other,) = (name for name in VERSIONS if name != version)
    java_run(version, "produce", messages=[{"body": "make the topic"}], **where)
    replier = java_start(other, "reply", group=group, **where)
    replier.expect("ready")
    rows = java_run(
        version, "request", group=f"{group}_asker", serialization=serialization, timeoutMs=20000,
        messages=[{"body": f"question {n}"} for n in range(3)], **where,
    )  # fmt: skip
    assert [row["body"] for row in of(rows, "answer")] == [f"re: question {n}" for n in range(3)]
    replier.stop()


def test_sql_consumers_and_their_bit_maps(
    java_start: Start, java_run: Run, version: str, where: dict[str, Any], group: str,
    mqadmin: Callable[..., str], ours: ClusterThread,
) -> None:  # fmt: skip
    """A consumer that comes later than the messages gets them too; its bits are in the younger."""
    messages = [{"body": f"old {n}", "properties": {"n": n}} for n in range(4)]
    java_run(version, "produce", mode="ordered", messages=messages, **where)
    consumer = java_start(version, "consume", group=group, sql="n BETWEEN 2 AND 5", **where)
    consumer.expect("message", count=2)
    messages = [{"body": f"new {n}", "properties": {"n": n}} for n in range(4, 8)]
    java_run(version, "produce", mode="ordered", messages=messages, **where)
    found = consumer.expect("message", count=4)
    assert sorted(row["body"] for row in found) == ["new 4", "new 5", "old 2", "old 3"]
    consumer.stop()
    told = mqadmin(
        version, "queryCq", "-n", ours.name_servers, "-b", ours.addresses[0],
        "-t", where["topic"], "-q", "0", "-i", "0", "-c", "8", "-g", group,
    )  # fmt: skip
    assert told.count("filterBitMap") == 4, told


def order_faults(rows: list[Row]) -> list[str]:
    """What is wrong with the order in which rows were seen; repeats are allowed."""
    queues: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        queues[row["queueId"]].append(row["queueOffset"])
    return [
        f"queue {queue_id}: {offsets}"
        for queue_id, offsets in queues.items()
        if (first_seen := list(dict.fromkeys(offsets))) != sorted(first_seen)
    ]


class Pair:
    """Two ordered consumers of one line of Java, of which one will die, and a producer."""

    def __init__(self, version: str, java_start: Start, home: Path, where: dict[str, Any]) -> None:
        self.version, self.where, self._start = version, where, java_start
        self.mortal = JavaClient(version, home)
        more = {
            **where, "group": f"Order{version[0]}", "mode": "orderly", "timeoutMs": 150000,
            "persistMs": 500, "heartbeatMs": 1000,
        }  # fmt: skip
        self.dying = self.mortal.begin("consume", **more)
        self.living = java_start(version, "consume", **more)

    def balance(self) -> None:
        """Return when each of them has its share of the queues."""
        for call in (self.dying, self.living):
            call.expect("ready")
        deadline = time.monotonic() + 90
        while not all(self._has_half(call) for call in (self.dying, self.living)):
            assert time.monotonic() < deadline
            warm = [{"body": "warm"}] * 8
            self._start(self.version, "produce", messages=warm, **self.where).finish()

    def _has_half(self, call: JavaCall) -> bool:
        drain(call)
        return len({row["queueId"] for row in call.of("message")[-6:]}) == 2

    def begin(self) -> None:
        keys = [str(number % 7) for number in range(300)]
        self.producer = self._start(
            self.version, "produce", mode="ordered", count=300, shardingKeys=keys, pauseMs=100,
            **self.where,
        )  # fmt: skip
        for call in (self.dying, self.living):
            call.expect("message", count=len(call.of("message")) + 8)

    def kill(self) -> None:
        self.mortal.kill()
        drain(self.dying)
        self.orphans = {row["queueId"] for row in self.dying.of("message")[-6:]}

    def taken_over(self) -> None:
        """Return when the living one consumes the queues of the dead one."""
        begin = len(self.living.of("message"))
        deadline = time.monotonic() + 60
        while not self.orphans <= {row["queueId"] for row in self.living.of("message")[begin:]}:
            assert time.monotonic() < deadline
            self.living.expect("message", count=len(self.living.of("message")) + 1)

    def check(self, java_run: Run) -> None:
        self.producer.finish()
        stored = of(java_run(self.version, "pull", **self.where), "message")
        wanted = {(row["queueId"], row["queueOffset"]) for row in stored}
        rows: list[Row] = []
        deadline = time.monotonic() + 90
        while {(row["queueId"], row["queueOffset"]) for row in rows} != wanted:
            assert time.monotonic() < deadline
            drain(self.living)
            rows = self.dying.of("message") + self.living.of("message")
        measured = [row for row in rows if row["body"] != "warm"]
        assert len(measured) > 250
        assert order_faults(measured) == []
        self.living.stop()


def drain(call: JavaCall) -> None:
    """Take the rows that have come."""
    with contextlib.suppress(AssertionError):
        call.expect("message", count=1_000_000, timeout_s=0.3)


def test_order_is_kept_when_one_of_two_consumers_dies_and_the_broker_restarts(
    java_start: Start, java_run: Run, topic: str, tmp_path: Path
) -> None:
    """Both lines of Java at once: the locks of the dead one live for 25 seconds here."""
    cluster = ClusterThread(properties=CONF)
    pairs: list[Pair] = []
    try:
        for version in VERSIONS:
            where = {"namesrv": cluster.name_servers, "topic": f"{topic}_{version[0]}"}
            cluster.create_topic(where["topic"])
            pairs.append(Pair(version, java_start, tmp_path / version, where))
        for step in (Pair.balance, Pair.begin, Pair.kill, Pair.taken_over):
            for pair in pairs:
                step(pair)
        cluster.stop_broker()
        cluster.start_broker()
        for pair in pairs:
            pair.check(java_run)
    finally:
        for pair in pairs:
            pair.mortal.close()
        cluster.close()


def test_order_configuration_reaches_broker_and_clients(
    java_run: Run, version: str, where: dict[str, Any], ours: ClusterThread,
    mqadmin: Callable[..., str],
) -> None:  # fmt: skip
    mqadmin(
        version, "updateTopic", "-n", ours.name_servers, "-b", ours.addresses[0],
        "-t", where["topic"], "-r", "3", "-w", "3", "-o", "true",
    )  # fmt: skip
    told = mqadmin(
        version, "updateOrderConf", "-n", ours.name_servers, "-m", "get", "-t", where["topic"]
    )
    assert "orderConf=[broker-a:3]" in told, told
    # The broker follows what the name server says when it registers the next time.
    ours.create_topic(f"{where['topic']}_other")
    path, is_order = ours.stores[0] / "config" / "topics.json", False
    deadline = time.monotonic() + 60
    while not is_order:
        assert time.monotonic() < deadline
        is_order = json.loads(path.read_bytes())["topicConfigTable"][where["topic"]]["order"]
    sent = of(java_run(version, "produce", count=6, **where), "sent")
    assert {row["queueId"] for row in sent} == {0, 1, 2}


@pytest.mark.parametrize("client", ["Java", "Python"])
def test_traces_are_read_by_the_original_tool(
    java_start: Start, mqadmin: Callable[..., str], version: str, client: str,
    where: dict[str, Any], group: str,
) -> None:  # fmt: skip
    calls: list[JavaCall] = []  # a Java client that ends at once may drop its last traces
    if client == "Java":
        more = {"trace": True, **where}
        calls.append(java_start(version, "produce", count=1, lingerMs=60000, **more))
        message_id = calls[0].expect("sent")[0]["msgId"]
        calls.append(java_start(version, "consume", group=group, timeoutMs=60000, **more))
        calls[1].expect("message")
    else:
        message_id = asyncio.run(trace_from_python(where["namesrv"], where["topic"], group))
    deadline = time.monotonic() + 90
    told = ""
    # The two traces are two messages, each on its way for itself.
    while "success" not in told.lower() or group not in told or "Pub" not in told:
        assert time.monotonic() < deadline, told
        told = mqadmin(version, "queryMsgTraceById", "-n", where["namesrv"], "-i", message_id)
    for call in calls:
        call.stop()


async def trace_from_python(name_servers: str, topic: str, group: str) -> str:
    """Send and consume one message with traces; its id."""
    settings = ProducerSettings(trace_topic="RMQ_SYS_TRACE_TOPIC")
    async with Producer(group, name_servers=name_servers, settings=settings) as producer:
        receipt = await producer.send(Message(topic, b"x", tags="t", keys=["order-1"]))
    consumer = PushConsumer(
        group,
        topics={topic: "*"},
        name_servers=name_servers,
        start_from="first",
        settings=ConsumerSettings(trace_topic="RMQ_SYS_TRACE_TOPIC"),
    )
    async with consumer:
        await take(consumer, 1)
    return receipt.message_id


def handed_over(
    cluster: ClusterThread, java_broker: Callable[..., JavaBroker], version: str
) -> JavaBroker:
    """A Java broker over the store of our broker, which has stopped."""
    cluster.stop_broker()
    conf = {
        "storePathRootDir": str(cluster.stores[0]),
        "storePathCommitLog": str(cluster.stores[0] / "commitlog"),
        "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
        "mappedFileSizeConsumeQueue": str(20 * 30_000),
        "messageDelayLevel": DELAYS,
        "transactionTimeOut": "4000",
        "transactionCheckInterval": "1000",
        "enableConsumeQueueExt": "true",
        "enableCalcFilterBitMap": "true",
    }
    return java_broker(version, namesrv=cluster.name_servers, conf=conf)


def test_a_store_changes_hands_in_the_middle_of_transactions_and_delays(
    java_start: Start, java_run: Run, java_broker: Callable[..., JavaBroker],
    version: str, topic: str, group: str,
) -> None:  # fmt: skip
    """Ours to Java and back: everything open goes on, nothing rolled back is ever seen."""
    conf = {**CONF, "transactionCheckMax": "15", "messageDelayLevel": DELAYS}
    cluster = ClusterThread(properties=conf)
    where = {"namesrv": cluster.name_servers, "topic": topic}
    half = {"mode": "transaction", "group": group, "heartbeatMs": 1000, **where}
    verdicts = [UNKNOWN, UNKNOWN, COMMIT, ROLLBACK]
    try:
        java_run(
            version, "produce", states=[COMMIT, ROLLBACK, UNKNOWN, UNKNOWN],
            messages=[{"body": b} for b in ("a committed", "a rolled", "a open", "a open rolled")],
            **half,
        )  # fmt: skip
        delayed = [{"body": f"late {level}", "delayLevel": level} for level in (1, 2, 3)]
        java_run(version, "produce", messages=delayed, **where)
        java = handed_over(cluster, java_broker, version)
        checker = java_start(
            version, "produce", messages=[{"body": "b open"}], states=[UNKNOWN],
            lingerMs=120000, checkStates=verdicts, **half,
        )  # fmt: skip
        while {row["index"] for row in checker.of("checked")} < {0, 2, 3}:
            checker.expect("checked", count=len(checker.of("checked")) + 1, timeout_s=60)
        pull(java_run, version, {"a committed", "a open", "late 1"}, **where)
        checker.stop()
        java.kill()
        cluster.start_broker()
        checker = java_start(
            version, "produce", messages=[{"body": "c committed"}], lingerMs=120000,
            checkStates=[COMMIT, *verdicts[1:]], **half,
        )  # fmt: skip
        checker.expect("checked", timeout_s=60)
        wanted = {"a committed", "a open", "b open", "c committed", "late 1", "late 2", "late 3"}
        found = pull(java_run, version, wanted, **where)
        checker.stop()
        # What Java had not saved when it was killed may come twice.
        assert {row["body"] for row in found} == wanted
        for row in found:
            if row["body"].startswith("late"):
                waited_ms = row["storeTimestamp"] - row["bornTimestamp"]
                assert waited_ms >= DELAY_MS[row["body"]], row
    finally:
        cluster.close()
