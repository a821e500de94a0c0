"""The figures of a running broker and its name server, as Prometheus gets them."""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from contrailmq import Message, Producer, PullConsumer, TransactionState
from contrailmq._native.lanes.times import BOUNDS_MS, Times
from contrailmq.broker.services.latencies import distribution, put_latencies, quantile_ms
from contrailmq.errors import ConfigError
from contrailmq.protocol.queue import MessageQueue
from contrailmq.up import Cluster, local_cluster
from testkit.prom import Page, fetch_page

COMMON = {"cluster", "node_id", "node_type", "otel_scope_name"}


def _cluster(tmp_path: Path, **more: str) -> Cluster:
    given = {"metricsExporterType": "PROM", "metricsPromExporterPort": "0", **more}
    return local_cluster(str(tmp_path), {"mappedFileSizeCommitLog": "4194304", **given})


async def _traffic(cluster: Cluster) -> None:
    async def check(message: object) -> TransactionState:
        return TransactionState.COMMIT

    names = cluster.namesrv_address
    async with Producer("pg", name_servers=names, check=check) as producer:
        for _ in range(20):
            await producer.send(Message("t", body=b"x" * 100))
        await producer.send(Message("t", body=b"y" * 2000))
        await producer.send_batch([Message("t", body=b"1"), Message("t", body=b"2")])
        await producer.send(Message("t", body=b"late", delay_s=3600))
        async with producer.transaction(Message("t", body=b"tx")):
            pass
    async with PullConsumer("g", name_servers=names) as consumer:
        queue = MessageQueue("t", "broker-a", 0)
        for topic_queue in await consumer.queues("t"):
            found = await consumer.pull(topic_queue, 0)
            if topic_queue == queue:
                await consumer.commit(queue, len(found.messages))


def test_a_broker_tells_what_passed_through_it(tmp_path: Path) -> None:
    async def scenario() -> tuple[Page, dict[str, str]]:
        async with _cluster(tmp_path, metricsLabel="zone:a") as cluster:
            await _traffic(cluster)
            page = await asyncio.to_thread(fetch_page, cluster.broker.metrics_address)
            figures = cluster.broker.telling
            assert figures is not None
            topic = figures.figures.topic("t")
            assert topic is not None
            assert sum(topic.end_offsets) == 24
            assert figures.figures.topic("nowhere") is None
            group = figures.figures.group("g", "t")
            assert group is not None
            assert group.lag == page.value("rocketmq_consumer_lag_messages", consumer_group="g")
            return page, cluster.broker.parts.runtime.table()

    page, runtime = asyncio.run(scenario())
    put = {"topic": "t", "message_type": "normal", "is_system": "false", "zone": "a"}
    assert page.value("rocketmq_messages_in_total", **put) == 24
    assert page.value("rocketmq_message_size_bucket", le="1024.0", topic="t") == 23
    assert page.value("rocketmq_message_size_bucket", le="+Inf", topic="t") == 24
    assert page.value("rocketmq_messages_out_total", topic="t", consumer_group="g") == 24
    assert page.value("rocketmq_commit_messages_total", topic="t") == 1
    assert page.value("rocketmq_timing_messages", topic="t") == 1
    assert page.value("rocketmq_timer_message_snapshot", timer_bound_s="60") == 0
    assert page.value("rocketmq_timer_message_snapshot", timer_bound_s="14400") == 1
    assert page.value("rocketmq_broker_permission") == 6
    sends = page.value("rocketmq_rpc_latency_milliseconds_count", request_code="send_message_v2")
    assert sends == 23
    fast = page.value("contrail_requests_total", path="fast_lane")
    assert fast >= 20
    assert page.value("contrail_namesrv_brokers", cluster="DefaultCluster") == 1
    assert page.value("contrail_namesrv_request_latency_milliseconds_count") > 0
    assert page.value("process_resident_memory_bytes") > 1_000_000
    assert page.types["rocketmq_consumer_lag_latency_milliseconds"] == "gauge"
    assert page.label_names("rocketmq_consumer_lag_messages") == {
        frozenset(COMMON | {"consumer_group", "topic", "is_retry", "is_system", "zone"})
    }
    counted = sum(int(step.rpartition(":")[2]) for step in _steps(runtime))
    assert counted == page.value("rocketmq_message_size_count") - 1  # a batch is one put of two
    assert float(runtime["putLatency99"]) > 0


