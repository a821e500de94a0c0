"""Clients, brokers and name servers, all of them real, in virtual time over a wire with faults."""

from __future__ import annotations

import asyncio
import collections
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from contrailmq import (
    ClientSettings,
    ConsumerSettings,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    ReceivedMessage,
)
from contrailmq.broker.app import Broker
from contrailmq.broker.config.file import read_conf
from contrailmq.client.settings import World
from contrailmq.errors import ContrailError
from contrailmq.namesrv.app import NameServer
from contrailmq.namesrv.settings import NameServerSettings
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.client import NotifyConsumerIdsChangedRequest
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import SimClock, simulate

NAMESRV = ("10.0.1.1", "10.0.1.2")
NAME_SERVERS = ";".join(f"{ip}:9876" for ip in NAMESRV)
SEEDS = range(8)


class Sim:
    """A cluster on a simulated wire."""

    def __init__(self, rng: random.Random, directory: Path) -> None:
        self.rng = rng
        self.network = SimNetwork(self._stream())
        self._directory = directory
        self._running: dict[str, Broker] = {}
        self._clients = 0

    def _stream(self) -> random.Random:
        return random.Random(self.rng.getrandbits(64))

    @asynccontextmanager
    async def cluster(self, *, brokers: int = 2) -> AsyncIterator[None]:
        """Two name servers and some brokers."""
        servers = []
        try:
            for ip in NAMESRV:
                server = NameServer(
                    NameServerSettings(bind_address=ip, listen_port=9876),
                    clock=SimClock(),
                    network=self.network.host(ip),
                    rng=self._stream(),
                )
                await server.start()
                servers.append(server)
            for number in range(1, brokers + 1):
                await self.start(f"10.0.0.{number}")
            yield
        finally:
            for ip in list(self._running):
                await self.stop(ip)
            for server in servers:
                await server.aclose()

    async def start(self, ip: str) -> None:
        """Start a broker over its store."""
        conf = read_conf(
            {
                "brokerName": f"broker-{ip[-1]}",
                "brokerIP1": ip,
                "bindAddress": ip,
                "listenPort": "10911",
                "namesrvAddr": NAME_SERVERS,
                "storePathRootDir": str(self._directory / ip),
                "mappedFileSizeCommitLog": str(1024 * 1024),
                "mappedFileSizeConsumeQueue": "20000",
                "maxHashSlotNum": "100",
                "maxIndexNum": "400",
            }
        )
        broker = Broker(
            conf.broker,
            conf.store,
            clock=SimClock(),
            network=self.network.host(ip),
            rng=self._stream(),
        )
        self._running[ip] = await broker.__aenter__()

    async def stop(self, ip: str) -> None:
        """Stop a broker."""
        await self._running.pop(ip).__aexit__(None, None, None)

    def world(self) -> tuple[str, World]:
        """A machine for a client."""
        self._clients += 1
        ip = f"10.0.2.{self._clients}"
        network = self.network.host(ip)
        return ip, World(network=network, clock=SimClock(), rng=self._stream())

    def producer(self, **options: object) -> Producer:
        """A producer on a machine of its own."""
        ip, world = self.world()
        settings = ProducerSettings(**options)  # type: ignore[arg-type]
        return Producer(
            "p",
            name_servers=NAME_SERVERS,
            client=ClientSettings(client_ip=ip),
            settings=settings,
            world=world,
        )

    def consumer(self, handler: Callable[[ReceivedMessage], None], **options: object):  # type: ignore[no-untyped-def]
        """A consumer on a machine of its own; ``ip`` is where."""
        ip, world = self.world()
        consumer = PushConsumer(
            "g",
            topics={"T": "*"},
            name_servers=NAME_SERVERS,
            start_from="first",
            handler=handler,
            client=ClientSettings(client_ip=ip),
            world=world,
            **options,  # type: ignore[arg-type]
        )
        consumer.ip = ip  # type: ignore[attr-defined]
        return consumer


def run(seed: int, directory: Path, scenario: Callable[[Sim], Awaitable[None]]) -> None:
    """Run a scenario; no task and no connection may be left."""

    async def inside(rng: random.Random) -> None:
        sim = Sim(rng, directory)
        await scenario(sim)
        await asyncio.sleep(5)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not left, left
        assert not sim.network.transports, list(sim.network.transports)

    simulate(seed, inside)


