"""Redrive, replay and audit of one small cluster: who is sent, when, never twice, and the page."""

from __future__ import annotations

import csv
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from contrailmq import blocking
from contrailmq.client.settings import ConsumerSettings, ProducerSettings
from contrailmq.clock import SystemClock
from contrailmq.errors import ConfigError, ContrailError
from contrailmq.pipelines import message_report, redrive, replay
from contrailmq.pipelines.audit import run as audit
from contrailmq.pipelines.places import Cluster, Stores, read_messages
from contrailmq.pipelines.progress import Stop
from contrailmq.protocol.names import TRACE_TOPIC
from contrailmq.testing.cluster import ClusterThread

pytestmark = pytest.mark.spark
COUNT = 40
BAD = [number for number in range(COUNT) if number % 5 == 0]


@pytest.fixture(scope="module")
def shop() -> Iterator[ClusterThread]:
    """Forty orders, of which the group billing could not bill eight; both sides trace."""
    properties = {"traceTopicEnable": "true", "autoCreateTopicEnable": "false"}
    cluster = ClusterThread(brokers=2, properties=properties)
    try:
        for topic, queues in (("orders", 2), ("again", 2), ("staging", 2)):
            cluster.create_topic(topic, queues=queues)
        _trade(cluster)
        _await_messages(cluster, "%DLQ%billing", len(BAD))
        yield cluster
    finally:
        cluster.close()


def _trade(cluster: ClusterThread) -> None:
    done = threading.Semaphore(0)

    def bill(message: Any) -> None:
        done.release()
        if json.loads(message.body)["n"] in BAD:
            raise ValueError("cannot be billed")

    with blocking.Producer(
        "shop",
        name_servers=cluster.name_servers,
        settings=ProducerSettings(trace_topic=TRACE_TOPIC),
    ) as producer:
        for number in range(COUNT):
            body = json.dumps({"n": number, "currency": "EUR"}).encode()
            key = "often" if number % 2 else f"k{number}"
            producer.send(blocking.Message("orders", body, tags=f"t{number % 3}", keys=[key]))
    with blocking.PushConsumer(
        "billing",
        topics="orders",
        name_servers=cluster.name_servers,
        start_from="first",
        handler=bill,
        settings=ConsumerSettings(retries_max=0, trace_topic=TRACE_TOPIC),
    ):
        for _ in range(COUNT):
            assert done.acquire(timeout=60)


def _await_messages(cluster: ClusterThread, topic: str, count: int) -> None:
    found = 0
    with blocking.PullConsumer("probe", name_servers=cluster.name_servers) as probe:
        for _ in range(300):
            try:
                found = sum(probe.bounds(queue)[1] for queue in probe.queues(topic))
            except ContrailError:
                found = 0
            if found >= count:
                return
            threading.Event().wait(0.1)
    raise AssertionError(f"{topic} has {found} messages")


def _place(cluster: ClusterThread) -> Cluster:
    return Cluster(name_servers=cluster.name_servers)


def _rows(spark: Any, cluster: ClusterThread, topic: str) -> list[Any]:
    return list(read_messages(spark, _place(cluster), topics=[topic]).collect())


def _number(row: Any) -> int:
    return int(json.loads(bytes(row.body))["n"])


def _in_dollars(frame: DataFrame) -> DataFrame:
    return frame.withColumn(
        "body", F.replace(F.col("body").cast("string"), F.lit("EUR"), F.lit("USD"))
    )


def test_redrive_chooses_repairs_and_sends_once(
    spark: Any, shop: ClusterThread, tmp_path: Path
) -> None:
    place = _place(shop)
    even = "cast(get_json_object(cast(body as string), '$.n') as int) % 2 = 0"
    wanted = [number for number in BAD if number % 2 == 0]
    dry = redrive.run(spark, place, groups=["billing"], where=even, to="again", dry_run=True)
    assert dry.facts == {redrive.WOULD_SEND: len(wanted), redrive.FILTERED: len(BAD) - len(wanted)}
    assert _rows(spark, shop, "again") == []

    change = {"tags": "concat('second-', tags)"}
    first = redrive.run(
        spark, place, groups=["billing"], where=even, to="again", change=change,
        transform=_in_dollars, rate=4.0,
    )  # fmt: skip
    assert first.facts[redrive.SENT] == len(wanted)
    assert first.seconds >= len(wanted) / 4.0
    sent = _rows(spark, shop, "again")
    assert sorted(map(_number, sent)) == wanted
    for row in sent:
        assert row.tags == f"second-t{_number(row) % 3}"
        assert json.loads(bytes(row.body))["currency"] == "USD"
        assert row.properties[redrive.MARK].startswith("%DLQ%billing/broker-")
        assert row.reconsume_times == 0

    # The rest, from the files of the brokers; what was sent is found and not sent again.
    stores = Stores(paths=tuple(map(str, shop.stores)))
    second = redrive.run(spark, place, groups=["billing"], to="again", source=stores)
    assert second.facts == {redrive.SENT: len(BAD) - len(wanted), redrive.THERE: len(wanted)}
    third = redrive.run(spark, place, groups=["billing"], to="again")
    assert third.facts == {redrive.THERE: len(BAD)}
    report = tmp_path / "report.csv"
    message_report.write(third.messages, report)
    with report.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(BAD)
    assert {row["target"] for row in third.messages} == {"again"}


