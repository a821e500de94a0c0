"""Light queues and batch queues with the real 5.2.0: its client, its admin tool, its broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from contrailmq.testing.cluster import ClusterThread
from testkit.peer import JavaBroker, Row

pytestmark = pytest.mark.timeout(240)
Run = Callable[..., list[Row]]
V5 = "5.2.0"
LIGHTS = {"enableLmq": "true", "enableMultiDispatch": "true"}
SIZES = {"mapperFileSizeBatchConsumeQueue": "460", "mappedFileSizeConsumeQueue": "600"}


def bodies(java_run: Run, where: dict[str, Any], **more: Any) -> list[str]:
    rows = java_run(V5, "pull", **where, **more)
    return [row["body"] for row in rows if row["event"] == "message"]


def send(java_run: Run, where: dict[str, Any], name: str, count: int) -> list[str]:
    """Send a batch and a single message to a topic of batch queues."""
    batch = [f"{name}-{number}" for number in range(count)]
    for mode, texts in (("batch", batch), ("sync", [f"{name}-single"])):
        messages = [{"body": text, "keys": text} for text in texts]
        rows = java_run(V5, "produce", mode=mode, messages=messages, **where)
        assert [row["status"] for row in rows if row["event"] == "sent"] == ["SEND_OK"]
    return [*batch, f"{name}-single"]


def send_light(java_run: Run, where: dict[str, Any], name: str) -> dict[str, list[str]]:
    """Send to a topic whose messages are in two light queues, too."""
    lists = ["%LMQ%a", "%LMQ%a,%LMQ%b", "%LMQ%b,%LMQ%a"]
    messages = [
        {"body": f"{name}-{number}", "properties": {"INNER_MULTI_DISPATCH": names}}
        for number, names in enumerate(lists)
    ]
    rows = java_run(V5, "produce", messages=messages, mode="ordered", queueId=0, **where)
    assert [row["status"] for row in rows if row["event"] == "sent"] == ["SEND_OK"] * 3
    return {
        light: [m["body"] for m, names in zip(messages, lists, strict=True) if light in names]
        for light in ("%LMQ%a", "%LMQ%b")
    }


def test_a_store_with_light_and_batch_queues_changes_hands(
    java_run: Run,
    java_broker: Callable[..., JavaBroker],
    mqadmin: Callable[..., str],
    topic: str,
) -> None:
    """Ours, Java's, ours again: every message once, in its order, in every queue."""
    cluster = ClusterThread(properties=LIGHTS | SIZES)
    where = {"namesrv": cluster.name_servers}
    batches, parent = {**where, "topic": topic}, {**where, "topic": f"{topic}_p"}
    sent: list[str] = []
    light: dict[str, list[str]] = {"%LMQ%a": [], "%LMQ%b": []}

    def go_on(name: str, count: int) -> None:
        check()
        sent.extend(send(java_run, batches, name, count))
        for queue, texts in send_light(java_run, parent, name).items():
            light[queue].extend(texts)
        check()

    def check() -> None:
        assert bodies(java_run, batches) == sent
        for queue, texts in light.items():
            assert bodies(java_run, parent, light=queue) == texts

    try:
        for name, attribute in ((topic, "+queue.type=BatchCQ"), (f"{topic}_p", "")):
            words = ["-n", cluster.name_servers, "-b", cluster.addresses[0], "-t", name]
            words += ["-r", "1", "-w", "1", *(["-a", attribute] if attribute else [])]
            assert "create topic to" in mqadmin(V5, "updateTopic", *words)
        go_on("ours", 12)
        cluster.stop_broker()
        conf = {
            "storePathRootDir": str(cluster.stores[0]),
            "storePathCommitLog": str(cluster.stores[0] / "commitlog"),
            **LIGHTS,
            **SIZES,
        }
        java = java_broker(V5, namesrv=cluster.name_servers, conf=conf)
        go_on("java", 3)
        java.stop()
        cluster.start_broker()
        go_on("again", 2)
    finally:
        cluster.close()
