"""The load tool counts what it did, and its percentiles are those of the samples."""

from __future__ import annotations

import asyncio
import io
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from contrailmq.admin.bench.histogram import Histogram
from contrailmq.admin.client import AdminClient
from contrailmq.admin.commands import bench
from contrailmq.errors import ClientError
from contrailmq.testing.cluster import ClusterThread


@pytest.fixture
def cluster() -> Iterator[ClusterThread]:
    running = ClusterThread()
    try:
        yield running
    finally:
        running.close()


def _run(cluster: ClusterThread, *argv: str) -> dict[str, Any]:
    out = io.StringIO()
    assert bench.main([*argv, "-n", cluster.name_servers, "--json"], out=out) == 0
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def test_percentiles_are_exact_to_a_percent() -> None:
    rng = random.Random(5)
    samples = sorted(rng.expovariate(100) for _ in range(20_000))
    found = Histogram()
    for sample in samples:
        found.record(sample)
    for share in (50.0, 90.0, 99.0, 99.9):
        exact = samples[int(len(samples) * share / 100) - 1]
        assert found.percentile(share) == pytest.approx(exact, rel=0.03)
    assert found.max_s == samples[-1] == found.percentile(100)
    assert found.mean_s == pytest.approx(sum(samples) / len(samples))


def test_an_empty_histogram_is_all_zero() -> None:
    assert set(Histogram().summary().values()) == {0.0}


def test_what_is_sent_can_be_consumed(cluster: ClusterThread) -> None:
    sent = _run(cluster, "producer", "-t", "b", "-q", "500", "-w", "8", "-k")
    assert (sent["messages"], sent["failed"]) == (500, 0)
    assert 0 < sent["p50Ms"] <= sent["p99Ms"] <= sent["maxMs"]
    batches = _run(cluster, "producer", "-t", "b", "-q", "320", "-b", "32")
    assert batches["messages"] == 320
    taken = _run(cluster, "consumer", "-t", "b", "--from", "first", "-q", "822", "--duration", "20")
    assert taken["messages"] == 822  # with the two that made the connections
    less = _run(
        cluster, "consumer", "-t", "b", "-g", "g", "--from", "first", "-q", "33", "--duration", "20"
    )
    assert less["messages"] == 33  # not a whole call, nor what the other workers have


def test_latency_in_an_open_loop(cluster: ClusterThread) -> None:
    found = _run(cluster, "latency", "-t", "l", "--rate", "400", "-q", "100", "--duration", "10")
    assert (found["messages"], found["lost"]) == (100, 0)
    assert found["seconds"] >= 0.247  # 99 intervals, printed in milliseconds
    assert found["sendToConsumer"]["p50Ms"] > 0

    async def left() -> tuple[list[str], list[str]]:
        async with AdminClient(cluster.name_servers) as admin:
            return await admin.groups.names(), await admin.topics.names()

    groups, topics = asyncio.run(left())
    assert [name for name in (*groups, *topics) if "contrail-bench" in name] == []


def test_a_body_must_hold_the_time(cluster: ClusterThread) -> None:
    with pytest.raises(ClientError, match="at least 8"):
        bench.main(["latency", "-s", "3", "-n", cluster.name_servers])


@pytest.mark.parametrize(
    "wrong",
    [["-w", "0"], ["-b", "0"], ["-s", "-5"], ["-q", "x"], ["--rate", "0"], ["--duration", "nan"]],
)
def test_a_wrong_number_is_a_usage_error(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        bench.main(["producer", *wrong])
    assert wrong[1] in capsys.readouterr().err


def test_a_consumer_that_gets_nothing_says_so(cluster: ClusterThread) -> None:
    cluster.create_topic("empty")
    with pytest.raises(ClientError, match="no message of 'empty' came; --from first"):
        bench.main(["consumer", "-t", "empty", "--duration", "0.2", "-n", cluster.name_servers])


def test_a_consumer_counts_from_the_first_message_to_the_last(cluster: ClusterThread) -> None:
    _run(cluster, "producer", "-t", "b", "-q", "100", "-p", "64")
    taken = _run(cluster, "consumer", "-t", "b", "--from", "first", "--duration", "4")
    assert taken["messages"] == 101
    assert taken["seconds"] < 3.5  # the wait for more does not count