def test_redrive_goes_to_the_first_topic_and_names_failures(
    spark: Any, shop: ClusterThread
) -> None:
    dry = redrive.run(spark, _place(shop), groups=["billing"], dry_run=True)
    assert {row["target"] for row in dry.messages} == {"orders"}
    ids = {row.unique_key for row in _rows(spark, shop, "orders")}
    assert {row["message_id"] for row in dry.messages} <= ids
    lost = redrive.run(spark, _place(shop), groups=["billing"], to="nowhere")
    assert lost.facts == {redrive.FAILED: len(BAD)}
    assert "nowhere" in lost.messages[0]["error"]
    shop.create_topic("repaired", queues=1)
    broken = "if(get_json_object(cast(body as string), '$.n') = '5', 'a\u0001b', tags)"
    most = redrive.run(
        spark, _place(shop), groups=["billing"], to="repaired", change={"tags": broken}
    )
    assert most.facts == {redrive.FAILED: 1, redrive.SENT: len(BAD) - 1}
    (error,) = [row["error"] for row in most.messages if row["status"] == redrive.FAILED]
    assert error.startswith("a row cannot be written: tags")
    assert len(_rows(spark, shop, "repaired")) == len(BAD) - 1
    # A group has no topic of dead letters before it has one; the others' are sent.
    stores = Stores(paths=tuple(map(str, shop.stores)))
    for source in (None, stores):
        none = redrive.run(spark, _place(shop), groups=["happy"], source=source)
        assert (none.rows, none.facts) == (0, {"no_dead_letters_of": "happy"})
        some = redrive.run(
            spark, _place(shop), groups=["happy", "billing"], source=source, dry_run=True
        )
        assert some.facts == {redrive.WOULD_SEND: len(BAD), "no_dead_letters_of": "happy"}
    with pytest.raises(ConfigError, match="cannot set colour"):
        redrive.run(spark, _place(shop), groups=["billing"], change={"colour": "'red'"})


class _StopAfter(Stop):
    """Somebody asks to stop after so many slices, however long they take."""

    def __init__(self, slices: int) -> None:
        super().__init__()
        self._slices = slices

    @property
    def is_requested(self) -> bool:
        self._slices -= 1
        if self._slices < 0:
            self.request()
        return super().is_requested


def test_replay_keeps_the_pace_and_goes_on(spark: Any, tmp_path: Path) -> None:
    cluster = ClusterThread(brokers=1)
    try:
        for topic in ("live", "copy"):
            cluster.create_topic(topic, queues=2)
        with blocking.Producer("pace", name_servers=cluster.name_servers) as producer:
            for number in range(8):
                body = json.dumps({"n": number}).encode()
                producer.send(blocking.Message("live", body, keys=[f"k{number}"]))
                threading.Event().wait(0.5)
        state, place = tmp_path / "replay.json", _place(cluster)
        stop = _StopAfter(1)
        options: dict[str, Any] = {"topic": "live", "to": "copy", "state": state, "slice_s": 1.0}
        first = replay.run(spark, place, place, stop=stop, **options)
        assert first.is_stopped
        assert 0 < first.rows < 8
        kept = json.loads(state.read_text())
        assert kept["since_ms"] < kept["until_ms"]
        # As if it had been killed in a slice: what that slice had sent is not sent again.
        state.write_text(json.dumps({**kept, "at_ms": kept["since_ms"]}))
        before = {row.keys for row in _rows(spark, cluster, "copy")}
        again_ms = SystemClock().now_ms()
        second = replay.run(spark, place, place, **options, speed=2.0)
        assert not second.is_stopped
        assert not state.exists()
        assert first.rows + second.rows == 8
        assert second.facts["there_before"] == first.rows
        live, copy = (
            sorted(_rows(spark, cluster, topic), key=_number) for topic in ("live", "copy")
        )
        assert [_number(row) for row in copy] == list(range(8))
        span = (live[-1].store_time - live[0].store_time).total_seconds()
        assert span >= 3.5
        # None is sent before its moment: its distance from the first one, at twice the pace.
        for row, was in zip(copy, live, strict=True):
            if row.keys not in before:
                due_ms = again_ms + 500 * (was.store_time - live[0].store_time).total_seconds()
                assert row.store_time.timestamp() * 1000 >= due_ms - 2, row.keys
        third = replay.run(spark, place, place, **{**options, "speed": 100.0})
        assert (third.rows, third.facts["there_before"]) == (8, 0)
        with pytest.raises(ConfigError, match="into itself"):
            replay.run(spark, place, place, topic="live", to="live", state=state)
    finally:
        cluster.close()


