"""POP with the real 5.2.0: its push consumer in POP mode against our broker and against its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from contrailmq.testing.cluster import ClusterThread
from testkit.peer import JavaCall, JavaCluster, Row

pytestmark = pytest.mark.timeout(240)
V5 = "5.2.0"
Run = Callable[..., list[Row]]
Start = Callable[..., JavaCall]


@pytest.fixture(scope="module")
def ours() -> Iterator[ClusterThread]:
    cluster = ClusterThread()
    yield cluster
    cluster.close()


@pytest.fixture(params=["ours", V5])
def where(
    request: pytest.FixtureRequest,
    ours: ClusterThread,
    java_cluster: Callable[..., JavaCluster],
    topic: str,
) -> dict[str, Any]:
    if request.param == "ours":
        return {"namesrv": ours.name_servers, "broker": ours.addresses[0], "topic": topic}
    cluster = java_cluster(V5, loadBalancePollNameServerInterval=1000)
    return {"namesrv": cluster.namesrv, "broker": cluster.broker_address, "topic": topic}


def test_the_push_consumer_pops_and_gets_retries(
    java_run: Run, java_start: Start, where: dict[str, Any], group: str
) -> None:
    java_run(V5, "produce", count=20, **where)
    consumer = java_start(
        V5, "consume", group=group, pop=True, fail=1, count=20, timeoutMs=90_000, **where
    )
    rows = consumer.expect("message", count=40, timeout_s=100)
    consumer.stop()
    times = Counter((row["body"], row["reconsumeTimes"]) for row in rows)
    wanted = [(f"message {n}", attempt) for n in range(20) for attempt in (0, 1)]
    assert sorted(times) == sorted(wanted)
    assert set(times.values()) == {1}


def test_a_slow_consumer_holds_up_nobody(
    java_run: Run, java_start: Start, where: dict[str, Any], group: str
) -> None:
    java_run(V5, "produce", count=1, **where)
    slow = java_start(
        V5, "consume", group=group, pop=True, instance="slow", fail=1000, timeoutMs=90_000, **where
    )
    slow.expect("message")
    other = java_start(
        V5, "consume", group=group, pop=True, instance="quick", timeoutMs=90_000, **where
    )
    other.expect("ready")
    java_run(V5, "produce", count=60, **where)
    other.expect("message", count=20, timeout_s=60)
    for each in (slow, other):
        each.stop()
