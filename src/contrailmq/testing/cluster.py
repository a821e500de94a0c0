"""A real name server and real brokers for tests, up in milliseconds and thrown away after.

``LocalCluster`` runs in the running loop; ``ClusterThread`` runs one in a thread of its own, for
tests with or without asyncio.  Each broker has switches for faults, and can be stopped and started
again over its store.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from contrailmq.broker.app import Broker
from contrailmq.broker.config.file import BrokerConf, read_conf
from contrailmq.client.loop_thread import LoopThread
from contrailmq.clock import SystemClock
from contrailmq.errors import ClientError, error_of
from contrailmq.namesrv.app import NameServer
from contrailmq.namesrv.settings import NameServerSettings
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.topic import CreateTopicRequest
from contrailmq.testing.faults import FaultyNetwork, Switches

T = TypeVar("T")

HOST = "127.0.0.1"
_DEFAULTS = {
    "bindAddress": HOST,
    "brokerIP1": HOST,
    "listenPort": "0",
    "enablePropertyFilter": "true",
    "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 30_000),
}


class LocalBroker:
    """One broker of a local cluster."""

    def __init__(self, name: str, conf: BrokerConf) -> None:
        self.name = name
        self.faults = Switches()
        self._conf = conf
        self._stack: AsyncExitStack | None = None
        self._broker: Broker | None = None

    @property
    def broker(self) -> Broker:
        """The running broker."""
        if self._broker is None:
            raise ClientError(f"broker {self.name} is stopped")
        return self._broker

    @property
    def address(self) -> str:
        """What clients connect to."""
        return f"{HOST}:{self.broker.port}"

    async def start(self) -> None:
        """Start it, on the port it had before if it had one."""
        stack = AsyncExitStack()
        broker = Broker(
            self._conf.broker,
            self._conf.store,
            ha_settings=self._conf.ha,
            server_settings=self._conf.server,
            client_settings=self._conf.client,
            network=FaultyNetwork(self.faults),
            grpc=self._conf.grpc if self._conf.grpc.server_port > 0 else None,  # if asked for
        )
        self._broker = await stack.enter_async_context(broker)
        self._stack = stack
        settings = dataclasses.replace(self._conf.broker, listen_port=broker.port)
        self._conf = dataclasses.replace(self._conf, broker=settings)

    async def stop(self) -> None:
        """Stop it as an operator would; its store stays."""
        if self._stack is not None:
            stack, self._stack, self._broker = self._stack, None, None
            await stack.aclose()


class LocalCluster:
    """``async with LocalCluster() as cluster``: a name server and brokers in this loop.

    ``properties`` are keys of broker.conf for all brokers.
    """

    def __init__(self, *, brokers: int = 1, properties: Mapping[str, str] | None = None) -> None:
        self._count = brokers
        self._properties = dict(properties or {})
        self._directory: Path | None = None
        self._name_server: NameServer | None = None
        self.namesrv_faults = Switches()
        self.brokers: list[LocalBroker] = []

    async def __aenter__(self) -> LocalCluster:
        self._directory = Path(tempfile.mkdtemp(prefix="contrail-"))
        try:
            self._name_server = NameServer(
                NameServerSettings(
                    bind_address=HOST,
                    listen_port=0,
                    kv_config_path=str(self._directory / "kvConfig.json"),
                ),
                clock=SystemClock(),
                network=FaultyNetwork(self.namesrv_faults),
            )
            await self._name_server.start()
            for index in range(self._count):
                broker = LocalBroker(f"broker-{chr(ord('a') + index)}", self._conf(index))
                self.brokers.append(broker)
                await broker.start()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop everything and remove the stores."""
        for broker in reversed(self.brokers):
            await broker.stop()
        if self._name_server is not None:
            await self._name_server.aclose()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def name_servers(self) -> str:
        """What clients are given."""
        assert self._name_server is not None, "the cluster has not started"
        return f"{HOST}:{self._name_server.port}"

    @property
    def stores(self) -> list[Path]:
        """The store directory of each broker."""
        assert self._directory is not None, "the cluster has not started"
        return [self._directory / f"store-{index}" for index in range(self._count)]

    async def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Create a topic on every broker."""
        client = RemotingClient(clock=SystemClock())
        header = CreateTopicRequest(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        try:
            for broker in self.brokers:
                request = Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
                answer = await client.call(broker.address, request, timeout_s=5.0)
                if answer.code != 0:
                    raise error_of(answer.code, answer.remark)
        finally:
            await client.aclose()

    def refuse(self) -> None:
        """All brokers break their connections and take no new ones."""
        for broker in self.brokers:
            broker.faults.refuse()

    def drop(self) -> None:
        """All brokers lose what comes in."""
        for broker in self.brokers:
            broker.faults.drop()

    def delay(self, seconds: float) -> None:
        """All brokers hold back what comes in."""
        for broker in self.brokers:
            broker.faults.delay(seconds)

    def heal(self) -> None:
        """Everything works again."""
        self.namesrv_faults.heal()
        for broker in self.brokers:
            broker.faults.heal()

    def _conf(self, index: int) -> BrokerConf:
        assert self._directory is not None
        return read_conf(
            {
                **_DEFAULTS,
                "brokerName": f"broker-{chr(ord('a') + index)}",
                "storePathRootDir": str(self._directory / f"store-{index}"),
                "namesrvAddr": self.name_servers,
                **self._properties,
            }
        )


class ClusterThread:
    """A local cluster in a thread of its own: what the pytest fixtures hand out."""

    def __init__(self, *, brokers: int = 1, properties: Mapping[str, str] | None = None) -> None:
        self._thread = LoopThread("contrail-cluster")
        self._cluster = LocalCluster(brokers=brokers, properties=properties)
        try:
            self._thread.call(self._cluster.__aenter__)
        except BaseException:
            self._thread.close()
            raise

    @property
    def name_servers(self) -> str:
        """What clients are given."""
        return self._cluster.name_servers

    @property
    def addresses(self) -> list[str]:
        """The addresses of the brokers that run."""
        return [broker.address for broker in self._cluster.brokers]

    @property
    def stores(self) -> list[Path]:
        """The store directory of each broker."""
        return self._cluster.stores

    def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Create a topic on every broker."""
        self._thread.call(lambda: self._cluster.create_topic(topic, queues=queues))

    def refuse(self) -> None:
        """All brokers break their connections and take no new ones."""
        self._do(self._cluster.refuse)

    def refuse_one(self, index: int) -> None:
        """One broker breaks its connections and takes no new ones."""
        self._do(self._cluster.brokers[index].faults.refuse)

    def drop(self) -> None:
        """All brokers lose what comes in."""
        self._do(self._cluster.drop)

    def delay(self, seconds: float) -> None:
        """All brokers hold back what comes in."""
        self._do(lambda: self._cluster.delay(seconds))

    def heal(self) -> None:
        """Everything works again."""
        self._do(self._cluster.heal)

    def stop_broker(self, index: int = 0) -> None:
        """Stop one broker; its store stays."""
        self._thread.call(self._cluster.brokers[index].stop)

    def start_broker(self, index: int = 0) -> None:
        """Start a stopped broker again, on its old port and store."""
        self._thread.call(self._cluster.brokers[index].start)

    def close(self) -> None:
        """Stop everything and remove the stores."""
        try:
            self._thread.call(self._cluster.aclose)
        finally:
            self._thread.close()

    def _do(self, act: Callable[[], None]) -> None:
        self._thread.call(lambda: _as_coroutine(act))


def _as_coroutine(act: Callable[[], None]) -> Coroutine[Any, Any, None]:
    async def run() -> None:
        act()

    return run()
