"""The 5.x SDKs of four languages against our broker, over gRPC: plain text and TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from contrailmq.admin.client import AdminClient
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.testing.cluster import ClusterThread
from testkit import sdk
from testkit.peer import free_port
from testkit.wild import Lacking

pytestmark = pytest.mark.timeout(300)

KINDS = {"normal": "NORMAL", "fifo": "FIFO", "delay": "DELAY", "tran": "TRANSACTION"}


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def cluster(port: int) -> Iterator[ClusterThread]:
    started = ClusterThread(
        properties={
            "grpcServerPort": str(port),
            "transactionCheckInterval": "1000",
            "transactionTimeOut": "1000",
        }
    )
    yield started
    started.close()


@pytest.fixture(scope="module")
def said(cluster: ClusterThread, port: int, tmp_path_factory: Any) -> dict[str, Any]:
    """What each SDK's program said, all of them at work at once; or why it cannot run."""
    asyncio.run(_make_topics(cluster))

    def at_work(language: str) -> Any:
        try:
            home = tmp_path_factory.mktemp(language)
            return sdk.run(language, f"127.0.0.1:{port}", f"sdk-{language}", home=home)
        except (Lacking, AssertionError) as reason:
            return reason

    with ThreadPoolExecutor(len(sdk.LANGUAGES)) as pool:
        return dict(zip(sdk.LANGUAGES, pool.map(at_work, sdk.LANGUAGES), strict=True))


async def _make_topics(cluster: ClusterThread) -> None:
    async with AdminClient(cluster.name_servers) as admin:
        for language in sdk.LANGUAGES:
            for kind, attribute in KINDS.items():
                config = TopicConfig(
                    topic_name=f"sdk-{language}-{kind}", read_queue_nums=4, write_queue_nums=4,
                    attributes={"message.type": attribute},
                )  # fmt: skip
                await admin.topics.create(config)


def rows(said: dict[str, Any], language: str, event: str) -> list[dict[str, Any]]:
    found = said[language]
    if isinstance(found, Lacking):
        pytest.skip(str(found))
    if isinstance(found, Exception):
        raise found
    return [row for row in found if row["event"] == event]


@pytest.mark.parametrize("language", sdk.LANGUAGES)
def test_simple_consumers_get_what_producers_sent(said: dict[str, Any], language: str) -> None:
    received = {row["topic"]: row for row in rows(said, language, "received")}
    plain = received["normal"]
    assert (plain["body"], plain["tag"], plain["keys"]) == ("plain", "blue", ["key-1"])
    assert (plain["properties"], plain["attempt"]) == ({"a": "1"}, 1)
    assert received["fifo"]["body"] == "ordered"
    assert received["delay"]["body"] == "late"
    assert len(rows(said, language, "sent")) == 1
    assert rows(said, language, "end"), "closed in good order"


@pytest.mark.parametrize("language", sdk.LANGUAGES)
def test_push_consumers_get_what_producers_sent(said: dict[str, Any], language: str) -> None:
    assert [row["body"] for row in rows(said, language, "pushed")] == ["plain"]


@pytest.mark.parametrize("language", ["python", "java"])
def test_transactions_end_by_the_producer_or_by_a_question(
    said: dict[str, Any], language: str
) -> None:
    bodies = [row["body"] for row in rows(said, language, "received") if row["topic"] == "tran"]
    assert sorted(bodies) == ["committed", "orphaned"]
    assert {row["body"] for row in rows(said, language, "checked")} == {"orphaned"}
