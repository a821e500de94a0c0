"""Spark and the pipelines with brokers of the original that know who may do what.

Everything here is signed (``aclEnable=true``): batches, streams, the sink and every pipeline.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from contrailmq import blocking
from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.options import source_options
from contrailmq.client.access import Credentials
from contrailmq.client.settings import ClientSettings, ConsumerSettings
from contrailmq.pipelines import archive, query, redrive, replay, restore
from contrailmq.pipelines.audit import run as audit
from contrailmq.pipelines.places import Archive, Cluster, Stores, read_messages
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.topic import CreateTopicRequest
from testkit.golden import VERSIONS
from testkit.peer import JavaCluster

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.timeout(600)]

COUNT = 2000
BAD = 10
KEY, SECRET = "sparkUser", "spark-secret-1"
ACL = f"""
globalWhiteRemoteAddresses:
accounts:
- accessKey: {KEY}
  secretKey: {SECRET}
  admin: true
- accessKey: readerUser
  secretKey: reader-secret-1
  admin: false
  defaultTopicPerm: SUB
  defaultGroupPerm: SUB
"""


@pytest.fixture(scope="module", params=VERSIONS)
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A name server and a broker of the original that wants signatures, with topics."""
    home = tmp_path_factory.mktemp(f"spark-acl-{request.param}")
    (home / "broker" / "conf").mkdir(parents=True)
    (home / "broker" / "conf" / "plain_acl.yml").write_text(ACL)
    conf = {"aclEnable": "true"}
    cluster = JavaCluster(request.param, home, serialization="JSON", conf=conf)
    try:
        for topic in ("orders", "copy", "restored", "replayed", "redriven"):
            _create(cluster, topic)
        yield cluster
    finally:
        cluster.kill()


def _access(cluster: JavaCluster) -> dict[str, str]:
    return {"nameServers": cluster.namesrv, "accessKey": KEY, "secretKey": SECRET}


def _create(cluster: JavaCluster, topic: str) -> None:
    given = source_options({**_access(cluster), "topics": topic})
    header = CreateTopicRequest(
        topic=topic, default_topic="TBW102", read_queue_nums=4, write_queue_nums=4, perm=6,
        topic_filter_type="SINGLE_TAG",
    )  # fmt: skip
    with closing(Brokers(given.access)) as brokers:
        request = Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        assert brokers.wire(cluster.broker_address).call(request).code == 0
        _await(lambda: brokers.find_route(topic) is not None, f"route of {topic}")


def _await(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.1)


def _await_messages(cluster: JavaCluster, topic: str, count: int) -> None:
    """A Java broker puts messages into their queues a moment after it has stored them."""
    given = source_options({**_access(cluster), "topics": topic})
    with closing(Brokers(given.access)) as brokers:

        def is_there() -> bool:
            if brokers.find_route(topic) is None:
                return False
            return sum(brokers.end_offsets(brokers.readable_queues(given)).values()) >= count

        _await(is_there, f"{count} messages in {topic}")


def _send(spark: Any, cluster: JavaCluster, numbers: range, **options: str) -> None:
    frame = spark.range(numbers.start, numbers.stop, 1, 2).selectExpr(
        "to_json(named_struct('n', id)) as body", "concat('k', id) as keys",
        "concat('t', id % 2) as tags", "map('n', cast(id as string)) as properties",
    )  # fmt: skip
    given = {**_access(cluster), "topic": "orders", **options}
    frame.write.format("rocketmq").mode("append").options(**given).save()


def _numbers(frame: Any) -> Counter[int]:
    return Counter(int(row[0]) for row in frame.selectExpr("properties['n']").collect())


def _read(spark: Any, cluster: JavaCluster, topic: str, **options: str) -> Any:
    given = {**_access(cluster), "topics": topic, **options}
    return spark.read.format("rocketmq").options(**given).load()


def _stream(spark: Any, cluster: JavaCluster, **options: str) -> Any:
    given = {**_access(cluster), "topics": "orders", "startingOffsets": "earliest", **options}
    return spark.readStream.format("rocketmq").options(**given).load()


def test_who_is_unknown_or_may_not_is_refused(spark: Any, java: JavaCluster) -> None:
    where = {"nameServers": java.namesrv, "patienceMs": "1000"}
    accounts: list[tuple[dict[str, str], str]] = [
        ({}, "accessKey"),
        ({"accessKey": KEY, "secretKey": "wrong-secret"}, "[Ss]ignature"),
        ({"accessKey": "nobody", "secretKey": SECRET}, "nobody"),
    ]
    for account, reason in accounts:
        reader = spark.read.format("rocketmq").options(**where, **account, topics="orders")
        with pytest.raises(Exception, match=reason):
            reader.load().count()
    reader_account = {"accessKey": "readerUser", "secretKey": "reader-secret-1"}
    if java.version != "4.9.7":  # which does not look at who sends a batch
        with pytest.raises(Exception, match=r"(?i)no default permission"):
            _send(spark, java, range(5), **where, **reader_account)
    assert _read(spark, java, "orders", **reader_account).count() == 0


