"""The switch of the connection layer: a producer and a consumer whose every connection is TLS."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from contrailmq import Message, Producer, PushConsumer
from contrailmq.broker.app import Broker
from contrailmq.broker.config.file import read_conf
from contrailmq.client.settings import World
from contrailmq.clock import SystemClock
from contrailmq.errors import ContrailError
from contrailmq.namesrv.app import NameServer
from contrailmq.namesrv.settings import NameServerSettings
from testkit.certificates import self_signed, tls_network


def test_a_client_over_tls(tmp_path: Path) -> None:
    network = tls_network(self_signed(tmp_path))

    async def main() -> None:
        settings = NameServerSettings(
            bind_address="127.0.0.1", listen_port=0, kv_config_path=str(tmp_path / "kv.json")
        )
        names = NameServer(settings, clock=SystemClock(), network=network)
        await names.start()
        servers = f"127.0.0.1:{names.port}"
        conf = read_conf(
            {
                "brokerIP1": "127.0.0.1",
                "listenPort": "0",
                "namesrvAddr": servers,
                "storePathRootDir": str(tmp_path / "store"),
                "mappedFileSizeCommitLog": str(4 * 1024 * 1024),
            }
        )
        async with Broker(
            conf.broker, conf.store, server_settings=conf.server, client_settings=conf.client,
            network=network,
        ):  # fmt: skip
            world = World(network=network)
            async with (
                Producer("p", name_servers=servers, world=world) as producer,
                PushConsumer(
                    "c", topics="T", name_servers=servers, start_from="first", world=world
                ) as consumer,
            ):
                bodies = [b"small", b"x" * 100_000]
                for body in bodies:
                    await producer.send(Message("T", body), key="one queue")
                loop = aiter(consumer)
                async with asyncio.timeout(30):
                    assert [(await anext(loop)).body for _ in bodies] == bodies
            with pytest.raises(ContrailError):
                async with Producer("plain", name_servers=servers) as plain:
                    await plain.send(Message("T", b"not encrypted"), timeout_s=2.0)
        await names.aclose()

    asyncio.run(main())
