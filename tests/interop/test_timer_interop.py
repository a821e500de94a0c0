"""Timer messages with the real 5.2.0: its client, and stores handed over with timers pending."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from contrailmq.testing.cluster import ClusterThread
from testkit.peer import JavaBroker, Row

pytestmark = pytest.mark.timeout(300)
Run = Callable[..., list[Row]]
VERSION = "5.2.0"
TIMER_FILE = 52 * 20 + 16


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def pulled(java_run: Run, where: dict[str, Any]) -> list[Row]:
    return [row for row in java_run(VERSION, "pull", **where) if row["event"] == "message"]


def wait_for(java_run: Run, where: dict[str, Any], wanted: set[str], seconds: float) -> list[Row]:
    deadline = time.monotonic() + seconds
    while True:
        rows = pulled(java_run, where)
        if wanted <= {row["body"] for row in rows} or time.monotonic() > deadline:
            return rows
        time.sleep(0.3)


def test_the_java_client_times_its_messages(java_run: Run, topic: str) -> None:
    """Delays and moments come in time, the past at once, what is too far away is refused."""
    cluster = ClusterThread()
    where = {"namesrv": cluster.name_servers, "topic": topic}
    try:
        java_run(VERSION, "produce", messages=[{"body": "warm"}], **where)  # its machine starts
        at = now_ms() + 6345
        messages = [
            {"body": "at", "deliverMs": at},
            {"body": "ms", "delayMs": 1700},
            {"body": "past", "deliverMs": at - 60_000},
        ]
        rows = java_run(VERSION, "produce", messages=messages, **where)
        assert [row["status"] for row in rows if row["event"] == "sent"] == ["SEND_OK"] * 3
        far = [{"body": "far", "delayMs": 4 * 86_400_000}]
        rows = java_run(VERSION, "produce", messages=far, retries=0, **where)
        assert any(row["event"] == "failed" for row in rows), rows
        found = {row["body"]: row for row in wait_for(java_run, where, {"at", "ms", "past"}, 15)}
        assert set(found) == {"warm", "at", "ms", "past"}
        assert 0 <= found["at"]["storeTimestamp"] - at < 900
        waited = found["ms"]["storeTimestamp"] - found["ms"]["bornTimestamp"]
        assert 1700 <= waited < 2600
    finally:
        cluster.close()


def timers(first_ms: int, count: int, name: str) -> list[dict[str, Any]]:
    return [
        {"body": f"{name}{number}", "deliverMs": first_ms + 400 * number} for number in range(count)
    ]


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_store_changes_hands_with_timers_pending(
    java_run: Run, java_broker: Callable[..., JavaBroker], topic: str, ending: str
) -> None:
    """Ours to Java and back to ours: each message once, none early.

    A Java broker that is killed has lost up to a second of what it knew: that may come twice.
    """
    cluster = ClusterThread(properties={"mappedFileSizeTimerLog": str(TIMER_FILE)})
    where = {"namesrv": cluster.name_servers, "topic": topic}
    due: dict[str, int] = {}

    def produce(name: str, count: int, first_ms: int) -> None:
        messages = timers(first_ms, count, name)
        rows = java_run(VERSION, "produce", messages=messages, **where)
        assert len([row for row in rows if row.get("status") == "SEND_OK"]) == count
        due.update({message["body"]: message["deliverMs"] for message in messages})

    try:
        produce("ours-", 120, now_ms() + 1000)
        time.sleep(2.3)
        cluster.stop_broker()
        conf = {
            "storePathRootDir": str(cluster.stores[0]),
            "storePathCommitLog": str(cluster.stores[0] / "commitlog"),
            "mappedFileSizeConsumeQueue": str(20 * 30_000),
            "mappedFileSizeTimerLog": str(TIMER_FILE),
        }
        java = java_broker(VERSION, namesrv=cluster.name_servers, conf=conf)
        produce("java-", 60, now_ms() + 2000)
        time.sleep(4)
        killed_ms = now_ms()
        getattr(java, ending)()
        cluster.start_broker()
        produce("again-", 20, now_ms() + 1000)
        last = max(due.values())
        time.sleep(max(0.0, (last - now_ms()) / 1000))
        rows = wait_for(java_run, where, set(due), 15)
        found = Counter(row["body"] for row in rows)
        assert set(found) == set(due), sorted(set(due) - set(found))
        twice = {body: count for body, count in found.items() if count > 1}
        if ending == "kill":
            twice = {b: n for b, n in twice.items() if abs(due[b] - killed_ms) > 4000 or n > 2}
        assert not twice
        early = [row["body"] for row in rows if row["storeTimestamp"] < due[row["body"]]]
        assert not early
    finally:
        cluster.close()
