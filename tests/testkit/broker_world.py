"""A broker, name servers and clients in virtual time, and short words for what clients ask."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from contrailmq.broker.app import Broker
from contrailmq.broker.config.file import read_conf
from contrailmq.namesrv.app import NameServer
from contrailmq.namesrv.settings import NameServerSettings
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.group import ConsumerListBody
from contrailmq.protocol.bodies.heartbeat import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from contrailmq.protocol.bodies.route import TopicRouteData
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.group import GetConsumerListByGroupRequest
from contrailmq.protocol.headers.pull import PullMessageRequest
from contrailmq.protocol.headers.route import GetRouteInfoRequest
from contrailmq.protocol.headers.send import SendMessageRequestV2
from contrailmq.testing.files import SimFiles
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import SimClock, simulate

BROKER_IP, PORT = "10.0.0.1", 10911
ADDRESS = f"{BROKER_IP}:{PORT}"
NAMESRV_IPS = ("10.0.1.1", "10.0.1.2")
SUSPEND, SUBSCRIPTION = 2, 4


class World:
    """A network, a store directory, and what runs on them."""

    def __init__(self, rng: random.Random, directory: Path, **conf: str) -> None:
        self.rng = rng
        self.network = SimNetwork(self._stream())
        self.directory = directory
        self.clock = SimClock()  # of the servers; tests make it jump
        self.notices: list[str] = []
        self._conf = conf
        self._clients = 0

    def _stream(self) -> random.Random:
        return random.Random(self.rng.getrandbits(64))

    def name_server(self, ip: str = NAMESRV_IPS[0]) -> NameServer:
        settings = NameServerSettings(bind_address=ip, listen_port=9876)
        return NameServer(
            settings, clock=self.clock, network=self.network.host(ip), rng=self._stream()
        )

    def broker(self, *, files: Any = None, **conf: str) -> Broker:
        read = read_conf(
            {
                "brokerName": "broker-a",
                "brokerIP1": BROKER_IP,
                "bindAddress": BROKER_IP,
                "listenPort": str(PORT),
                "namesrvAddr": ";".join(f"{ip}:9876" for ip in NAMESRV_IPS),
                "storePathRootDir": str(self.directory / "store"),
                "mappedFileSizeCommitLog": str(1024 * 1024),
                "mappedFileSizeConsumeQueue": "20000",
                "mappedFileSizeTimerLog": "5200",
                "maxHashSlotNum": "100",
                "maxIndexNum": "400",
                "maxMessageSize": "65536",
                **self._conf,
                **conf,
            }
        )
        return Broker(
            read.broker,
            read.store,
            clock=self.clock,
            network=self.network.host(BROKER_IP),
            files=files,
            rng=self._stream(),
        )

    @asynccontextmanager
    async def client(self) -> AsyncIterator[RemotingClient]:
        self._clients += 1

        def noticed(request: Command, connection: Connection) -> None:
            self.notices.append(request.fields["consumerGroup"])

        client = RemotingClient(
            clock=SimClock(),
            network=self.network.host(f"10.0.2.{self._clients}"),
            rng=self._stream(),
            handlers={int(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED): noticed},
        )
        try:
            yield client
        finally:
            await client.aclose()


def captured_broker(
    network: SimNetwork, rng: random.Random, directory: Path, **conf: str
) -> Broker:
    """A broker with the files and the port of the one whose frames were captured."""
    read = read_conf(
        {
            "brokerName": "broker-a",
            "brokerIP1": BROKER_IP,
            "bindAddress": BROKER_IP,
            "listenPort": "41911",
            "enablePropertyFilter": "true",
            "mappedFileSizeCommitLog": "1048576",
            "mappedFileSizeConsumeQueue": "20000",
            "maxHashSlotNum": "1000",
            "maxIndexNum": "4000",
            "storePathRootDir": str(directory),
            **conf,
        }
    )
    return Broker(
        read.broker,
        read.store,
        clock=SimClock(),
        network=network.host(BROKER_IP),
        rng=random.Random(rng.getrandbits(64)),
    )


async def route_of(client: RemotingClient, topic: str, ip: str = NAMESRV_IPS[0]) -> list[str]:
    """Addresses a name server gives for a topic."""
    request = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic=topic))
    answer = await client.call(f"{ip}:9876", request, timeout_s=3)
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return []
    route = TopicRouteData.decode(answer.body)
    return [address for data in route.broker_datas for address in data.broker_addrs.values()]


async def send(
    client: RemotingClient, topic: str, body: bytes, *, tags: str = "", **more: Any
) -> Command:
    fields: dict[str, Any] = {"producer_group": "p", "queue_id": 0, **more}
    if tags:
        fields["properties"] = f"TAGS\x01{tags}\x02"
    header = SendMessageRequestV2(topic=topic, **fields)
    request = Command.request(RequestCode.SEND_MESSAGE_V2, header, body=body)
    return await client.call(ADDRESS, request, timeout_s=10)


async def pull(
    client: RemotingClient, topic: str, offset: int, *, suspend_ms: int = 0, **more: Any
) -> Command:
    fields: dict[str, Any] = {
        "consumer_group": "g",
        "queue_id": 0,
        "max_msg_nums": 32,
        "sys_flag": SUBSCRIPTION | (SUSPEND if suspend_ms else 0),
        "subscription": "*",
        "expression_type": "TAG",
        **more,
    }
    code = fields.pop("code", RequestCode.PULL_MESSAGE)
    header = PullMessageRequest(
        topic=topic, queue_offset=offset, suspend_timeout_millis=suspend_ms, **fields
    )
    return await client.call(ADDRESS, Command.request(code, header), timeout_s=60)


async def beat(
    client: RemotingClient,
    client_id: str,
    *subscriptions: SubscriptionData,
    group: str = "g",
    model: str = "CLUSTERING",
) -> None:
    wanted = list(subscriptions) or [SubscriptionData(topic="T", sub_string="*", sub_version=1)]
    body = HeartbeatData(
        client_id=client_id,
        consumer_data_set=[
            ConsumerData(group_name=group, message_model=model, subscription_data_set=wanted)
        ],
        producer_data_set=[ProducerData(group_name="p")],
    )
    answer = await client.call(
        ADDRESS, Command.request(RequestCode.HEART_BEAT, body=body.encode()), timeout_s=3
    )
    assert answer.code == 0


async def members(client: RemotingClient, group: str = "g") -> list[str]:
    request = Command.request(
        RequestCode.GET_CONSUMER_LIST_BY_GROUP, GetConsumerListByGroupRequest(consumer_group=group)
    )
    answer = await client.call(ADDRESS, request, timeout_s=3)
    return sorted(ConsumerListBody.decode(answer.body).consumer_id_list) if not answer.code else []


def run(
    seed: int,
    directory: Path,
    scenario: Callable[[World], Awaitable[None]],
    *,
    limit_s: float = 3600,
    **conf: str,
) -> None:
    async def world(rng: random.Random) -> None:
        await scenario(World(rng, directory, **conf))

    simulate(seed, world, limit_s=limit_s)


def now() -> float:
    return asyncio.get_running_loop().time()


class Mortal:
    """A machine's files as one process sees them: nothing of it reaches the disk after death."""

    def __init__(self, files: SimFiles) -> None:
        self._files = files
        self.is_dead = False

    def __getattr__(self, name: str) -> Any:
        if self.is_dead:
            raise OSError(f"{name} after death")
        return getattr(self._files, name)


async def live(broker: Broker, started: asyncio.Event) -> None:
    async with broker:
        started.set()
        await asyncio.Event().wait()


@asynccontextmanager
async def until_power_cut(
    world: World, files: SimFiles, rng: random.Random | None, **conf: str
) -> AsyncIterator[None]:
    """A broker that loses its power when the block ends; without ``rng`` it is killed only."""
    mortal, started = Mortal(files), asyncio.Event()
    task = asyncio.ensure_future(live(world.broker(files=mortal, **conf), started))
    await started.wait()
    try:
        yield
    finally:
        mortal.is_dead = True
        world.network.crash(BROKER_IP)
        if rng is not None:
            files.cut_power(rng)
        task.cancel()
        with suppress(BaseException):
            await task
        world.network.restart(BROKER_IP)