def test_source_sink_and_streams_over_a_restart(
    spark: Any, java: JavaCluster, tmp_path: Path
) -> None:
    for _ in range(2):  # the second one finds everything there
        _send(spark, java, range(COUNT), delivery="effectively-once", queryId="first")
        _await_messages(java, "orders", COUNT)
    assert _numbers(_read(spark, java, "orders")) == Counter(range(COUNT))
    assert _numbers(_read(spark, java, "orders", tags="t1")) == Counter(range(1, COUNT, 2))
    assert _read(spark, java, "orders", sql="n BETWEEN 10 AND 19").count() == 10

    limited = _stream(spark, java, maxOffsetsPerTrigger="150", group="spark_acl")
    writer = limited.writeStream.format("rocketmq").options(
        **_access(java), topic="copy", delivery="effectively-once"
    )
    query_ = (
        writer.option("checkpointLocation", str(tmp_path / "check"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        _await(lambda: len(query_.recentProgress) >= 3, "three batches")
        java.broker.kill()
        java.broker.start()
        _send(spark, java, range(COUNT, COUNT + 500))
        _await_messages(java, "orders", COUNT + 500)
        query_.processAllAvailable()
    finally:
        query_.stop()
    _await_messages(java, "copy", COUNT + 500)
    assert _numbers(_read(spark, java, "copy")) == Counter(range(COUNT + 500))
    given = source_options({**_access(java), "topics": "orders"})
    with closing(Brokers(given.access)) as brokers:
        queues = brokers.readable_queues(given)
        assert sum(brokers.committed("spark_acl", queues).values()) > 0


def _fail_some(cluster: JavaCluster, total: int) -> None:
    done = threading.Semaphore(0)

    def bill(message: Any) -> None:
        done.release()
        if json.loads(message.body)["n"] < BAD:
            raise ValueError("cannot be billed")

    account = Credentials(access_key=KEY, secret_key=SECRET)
    with blocking.PushConsumer(
        "billing", topics="orders", name_servers=cluster.namesrv, start_from="first",
        handler=bill, settings=ConsumerSettings(retries_max=0),
        client=ClientSettings(credentials=account),
    ):  # fmt: skip
        for _ in range(total):
            assert done.acquire(timeout=60)


def test_the_pipelines(spark: Any, java: JavaCluster, tmp_path: Path) -> None:
    place = Cluster(name_servers=java.namesrv, access_key=KEY, secret_key=SECRET)
    total = COUNT + 500
    every = Counter(range(total))
    path = str(tmp_path / "archive")
    done = archive.run(spark, place, path, topics=["orders"], batch_rows=1500, group="archive")
    assert done.rows == total
    assert archive.run(spark, place, path, topics=["orders"]).rows == 0
    for where in (place, Stores(paths=(str(java.broker.store),)), Archive(path=path)):
        text = "select count(*) as n from orders where cast(body as string) like '%\"n\":1_}'"
        assert query.run(spark, text, places=[where]).collect()[0].n == 10, where
        spark.catalog.dropTempView("orders")
    restore.run(spark, path, place, to="restored", topics=["orders"])
    _await_messages(java, "restored", total)
    assert _numbers(read_messages(spark, place, topics=["restored"])) == every
    assert restore.run(spark, path, place, to="restored", topics=["orders"]).rows == 0

    state = tmp_path / "replay.json"
    replayed = replay.run(
        spark, place, place, topic="orders", to="replayed", state=state, speed=1000.0
    )
    assert replayed.rows == total
    _await_messages(java, "replayed", total)
    assert _numbers(read_messages(spark, place, topics=["replayed"])) == every

    _fail_some(java, total)
    _await_messages(java, "%DLQ%billing", BAD)
    first = redrive.run(spark, place, groups=["billing"], to="redriven")
    assert first.facts == {redrive.SENT: BAD}
    _await_messages(java, "redriven", BAD)
    second = redrive.run(spark, place, groups=["billing"], to="redriven")
    assert second.facts == {redrive.THERE: BAD}

    report = audit.run(spark, place, tmp_path / "audit")
    rows = spark.read.parquet(f"{tmp_path}/audit/traffic").where("topic = 'orders'").collect()
    assert sum(row.messages for row in rows) == total
    lag = spark.read.parquet(f"{tmp_path}/audit/lag").where("group = 'billing'").collect()
    assert sum(row.end_offset for row in lag if row.topic == "orders") == total
    assert Path(report.facts["report"]).exists()
