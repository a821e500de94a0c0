"""Pairs of ours and Java's: the same bytes on both sides, through kills, wipes and failovers."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contrailmq import Message, Producer, ProducerSettings
from testkit.our_broker import OurBroker, wait_for
from testkit.peer import JavaBroker, JavaNameServer

pytestmark = pytest.mark.interop
SIZES = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "20000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
}


def files(store: Path, part: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in sorted((store / part).rglob("*"))
        if path.is_file()
    }


def differences(first: Path, second: Path, *, parts: tuple[str, ...]) -> list[str]:
    """Files that are not the same; one side may have made an empty one ahead."""
    wrong = []
    for part in parts:
        one, two = files(first, part), files(second, part)
        for name in sorted(one.keys() | two.keys()):
            has_bytes = any(one.get(name, b"")) or any(two.get(name, b""))
            if has_bytes and one.get(name) != two.get(name):
                wrong.append(name)
    return wrong


def send(namesrv: str, count: int) -> dict[str, int]:
    """Send from several at once; how often each status came."""

    async def run() -> dict[str, int]:
        found: dict[str, int] = {}
        settings = ProducerSettings(send_timeout_s=10)  # 5.2.0 takes 3 s to say that it waited
        async with Producer("replication", name_servers=namesrv, settings=settings) as producer:

            async def one(worker: int) -> None:
                for number in range(count // 8):
                    body = b"%d-%d " % (worker, number) + b"x" * (number * 37 % 3000)
                    receipt = await producer.send(Message("Pairs", body, keys=f"{worker}-{number}"))
                    name = receipt.status.name
                    found[name] = found.get(name, 0) + 1

            await asyncio.gather(*(one(worker) for worker in range(8)))
        return found

    return asyncio.run(run())


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    started: list[Any] = []

    def start(what: str, name: str, *, namesrv: str, **conf: str) -> Any:
        keys = {**SIZES, **conf}
        if what == "ours":
            broker: Any = OurBroker(tmp_path / name, namesrv=namesrv, conf=keys)
        else:
            more = {"brokerIP2": "127.0.0.1", **keys}
            broker = JavaBroker(what, tmp_path / name, namesrv=namesrv, conf=more)
        started.append(broker)
        return broker

    yield start
    for broker in started:
        broker.kill()


@pytest.mark.parametrize(
    ("primary", "replica"),
    [("4.9.7", "ours"), ("5.2.0", "ours"), ("ours", "4.9.7"), ("ours", "5.2.0"), ("ours", "ours")],
)
def test_both_sides_have_the_same_bytes(
    primary: str,
    replica: str,
    brokers: Callable[..., Any],
    java_namesrv: Callable[..., JavaNameServer],
) -> None:
    namesrv = java_namesrv("5.2.0").address
    more = {} if primary == "4.9.7" else {"inSyncReplicas": "2"}
    first = brokers(
        primary, "primary", namesrv=namesrv, brokerRole="SYNC_MASTER", brokerId="0", **more
    )
    second = brokers(replica, "replica", namesrv=namesrv, brokerRole="SLAVE", brokerId="1")

    def is_synchronous() -> bool:
        return send(namesrv, 8) == {"SEND_OK": 8}

    wait_for(is_synchronous, "the replica acknowledges", seconds=90)
    assert send(namesrv, 2000) == {"SEND_OK": 2000}
    both = ("commitlog", "consumequeue")
    wait_for(lambda: not differences(first.store, second.store, parts=both), "equal stores")
    if replica == "ours":
        second.kill()
        assert "SEND_OK" not in send(namesrv, 16)
        second.start()
        wait_for(is_synchronous, "the replica is back", seconds=30)
        wait_for(lambda: not differences(first.store, second.store, parts=both), "equal stores")
        second.kill()
        shutil.rmtree(second.store)
        second.start()
        wait_for(is_synchronous, "the emptied replica is back", seconds=30)
        tail = sorted(files(second.store, "commitlog"))
        assert all(files(first.store, "commitlog").get(name) is not None for name in tail[:-1])
    topics = json.loads((first.store / "config/topics.json").read_text())["topicConfigTable"]
    if replica == "ours":
        wait_for(
            lambda: (
                "Pairs"
                in json.loads((second.store / "config/topics.json").read_text())["topicConfigTable"]
            ),
            "the replica has the primary's topics",
        )
    assert "Pairs" in topics