async def until(condition: Callable[[], bool], timeout_s: float) -> float:
    """Virtual seconds until something is so."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return loop.time() - begun


@pytest.mark.parametrize("seed", SEEDS)
def test_every_acknowledged_message_is_consumed_whatever_happens(seed: int, tmp_path: Path) -> None:
    """Partitions, resets and restarts while messages flow; then all is well within a minute."""

    async def scenario(sim: Sim) -> None:
        stored: set[bytes] = set()
        sent: set[bytes] = set()
        seen: collections.Counter[bytes] = collections.Counter()

        async def produce(producer: Producer) -> None:
            for number in range(80):
                body = f"m{number}".encode()
                sent.add(body)
                try:
                    await producer.send(Message("T", body))
                    stored.add(body)
                except ContrailError:
                    pass  # refused or unknown: it may or may not be there
                await asyncio.sleep(sim.rng.uniform(0, 0.5))

        async with sim.cluster(), sim.producer(retries=3) as producer:
            await producer.send(Message("T", b"first"))
            handler = seen_by(seen)
            async with sim.consumer(handler) as one, sim.consumer(handler) as two:
                async with asyncio.TaskGroup() as group:
                    group.create_task(produce(producer))
                    await misfortune(sim, [one.ip, two.ip, "10.0.2.1"])
                sim.network.heal()
                took = await until(lambda: stored <= set(seen), 120.0)
                assert took < 60.0
        assert set(seen) - {b"first"} <= sent

    run(seed, tmp_path, scenario)


def seen_by(seen: collections.Counter[bytes]) -> Callable[[ReceivedMessage], None]:
    """A handler that counts bodies."""

    def handle(message: ReceivedMessage) -> None:
        seen[message.body] += 1

    return handle


async def misfortune(sim: Sim, clients: list[str]) -> None:
    """A handful of faults at random moments."""
    for _ in range(6):
        await asyncio.sleep(sim.rng.uniform(0.5, 6.0))
        broker, client = sim.rng.choice(["10.0.0.1", "10.0.0.2"]), sim.rng.choice(clients)
        fault = sim.rng.choice(["cut", "half", "reset", "restart", "namesrv", "stall", "slow"])
        if fault == "reset":
            sim.network.reset(broker, client)
        elif fault == "stall":  # the broker hangs: connections stay, nothing comes
            sim.network.stall(broker)
            await asyncio.sleep(sim.rng.uniform(0.1, 8.0))
            sim.network.heal()
        elif fault == "slow":  # every piece takes half a second or so
            usual, sim.network.delay = sim.network.delay, (0.2, 0.8)
            await asyncio.sleep(sim.rng.uniform(2.0, 8.0))
            sim.network.delay = usual
        elif fault == "restart":
            await sim.stop(broker)
            await asyncio.sleep(sim.rng.uniform(0.1, 3.0))
            await sim.start(broker)
        else:
            target = NAMESRV[0] if fault == "namesrv" else broker
            sim.network.cut(client, target, both=fault != "half")
            await asyncio.sleep(sim.rng.uniform(0.1, 8.0))
            sim.network.heal()


@pytest.mark.parametrize("seed", SEEDS)
def test_members_divide_the_queues_within_a_second(seed: int, tmp_path: Path) -> None:
    """On joining and on leaving, without waiting for a tick."""

    async def scenario(sim: Sim) -> None:
        nothing = seen_by(collections.Counter())
        async with sim.cluster(), sim.producer() as producer:
            for _ in range(8):
                await producer.send(Message("T", b"x"))
            async with sim.consumer(nothing) as one:
                everything = one.assignment
                assert len(everything) == 8
                async with sim.consumer(nothing) as two:
                    took = await until(lambda: len(one.assignment) == len(two.assignment) == 4, 30)
                    assert took < 1.0
                    assert sorted(one.assignment + two.assignment) == everything
                assert await until(lambda: one.assignment == everything, 30) < 1.0

    run(seed, tmp_path, scenario)


@pytest.mark.parametrize("seed", SEEDS)
def test_order_within_a_key_survives_members_coming_and_going(seed: int, tmp_path: Path) -> None:
    async def scenario(sim: Sim) -> None:
        seen: dict[str, list[int]] = collections.defaultdict(list)

        async def handle(message: ReceivedMessage) -> None:
            await asyncio.sleep(sim.rng.uniform(0, 0.02))
            key, _, number = message.body.decode().partition(" ")
            seen[key].append(int(number))

        async def produce(producer: Producer) -> None:
            for number in range(40):
                for key in ("a", "b", "c", "d", "e"):
                    await producer.send(Message("T", f"{key} {number}".encode()), key=key)
                await asyncio.sleep(0.05)

        async with sim.cluster(), sim.producer() as producer:
            await producer.send(Message("T", b"z 0"), key="z")
            async with asyncio.TaskGroup() as group:
                group.create_task(produce(producer))
                async with sim.consumer(handle, ordered=True):
                    await asyncio.sleep(0.7)
                    async with sim.consumer(handle, ordered=True):
                        await asyncio.sleep(0.7)
                    await until(lambda: all(len(set(seen[k])) == 40 for k in "abcde"), 120)
        for key in "abcde":
            # A message may come twice when its queue changes hands, but never behind a later one
            # that was not repeated as well: without repetitions the order is the sender's.
            first_times = list(dict.fromkeys(seen[key]))
            assert first_times == list(range(40)), (key, seen[key])

    run(seed, tmp_path, scenario)


def test_a_storm_of_notifications_leads_to_few_rounds(tmp_path: Path) -> None:
    async def scenario(sim: Sim) -> None:
        async with sim.cluster(brokers=1), sim.producer() as producer:
            await producer.send(Message("T", b"x"))
            async with sim.consumer(seen_by(collections.Counter())) as consumer:
                await asyncio.sleep(3)
                asked = 0
                session = consumer._engine._session
                call = session.call

                async def counted(address: str, command: Command, *, timeout_s: float) -> Command:
                    nonlocal asked
                    asked += command.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP
                    return await call(address, command, timeout_s=timeout_s)

                session.call = counted
                header = NotifyConsumerIdsChangedRequest(consumer_group="g")
                notify = session._handlers[RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]
                for _ in range(500):
                    request = Command.request(
                        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, oneway=True
                    )
                    notify(request, None)
                await asyncio.sleep(2)
                assert 1 <= asked <= 4  # one round, perhaps one more, over two topics

    run(1, tmp_path, scenario)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_consumer_goes_on_after_its_broker_restarts(seed: int, tmp_path: Path) -> None:
    async def scenario(sim: Sim) -> None:
        seen: collections.Counter[bytes] = collections.Counter()
        async with sim.cluster(brokers=1), sim.producer(retries=0) as producer:
            await producer.send(Message("T", b"before"))
            async with sim.consumer(seen_by(seen)):
                await until(lambda: b"before" in seen, 5)
                await sim.stop("10.0.0.1")
                await asyncio.sleep(10)
                await sim.start("10.0.0.1")
                await asyncio.sleep(3)
                await producer.send(Message("T", b"after"))
                assert await until(lambda: b"after" in seen, 30) < 10.0
        assert seen[b"before"] == 1

    run(seed, tmp_path, scenario)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_send_goes_to_another_broker_when_one_is_gone(seed: int, tmp_path: Path) -> None:
    async def scenario(sim: Sim) -> None:
        async with sim.cluster(), sim.producer(send_timeout_s=6.0) as producer:
            brokers = {
                (await producer.send(Message("T", b"x"))).queue.broker_name for _ in range(8)
            }
            assert brokers == {"broker-1", "broker-2"}
            await sim.stop("10.0.0.1")
            for _ in range(8):
                receipt = await producer.send(Message("T", b"y"))
                assert receipt.queue.broker_name == "broker-2"

    run(seed, tmp_path, scenario)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_accepted_is_dropped_silently(seed: int, tmp_path: Path) -> None:
    """Closing waits for all that was submitted; what failed has failed in somebody's hands."""

    async def scenario(sim: Sim) -> None:
        seen: collections.Counter[bytes] = collections.Counter()
        async with sim.cluster(), sim.consumer(seen_by(seen)) as consumer:
            async with sim.producer(
                batch_size=2048, batch_wait_s=0.05, in_flight_size_max=8192
            ) as producer:
                futures = [
                    await producer.submit(Message("T", f"{number}".encode() * 50))
                    for number in range(100)
                ]
            assert all(future.done() for future in futures)
            receipts = [future.result() for future in futures]
            assert len({receipt.offset_message_id for receipt in receipts}) == 100
            await until(lambda: len(seen) == 100, 30)
            assert consumer.assignment

    run(seed, tmp_path, scenario)


