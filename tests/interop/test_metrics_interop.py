"""The same traffic at a broker of 5.2.0 and at ours: the same names, types and labels."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contrailmq import (
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    SimpleConsumer,
    TransactionState,
)
from contrailmq.up import local_cluster
from testkit.peer import JavaCluster, free_port
from testkit.prom import Page, fetch_page

pytestmark = pytest.mark.timeout(180)

# What Java tells and we do not, with the reason.
MISSING = {"target_info": "told without braces"}
_UNITS = re.compile(r"(_bytes|_milliseconds|_seconds)$")
_PARTS = re.compile(r"(_bucket|_count|_sum)$")


async def _traffic(names: str, fetch: Callable[[], Page]) -> Page:
    """Send, delay, end transactions, pull and pop; returns the page while clients are there."""

    async def check(message: object) -> TransactionState:
        return TransactionState.COMMIT

    async with Producer("pg", name_servers=names, check=check) as producer:
        for _ in range(3):
            await producer.send(Message("mt", body=b"x" * 100), timeout_s=10)
        await producer.send(Message("mt", body=b"d", delay_s=2), timeout_s=10)
        await producer.send_batch([Message("mt", body=b"b1"), Message("mt", body=b"b2")])
        async with producer.transaction(Message("mt", body=b"tx")):
            pass
        with pytest.raises(KeyError):
            async with producer.transaction(Message("mt", body=b"tx")):
                raise KeyError
        seen = 0
        async with (
            PushConsumer("cg", topics={"mt": "*"}, name_servers=names, start_from="first") as push,
            SimpleConsumer("sg", topics={"mt": "*"}, name_servers=names) as simple,
            PullConsumer("lg", name_servers=names),
        ):
            async with asyncio.timeout(60):
                async for _ in push:
                    seen += 1
                    if seen == 7:  # the one with a time among them
                        break
            popped = await simple.receive()
            await simple.ack(popped[0])
            return await asyncio.to_thread(fetch)


def _kinds(page: Page) -> dict[str, str]:
    """The type of each series; Java names types without the unit."""
    found = {}
    for name in page.values:
        bare = _PARTS.sub("", name)
        kind = page.types.get(bare) or page.types.get(_UNITS.sub("", bare))
        found[name] = kind or page.types.get(name, "")
    return found


def test_names_types_and_labels_are_those_of_5_2_0(
    java_cluster: Callable[..., JavaCluster], tmp_path: Path
) -> None:
    port = free_port()
    java = java_cluster(
        "5.2.0",
        metricsExporterType="PROM",
        metricsPromExporterPort=port,
        metricsPromExporterHost="127.0.0.1",
    )

    def fetch() -> Page:
        """Java tells of what came since it looked last; what is lazy comes a moment later."""
        deadline = time.monotonic() + 60
        while True:
            page = fetch_page(f"http://127.0.0.1:{port}/metrics")
            if "rocketmq_consumer_connections" in page.values:
                return page
            assert time.monotonic() < deadline
            time.sleep(0.5)

    theirs = asyncio.run(_traffic(java.namesrv, fetch))

    async def own() -> Page:
        given = {"metricsExporterType": "PROM", "metricsPromExporterPort": "0"}
        given["mappedFileSizeCommitLog"] = "16777216"
        async with local_cluster(str(tmp_path), given) as cluster:
            address = cluster.broker.metrics_address
            return await _traffic(cluster.namesrv_address, lambda: fetch_page(address))

    ours = asyncio.run(own())
    names = {name for name in theirs.values if name not in MISSING}
    assert len(names) > 45
    assert names - set(ours.values) == set()
    their_kinds, our_kinds = _kinds(theirs), _kinds(ours)
    different = {
        name: (their_kinds[name], our_kinds[name])
        for name in names
        if their_kinds[name] not in ("info", our_kinds[name])
    }
    assert different == {}
    strange = {
        name: (theirs.label_names(name), ours.label_names(name))
        for name in names
        if not theirs.label_names(name) <= ours.label_names(name)
    }
    assert strange == {}
    for name in ("rocketmq_producer_connections", "rocketmq_consumer_connections"):
        assert _without_node(theirs, name) == _without_node(ours, name)
    for name in sorted(names):
        if name.endswith("_bucket"):
            bounds = {dict(labels)["le"] for labels in theirs.values[name]}
            assert bounds == {dict(labels)["le"] for labels in ours.values[name]}, name


def _without_node(page: Page, name: str) -> set[frozenset[tuple[str, str]]]:
    return {frozenset(pair for pair in key if pair[0] != "node_id") for key in page.values[name]}
