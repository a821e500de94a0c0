"""Each thing the doctor looks for, made on purpose: it is found, with its cause and its remedy."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import re
import shlex
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from contrailmq import ConsumerSettings, Message, PushConsumer, ReceivedMessage
from contrailmq import main as command
from contrailmq.admin.broker_calls import BrokerCalls
from contrailmq.admin.client import AdminClient
from contrailmq.admin.commands import doctor
from contrailmq.admin.doctor import cluster as examine_cluster
from contrailmq.admin.doctor.cluster import examine_brokers
from contrailmq.admin.doctor.findings import Chart, Severity
from contrailmq.blocking import Producer
from contrailmq.client.settings import World
from contrailmq.clock import SystemClock
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.headers.route import DeleteTopicFromNamesrvRequest
from contrailmq.testing.cluster import ClusterThread

Finding = dict[str, Any]
WATCH_S = 1.5  # retries wait for a second here


@pytest.fixture
def start() -> Iterator[Callable[..., ClusterThread]]:
    """``start(**properties)``: a cluster with these keys of broker.conf."""
    started: list[ClusterThread] = []

    def begin(**properties: str) -> ClusterThread:
        levels = " ".join(["1s"] * 18)
        started.append(ClusterThread(properties={"messageDelayLevel": levels, **properties}))
        return started[-1]

    yield begin
    for cluster in started:
        cluster.close()


def _found(name_servers: str, check: str, *, watch_s: float = 0.1) -> list[Finding]:
    """What a doctor says of one check that is not well; every finding has a cause and a remedy."""
    out = io.StringIO()
    doctor.main(["-n", name_servers, "--json", "--watch", str(watch_s)], out=out)
    findings = [json.loads(line) for line in out.getvalue().splitlines()]
    found = [one for one in findings if one["check"] == check and one["severity"] != "ok"]
    for one in found:
        assert one["cause"], one
        assert one["fix"], one
        _understood(one["fix"])
    return found


def _understood(fix: str) -> None:
    """A command line in a remedy is one that exists."""
    for line in re.findall(r"contrail [^;&(|]+", fix):
        words = shlex.split(re.sub(r"\bTOPIC\b", "orders", line))[1:]
        words = words[: words.index("shows")] if "shows" in words else words
        make = command._find_parser(command.COMMANDS[words[0]].target)
        assert make is not None
        parser = make()
        assert isinstance(parser, argparse.ArgumentParser)
        parser.parse_args(words[1:])


def test_name_servers_that_know_different_brokers(start: Callable[..., ClusterThread]) -> None:
    one, other = start(), start()
    [found] = _found(f"{one.name_servers};{other.name_servers}", "name server")
    assert found["severity"] == "warning"
    assert "namesrvAddr" in found["fix"]


def test_an_address_that_does_not_lead_to_the_broker(start: Callable[..., ClusterThread]) -> None:
    cluster = start(brokerIP1="127.0.0.2")
    port = cluster.addresses[0].rpartition(":")[2]
    [found] = _found(cluster.name_servers, "broker")
    assert found["severity"] == "problem"
    assert f"registered as 127.0.0.2:{port}, not reachable" in found["text"]
    assert "brokerIP1" in found["fix"]


class FastClock(SystemClock):
    """A clock that is a minute ahead."""

    def now_ms(self) -> int:
        return super().now_ms() + 60_000


def test_a_clock_that_is_off(start: Callable[..., ClusterThread]) -> None:
    cluster, chart = start(), Chart()

    async def visit() -> None:
        async with AdminClient(cluster.name_servers, world=World(clock=FastClock())) as admin:
            await examine_brokers(admin, chart, await admin.cluster_info())

    asyncio.run(visit())
    [found] = [one for one in chart.findings if one.check == "clock"]
    assert found.severity is Severity.WARNING
    assert re.search(r"off by about -(59|60|61) s", found.text), found.text
    assert "chrony" in found.fix


@pytest.mark.parametrize(("limit", "severity"), [("PROBLEM", "problem"), ("WARNING", "warning")])
def test_a_disk_that_is_full(
    start: Callable[..., ClusterThread],
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    severity: str,
) -> None:
    """With limits that any disk is above: filling one is not for a test."""
    monkeypatch.setattr(examine_cluster, "DISK_PROBLEM", 2.0)
    monkeypatch.setattr(examine_cluster, f"DISK_{limit}", 0.0)
    [found] = _found(start().name_servers, "disk")
    assert found["severity"] == severity
    assert "fileReservedTime" in found["fix"]


def test_a_disk_without_room_for_the_next_file(
    start: Callable[..., ClusterThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a broker whose files are larger than any disk, by its own word."""
    monkeypatch.setattr(examine_cluster, "DISK_PROBLEM", 2.0)

    async def config(self: BrokerCalls, address: str) -> dict[str, str]:
        return {"mappedFileSizeCommitLog": str(1 << 60)}

    monkeypatch.setattr(BrokerCalls, "config", config)
    [found] = _found(start().name_servers, "disk")
    assert found["severity"] == "warning"
    assert "MiB free, and a file of the commit log takes 1,099,511,627,776 MiB" in found["text"]
    assert "deleteExpiredCommitLog" in found["fix"]