def test_slow_handlers_bound_what_is_cached(tmp_path: Path) -> None:
    async def scenario(sim: Sim) -> None:
        done = 0

        async def slow(message: ReceivedMessage) -> None:
            nonlocal done
            await asyncio.sleep(0.2)
            done += 1

        settings = ConsumerSettings(queue_count_max=10, pull_count=4)
        async with sim.cluster(brokers=1), sim.producer() as producer:
            for _ in range(200):
                await producer.send(Message("T", b"x"), key="one queue")
            async with sim.consumer(slow, settings=settings, workers=2) as consumer:
                most = 0
                while done < 100:
                    works = consumer._engine.works().values()
                    most = max(most, *(work.cache.count for work in works))
                    await asyncio.sleep(0.05)
                assert most <= 10 + 4

    run(1, tmp_path, scenario)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_member_that_leaves_loses_nothing(seed: int, tmp_path: Path) -> None:
    """Closed in the middle of its work, by the user or by a cancellation, again and again."""

    async def scenario(sim: Sim) -> None:
        seen: collections.Counter[bytes] = collections.Counter()

        async def handle(message: ReceivedMessage) -> None:
            await asyncio.sleep(sim.rng.uniform(0, 0.1))
            seen[message.body] += 1

        async def stay(seconds: float) -> None:
            async with sim.consumer(handle, workers=3):
                await asyncio.sleep(seconds)

        async def produce(producer: Producer) -> None:
            for number in range(150):
                await producer.send(Message("T", f"{number}".encode()))
                await asyncio.sleep(0.02)

        async with sim.cluster(), sim.producer() as producer:
            await producer.send(Message("T", b"first"))
            async with asyncio.TaskGroup() as group:
                group.create_task(produce(producer))
                for _ in range(6):
                    member = group.create_task(stay(sim.rng.uniform(0.1, 1.0)))
                    await asyncio.sleep(sim.rng.uniform(0.1, 0.8))
                    if sim.rng.random() < 0.5:
                        member.cancel()
            async with sim.consumer(handle):
                await until(lambda: len(seen) == 151, 60)

    run(seed, tmp_path, scenario)
