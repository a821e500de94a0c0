"""Java brokers, clients and mqadmin at our name server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contrailmq.clock import SystemClock
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.bodies.route import ClusterInfo
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from testkit.peer import ROOT, SERIALIZATIONS, VERSIONS, JavaBroker, JavaCall, Row, free_port

pytestmark = pytest.mark.timeout(240)


class OurNameServer:
    """``contrail namesrv`` as a process of its own."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._log = (home / "namesrv.err").open("ab")
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "contrailmq.main", "namesrv", "--host", "127.0.0.1"]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port), "--store", str(self.home)],
            env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert b"boot success" in line, (self.home / "namesrv.err").read_text()

    def stop(self) -> float:
        begin = time.monotonic()
        self.process.terminate()
        assert self.process.wait(60) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()
        return time.monotonic() - begin

    def close(self) -> None:
        if self.process.poll() is None:
            self.stop()
        self._log.close()

    def ask(self, code: int, **fields: str) -> Command:
        async def call() -> Command:
            client = RemotingClient(clock=SystemClock())
            answer = await client.call(self.address, Command(code, fields=fields), timeout_s=5)
            await client.aclose()
            return answer

        return asyncio.run(call())

    def brokers(self) -> dict[str, dict[int, str]]:
        info = ClusterInfo.decode(self.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body)
        return {name: broker.broker_addrs for name, broker in info.broker_addr_table.items()}


@pytest.fixture
def namesrv(tmp_path: Path) -> Iterator[OurNameServer]:
    server = OurNameServer(tmp_path / "our-namesrv")
    yield server
    server.close()


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _until(holds: Callable[[], bool], *, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _of(rows: list[Row], event: str) -> list[Row]:
    assert not [row for row in rows if row["event"] in ("failed", "timeout")], rows
    return [row for row in rows if row["event"] == event]


@pytest.mark.parametrize("serialization", SERIALIZATIONS)
def test_a_java_broker_and_java_clients_meet_at_our_name_server(
    namesrv: OurNameServer,
    java_broker: Callable[..., JavaBroker],
    java_start: Callable[..., JavaCall],
    version: str,
    serialization: str,
    topic: str,
    group: str,
) -> None:
    broker = java_broker(version, namesrv=namesrv.address, serialization=serialization)
    assert namesrv.brokers() == {"broker-a": {0: broker.address}}
    for client in VERSIONS:
        where: dict[str, Any] = {
            "namesrv": namesrv.address,
            "topic": f"{topic}_{client.replace('.', '_')}",
            "serialization": serialization,
        }
        produced = java_start(client, "produce", count=20, **where).finish()
        assert [row["status"] for row in _of(produced, "sent")] == ["SEND_OK"] * 20
        rows = java_start(client, "consume", group=group, count=20, **where).finish()
        assert sorted(row["body"] for row in _of(rows, "message")) == sorted(
            f"message {n}" for n in range(20)
        )
    broker.stop()
    _until(lambda: namesrv.brokers() == {})


def test_a_broker_that_dies_is_gone_at_once_and_a_restarted_name_server_learns_again(
    namesrv: OurNameServer, java_broker: Callable[..., JavaBroker], version: str
) -> None:
    # Ten seconds is the shortest period between registrations.
    broker = java_broker(
        version, namesrv=namesrv.address, conf={"registerNameServerPeriod": "10000"}
    )
    assert namesrv.ask(100, namespace="N", key="k", value="v").code == 0
    assert namesrv.stop() < 5.0
    namesrv.start()
    assert namesrv.brokers() == {}
    assert namesrv.ask(101, namespace="N", key="k").fields == {"value": "v"}
    _until(lambda: namesrv.brokers() == {"broker-a": {0: broker.address}})
    broker.kill()
    # A broker whose connection stays open is dropped after two minutes.
    _until(lambda: namesrv.brokers() == {}, timeout_s=15)


def test_mqadmin_reads_and_changes_our_name_server(
    namesrv: OurNameServer,
    java_broker: Callable[..., JavaBroker],
    mqadmin: Callable[..., str],
    version: str,
) -> None:
    broker = java_broker(version, namesrv=namesrv.address)
    where = ("-n", namesrv.address)
    listed = mqadmin(version, "clusterList", *where)
    assert broker.address in listed
    assert "DefaultCluster" in listed
    mqadmin(version, "updateTopic", *where, "-t", "Orders", "-c", "DefaultCluster", "-o", "true")
    assert "Orders" in mqadmin(version, "topicList", *where).split()
    route = mqadmin(version, "topicRoute", *where, "-t", "Orders")
    assert f'{broker.address}"' in route
    assert "broker-a" in mqadmin(version, "topicClusterList", *where, "-t", "Orders") + route
    wiped = mqadmin(version, "wipeWritePerm", *where, "-b", "broker-a")
    assert "wipe write perm of broker[broker-a]" in wiped
    assert '"perm":4' in mqadmin(version, "topicRoute", *where, "-t", "Orders").replace(" ", "")
    mqadmin(version, "addWritePerm", *where, "-b", "broker-a")
    assert '"perm":6' in mqadmin(version, "topicRoute", *where, "-t", "Orders").replace(" ", "")
    mqadmin(version, "updateKvConfig", *where, "-s", "NS", "-k", "key", "-v", "value")
    assert namesrv.ask(101, namespace="NS", key="key").fields == {"value": "value"}
    mqadmin(version, "deleteKvConfig", *where, "-s", "NS", "-k", "key")
    assert namesrv.ask(101, namespace="NS", key="key").code == 22
    shown = mqadmin(version, "getNamesrvConfig", *where)
    assert str(namesrv.port) in shown
    mqadmin(version, "updateNamesrvConfig", *where, "-k", "orderMessageEnable", "-v", "true")
    assert b"orderMessageEnable=true" in namesrv.ask(319).body
    assert "orderTopicConf" in mqadmin(version, "topicRoute", *where, "-t", "Orders")
    mqadmin(version, "deleteTopic", *where, "-t", "Orders", "-c", "DefaultCluster")
    assert "Orders" not in mqadmin(version, "topicList", *where).split()
