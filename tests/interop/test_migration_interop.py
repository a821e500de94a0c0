"""A Java broker becomes ours and Java's again while clients send and read: nothing is lost.

Once by handing the store directory over, once by a replica that joins and is promoted.  Messages
are counted by their unique keys; a keyed stream stays in order.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contrailmq import Message, Producer, ProducerSettings, PushConsumer
from contrailmq.admin.main import main as admin_main
from contrailmq.errors import ContrailError
from testkit.our_broker import OurBroker, wait_for
from testkit.peer import JavaBroker, JavaNameServer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
TOPIC = "Moves"
SIZES = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "20000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "brokerIP2": "127.0.0.1",
}


class Clients:
    """A producer and an ordered consumer that run through all of it."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self.acknowledged: dict[str, int] = {}  # unique key to number
        self.read: dict[str, int] = {}
        self.order: list[int] = []

    async def run(self, moves: Callable[[], None]) -> None:
        """Send and read while the brokers move, then until everything is read."""
        stop = asyncio.Event()
        settings = ProducerSettings(send_timeout_s=5)
        async with (
            Producer("movers", name_servers=self._namesrv, settings=settings) as producer,
            PushConsumer(
                "readers", topics={TOPIC: "*"}, name_servers=self._namesrv, start_from="first",
                handler=self._take, ordered=True,
            ),
        ):  # fmt: skip
            sending = asyncio.ensure_future(self._send(producer, stop))
            await asyncio.to_thread(moves)
            stop.set()
            await sending
            async with asyncio.timeout(60):
                while self.acknowledged.keys() - self.read.keys():  # noqa: ASYNC110
                    await asyncio.sleep(0.1)

    async def _send(self, producer: Producer, stop: asyncio.Event) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                receipt = await producer.send(Message(TOPIC, b"%d" % number), key="one queue")
            except ContrailError:
                await asyncio.sleep(0.1)
                continue
            self.acknowledged[receipt.message_id] = number
            await asyncio.sleep(0.01)

    async def _take(self, message: Any) -> None:
        number = int(message.body)
        if message.message_id not in self.read:
            self.order.append(number)
        self.read[message.message_id] = number

    def judge(self) -> None:
        assert len(self.acknowledged) > 100
        assert not self.acknowledged.keys() - self.read.keys()
        assert self.order == sorted(self.order)


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    started: list[Any] = []

    def start(what: str, name: str, *, namesrv: str, **conf: str) -> Any:
        keys = {**SIZES, **conf}
        kind = tmp_path / name
        if what == "ours":
            broker: Any = OurBroker(kind, namesrv=namesrv, conf=keys)
        else:
            broker = JavaBroker(what, kind, namesrv=namesrv, conf=keys)
        started.append(broker)
        return broker

    yield start
    for broker in started:
        broker.kill()


def some_more(clients: Clients, count: int = 60) -> None:
    wanted = len(clients.acknowledged) + count
    wait_for(lambda: len(clients.acknowledged) >= wanted, "sends succeed")


@pytest.mark.parametrize("version", ["4.9.7", "5.2.0"])
def test_a_store_directory_changes_hands(
    version: str,
    tmp_path: Path,
    brokers: Callable[..., Any],
    java_namesrv: Callable[..., JavaNameServer],
) -> None:
    namesrv = java_namesrv(version).address
    store = {"storePathRootDir": str(tmp_path / "store")}
    store["storePathCommitLog"] = f"{store['storePathRootDir']}/commitlog"
    clients = Clients(namesrv)
    java = brokers(version, "java", namesrv=namesrv, **store)

    def moves() -> None:
        some_more(clients)
        java.stop()
        ours = brokers("ours", "ours", namesrv=namesrv, listenPort=str(java.port), **store)
        some_more(clients)
        ours.stop()
        java.start()
        some_more(clients)

    asyncio.run(clients.run(moves))
    clients.judge()


@pytest.mark.parametrize("version", ["4.9.7", "5.2.0"])
def test_a_replica_joins_and_is_promoted(
    version: str, brokers: Callable[..., Any], java_namesrv: Callable[..., JavaNameServer]
) -> None:
    namesrv = java_namesrv(version).address
    clients = Clients(namesrv)
    primary = {"brokerId": "0", "brokerRole": "SYNC_MASTER"}
    replica = {"brokerId": "1", "brokerRole": "SLAVE"}
    java = brokers(version, "java", namesrv=namesrv, **primary)

    def is_equal(first: Any, second: Any) -> bool:
        logs = [sorted((one.store / "commitlog").iterdir()) for one in (first, second)]
        if not all(logs):
            return False
        one, two = (log[-1] for log in logs)
        return one.name == two.name and one.read_bytes() == two.read_bytes()

    def hold(broker: Any) -> None:
        """Take no more messages."""
        words = ["updateBrokerConfig", "-b", broker.address, "-n", namesrv]
        assert admin_main([*words, "-k", "brokerPermission", "-v", "4"], io.StringIO()) == 0

    def moves() -> None:
        some_more(clients)
        ours = brokers("ours", "ours", namesrv=namesrv, **replica)
        wait_for(lambda: "Moves" in _topics(ours), "our replica has the topics", seconds=40)
        some_more(clients)
        hold(java)
        wait_for(lambda: is_equal(java, ours), "our replica has everything")
        java.stop()
        ours.stop()
        promoted = brokers(
            "ours", "promoted", namesrv=namesrv, storePathRootDir=str(ours.store), **primary
        )
        some_more(clients)
        promoted.stop()  # back by its store: a Java replica of ours is in test_replication_interop
        keys = {"storePathRootDir": str(ours.store), **primary}
        keys["storePathCommitLog"] = f"{ours.store}/commitlog"
        brokers(version, "again", namesrv=namesrv, **keys)
        some_more(clients)

    asyncio.run(clients.run(moves))
    clients.judge()


def _topics(broker: Any) -> str:
    path = broker.store / "config" / "topics.json"
    return path.read_text() if path.exists() else ""