def test_the_pace_of_a_replay_begins_when_spark_is_ready(
    spark: Any, shop: ClusterThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting, and starting what sends, take seconds: no message may be late by them."""
    shop.create_topic("paced", queues=1)
    ready_ms: list[int] = []
    began_ms: list[int] = []
    player: Any = replay._Player

    def noted(name: str) -> None:
        real = getattr(player, name)

        def run(self: Any, *args: Any, **options: Any) -> Any:
            if name == "play":
                began_ms.append(options["pace"][1])
            found = real(self, *args, **options)
            ready_ms.append(SystemClock().now_ms())
            return found

        monkeypatch.setattr(player, name, run)

    for name in ("count", "warm_up", "play"):
        noted(name)
    done = replay.run(
        spark, _place(shop), _place(shop), topic="orders", to="paced", speed=1000.0,
        state=tmp_path / "state.json",
    )  # fmt: skip
    assert done.rows == COUNT
    assert began_ms[0] >= max(ready_ms[:2]) + 1000 * replay.LEAD_S


def test_an_audit_counts_what_happened(spark: Any, shop: ClusterThread, tmp_path: Path) -> None:
    _await_messages(shop, TRACE_TOPIC, 2)
    report = audit.run(spark, _place(shop), tmp_path / "audit")
    tables = {
        name: [row.asDict() for row in spark.read.parquet(f"{tmp_path}/audit/{name}").collect()]
        for name in ("traffic", "queues", "keys", "failures", "delays", "lag")
    }
    orders = [row for row in tables["traffic"] if row["topic"] == "orders"]
    assert sum(row["messages"] for row in orders) == COUNT
    sizes = [len(json.dumps({"n": number, "currency": "EUR"})) for number in range(COUNT)]
    assert sum(row["bytes"] for row in orders) == sum(sizes)
    assert max(row["size_max"] for row in orders) == max(sizes)
    dead = [row for row in tables["failures"] if row["group"] == "billing"]
    assert {row["topic"] for row in dead} == {"orders"}
    assert sum(row["dead_letters"] for row in dead) == len(BAD)
    top = next(row for row in tables["keys"] if row["topic"] == "orders" and row["rank"] == 1)
    assert (top["key"], top["messages"], top["share"]) == ("often", COUNT // 2, 0.5)
    queues = [row for row in tables["queues"] if row["topic"] == "orders"]
    per_queue = Counter((row.broker, row.queue_id) for row in _rows(spark, shop, "orders"))
    assert {(row["broker"], row["queue_id"]): row["messages"] for row in queues} == per_queue
    (billed,) = {(row["topic"], row["group"]) for row in tables["delays"]}
    assert billed == ("orders", "billing")
    assert sum(row["messages"] for row in tables["delays"]) == COUNT
    assert sum(row["failed_attempts"] for row in tables["delays"]) == len(BAD)
    assert all(row["delay_p50_ms"] <= row["delay_max_ms"] for row in tables["delays"])
    lag = [row for row in tables["lag"] if (row["group"], row["topic"]) == ("billing", "orders")]
    assert sum(row["end_offset"] for row in lag) == COUNT

    page = (tmp_path / "audit" / "report.html").read_text()
    assert report.facts["report"].endswith("report.html")
    assert page.count("<svg") >= 6
    assert not re.search(r'(src|href)="', page), "the page needs no other file"
    assert "orders" in page and "billing" in page


def test_an_audit_of_directories_needs_no_broker(
    spark: Any, shop: ClusterThread, tmp_path: Path
) -> None:
    stores = Stores(paths=tuple(map(str, shop.stores)))
    report = audit.run(spark, stores, tmp_path / "audit", topics=["orders"])
    rows = spark.read.parquet(f"{tmp_path}/audit/traffic").where("topic = 'orders'").collect()
    assert sum(row.messages for row in rows) == COUNT
    assert report.rows >= COUNT