@pytest.mark.parametrize(
    ("told", "size"),
    [
        ("Total : 98.3 GiB, Free : 1.5 GiB.", 3 << 29),
        ("Total : 2.0 KiB, Free : 512 B.", 512),
        ("Total : 9.0 TiB, Free : 2.0 MiB.", 2 << 20),
        ("", None),
    ],
)
def test_the_free_room_a_broker_tells(told: str, size: int | None) -> None:
    assert examine_cluster.free_size(told) == size


def test_a_topic_that_name_servers_do_not_know(start: Callable[..., ClusterThread]) -> None:
    cluster = start()
    cluster.create_topic("orders", queues=1)

    async def forget() -> None:
        async with AdminClient(cluster.name_servers) as admin:
            header = DeleteTopicFromNamesrvRequest(topic="orders")
            await admin.ask_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, header)

    asyncio.run(forget())
    [found] = _found(cluster.name_servers, "route")
    assert found["severity"] == "warning"
    assert found["text"] == "name servers do not know the topic orders of broker-a"
    assert (
        f"contrail admin updateTopic -b {cluster.addresses[0]} -t orders -r 1 -w 1 -p 6"
        in found["fix"]
    )


def test_what_may_not_be_written(start: Callable[..., ClusterThread]) -> None:
    cluster = start()
    [address] = cluster.addresses

    async def close_both() -> None:
        async with AdminClient(cluster.name_servers) as admin:
            config = TopicConfig(topic_name="closed", perm=4)
            await admin.topics.create_at(address, config)
            await admin.brokers.update_config(address, {"brokerPermission": "4"})

    asyncio.run(close_both())
    texts = {one["text"]: one for one in _found(cluster.name_servers, "permission")}
    assert texts["broker broker-a is read-only"]["severity"] == "warning"
    assert texts["topic closed at broker-a is read-only"]["severity"] == "note"


Handle = Callable[[ReceivedMessage, asyncio.Event], Coroutine[Any, Any, None]]


def _beside_a_consumer(cluster: ClusterThread, handle: Handle, check: str, topic: str) -> Finding:
    """What the doctor says when a group has committed to a topic and its handler goes on so."""
    cluster.create_topic("orders", queues=1)
    with Producer("p", name_servers=cluster.name_servers) as producer:
        for number in range(8):
            producer.send(Message("orders", b"%d" % number))

    async def committed() -> None:
        async with AdminClient(cluster.name_servers) as admin, asyncio.timeout(60):
            [address] = cluster.addresses
            offsets: dict[int, int] = {}
            while not any(offsets.values()):
                await asyncio.sleep(0.05)
                offsets = (await admin.offsets.table(address)).get(f"{topic}@g", {})

    async def scenario() -> list[Finding]:
        is_over = asyncio.Event()
        async with PushConsumer(
            "g", topics="orders", name_servers=cluster.name_servers, start_from="first",
            handler=lambda message: handle(message, is_over),
            settings=ConsumerSettings(commit_interval_s=0.1),
        ):  # fmt: skip
            try:
                await committed()
                return await asyncio.to_thread(
                    lambda: _found(cluster.name_servers, check, watch_s=WATCH_S)
                )
            finally:
                is_over.set()

    [found] = asyncio.run(scenario())
    assert found["severity"] == "warning"
    return found


def test_a_queue_that_does_not_move(start: Callable[..., ClusterThread]) -> None:
    async def hang(message: ReceivedMessage, is_over: asyncio.Event) -> None:
        if message.body != b"0":
            await is_over.wait()

    found = _beside_a_consumer(start(), hang, "queue", "orders")
    assert "group g does not move in orders: broker-a/0" in found["text"]
    assert "contrail group show g" in found["fix"]


def test_retries_that_grow(start: Callable[..., ClusterThread]) -> None:
    async def refuse(message: ReceivedMessage, is_over: asyncio.Event) -> None:
        message.retry()

    found = _beside_a_consumer(start(), refuse, "retry", "%RETRY%g")
    assert re.search(r"group g: \d+ retries wait on broker-a, [1-9]\d* came while", found["text"])
    assert "contrail tail %RETRY%g" in found["fix"]