def _steps(runtime: dict[str, str]) -> list[str]:
    return runtime["putMessageDistributeTime"].split()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _cluster(tmp_path / "a") as first:
            port = first.broker.metrics_address.rpartition(":")[2].partition("/")[0]
            taken = {"metricsPromExporterPort": port}
            with pytest.raises(ConfigError, match="metricsPromExporterPort"):
                async with _cluster(tmp_path / "b", **taken):
                    pass
            optional = {**taken, "netMetricsPortOptional": "true"}
            async with _cluster(tmp_path / "c", **optional) as third:
                assert third.broker.metrics_address == ""

    asyncio.run(scenario())


def test_a_probe_is_told_when_the_store_takes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _cluster(tmp_path) as cluster:
            base = cluster.broker.metrics_address.removesuffix("/metrics")
            assert await asyncio.to_thread(_status, f"{base}/readyz") == 200
            cluster.broker.parts.store.refuse("the test says so")
            assert await asyncio.to_thread(_status, f"{base}/readyz") == 503
            assert await asyncio.to_thread(_status, f"{base}/healthz") == 200
            cluster.broker.parts.store.refuse(None)

    asyncio.run(scenario())


@pytest.mark.parametrize(("primary", "status"), [("127.0.0.1:1", 200), ("", 503)])
def test_a_replica_is_ready_while_it_has_a_primary(
    tmp_path: Path, primary: str, status: int
) -> None:
    keys = {"brokerRole": "SLAVE", "brokerId": "1", "haMasterAddress": primary}

    async def scenario() -> None:
        async with _cluster(tmp_path, **keys) as cluster:
            base = cluster.broker.metrics_address.removesuffix("/metrics")
            assert await asyncio.to_thread(_status, f"{base}/readyz") == status
            cluster.broker.parts.store.refuse("the test says so")
            assert await asyncio.to_thread(_status, f"{base}/readyz") == 503

    asyncio.run(scenario())


def _status(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_a_deleted_topic_is_gone_from_the_page(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _cluster(tmp_path) as cluster:
            await _traffic(cluster)
            counters = cluster.broker.parts.tables.counters
            counters.put_by_kind()
            counters.forget_topic("t")
            page = await asyncio.to_thread(fetch_page, cluster.broker.metrics_address)
            with pytest.raises(KeyError):
                page.value("rocketmq_messages_in_total", topic="t")

    asyncio.run(scenario())


def test_times_are_told_in_the_words_of_the_original() -> None:
    times, other = Times(), Times()
    times.add(900_000, 5)  # ns
    times.add(9_000_000, 3)
    other.add(10_000_000, 1)
    other.add(60_000_000_000, 1)
    table = put_latencies(times, other)
    assert table["putMessageDistributeTime"] == (
        "[<=0ms]:5 [0~10ms]:4 [10~50ms]:0 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 "
        "[500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:1 "
    )
    assert table["putMessageEntireTimeMax"] == "60000"
    assert distribution([0] * (len(BOUNDS_MS) + 1)).startswith("[<=0ms]:0 ")
    assert quantile_ms([0] * (len(BOUNDS_MS) + 1), 0.99) == 0.0
    assert quantile_ms(times.counts(), 0.5) <= 1.0 < quantile_ms(times.counts(), 0.9)


def test_every_name_is_on_the_page_of_the_documentation(tmp_path: Path) -> None:
    async def scenario() -> Page:
        async with _cluster(tmp_path) as cluster:
            return await asyncio.to_thread(fetch_page, cluster.broker.metrics_address)

    text = (Path(__file__).resolve().parents[3] / "docs" / "metrics.md").read_text()
    told = asyncio.run(scenario()).types
    assert [name for name in told if f"`{name}`" not in text and "_info" not in name] == []
    named = set(re.findall(r"^\| `(\w+)`", text, re.MULTILINE))
    assert named - set(told) == set()
